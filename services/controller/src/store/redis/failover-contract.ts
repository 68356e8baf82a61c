/** What a store does whose master changes. One suite, whoever chooses the master; the oracle is what stands in the server that is the master in the end. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { RedisServer } from "../../../../../test/support/redis-server.ts";
import type { RedisServers } from "../../../../../test/support/redis-servers.ts";
import type { Commit } from "../../domain/store-types.ts";
import type { Store } from "../../ports.ts";
import type { OpenStoreOptions } from "../open-store.ts";
import { commitOf, ref, take, write } from "../test-commits.ts";
import { createStoreFixture, type StoreFixture, vet } from "./redis-fixture.ts";

interface Servers extends Pick<RedisServers, "master" | "replicated" | "settled" | "stop"> {
  addUser(name: string, rules: readonly string[]): Promise<string>;
}

export const quick = {
  tuning: { commandTimeoutMs: 500, recheckMs: 200, startTimeoutMs: 2000 },
} satisfies Partial<OpenStoreOptions>;

/** The addresses of one server, past whoever chooses. */
export const pinned = ({ port }: RedisServer) => ({
  url: `redis://controller-test:controller-test@127.0.0.1:${port}`,
  migrateUrl: `redis://migrator-test:migrator-test@127.0.0.1:${port}`,
});

export const grant = (key: string): Commit => commitOf([write(key, 0, "x")], { requiresVetted: true });
export const patient = { timeout: 30_000, interval: 50 };

/** Not before the new process was looked at as the old one was. */
export const vetted = (store: Store): Promise<void> =>
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

export const bodyIn = async (server: RedisServer, key: string): Promise<string | null> =>
  await (await server.admin()).get(`{hf:test}r:v:${key}`);

/** Where the host is busy the replica of the new master may lag for a moment: what is refused for that is asked for again. */
const taken = (store: Store, key: string): Promise<void> =>
  expect
    .poll(
      () =>
        store.commit(grant(key)).then(
          ({ ok }) => ok,
          (error: unknown) => {
            if (!String(error).includes("NOREPLICAS")) throw error;
            return "refused";
          },
        ),
      patient,
    )
    .toBe(true);

const isMaster = async (server: RedisServer): Promise<boolean> =>
  /role:master/.test(await (await server.admin()).info("replication").catch(() => "role:master"));

export const describeFailover = (name: string, start: () => Promise<Servers>): void => {
  describe(`a store whose master changes: ${name}`, () => {
    let servers: Servers;
    let stores: StoreFixture;

    beforeEach(async () => {
      servers = await start();
      stores = createStoreFixture(servers);
    });
    afterEach(() => stores?.stop());

    it("[I8] goes on at the new master when the old one is killed, and grants nothing from it before it is vetted", async () => {
      const store = await stores.open(quick);
      const reasons: string[] = [];
      store.onSuspect((reason) => reasons.push(reason));
      await vet(store);
      expect(await store.commit(grant("before"))).toMatchObject({ ok: true });
      await servers.replicated();
      const before = await store.identity();

      await servers.master.kill();
      await expect
        .poll(() => store.commit(commitOf([write("k", 0, "x")])).catch(() => undefined), patient)
        .toMatchObject({ ok: true });
      const master = await servers.settled(servers.master);
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
      const store = await stores.open(quick);
      const old = servers.master;
      const stubborn = await stores.open({ ...quick, ...pinned(old) });
      await vet(store);
      await stubborn.identity();
      expect(await stubborn.commit(grant("before"))).toMatchObject({ ok: true });
      await servers.replicated();

      old.signal("SIGSTOP");
      const master = await servers.settled(old);
      await vetted(store);
      expect(await store.commit(grant("new"))).toMatchObject({ ok: true });
      old.signal("SIGCONT");

      // Each try is refused, by whichever of: no replica follows it, it is a replica, it is not connected.
      const wrong: string[] = [];
      for (let n = 0; n < 20 || (await isMaster(old)); n += 1) {
        const result = await stubborn.commit(grant(`stale-${n}`)).catch(() => undefined);
        if (result?.ok === true) wrong.push(`stale-${n}`);
        await taken(store, `fresh-${n}`);
      }
      expect(wrong).toEqual([]);
      await expect(stubborn.commit(grant("late"))).rejects.toThrow(
        /is a replica of 127\.0\.0\.1:\d+: point the address at the master/,
      );
      for (const key of ["before", "new", "fresh-0", "fresh-19"]) expect(await bodyIn(master, key), key).toContain("x");
      expect(await bodyIn(master, "stale-0")).toBeNull();
    });
  });
};
