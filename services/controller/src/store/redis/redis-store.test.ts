import fc from "fast-check";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Store } from "../../ports.ts";
import { describeStore } from "../store-contract.ts";
import { describeStoreFormats } from "../store-formats-contract.ts";
import { commitOf, keysOf, ref, take, write } from "../test-commits.ts";
import { aclCommand, controllerRules } from "./acl.ts";
import { libraryName } from "./library.ts";
import { contractOver, type RedisFixture, startRedisFixture, vet } from "./redis-fixture.ts";
import { createRedisKeys } from "./redis-keys.ts";

describeStore("Redis, as the restricted user", async () => {
  const fixture = await startRedisFixture();
  return await contractOver(fixture, fixture.server);
});

describe("the format of a Redis store", () => {
  let fixture: RedisFixture;
  let cells = 0;

  beforeAll(async () => {
    fixture = await startRedisFixture();
  });
  afterAll(() => fixture.stop());

  const freshCell = (): string => {
    cells += 1;
    return `formats-${cells}`;
  };

  describeStoreFormats(async () => {
    const cell = freshCell();
    let last: Store | undefined;
    return async (formats) => {
      await last?.close();
      last = await fixture.open({ cell, formats });
      return last;
    };
  });

  it("R5 raised by another, nothing is written any more by a release that cannot read it, and its gate is told why", async () => {
    const cell = freshCell();
    const old = await fixture.open({ cell, formats: { oldest: 1, newest: 1 } });
    const suspicions: string[] = [];
    old.onSuspect((reason) => suspicions.push(reason));
    const store = await fixture.open({ cell, formats: { oldest: 1, newest: 2 } });
    await vet(store);
    await old.commit(commitOf([write("a", 0, "by the old")]));
    await store.commit(commitOf([write("b", 0, "by the new")], { raisesFormat: 2 }));
    await expect(old.commit(commitOf([write("a", 1, "too late")]))).rejects.toMatchObject({
      reason: "STORE_SCHEMA_NEWER",
      message: expect.stringMatching(/is format 2.*Nothing is written to it from here.*backup from before/),
    });
    expect(await store.get(ref("a"))).toMatchObject({ rev: 1, body: "by the old" });
    expect(suspicions.at(-1)).toContain("is format 2");
    expect((await old.identity()).vettedRunId).toBe("");
    expect(await store.commit(commitOf([write("a", 1, "by the new")]))).toMatchObject({ ok: true });
  });

  it("raised by another, is known within a look at the store", async () => {
    const cell = freshCell();
    await (await fixture.open({ cell, formats: { oldest: 1, newest: 1 } })).close();
    const follower = await fixture.open({ cell, tuning: { recheckMs: 10 } });
    const store = await fixture.open({ cell });
    await store.commit(commitOf([write("a", 0, "1")], { raisesFormat: 2 }));
    await expect.poll(() => follower.format(), { timeout: 10_000 }).toBe(2);
  });
});

