/** A store that lost commits while its process stayed the same: who saw them commits nothing to it before that is told, and grants nothing before it was vetted. */
import type { Redis } from "ioredis";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type RedisServer, startRedisServer } from "../../../../../test/support/redis-server.ts";
import type { Store } from "../../ports.ts";
import { commitOf, ref, write } from "../test-commits.ts";
import { controllerRules, migratorRules } from "./acl.ts";
import { type RedisFixture, startRedisFixture, vet } from "./redis-fixture.ts";
import { createRedisKeys } from "./redis-keys.ts";
import { createSeenCommits, missingCommits } from "./seen-commits.ts";

const keys = createRedisKeys("test");
const grant = (key: string, rev = 0) => commitOf([write(key, rev, `${rev + 1}`)], { requiresVetted: true });
const unvetted = (finding: string) => ({
  kind: "unavailable",
  reason: "STORE_UNVETTED",
  metadata: { finding: expect.stringContaining(finding) },
});

let fixture: RedisFixture;
let admin: Redis;
let store: Store;
let reasons: string[];

beforeEach(async () => {
  fixture = await startRedisFixture();
  admin = await fixture.server.admin();
  store = await fixture.open();
  await vet(store);
  reasons = [];
  store.onSuspect((reason) => reasons.push(reason));
});
afterEach(() => fixture.stop());

/** The loss is told with the first commit, of any kind; from then on what vets the store may be written, and nothing is granted. */
const expectLoss = async (finding: string): Promise<void> => {
  const { runId } = await store.identity();
  expect(reasons.join()).toContain(finding);
  // Also by a controller that saw nothing of what is missing.
  const newcomer = await fixture.open();
  for (const one of [store, newcomer])
    await expect(one.commit(grant("granted"))).rejects.toMatchObject({ reason: "STORE_UNVETTED" });
  expect(await admin.get(keys.record(ref("granted")))).toBeNull();
  expect(await store.commit(commitOf([write("node", 0, "speaks")]))).toMatchObject({ ok: true });
  expect((await store.identity()).vettedRunId).not.toBe(runId);
  await expect(store.commit(grant("granted"))).rejects.toMatchObject({ reason: "STORE_UNVETTED" });
  await vet(newcomer);
  expect(await newcomer.commit(grant("granted"))).toMatchObject({ ok: true });
  // Who has not seen that vetting may remember what is lost.
  await expect(store.commit(grant("granted", 1))).rejects.toMatchObject(unvetted("generation 2, 1 was seen"));
  await store.identity();
  expect(await store.commit(grant("granted", 1))).toMatchObject({ ok: true });
};

describe("a store that lost commits under one run id", () => {
  it("[I8] by a reload of an older file, refuses the next commit with how many are missing", async () => {
    await store.commit(grant("kept"));
    await admin.call("SAVE");
    for (let rev = 0; rev < 3; rev += 1) await store.commit(grant("lost", rev));
    await admin.call("DEBUG", "RELOAD", "NOSAVE");
    expect(await store.get(ref("lost"))).toBeUndefined();
    await expect(store.commit(grant("lost"))).rejects.toMatchObject(unvetted("3 commits are missing"));
    expect(await admin.get(keys.record(ref("lost")))).toBeNull();
    expect(await store.get(ref("kept"))).toMatchObject({ body: "1" });
    await expectLoss("3 commits are missing");
  });

  it("[I8] refuses a commit that needs no vetting, too, before the loss is told", async () => {
    await store.commit(grant("a"));
    await admin.hincrby(keys.meta, "commits", -1);
    await expect(store.commit(commitOf([write("b", 0, "1")]))).rejects.toMatchObject(unvetted("1 commit is missing"));
    expect(await admin.get(keys.record(ref("b")))).toBeNull();
    await expectLoss("1 commit is missing");
  });

  it("[I8] by a flush takes nothing at all any more", async () => {
    await store.commit(grant("a"));
    await admin.flushall();
    for (const commit of [grant("b"), commitOf([write("b", 0, "1")])])
      await expect(store.commit(commit)).rejects.toMatchObject({
        reason: "STORE_UNAVAILABLE",
        message: expect.stringContaining("lost its identity"),
      });
    expect(reasons).not.toEqual([]);
    expect(await admin.dbsize()).toBe(0);
  });

  it("is known by a look, and a commit that was done before is answered as it was", async () => {
    const done = grant("a");
    const answer = await store.commit(done);
    await store.commit(grant("b"));
    await admin.hincrby(keys.meta, "commits", -1);
    expect(await store.commit(done)).toEqual(answer);
    expect((await store.identity()).vettedRunId).toBe("");
    expect(reasons.filter((reason) => reason.includes("1 commit is missing"))).toHaveLength(1);
  });
});

