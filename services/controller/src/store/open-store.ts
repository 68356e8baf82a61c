import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Clock } from "@holdfast/shared/async/clock";
import { every } from "@holdfast/shared/async/every";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Ids, Store } from "../ports.ts";
import { checkDurability, migrate } from "./redis/migrate.ts";
import { connectRedis, redisPlace, whenReady } from "./redis/redis-connection.ts";
import { createRedisStore } from "./redis/redis-store.ts";
import { createSqliteStore } from "./sqlite/sqlite-store.ts";

export interface OpenStoreOptions {
  /** redis://…, rediss://… or sqlite:///absolute/path */
  readonly url: string;
  /** Another identity for loading functions and looking at CONFIG; the same as `url` when absent. */
  readonly migrateUrl?: string;
  readonly cell: string;
  readonly stateDir: string;
  readonly allowVolatile: boolean;
  readonly declaredDurable: boolean;
  readonly log: Logger;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly signal: AbortSignal;
}

const openSqlite = (options: OpenStoreOptions): Store => {
  const file = options.url.slice("sqlite://".length);
  if (!path.isAbsolute(file))
    throw new HoldfastError({
      kind: "invalid",
      reason: "INVALID_ARGUMENT",
      message: `HOLDFAST_STORE: ${options.url} needs an absolute path, as in sqlite:///var/lib/holdfast/store.db`,
    });
  mkdirSync(path.dirname(file), { recursive: true });
  mkdirSync(options.stateDir, { recursive: true });
  const lineageFile = path.join(options.stateDir, "store-lineage");
  let expected: string | undefined;
  try {
    expected = readFileSync(lineageFile, "utf8").trim();
  } catch {
    expected = undefined;
  }
  const store = createSqliteStore({
    file,
    now: () => options.clock.now(),
    uuid: () => options.ids.uuid(),
    ...(expected === undefined ? {} : { expectedLineage: expected }),
  });
  if (expected !== store.lineage) {
    if (expected !== undefined)
      options.log.warn(
        "the store file is not the one this controller used before: nothing is granted until it is vetted",
        { file },
      );
    writeFileSync(lineageFile, `${store.lineage}\n`, { mode: 0o600 });
  }
  return store;
};

const openRedis = async (options: OpenStoreOptions): Promise<Store> => {
  const { url, log, cell, ids } = options;
  const commandTimeoutMs = 2_000;
  const migrateUrl = options.migrateUrl ?? url;
  const place = redisPlace(url);
  const redis = connectRedis({ url: migrateUrl, log, commandTimeoutMs, random: () => ids.random() });
  const check = {
    redis,
    cell,
    place,
    uuid: () => ids.uuid(),
    allowVolatile: options.allowVolatile,
    declaredDurable: options.declaredDurable,
  };
  try {
    await whenReady(redis, 10_000, place);
    const allowed = await checkDurability(check);
    if (allowed.length > 0)
      log.error("this store may forget what it acknowledged, and that was allowed", { faults: allowed });
    await migrate(check);
  } catch (error) {
    redis.disconnect();
    throw error;
  }
  const store = await createRedisStore({
    url,
    cell,
    log,
    random: () => ids.random(),
    monotonic: () => options.clock.monotonic(),
    commandTimeoutMs,
  });
  // CONFIG SET appendonly no is a known way out of a full disk, so it is looked at again and again.
  const looking = new AbortController();
  void every(
    10_000,
    async () => {
      try {
        await checkDurability(check);
      } catch (error) {
        log.error("the store is not fit to remember claims", { error });
      }
    },
    { signal: AbortSignal.any([options.signal, looking.signal]), clock: options.clock },
  ).catch(() => undefined);
  return {
    ...store,
    close: async () => {
      looking.abort();
      redis.disconnect();
      await store.close();
    },
  };
};

/** The store that the setting names, checked and ready. */
export const openStore = async (options: OpenStoreOptions): Promise<Store> => {
  const scheme = options.url.slice(0, options.url.indexOf(":"));
  if (scheme === "sqlite") return openSqlite(options);
  if (scheme === "redis" || scheme === "rediss") return openRedis(options);
  throw new HoldfastError({
    kind: "invalid",
    reason: "INVALID_ARGUMENT",
    message: `HOLDFAST_STORE: ${redisPlace(options.url)} is none of redis://, rediss:// and sqlite://`,
  });
};
