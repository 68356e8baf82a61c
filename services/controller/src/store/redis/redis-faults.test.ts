/** What becomes of commits when connections, answers and the server are lost. The oracle is what stands in Redis, not what was answered. */
import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { sample } from "../../../../../test/support/full.ts";
import { type Fault, startTcpProxy, type TcpProxy } from "../../../../../test/support/tcp-proxy.ts";
import type { Store } from "../../ports.ts";
import { commitOf, ref, take, write } from "../test-commits.ts";
import { vetAnew } from "../vet-anew.ts";
import { libraryFunctions } from "./library.ts";
import { type RedisFixture, startRedisFixture, vet } from "./redis-fixture.ts";

const isCommit = (chunk: Buffer): boolean => chunk.includes(libraryFunctions.commit);
const event = (key: string, body: string) => ({ type: "count", ref: ref(key), body });
/** A count, with an event for each step, so that a doubled effect shows twice. */
const count = (key: string, rev: number) =>
  commitOf([write(key, rev, `${rev + 1}`)], { events: [event(key, `${rev + 1}`)] });
const unavailable = { kind: "unavailable", reason: "STORE_UNAVAILABLE" };

describe("Redis store, when answers are lost", () => {
  let fixture: RedisFixture;
  let proxy: TcpProxy;
  let store: Store;
  let direct: Store;

  beforeAll(async () => {
    fixture = await startRedisFixture();
    proxy = await startTcpProxy({ port: fixture.server.port, looksFor: isCommit, lateMs: 2 });
    store = await fixture.open({ port: proxy.port, tuning: { commandTimeoutMs: 1000 } });
    direct = await fixture.open();
    await vet(store);
  });
  afterAll(async () => {
    await fixture.stop();
    await proxy.close();
  });

  it(`${sample(1000, 100)} dropped answers: each commit is answered, none has a doubled effect`, async () => {
    const steps = sample(1000, 100);
    const head = await direct.head();
    const before = proxy.injected();
    for (let n = 0; n < steps; n += 1) {
      proxy.inject("drop-reply");
      expect(await store.commit(count("dropped", n))).toMatchObject({ ok: true, revs: [n + 1], repeated: true });
    }
    expect(proxy.injected() - before).toBe(steps);
    expect(await direct.get(ref("dropped"))).toEqual({ ref: ref("dropped"), rev: steps, body: `${steps}` });
    const events = await take(direct, head, steps);
    expect(events.map(({ body }) => body)).toEqual(Array.from({ length: steps }, (_, n) => `${n + 1}`));
    expect(await direct.head()).toBe(events.at(-1)?.token);
  });

  it("any mix of losses, with a second writer in between: answers and effects agree", {
    timeout: 300_000,
  }, async () => {
    const fault = fc.constantFrom<Fault | "none">(
      "drop-reply",
      "cut-after-request",
      "cut-before-request",
      "deliver-late",
      "none",
    );
    let run = 0;
    const script = fc.array(fc.record({ fault, rival: fc.boolean() }), { minLength: 1, maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(script, async (steps) => {
        run += 1;
        const key = `mixed-${run}`;
        let rev = 0;
        for (const step of steps) {
          if (step.fault !== "none") proxy.inject(step.fault);
          const wanted = count(key, rev);
          const [result] = await Promise.all([
            store.commit(wanted),
            // It writes over the same revision; one of the two comes too late, and has to be told so.
            step.rival ? direct.commit(commitOf([write(key, rev, `rival ${rev}`)])) : undefined,
          ]);
          const now = await direct.get(ref(key));
          expect(now?.rev).toBe(rev + 1);
          if (result.ok) expect([result.revs, now?.body]).toEqual([[rev + 1], `${rev + 1}`]);
          else expect([result.conflicts[0]?.rev, now?.body]).toEqual([rev + 1, `rival ${rev}`]);
          rev += 1;
        }
        // What is still on its way finds the revision gone on.
        await sleep(5);
        expect((await direct.get(ref(key)))?.rev).toBe(rev);
      }),
      { numRuns: sample(300, 15) },
    );
  });

  it("a lost answer is found, however many wrote since", async () => {
    const key = "overtaken";
    await direct.commit(commitOf([write(key, 0, "0")]));
    const overtaken = count(key, 1);
    proxy.inject("drop-reply");
    const lost = store.commit(overtaken);
    await expect.poll(async () => (await direct.get(ref(key)))?.rev, { interval: 1 }).toBe(2);
    for (let rev = 2; rev < 30; rev += 1) await direct.commit(commitOf([write(key, rev, "x")]));
    expect(await lost).toMatchObject({ ok: true, revs: [2] });
    expect(await lost).toEqual({ ...(await direct.commit(overtaken)), repeated: true });
    expect(await direct.get(ref(key))).toMatchObject({ rev: 30, body: "x" });
  });

  it("a black hole: calls end in time, and the connection is not trusted after it", async () => {
    const quick = await fixture.open({ port: proxy.port, tuning: { commandTimeoutMs: 150, settleMs: 300 } });
    await quick.commit(count("hole", 0));
    proxy.blackHole(true);
    await expect(quick.get(ref("hole"))).rejects.toMatchObject(unavailable);
    await expect(quick.commit(count("hole", 1))).rejects.toMatchObject({ kind: "unavailable" });
    proxy.blackHole(false);
    await expect
      .poll(() => quick.get(ref("hole")).catch(() => undefined), { timeout: 10_000 })
      .toMatchObject({ rev: 1 });
    expect(await quick.commit(count("hole", 1))).toMatchObject({ ok: true, revs: [2] });
  });

  it("a slow network only slows", async () => {
    proxy.delay(20);
    try {
      expect(await store.commit(count("slow", 0))).toMatchObject({ ok: true });
      expect(await store.get(ref("slow"))).toMatchObject({ rev: 1 });
    } finally {
      proxy.delay(0);
    }
  });
});

describe("Redis store, when the server is lost", () => {
  const withFixture = (run: (fixture: RedisFixture) => Promise<void>) => async () => {
    const fixture = await startRedisFixture();
    try {
      await run(fixture);
    } finally {
      fixture.server.signal("SIGCONT");
      await fixture.stop();
    }
  };

  it(
    "stopped: calls end by their timeout, and the same commit afterwards has one effect",
    withFixture(async ({ open, server }) => {
      const store = await open({ tuning: { commandTimeoutMs: 200, settleMs: 400 } });
      const stopped = count("k", 0);
      server.signal("SIGSTOP");
      const begun = performance.now();
      await expect(store.get(ref("k"))).rejects.toMatchObject(unavailable);
      await expect(store.list({ index: "i", value: "v", limit: 1 })).rejects.toMatchObject(unavailable);
      await expect(store.due("q", 1, 1)).rejects.toMatchObject(unavailable);
      await expect(store.head()).rejects.toMatchObject(unavailable);
      await expect(store.identity()).rejects.toMatchObject(unavailable);
      // Nothing of it was sent: the connection was known to be gone.
      await expect(store.commit(stopped)).rejects.toMatchObject(unavailable);
      expect(performance.now() - begun).toBeLessThan(20 * 200);
      server.signal("SIGCONT");
      await expect
        .poll(() =>
          store.get(ref("k")).then(
            () => "answers",
            () => "silent",
          ),
        )
        .toBe("answers");
      // Now in the middle of a commit.
      server.signal("SIGSTOP");
      await expect(store.commit(stopped)).rejects.toMatchObject({
        kind: "unavailable",
        reason: "STORE_OUTCOME_UNKNOWN",
      });
      server.signal("SIGCONT");
      await expect.poll(() => store.commit(stopped).catch(() => undefined)).toMatchObject({ ok: true, revs: [1] });
      expect(await store.get(ref("k"))).toMatchObject({ rev: 1 });
      expect(await take(store, (await store.head()).replace(/\d+$/, "0"), 1)).toHaveLength(1);
      expect(await store.head()).toMatch(/-1$/);
    }),
  );

  it(
    "[I8] killed under load: all that was acknowledged is there, nothing is granted before vetting, the rest goes on",
    withFixture(async ({ open, server }) => {
      const store = await open({ tuning: { settleMs: 20_000, commandTimeoutMs: 5000 } });
      await vet(store);
      const reasons: string[] = [];
      store.onSuspect((reason) => reasons.push(reason));
      const before = await store.identity();
      const acknowledged = new Map<string, number>();
      const stop = new AbortController();
      const writer = async (key: string): Promise<void> => {
        for (let rev = 0; !stop.signal.aborted; rev += 1) {
          const result = await store.commit(count(key, rev));
          expect(result).toMatchObject({ ok: true, revs: [rev + 1] });
          acknowledged.set(key, rev + 1);
        }
      };
      const writing = Promise.all(Array.from({ length: 8 }, (_, n) => writer(`w${n}`)));
      writing.catch(() => undefined);
      for (let kills = 0; kills < sample(20, 3); kills += 1) {
        await sleep(60);
        await server.kill();
        await sleep(10);
        await server.restart();
      }
      await sleep(60);
      stop.abort();
      await writing;
      const refs = [...acknowledged.keys()].map((key) => ref(key));
      const found = await store.getMany(refs);
      expect(found.map((record) => record?.rev)).toEqual([...acknowledged.values()]);
      expect(acknowledged.size).toBe(8);

      const grant = commitOf([write("granted", 0, "x")], { requiresVetted: true });
      await expect(store.commit(grant)).rejects.toMatchObject({ kind: "unavailable", reason: "STORE_UNVETTED" });
      expect(await store.commit(commitOf([write("released", 0, "x")]))).toMatchObject({ ok: true });
      const { runId, vetting, clusterUid } = await store.identity();
      expect(clusterUid).toBe(before.clusterUid);
      expect(runId).not.toBe(before.runId);
      expect(reasons.join()).toContain(`another process now: ${runId}`);
      await expect(store.markVetted(before.runId, vetting)).rejects.toMatchObject({ reason: "STORE_UNVETTED" });
      // Not before the new process was looked at as the old one was.
      await vi.waitFor(() => vetAnew(store), { timeout: 30_000, interval: 50 });
      expect(await store.commit(grant)).toMatchObject({ ok: true });
    }),
  );

  it(
    "restarted: a watch is told to begin anew, as the same numbers may stand for other events",
    withFixture(async ({ open, server }) => {
      const store = await open();
      const watching = take(store, await store.head(), 1).catch((error: unknown) => error);
      await sleep(50);
      await server.kill();
      await server.restart();
      expect(await watching).toMatchObject({ kind: "out_of_range", reason: "EVENTS_TRIMMED" });
      const again = take(store, await store.head(), 1);
      await store.commit(count("k", 0));
      expect(await again).toHaveLength(1);
    }),
  );

  it(
    "a replica is refused, and a master that became one is left for the next",
    withFixture(async ({ open, server }) => {
      const store = await open();
      const admin = await server.admin();
      await admin.call("REPLICAOF", "127.0.0.1", "1");
      await expect(store.commit(count("k", 0))).rejects.toMatchObject({
        ...unavailable,
        message: expect.stringContaining("READONLY"),
      });
      await admin.call("REPLICAOF", "NO", "ONE");
      await expect.poll(() => store.commit(count("k", 0)).catch(() => undefined)).toMatchObject({ ok: true });
    }),
  );

  it(
    "closing ends what waits",
    withFixture(async ({ open, server }) => {
      const store = await open({ tuning: { commandTimeoutMs: 60_000, settleMs: 60_000 } });
      const watching = take(store, await store.head(), 1);
      server.signal("SIGSTOP");
      const reading = store.get(ref("k"));
      const writing = store.commit(count("k", 0));
      const outcomes = Promise.allSettled([watching, reading, writing]);
      await sleep(20);
      await store.close();
      expect((await outcomes).map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
      await expect(store.get(ref("k"))).rejects.toMatchObject({ message: expect.stringContaining("closed") });
    }),
  );
});
