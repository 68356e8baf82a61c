/**
 * Is this Redis one that keeps what it acknowledges? Asked before anything is written, again every ten seconds and after each
 * reconnect: `CONFIG SET appendonly no` is what many an operator types to get out of a full disk.
 *
 * INFO tells most of it to the restricted user. `appendfsync` and `no-appendfsync-on-rewrite` are told by CONFIG alone, which that
 * user must not have, as CONFIG GET shows passwords. So whoever may ask (the user of HOLDFAST_STORE_MIGRATE, or the controller's where
 * it is allowed to) leaves the answer in the store beside the run_id it was asked of; it counts for that process only.
 * Where nobody may ask, as with Redis as a service, the operator declares it.
 */
import type { FieldViolation } from "@holdfast/shared/errors/holdfast-error";
import { StoreUnfitError } from "../store-unfit-error.ts";
import { isForbidden } from "./call-failure.ts";
import { parseInfo } from "./parse-info.ts";
import type { RedisConnection } from "./redis-connection.ts";

/** What only CONFIG tells. */
export interface Durability {
  readonly runId: string;
  readonly appendfsync: string;
  readonly noAppendfsyncOnRewrite: string;
  readonly minReplicasToWrite: number;
}

export interface ServerFacts {
  /** The fields of INFO. */
  readonly info: Readonly<Record<string, string>>;
  /** undefined: nobody who may ask has asked this process. */
  readonly durability: Durability | undefined;
  readonly declaredDurable: boolean;
}

/** undefined: this user may not ask. */
export const askDurability = async (connection: RedisConnection, runId: string): Promise<Durability | undefined> => {
  const names = ["appendfsync", "no-appendfsync-on-rewrite", "min-replicas-to-write"];
  try {
    const reply = (await connection.call("CONFIG", "GET", ...names)) as readonly string[];
    const value = (name: string): string => reply[reply.indexOf(name) + 1] ?? "";
    return {
      runId,
      appendfsync: value("appendfsync"),
      noAppendfsyncOnRewrite: value("no-appendfsync-on-rewrite"),
      minReplicasToWrite: Number(value("min-replicas-to-write")),
    };
  } catch (error) {
    if (isForbidden(error)) return undefined;
    throw error;
  }
};

export const encodeDurability = (durability: Durability): string => JSON.stringify(durability);

/** What somebody left in the store, if it is about this process. */
export const decodeDurability = (text: string, runId: string): Durability | undefined => {
  if (text === "") return undefined;
  const found = JSON.parse(text) as Durability;
  return found.runId === runId ? found : undefined;
};

interface Check {
  readonly setting: string;
  /** What is wrong, or undefined. */
  readonly fault: (facts: ServerFacts) => string | undefined;
  readonly cure: string;
}

/** A field of INFO that must have one value. A field that is missing is as bad as a wrong one. */
const infoCheck = (field: string, wanted: string, setting: string, cure: string): Check => ({
  setting,
  fault: ({ info }) => (info[field] === wanted ? undefined : `${field} is ${info[field] ?? "unknown"}, not ${wanted}`),
  cure,
});

const unknownDurability =
  "is not known of this process: set HOLDFAST_STORE_MIGRATE to the address of a user that may CONFIG GET, or HOLDFAST_STORE_DECLARED_DURABLE=1 on your word";

const configCheck = (
  setting: string,
  fault: (durability: Durability, facts: ServerFacts) => string | undefined,
  cure: string,
): Check => ({
  setting,
  fault: (facts) => {
    if (facts.durability !== undefined) return fault(facts.durability, facts);
    return facts.declaredDurable ? undefined : unknownDurability;
  },
  cure,
});

const atLeast7 = ({ info }: Pick<ServerFacts, "info">): string | undefined =>
  Number(info["redis_version"]?.split(".")[0]) >= 7 ? undefined : `version is ${info["redis_version"] ?? "unknown"}`;

const versionCheck: Check = {
  setting: "redis_version",
  fault: atLeast7,
  cure: "use Redis 7.0 or newer: functions are needed",
};

/** Before all else: an older one answers the first call of a function with an unknown command, and no gate is reached. */
export const refuseOldServer = async (connection: RedisConnection): Promise<void> => {
  const fault = atLeast7({ info: parseInfo(String(await connection.call("INFO", "server"))) });
  if (fault === undefined) return;
  const description = `${fault}: ${versionCheck.cure}`;
  throw new StoreUnfitError("STORE_TOO_OLD", connection.shown, [{ field: versionCheck.setting, description }]);
};

/** protocol.md §3.4, in the order of the damage. */
export const startChecks: readonly Check[] = [
  versionCheck,
  infoCheck("role", "master", "role", "point the address at the master"),
  infoCheck("loading", "0", "loading", "wait until it has read its data"),
  infoCheck("aof_enabled", "1", "appendonly", "CONFIG SET appendonly yes, and appendonly yes in redis.conf"),
  infoCheck("aof_last_write_status", "ok", "appendonly", "see the log of Redis: its disk is full or broken"),
  infoCheck(
    "maxmemory_policy",
    "noeviction",
    "maxmemory-policy",
    "CONFIG SET maxmemory-policy noeviction, and in redis.conf",
  ),
  configCheck(
    "appendfsync",
    ({ appendfsync }) => (appendfsync === "always" ? undefined : `is ${appendfsync}, not always`),
    "CONFIG SET appendfsync always, and in redis.conf",
  ),
  configCheck(
    "no-appendfsync-on-rewrite",
    ({ noAppendfsyncOnRewrite: found }) => (found === "no" ? undefined : `is ${found}, not no`),
    "CONFIG SET no-appendfsync-on-rewrite no, and in redis.conf",
  ),
  configCheck(
    "min-replicas-to-write",
    ({ minReplicasToWrite }, { info }) =>
      Number(info["connected_slaves"] ?? 0) === 0 || minReplicasToWrite >= 1
        ? undefined
        : `is ${minReplicasToWrite} although there are replicas to fail over to`,
    "CONFIG SET min-replicas-to-write 1, and in redis.conf",
  ),
];

/** Every fault at once, each with its cure. */
export const startFaults = (facts: ServerFacts): readonly FieldViolation[] =>
  startChecks.flatMap(({ setting, fault, cure }) => {
    const found = fault(facts);
    if (found === undefined) return [];
    return [{ field: setting, description: found === unknownDurability ? found : `${found}: ${cure}` }];
  });
