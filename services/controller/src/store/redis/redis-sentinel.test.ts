/** A store whose master changes, as its sentinels say: real servers, real sentinels. The oracle is what stands in the server that is the master in the end. */
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { systemClock } from "@holdfast/shared/async/clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type RedisSentinels, startRedisSentinels } from "../../../../../test/support/redis-sentinels.ts";
import type { RedisServer } from "../../../../../test/support/redis-server.ts";
import type { Store } from "../../ports.ts";
import { openStore } from "../open-store.ts";
import { commitOf, ref, take, write } from "../test-commits.ts";
import { controllerRules, migratorRules } from "./acl.ts";
import { vet } from "./redis-fixture.ts";

let sentinels: RedisSentinels;
let dir: string;
let urls: { readonly url: string; readonly migrateUrl: string };
let ending: AbortController;
const opened: Store[] = [];

beforeEach(async () => {
  dir = mkdtempSync(path.join(tmpdir(), "hf-sentinel-"));
  ending = new AbortController();
  sentinels = await startRedisSentinels();
  urls = {
    url: await sentinels.addUser("controller", controllerRules("test")),
    migrateUrl: await sentinels.addUser("migrator", migratorRules("test")),
  };
});
afterEach(async () => {
  ending.abort();
  await Promise.all(opened.splice(0).map((store) => store.close()));
  await sentinels?.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** The addresses of one server, past the sentinels. */
const pinned = ({ port }: RedisServer) => ({
  url: `redis://controller:controller@127.0.0.1:${port}`,
  migrateUrl: `redis://migrator:migrator@127.0.0.1:${port}`,
});

const open = async (at: typeof urls): Promise<Store> => {
  const store = await openStore({
    ...at,
    cell: "test",
    stateDir: dir,
    allowVolatile: false,
    declaredDurable: false,
    log: createMemoryLogger(),
    clock: systemClock,
    ids: { uuid: randomUUID, random: Math.random },
    signal: ending.signal,
    tuning: { commandTimeoutMs: 500, recheckMs: 200, startTimeoutMs: 2000 },
  });
  opened.push(store);
  return store;
};

const grant = (key: string) => commitOf([write(key, 0, "x")], { requiresVetted: true });
const isMaster = async (server: RedisServer): Promise<boolean> =>
  /role:master/.test(await (await server.admin()).info("replication").catch(() => "role:master"));
const patient = { timeout: 30_000, interval: 50 };
/** Not before the new process was looked at as the old one was. */
const vetted = (store: Store): Promise<void> =>
  expect
    .poll(
      () =>
        vet(store).then(
          () => "vetted",
          () => "not yet",
        ),
      patient,
    )
    .toBe("vetted");
const bodyIn = async (server: RedisServer, key: string) => await (await server.admin()).get(`{hf:test}r:v:${key}`);

describe("a store behind sentinels", () => {
  it("[I8] goes on at the new master when the old one is killed, and grants nothing from it before it is vetted", async () => {
    const store = await open(urls);
    const reasons: string[] = [];
    store.onSuspect((reason) => reasons.push(reason));
    await vet(store);
    expect(await store.commit(grant("before"))).toMatchObject({ ok: true });
    await sentinels.replicated();
    const before = await store.identity();

    await sentinels.master.kill();
    await expect
      .poll(() => store.commit(commitOf([write("k", 0, "x")])).catch(() => undefined), patient)
      .toMatchObject({ ok: true });
    const master = await sentinels.settled(sentinels.master);
    await expect(store.commit(grant("too early"))).rejects.toMatchObject({ reason: "STORE_UNVETTED" });
    const after = await store.identity();
    expect(after.runId).not.toBe(before.runId);
    expect(after.clusterUid).toBe(before.clusterUid);
    expect(after.vettedRunId).not.toBe(after.runId);
    expect(reasons.join()).toContain(`another process now: ${after.runId}`);
    expect(await store.get(ref("before"))).toMatchObject({ body: "x" });

    await vetted(store);
    const watching = take(store, await store.head(), 1);
    const events = [{ type: "volume" as const, ref: ref("after"), body: "e" }];
    expect(await store.commit({ ...grant("after"), events })).toMatchObject({ ok: true });
    expect(await watching).toMatchObject([{ body: "e" }]);
    expect(await bodyIn(master, "after")).toContain("x");
    expect(await bodyIn(master, "too early")).toBeNull();
  });

  it("[I8] accepts nothing through a master that was frozen while another one took over", async () => {
    const store = await open(urls);
    const old = sentinels.master;
    const stubborn = await open(pinned(old));
    await vet(store);
    await stubborn.identity();
    expect(await stubborn.commit(grant("before"))).toMatchObject({ ok: true });
    await sentinels.replicated();

    old.signal("SIGSTOP");
    const master = await sentinels.settled(old);
    await vetted(store);
    expect(await store.commit(grant("new"))).toMatchObject({ ok: true });
    old.signal("SIGCONT");

    // Each try is refused, by whichever of: no replica follows it, it is a replica, it is not connected.
    const wrong: string[] = [];
    for (let n = 0; n < 20 || (await isMaster(old)); n += 1) {
      const result = await stubborn.commit(grant(`stale-${n}`)).catch(() => undefined);
      if (result?.ok === true) wrong.push(`stale-${n}`);
      expect(await store.commit(grant(`fresh-${n}`))).toMatchObject({ ok: true });
    }
    expect(wrong).toEqual([]);
    await expect(stubborn.commit(grant("late"))).rejects.toThrow(
      /is a replica of 127\.0\.0\.1:\d+: point the address at the master/,
    );
    for (const key of ["before", "new", "fresh-0", "fresh-19"]) expect(await bodyIn(master, key), key).toContain("x");
    expect(await bodyIn(master, "stale-0")).toBeNull();
  });

  it("is left in the moment in which its server becomes a replica, before a call is made on what it says", async () => {
    const at = pinned(sentinels.master);
    const store = await open(at);
    await vet(store);
    const watching = new AbortController();
    const events = store.watch(await store.head(), watching.signal)[Symbol.asyncIterator]();
    const next = events.next().catch(() => undefined);
    const reasons: string[] = [];
    store.onSuspect((reason) => reasons.push(reason));
    await (await sentinels.master.admin()).call("REPLICAOF", "127.0.0.1", sentinels.replicas[0]?.port ?? 0);
    await expect.poll(() => reasons.join(), patient).toContain("is no master any more");
    await expect(store.get(ref("k"))).rejects.toMatchObject({ reason: "STORE_UNAVAILABLE" });
    watching.abort();
    await next;
  });

  it("needs the word of a majority of its sentinels, and the right name", async () => {
    const [first = 0, ...others] = sentinels.ports;
    const alone = (ports: readonly number[], name = "holdfast") =>
      `redis+sentinel://controller:controller@${ports.map((port) => `127.0.0.1:${port}`).join(",")}/${name}`;
    const refusal = async (url: string): Promise<string> =>
      await open({ ...urls, url }).then(
        () => "opened",
        (error: Error) => error.message,
      );
    expect(await refusal(alone([first, ...others, 1]))).toBe("opened");
    const few = await refusal(alone([first, 1, 2]));
    expect(few).toContain("of 3 sentinels 2 have to say where holdfast is, and do not");
    expect(few).toContain("127.0.0.1:1: connect ECONNREFUSED");
    expect(await refusal(alone([first, ...others], "other"))).toContain("No such master with that name");
  });
});
