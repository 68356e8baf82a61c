import { readFileSync } from "node:fs";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Redis } from "ioredis";
import { durabilityFaults, parseInfo, volatileStore } from "./durability.ts";
import { redisKeys } from "./redis-keys.ts";

export const schemaVersion = 1;

const library = readFileSync(new URL("./library.lua", import.meta.url), "utf8");

export interface MigrateOptions {
  readonly redis: Redis;
  readonly cell: string;
  readonly place: string;
  readonly uuid: () => string;
  readonly allowVolatile: boolean;
  /** The operator vouches for appendfsync and its kin where CONFIG is forbidden. */
  readonly declaredDurable: boolean;
}

const configOf = async (redis: Redis): Promise<ReadonlyMap<string, string> | undefined> => {
  try {
    const flat = (await redis.config(
      "GET",
      "appendfsync",
      "no-appendfsync-on-rewrite",
      "min-replicas-to-write",
    )) as readonly string[];
    return new Map(flat.flatMap((name, i) => (i % 2 === 0 ? [[name, flat[i + 1] ?? ""] as const] : [])));
  } catch (error) {
    if (error instanceof Error && /NOPERM|unknown command/i.test(error.message)) return undefined;
    throw error;
  }
};

/** Rejects when this Redis may forget what it acknowledged. Answers what was wrong and allowed all the same. */
export const checkDurability = async (options: MigrateOptions): Promise<readonly string[]> => {
  const { redis, place } = options;
  const info = parseInfo(await redis.info());
  const config = await configOf(redis);
  const faults = [
    ...durabilityFaults(info, config),
    ...(config === undefined && !options.declaredDurable
      ? [
          {
            found: "CONFIG is forbidden, so appendfsync cannot be seen",
            cure: "allow CONFIG GET to the migrating user, or vouch for it with HOLDFAST_STORE_DECLARED_DURABLE=1",
          },
        ]
      : []),
  ];
  if (faults.length > 0 && !options.allowVolatile) throw volatileStore(place, faults);
  return faults.map((f) => f.found);
};

/** Loads the function library and makes the cell's own record. Run by an identity that may do so; any number of times. */
export const migrate = async ({ redis, cell, place, uuid }: MigrateOptions): Promise<void> => {
  const { meta } = redisKeys(cell);
  const schema = Number((await redis.hget(meta, "schema")) ?? schemaVersion);
  if (schema > schemaVersion)
    throw new HoldfastError({
      kind: "precondition",
      reason: "STORE_SCHEMA_NEWER",
      message: `the store at ${place} has schema ${schema}, this version knows ${schemaVersion}: use the version that wrote it, or a newer one`,
      metadata: { store: place },
    });
  await redis.function("LOAD", "REPLACE", library);
  await redis.hsetnx(meta, "clusterUid", uuid());
  await redis.hsetnx(meta, "schema", String(schemaVersion));
  await redis.hsetnx(meta, "gen", "1");
};