describe("a process that took over the data of another one, and is the master again", () => {
  let other: RedisServer;
  beforeEach(async () => {
    other = await startRedisServer();
    await other.addUser("controller-test", controllerRules("test"));
    await other.addUser("migrator-test", migratorRules("test"));
  });
  afterEach(() => other.stop());

  const field = async (redis: Redis, name: string): Promise<string | undefined> =>
    new RegExp(`^${name}:(\\w+)`, "m").exec(await redis.info("replication"))?.[1];

  it("[I8] is the same process and not the same history: nothing is granted from it, by those who saw nothing either", async () => {
    const { port } = fixture.server;
    const second = await other.admin();
    await second.call("REPLICAOF", "127.0.0.1", port);
    await expect.poll(() => field(second, "master_link_status"), { timeout: 20_000 }).toBe("up");
    // The first replica of a process begins its history.
    await vet(store);
    await store.commit(grant("kept"));
    await admin.wait(1, 5000);
    await second.call("REPLICAOF", "NO", "ONE");
    await store.commit(grant("lost"));
    const { runId } = await store.identity();

    await admin.call("REPLICAOF", "127.0.0.1", other.port);
    await expect.poll(() => field(admin, "master_link_status"), { timeout: 20_000 }).toBe("up");
    await admin.call("REPLICAOF", "NO", "ONE");
    await expect
      .poll(() => store.get(ref("kept")).catch(() => undefined), { timeout: 20_000 })
      .toMatchObject({ body: "1" });
    expect(await store.get(ref("lost"))).toBeUndefined();
    expect(await admin.hget(keys.meta, "vettedRunId")).toBe(runId);
    expect((await store.identity()).runId).toBe(runId);
    expect(reasons.join()).toContain("1 commit is missing");

    const newcomer = await fixture.open();
    const before = await newcomer.identity();
    expect(before.runId).toBe(runId);
    expect(before.vettedRunId).toBe("");
    await expect(newcomer.commit(grant("early"))).rejects.toMatchObject(
      unvetted("its replication history is not the one that was vetted"),
    );
    await expect(store.commit(grant("early"))).rejects.toMatchObject({ reason: "STORE_UNVETTED" });
    expect(await admin.get(keys.record(ref("early")))).toBeNull();
    await vet(newcomer);
    expect(await newcomer.commit(grant("early"))).toMatchObject({ ok: true });
  });

  it("[I8] tells who lost a commit there, however much others have committed since", async () => {
    const second = await other.admin();
    await second.call("REPLICAOF", "127.0.0.1", fixture.server.port);
    await expect.poll(() => field(second, "master_link_status"), { timeout: 20_000 }).toBe("up");
    await vet(store);
    await store.commit(grant("kept"));
    await admin.wait(1, 5000);
    const peer = await fixture.open({ allowVolatile: true });
    await second.call("REPLICAOF", "NO", "ONE");
    await store.commit(grant("lost"));
    await admin.call("REPLICAOF", "127.0.0.1", other.port);
    await expect.poll(() => field(admin, "master_link_status"), { timeout: 20_000 }).toBe("up");
    await admin.call("REPLICAOF", "NO", "ONE");
    for (let rev = 0; rev < 4; rev += 1) {
      const beat = (): Promise<unknown> =>
        peer.commit(commitOf([write("beat", rev, "1")])).then(({ ok }) => ok, String);
      await expect.poll(beat, { timeout: 20_000 }).toBe(true);
    }
    expect(await peer.get(ref("lost"))).toBeUndefined();
    const { runId, vetting } = await peer.identity();
    await peer.beginVetting(runId, { gen: vetting.gen + 1, uid: "of the peer" });
    expect([(await store.identity()).keptAll, (await peer.identity()).keptAll]).toEqual([false, true]);
  });
});

it("is suspected by no look at a store that commits meanwhile", async () => {
  const { runId } = await store.identity();
  for (let rev = 0; rev < 50; rev += 1) {
    const looked = store.identity();
    await store.commit(grant("busy", rev));
    expect(await looked).toMatchObject({ vettedRunId: runId });
  }
  expect(reasons).toEqual([]);
});

describe("what was seen of commits", () => {
  it("is carried by each commit, until the loss was told; by those that grant, until a vetting", () => {
    const seen = createSeenCommits(5);
    seen.saw(9);
    seen.saw(7);
    expect([seen.carried(true), seen.carried(false)]).toEqual([9, 9]);
    expect(seen.compare(9, 9)).toEqual({ behind: false, news: undefined });
    expect(seen.compare(4, 9)).toEqual({ behind: true, news: expect.stringContaining("5 commits are missing") });
    expect(seen.compare(4, 9)).toEqual({ behind: true, news: undefined });
    expect([seen.carried(true), seen.carried(false)]).toEqual([9, 9]);
    seen.refused();
    expect([seen.carried(true), seen.carried(false)]).toEqual([9, 0]);
    seen.compare(9, 9);
    expect([seen.carried(true), seen.carried(false)]).toEqual([9, 9]);
    seen.refused();
    seen.vetted();
    expect([seen.carried(true), seen.carried(false)]).toEqual([9, 9]);
    // It was answered behind the look at the store.
    seen.saw(10);
    expect(seen.compare(9, 9)).toEqual({ behind: false, news: undefined });
    expect(missingCommits(1, 2_000_000)).toContain("its last vetting and every commit since are missing");
  });
});
