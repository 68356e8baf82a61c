/** A store behind sentinels: real servers, real sentinels. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type RedisSentinels, startRedisSentinels } from "../../../../../test/support/redis-sentinels.ts";
import { ref } from "../test-commits.ts";
import { describeFailover, patient, pinned, quick } from "./failover-contract.ts";
import { createStoreFixture, type StoreFixture, vet } from "./redis-fixture.ts";

describeFailover("as its sentinels say", startRedisSentinels);

describe("a store behind sentinels", () => {
  let sentinels: RedisSentinels;
  let stores: StoreFixture;

  beforeEach(async () => {
    sentinels = await startRedisSentinels();
    stores = createStoreFixture(sentinels);
  });
  afterEach(() => stores?.stop());

  it("is left in the moment in which its server becomes a replica, before a call is made on what it says", async () => {
    await Promise.all([stores.restricted("test"), stores.migrator("test")]);
    const store = await stores.open({ ...quick, ...pinned(sentinels.master) });
    await vet(store);
    const watching = new AbortController();
    const events = store.watch(await store.head(), watching.signal)[Symbol.asyncIterator]();
    const next = events.next().catch(() => undefined);
    const reasons: string[] = [];
    store.onSuspect((reason) => reasons.push(reason));
    await (await sentinels.master.admin()).call("REPLICAOF", "127.0.0.1", sentinels.replicas[0]?.port ?? 0);
    await expect.poll(() => reasons.join(), patient).toContain("is no master of the store any more");
    await expect(store.get(ref("k"))).rejects.toMatchObject({ reason: "STORE_UNAVAILABLE" });
    watching.abort();
    await next;
  });

  it("needs the word of a majority of its sentinels, and the right name", async () => {
    const [first = 0, ...others] = sentinels.ports;
    const alone = (ports: readonly number[], name = "holdfast") =>
      `redis+sentinel://controller-test:controller-test@${ports.map((port) => `127.0.0.1:${port}`).join(",")}/${name}`;
    const refusal = async (url: string): Promise<string> =>
      await stores.open({ ...quick, url }).then(
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
