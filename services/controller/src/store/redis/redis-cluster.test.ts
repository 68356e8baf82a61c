/** A store in a Redis Cluster: real nodes that choose by themselves. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { systemClock } from "@holdfast/shared/async/clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createAuthority } from "../../../../../test/support/certificates.ts";
import { type RedisCluster, startRedisCluster } from "../../../../../test/support/redis-cluster.ts";
import type { RedisServer } from "../../../../../test/support/redis-server.ts";
import type { Store } from "../../ports.ts";
import { openExportSource } from "../open-export-source.ts";
import { describeStore } from "../store-contract.ts";
import { commitOf, keysOf, ref, write } from "../test-commits.ts";
import { controllerRules } from "./acl.ts";
import { bodyIn, describeFailover, grant, patient, pinned, quick, vetted } from "./failover-contract.ts";
import { hashSlot } from "./hash-slot.ts";
import { contractOver, createStoreFixture, type StoreFixture, vet } from "./redis-fixture.ts";
import { createRedisKeys } from "./redis-keys.ts";

const keys = createRedisKeys("test");
const slot = hashSlot(keys.meta);

describeStore("Redis Cluster, as the restricted user", async () => {
  const node = await startRedisCluster({ others: 0, replicas: 0 });
  return await contractOver(createStoreFixture(node), node.master);
});

describeFailover("as the nodes of its cluster choose", startRedisCluster);

let cluster: RedisCluster;
let stores: StoreFixture;

const reasonsOf = (store: Store): string[] => {
  const reasons: string[] = [];
  store.onSuspect((reason) => reasons.push(reason));
  return reasons;
};
const refusal = (opening: Parameters<StoreFixture["open"]>[0]): Promise<string> =>
  stores.open({ ...quick, ...opening }).then(
    () => "opened",
    (error: Error) => error.message,
  );
const commitsOf = async (server: RedisServer): Promise<number> =>
  Number(await (await server.admin()).hget(keys.meta, "commits"));
const unlessRefused = (store: Store, key: string) => store.commit(grant(key)).catch(() => undefined);

describe("a store in a cluster", () => {
  beforeEach(async () => {
    cluster = await startRedisCluster();
    stores = createStoreFixture(cluster);
  });
  afterEach(() => stores?.stop());

  it("[I8] tells how many commits a failover lost, and grants nothing before that was vetted", async () => {
    const [behind = cluster.master, acknowledging = cluster.master] = cluster.replicas;
    const store = await stores.open(quick);
    await vet(store);
    expect(await store.commit(grant("kept"))).toMatchObject({ ok: true });
    await cluster.replicated();
    await cluster.fallBehind(behind);
    for (const key of ["lost-1", "lost-2"]) expect(await store.commit(grant(key))).toMatchObject({ ok: true });
    const [newest, kept] = await Promise.all([cluster.master, behind].map(commitsOf));
    const missing = (newest ?? 0) - (kept ?? 0);
    expect(missing).toBeGreaterThanOrEqual(2);

    await Promise.all([cluster.master.kill(), acknowledging.kill()]);
    expect(await cluster.settled(cluster.master)).toBe(behind);
    // It takes no writes without a replica.
    await acknowledging.restart();
    const early = () => store.commit(grant("early")).catch((error: Error) => error.message);
    await expect.poll(early, patient).toContain(`${missing} commits are missing`);
    expect(await store.get(ref("kept"))).toMatchObject({ body: "x" });
    expect(await store.get(ref("lost-1"))).toBeUndefined();
    await expect(store.commit(grant("early"))).rejects.toMatchObject({ reason: "STORE_UNVETTED" });
    // The replica that it needs for each write may be away once more on a busy host.
    await expect
      .poll(() => vet(store).then(() => unlessRefused(store, "after"), String), patient)
      .toMatchObject({ ok: true });
    expect(await bodyIn(behind, "after")).toContain("x");
    expect(await bodyIn(behind, "early")).toBeNull();
  });
});

describe("a store whose slot moves", () => {
  beforeEach(async () => {
    cluster = await startRedisCluster({ others: 1, replicas: 0 });
    stores = createStoreFixture(cluster);
  });
  afterEach(() => stores?.stop());

  it("[I8] is shut while its slot moves, reads nothing by half, and is vetted at the node that has it then", async () => {
    const { master, others } = cluster;
    const [target = master] = others;
    const store = await stores.open(quick);
    await vet(store);
    for (const key of ["a", "b", "c"])
      await store.commit(commitOf([write(key, 0, key, { indexes: [{ index: "of", value: "all" }] })]));
    const before = await store.identity();
    const reasons = reasonsOf(store);

    await cluster.moveBegins(slot, master, target);
    await expect.poll(() => reasons.join(), patient).toMatch(/is no master of the store any more: (?:ASK|TRYAGAIN)/);
    await cluster.moveKeys(slot, master, target, 4);
    for (let n = 0; n < 2; n += 1) {
      for (const half of [() => keysOf(store, "of", "all"), () => store.commit(grant("early")), () => store.identity()])
        await expect(half()).rejects.toMatchObject({ reason: "STORE_UNAVAILABLE" });
    }
    await expect(store.commit(grant("early"))).rejects.toThrow(/has a part of the store only .* until that is over/);

    await cluster.moveKeys(slot, master, target);
    await cluster.moveEnds(slot, master, target);
    await expect.poll(() => keysOf(store, "of", "all").catch(() => []), patient).toEqual(["a", "b", "c"]);
    await expect(store.commit(grant("early"))).rejects.toMatchObject({ reason: "STORE_UNVETTED" });
    const after = await store.identity();
    expect(after.runId).not.toBe(before.runId);
    expect(after.clusterUid).toBe(before.clusterUid);
    expect(after.vettedRunId).not.toBe(after.runId);
    await vetted(store);
    expect(await store.commit(grant("after"))).toMatchObject({ ok: true });
    expect(await bodyIn(target, "after")).toContain("x");
    expect(await bodyIn(target, "early")).toBeNull();

    expect(await refusal(pinned(master))).toMatch(/does not serve the slot of the store \(MOVED .*redis\+cluster:\/\//);
  });

  it("refuses the first call, too, whatever that is: no list has gaps, and no commit is done by half", async () => {
    const { master, others } = cluster;
    const [target = master] = others;
    const entry = { index: "of", value: "all" };
    const calls: readonly ((store: Store) => Promise<unknown>)[] = [
      (store) => store.list({ ...entry, limit: 10 }),
      (store) => store.count([entry]),
      (store) => store.commit(commitOf([write("a", 1, "again", { indexes: [entry] })])),
      (store) => store.identity(),
    ];
    // None of them looks at the store by itself.
    const unaware = () => stores.open({ tuning: { ...quick.tuning, recheckMs: 600_000 } });
    const opened: Store[] = [];
    for (const _ of calls) opened.push(await unaware());
    for (const key of ["a", "b"]) await opened[0]?.commit(commitOf([write(key, 0, key, { indexes: [entry] })]));
    const admin = await master.admin();
    await cluster.moveBegins(slot, master, target);
    await admin.call("MIGRATE", "127.0.0.1", target.port, keys.record(ref("b")), 0, 5000);
    for (const [nth, call] of calls.entries()) {
      const store = opened[nth];
      if (store === undefined) throw new Error("no store");
      await expect(call(store), String(call)).rejects.toThrow(/TRYAGAIN|ASK/);
    }
    expect(await bodyIn(master, "a")).toContain("a");
  });

  it("is exported as a whole or not at all", async () => {
    const { master, others } = cluster;
    const [target = master] = others;
    const store = await stores.open(quick);
    for (const key of ["a", "b", "c"]) await store.commit(commitOf([write(key, 0, key)]));
    await store.close();
    const exported = async (): Promise<readonly string[]> => {
      const source = await openExportSource({
        url: await stores.migrator("test"),
        cell: "test",
        log: createMemoryLogger(),
        clock: systemClock,
        random: Math.random,
      });
      try {
        const found: string[] = [];
        await cluster.moveBegins(slot, master, target);
        await cluster.moveKeys(slot, master, target, 4);
        for await (const record of source.records()) found.push(record.ref.key);
        return found.toSorted();
      } finally {
        await source.close();
      }
    };
    await expect(exported()).rejects.toThrow(/TRYAGAIN|ASK/);
  });
});

describe("the nodes of a cluster", () => {
  beforeAll(async () => {
    cluster = await startRedisCluster({ replicas: 0 });
    stores = createStoreFixture(cluster);
  });
  afterAll(() => stores?.stop());

  const at = (ports: readonly number[], user = "controller-test"): string =>
    `redis+cluster://${user}:${user}@${ports.map((port) => `127.0.0.1:${port}`).join(",")}`;

  it("have the keys of a store in the slot that is asked for", async () => {
    const admin = await cluster.master.admin();
    for (const key of [keys.meta, keys.absent, "no braces", "{}x", "a{b{c}d}e", "{ü}", "}{x}"])
      expect(hashSlot(key), key).toBe(await admin.call("CLUSTER", "KEYSLOT", key));
    expect(await admin.exists(keys.absent)).toBe(0);
  });

  it("lead to the store if one of them answers, whichever", async () => {
    const [first, second] = [cluster.master, ...cluster.others].map(({ port }) => port);
    expect(await refusal({ url: at([first ?? 0, 1, 2]) })).toBe("opened");
    expect(await refusal({ url: at([1, second ?? 0]) })).toBe("opened");
    const none = await refusal({ url: at([1, 2]) });
    expect(none).toContain("none of the nodes of the cluster in HOLDFAST_STORE says where slot");
    expect(none).toContain("127.0.0.1:2: connect ECONNREFUSED");
  });

  it("have to be nodes of a cluster, and to let the user ask", async () => {
    await cluster.addUser("mute", [...controllerRules("test"), "-cluster|nodes"]);
    expect(await refusal({ url: at([cluster.master.port], "mute") })).toContain("its user needs +cluster|nodes");
  });

  it("that hear no majority take nothing: the store is left at once, and works again when they do", async () => {
    const store = await stores.open(quick);
    await vet(store);
    expect(await store.commit(grant("before"))).toMatchObject({ ok: true });
    const reasons = reasonsOf(store);
    for (const other of cluster.others) other.signal("SIGSTOP");
    await expect.poll(() => reasons.join(), patient).toContain("is no master of the store any more: CLUSTERDOWN");
    await expect(store.commit(grant("alone"))).rejects.toMatchObject({ reason: "STORE_UNAVAILABLE" });
    await expect(store.commit(grant("alone"))).rejects.toThrow(/takes nothing \(CLUSTERDOWN .*--cluster check/);
    for (const other of cluster.others) other.signal("SIGCONT");
    await expect.poll(() => unlessRefused(store, "together"), patient).toMatchObject({ ok: true });
    expect(await bodyIn(cluster.master, "alone")).toBeNull();
  });

  it("name no master for a slot that none of them serves", async () => {
    const store = await stores.open(quick);
    expect(await store.commit(commitOf([write("kept", 0, "x")]))).toMatchObject({ ok: true });
    for (const node of [cluster.master, ...cluster.others])
      await (await node.admin()).call("CLUSTER", "DELSLOTS", slot).catch(() => undefined);
    await expect
      .poll(() => store.get(ref("k")).catch((error: Error) => error.message), patient)
      .toMatch(/no node of the cluster serves slot \d+, in which the store is: .*give the slot back/);
    await (await cluster.master.admin()).call("CLUSTER", "ADDSLOTS", slot);
    await expect.poll(() => store.get(ref("kept")).catch(() => undefined), patient).toMatchObject({ body: "x" });
  });
});

it("a store in a cluster behind TLS is reached there", async () => {
  const dir = mkdtempSync(path.join(tmpdir(), "hf-cluster-tls-"));
  const authority = await createAuthority(dir, "own");
  const { cert, key } = await authority.issue("node", ["IP:127.0.0.1"]);
  const tls = { ca: authority.cert, cert, key };
  const secure = createStoreFixture(await startRedisCluster({ others: 0, replicas: 0, tls }));
  try {
    const store = await secure.open({ ...quick, access: { caFile: tls.ca, certFile: cert, keyFile: key } });
    await vet(store);
    expect(await store.commit(grant("k"))).toMatchObject({ ok: true });
    expect(await secure.restricted("test")).toMatch(/^rediss\+cluster:/);
  } finally {
    await secure.stop();
    rmSync(dir, { recursive: true, force: true });
  }
});
