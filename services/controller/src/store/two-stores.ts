/** For tests: what two controllers open of one store, of each kind; an SQLite file is open in one process, so that both have the same. */
import { randomUUID } from "node:crypto";
import { systemClock } from "@holdfast/shared/async/clock";
import type { Store } from "../ports.ts";
import { startRedisFixture, vet } from "./redis/redis-fixture.ts";
import { createSqliteStore } from "./sqlite/sqlite-store.ts";
import { vetAnew } from "./vet-anew.ts";

export interface TwoStores {
  readonly stores: readonly [Store, Store];
  stop(): Promise<void>;
}

export const twoStores: Readonly<Record<"sqlite" | "redis", () => Promise<TwoStores>>> = {
  async sqlite() {
    const store = createSqliteStore({ file: ":memory:", now: systemClock.now, uuid: randomUUID });
    await vetAnew(store);
    return { stores: [store, store], stop: () => store.close() };
  },
  async redis() {
    const redis = await startRedisFixture();
    const first = await redis.open();
    await vet(first);
    return { stores: [first, await redis.open()], stop: () => redis.stop() };
  },
};