describe("Redis store", () => {
  let fixture: RedisFixture;
  let admin: Redis;
  const keys = createRedisKeys("test");

  beforeAll(async () => {
    fixture = await startRedisFixture();
    admin = await fixture.server.admin();
  });
  afterAll(() => fixture.stop());

  it("the restricted user can neither run code, nor read the configuration, nor leave its cell", async () => {
    await fixture.open();
    const redis = new Redis(await fixture.restricted("test"), { maxRetriesPerRequest: 0, retryStrategy: () => null });
    redis.on("error", () => undefined);
    const refused: readonly (readonly [string, ...string[]])[] = [
      ["EVAL", "return 1", "0"],
      ["SCRIPT", "FLUSH"],
      ["FUNCTION", "LIST"],
      ["FUNCTION", "DELETE", libraryName],
      ["CONFIG", "GET", "*"],
      ["FLUSHALL"],
      ["FLUSHDB"],
      ["KEYS", "*"],
      ["SCAN", "0"],
      ["ACL", "LIST"],
      ["DEBUG", "SLEEP", "0"],
      ["HMGET", "{hf:other}meta", "gen"],
      ["HMGET", "{hf:testing}meta", "gen"],
      ["DEL", keys.meta],
      ["SET", "{hf:other}meta", "1"],
      ["HSETNX", keys.meta, "x", "1"],
      ["PEXPIRE", keys.meta, "1"],
      ["SUBSCRIBE", "x"],
    ];
    for (const [command, ...args] of refused)
      await expect(redis.call(command, ...args), `${command} ${args.join(" ")}`).rejects.toThrow(/NOPERM/);
    redis.disconnect();
  });

  it("prints a rule that Redis takes", async () => {
    const [, , ...rule] = aclCommand("printed", controllerRules("test")).split(" ");
    await admin.call("ACL", "SETUSER", ...rule);
    const listed = (await admin.call("ACL", "LIST")) as string[];
    expect(listed.find((line) => line.startsWith("user printed "))).toContain("~{hf:test}* resetchannels -@all");
  });

  it("a record without its framing is damaged everywhere: read, listed, not written over, not swept, and in no one else's way", async () => {
    const cell = "damaged";
    const [store, of] = [await fixture.open({ cell }), createRedisKeys(cell)];
    const indexes = [{ index: "x", value: "all" }];
    await store.commit(commitOf([write("a", 0, "1", { indexes }), write("b", 0, "1", { indexes, ttlMs: 20 })]));
    await store.commit(commitOf([write("c", 0, "1", { indexes })]));
    const damages = { a: "no framing", b: "x 0 1\n\n\nbody" } as const;
    for (const [key, text] of Object.entries(damages)) await admin.set(of.record(ref(key)), text);
    const words = "the lines before its body are missing or changed";
    expect(await store.get(ref("a"))).toEqual({ ref: ref("a"), rev: 0, body: "", damage: words });
    const { records } = await store.list({ index: "x", value: "all", limit: 10 });
    expect(records.map(({ ref: { key }, damage }) => [key, damage])).toEqual([
      ["a", words],
      ["b", words],
      ["c", undefined],
    ]);
    for (const [key, rev] of [
      ["a", 0],
      ["a", 1],
      ["b", 1],
    ] as const)
      await expect(store.commit(commitOf([write(key, rev, "over"), write("d", 0, "1")]))).rejects.toMatchObject({
        reason: "RECORD_DAMAGED",
        metadata: { key },
      });
    expect(await store.get(ref("d"))).toBeUndefined();
    // The end of its life is past: what looks for what has ended meets it, and the commits of others go on.
    await new Promise((resolve) => setTimeout(resolve, 30));
    for (let rev = 1; rev <= 40; rev += 1) await store.commit(commitOf([write("c", rev, `${rev}`)]));
    expect(await admin.zscore(of.expiry, "v:b")).toBeNull();
    for (const [key, text] of Object.entries(damages)) expect(await admin.get(of.record(ref(key)))).toBe(text);
    await admin.del(of.record(ref("a")));
    await admin.hset(of.record(ref("a")), "x", "1");
    expect(await store.get(ref("a"))).toMatchObject({ damage: "it is no string in Redis" });
  });

  it("an identity with numbers that are none is written to by nobody, and opened by nobody", async () => {
    const cell = "damaged-meta";
    const [store, { meta }] = [await fixture.open({ cell }), createRedisKeys(cell)];
    const { runId, vetting } = await store.identity();
    const damaged = { reason: "RECORD_DAMAGED", metadata: { kind: "meta" } };
    for (const [field, value] of [
      ["gen", "NaN"],
      ["seq", "1e3"],
      ["seq", "9007199254740993"],
    ] as const) {
      const before = (await admin.hget(meta, field)) ?? "";
      await admin.hset(meta, field, value);
      await expect(store.commit(commitOf([write("k", 0, "1")]))).rejects.toMatchObject(damaged);
      if (field === "gen") {
        await expect(store.identity()).rejects.toMatchObject(damaged);
        await expect(store.markVetted(runId, vetting)).rejects.toMatchObject(damaged);
        await expect(fixture.open({ cell })).rejects.toMatchObject(damaged);
      }
      await admin.hset(meta, field, before);
    }
    expect(await store.commit(commitOf([write("k", 0, "1")]))).toMatchObject({ ok: true });
  });

  it("a commit is one command on the wire, however much it writes", async () => {
    const store = await fixture.open();
    const places = { indexes: [{ index: "i", value: "v" }], due: [{ queue: "q", at: 1 }] };
    const writes = Array.from({ length: 5 }, (_, n) => write(`wire-${n}`, 0, "x", places));
    const events = [{ type: "t", ref: ref("wire-0"), body: "e" }];
    const calls = async () => {
      const stats = String(await admin.info("commandstats"));
      return [...stats.matchAll(/^cmdstat_(fcall|fcall_ro):calls=(\d+)/gm)].reduce((sum, m) => sum + Number(m[2]), 0);
    };
    const before = await calls();
    await store.commit(commitOf(writes, { events }));
    expect(await calls()).toBe(before + 1);
  });

  it("nothing is left of what was removed or ended, but its revision for a day", async () => {
    const cell = "leaves";
    const store = await fixture.open({ cell });
    const own = createRedisKeys(cell);
    const places = { indexes: [{ index: "i", value: "v" }], due: [{ queue: "q", at: 1 }] };
    await store.commit(commitOf([write("gone", 0, "x", places), write("short", 0, "x", { ...places, ttlMs: 20 })]));
    await store.commit(commitOf([write("gone", 1, null)]));
    await new Promise((resolve) => setTimeout(resolve, 40));
    // The places of what ended go with the next commit, whatever that is about.
    await store.commit(commitOf([write("other", 0, "x")]));
    const all = (await admin.keys(`${own.prefix}*`)).map((key) => key.slice(own.prefix.length)).toSorted();
    expect(all.filter((key) => !key.startsWith("o:"))).toEqual(["meta", "r:v:gone", "r:v:other", "r:v:short"]);
    const answers = all.filter((key) => key.startsWith("o:"));
    expect(answers).toHaveLength(3);
    for (const key of answers) expect(await admin.pttl(own.prefix + key)).toBeGreaterThan(590_000);
    for (const [key, rev] of [
      ["gone", 2],
      ["short", 1],
    ] as const) {
      expect(await admin.get(own.record(ref(key)))).toBe(`${rev} 0 0\n\n\n`);
      const ttl = await admin.pttl(own.record(ref(key)));
      expect(ttl).toBeGreaterThan(86_300_000);
      expect(ttl).toBeLessThanOrEqual(86_400_000);
    }
    expect(await admin.pttl(own.record(ref("other")))).toBe(-1);
  });

  it("ends many records a few with each commit, and none of them is seen meanwhile", async () => {
    const cell = "sweep";
    const store = await fixture.open({ cell });
    const own = createRedisKeys(cell);
    const short = (n: number) => write(`s${n}`, 0, "x", { ttlMs: 1, indexes: [{ index: "i", value: "v" }] });
    await store.commit(commitOf(Array.from({ length: 30 }, (_, n) => short(n))));
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(await keysOf(store, "i", "v", 7)).toEqual([]);
    const left: number[] = [];
    for (let rev = 0; rev < 4; rev += 1) {
      left.push(await admin.zcard(own.expiry));
      await store.commit(commitOf([write("tick", rev, "x")]));
    }
    expect(left).toEqual([30, 22, 14, 6]);
    expect(await admin.zcard(own.expiry)).toBe(0);
    expect(await admin.exists(own.index("i", "v"))).toBe(0);
  });

  it("looks for what has ended with each sixteenth commit at least, and is not in its way before", async () => {
    const cell = "seldom";
    const store = await fixture.open({ cell });
    const own = createRedisKeys(cell);
    const indexes = [{ index: "i", value: "v" }];
    await store.commit(commitOf([write("short", 0, "x", { ttlMs: 200, indexes })]));
    await new Promise((resolve) => setTimeout(resolve, 220));
    expect(await store.get(ref("short"))).toBeUndefined();
    expect(await keysOf(store, "i", "v")).toEqual([]);
    for (let rev = 0; rev < 16; rev += 1) await store.commit(commitOf([write("tick", rev, "x")]));
    expect(await admin.exists(own.expiry, own.index("i", "v"))).toBe(0);
    // What ended goes on counting from where it was.
    expect(await store.commit(commitOf([write("short", 0, "y")]))).toMatchObject({ ok: true, revs: [2] });
  });

  it("answers a repeat that nothing could be granted to any more", async () => {
    const cell = "granted";
    const store = await fixture.open({ cell });
    await vet(store);
    const grant = commitOf([write("k", 0, "x")], { requiresVetted: true });
    const answer = await store.commit(grant);
    await admin.hset(createRedisKeys(cell).meta, "vettedRunId", "of-an-earlier-process");
    expect(await store.commit(grant)).toEqual(answer);
  });

  it("L7 a store that lost its newest commits gives their numbers to no others, once it is vetted", async () => {
    const cell = "numbers";
    const { meta } = createRedisKeys(cell);
    const store = await fixture.open({ cell });
    const numberOf = async (key: string): Promise<number> => {
      const result = await store.commit(commitOf([write(key, 0, "x")]));
      return result.ok ? result.order.sequence : 0;
    };
    const first = await numberOf("first");
    expect(await numberOf("second")).toBe(first + 1);
    await admin.hset(meta, "commits", 7, "vettedRunId", "of-an-earlier-process");
    await vet(store);
    expect(await numberOf("third")).toBeGreaterThan(first + 1);
    // As an earlier release has left it; later than the vetting by the store's clock, from which both take a number.
    await new Promise((resolve) => setTimeout(resolve, 2));
    await admin.hdel(meta, "commits");
    expect(await numberOf("fourth")).toBeGreaterThan(first + 2);
    await admin.hset(meta, "commits", "many");
    await expect(numberOf("fifth")).rejects.toMatchObject({ reason: "RECORD_DAMAGED" });
    await expect(vet(store)).rejects.toMatchObject({ reason: "RECORD_DAMAGED" });
  });

  it("an index of any size is listed in order, whatever was entered and left, and leaves nothing behind", async () => {
    const cell = "leaves-of-index";
    const store = await fixture.open({ cell });
    const own = createRedisKeys(cell);
    const places = { indexes: [{ index: "i", value: "v" }] };
    const random =
      fc.sample(fc.uniqueArray(fc.nat(99_999), { minLength: 700, maxLength: 700 }), { numRuns: 1, seed: 7 })[0] ?? [];
    const held = new Set<string>();
    const expectListed = async (limit: number): Promise<void> =>
      expect(await keysOf(store, "i", "v", limit)).toEqual([...held].toSorted());
    const change = async (names: readonly number[], rev: number, body: string | null): Promise<void> => {
      const keysOfChange = names.map((n) => `k-${n}`);
      for (const key of keysOfChange) body === null ? held.delete(key) : held.add(key);
      await store.commit(commitOf(keysOfChange.map((key) => write(key, rev, body, places))));
    };
    const chunks = (from: number, to: number) =>
      Array.from({ length: (to - from) / 50 }, (_, n) => random.slice(from + n * 50, from + (n + 1) * 50));
    for (const names of chunks(0, 500)) await change(names, 0, "x");
    for (const limit of [1, 7, 100, 101, 499, 500, 1000]) await expectListed(limit);
    const leaves = await admin.keys(`${own.index("i", "v")}*`);
    expect(leaves.length).toBeGreaterThan(5);
    for (const leaf of leaves.filter((key) => !key.endsWith("leaves"))) {
      expect(await admin.zcard(leaf)).toBeLessThanOrEqual(120);
      expect(await admin.object("ENCODING", leaf)).toBe("listpack");
    }
    for (const names of chunks(0, 300)) await change(names, 1, null);
    await expectListed(33);
    for (const names of chunks(500, 700)) await change(names, 0, "x");
    for (const names of chunks(0, 100)) await change(names, 0, "again");
    await expectListed(64);
    const after = [...held].toSorted()[123] ?? "";
    const page = await store.list({ index: "i", value: "v", after, limit: 150 });
    expect(page.records.map((record) => record.ref.key)).toEqual([...held].toSorted().slice(124, 274));
    // A page costs what is on it: not the leaves before it.
    const looks = async (): Promise<number> =>
      Number(/cmdstat_zrange:calls=(\d+)/.exec(await admin.info("commandstats"))?.[1]);
    const before = await looks();
    const last = await store.list({ index: "i", value: "v", after: [...held].toSorted().at(-11) ?? "", limit: 10 });
    expect(last.records).toHaveLength(10);
    expect((await looks()) - before).toBeLessThanOrEqual(4);
    for (const key of [...held]) {
      const found = await store.get(ref(key));
      await store.commit(commitOf([write(key, found?.rev ?? 0, null)]));
    }
    expect(await keysOf(store, "i", "v")).toEqual([]);
    expect(await admin.keys(`${own.index("i", "v")}*`)).toEqual([]);
  });

  it("cells on one Redis know nothing of each other", async () => {
    const [a, b] = [await fixture.open({ cell: "a" }), await fixture.open({ cell: "b" })];
    await a.commit(commitOf([write("k", 0, "of a", { indexes: [{ index: "i", value: "v" }] })]));
    expect(await b.get(ref("k"))).toBeUndefined();
    expect(await keysOf(b, "i", "v")).toEqual([]);
    expect((await a.identity()).clusterUid).not.toBe((await b.identity()).clusterUid);
  });

  it("watches that wait share one connection, and go on over a lost one", async () => {
    const store = await fixture.open({ cell: "watch" });
    const head = await store.head();
    const watching = Array.from({ length: 10 }, () => take(store, head, 2));
    const event = (body: string) => ({ type: "t", ref: ref("k"), body });
    await store.commit(commitOf([write("k", 0, "x")], { events: [event("before")] }));
    const tails = async (): Promise<readonly string[]> => {
      const list = String(await admin.call("CLIENT", "LIST"));
      return [...list.matchAll(/^id=(\d+) .*name=holdfast-controller-events.*user=controller-watch/gm)].map(
        (m) => m[1] ?? "",
      );
    };
    await expect.poll(tails).toHaveLength(1);
    for (const id of await tails()) await admin.call("CLIENT", "KILL", "ID", id);
    await store.commit(commitOf([write("k", 1, "x")], { events: [event("after")] }));
    for (const events of await Promise.all(watching))
      expect(events.map(({ body }) => body)).toEqual(["before", "after"]);
    // Our own event needed no connection to be told, so that it may still be on its way back.
    await expect.poll(tails).toHaveLength(1);
  });

  it("[I8] a store whose generation fell back is not granted from, whatever it says of itself", async () => {
    const cell = "older";
    const store = await fixture.open({ cell });
    const { runId } = await store.identity();
    const vetting = { gen: 7, uid: "seventh" };
    await store.beginVetting(runId, vetting);
    await store.markVetted(runId, vetting);
    await admin.hset(createRedisKeys(cell).meta, "gen", "6");
    const reasons: string[] = [];
    store.onSuspect((reason) => reasons.push(reason));
    await expect(store.commit(commitOf([write("k", 0, "x")], { requiresVetted: true }))).rejects.toMatchObject({
      reason: "STORE_UNVETTED",
      metadata: { finding: expect.stringContaining("generation 6, 7 was seen") },
    });
    expect(reasons.join()).toContain("generation 6, 7 was seen");
  });

  it("a flushed store takes no write, raises suspicion, and is refused at the next start with the cure", async () => {
    const own = await startRedisFixture();
    try {
      const store = await own.open();
      await vet(store);
      const { clusterUid } = await store.identity();
      const head = await store.head();
      await store.commit(commitOf([write("k", 0, "x")]));
      const reasons: string[] = [];
      store.onSuspect((reason) => reasons.push(reason));
      await (await own.server.admin()).flushall();
      await expect(store.commit(commitOf([write("k", 0, "x")]))).rejects.toMatchObject({
        kind: "unavailable",
        message: expect.stringContaining("lost its identity"),
      });
      expect(reasons.join()).toContain(clusterUid);
      expect(head).toMatch(/-0$/);
      const error = await own.open().catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ name: "StoreUnfitError", reason: "STORE_FOREIGN" });
      expect(String(error)).toContain(`This controller belongs to installation ${clusterUid}`);
      expect(String(error)).toContain("store-cluster-uid");
    } finally {
      await own.stop();
    }
  });
});
