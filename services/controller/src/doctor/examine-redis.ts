import type { Clock } from "@holdfast/shared/async/clock";
import { type Finding, fault, fine } from "@holdfast/shared/doctor/finding";
import type { Logger } from "@holdfast/shared/log/logger";
import { readableFormats } from "../domain/store-format.ts";
import { aclCommand, controllerRules } from "../store/redis/acl.ts";
import { CallFailure, isForbidden } from "../store/redis/call-failure.ts";
import { inspectServer } from "../store/redis/inspect-server.ts";
import type { RedisAccess } from "../store/redis/redis-access.ts";
import { parseRedisAddress } from "../store/redis/redis-address.ts";
import { createRedisConnection, type RedisConnection } from "../store/redis/redis-connection.ts";
import { createRedisKeys } from "../store/redis/redis-keys.ts";
import { examineReplicas, replicationText } from "./examine-replicas.ts";

export interface RedisExamination {
  readonly url: string;
  readonly access: RedisAccess;
  readonly cell: string;
  readonly declaredDurable: boolean;
  /** The installation that this controller belongs to, if it was ever started. */
  readonly clusterUid: string | undefined;
  readonly log: Logger;
  readonly clock: Clock;
  readonly random: () => number;
}

const patienceMs = 5_000;

/** What the commands of the controller are answered; they read, and change nothing. */
const forbiddenCommands = async (connection: RedisConnection, cell: string): Promise<readonly string[]> => {
  const keys = createRedisKeys(cell);
  const probes: readonly (readonly [string, readonly (string | number)[]])[] = [
    ["TIME", []],
    ["GET", [`${keys.prefix}doctor`]],
    ["HMGET", [keys.meta, "seq"]],
    ["ZCARD", [keys.expiry]],
    ["ZRANGE", [keys.queue("doctor"), 0, 0]],
    ["XRANGE", [keys.events, "-", "+", "COUNT", 1]],
    ["XREVRANGE", [keys.events, "+", "-", "COUNT", 1]],
  ];
  const forbidden: string[] = [];
  for (const [command, args] of probes)
    try {
      await connection.call(command, ...args);
    } catch (error) {
      if (isForbidden(error)) forbidden.push(command);
    }
  return forbidden;
};

const unanswered = (connection: RedisConnection, error: unknown): Finding => {
  const why = error instanceof Error ? error.message : String(error);
  if (why.includes(" is a replica of "))
    return fault(
      "store-replica",
      connection.shown,
      why,
      "point HOLDFAST_STORE at the master, or at its sentinels: redis+sentinel://…",
    );
  const password = /WRONGPASS|NOAUTH|invalid username-password/i.test(why);
  return password
    ? fault("store-login", connection.shown, why, "correct the user and password in HOLDFAST_STORE")
    : fault(
        "store-unreachable",
        connection.shown,
        `does not answer: ${why}`,
        "start Redis, or correct HOLDFAST_STORE; look at firewalls and at rediss:// where Redis wants TLS",
      );
};

export const examineRedis = async (examination: RedisExamination): Promise<readonly Finding[]> => {
  const { url, access, cell, declaredDurable, clusterUid, log, clock, random } = examination;
  const connection = createRedisConnection({
    address: parseRedisAddress(url),
    access,
    name: "holdfast-doctor",
    commandTimeoutMs: patienceMs,
    log,
    clock,
    random,
  });
  try {
    try {
      await connection.connected();
    } catch (error) {
      return [unanswered(connection, error)];
    }
    const acl = (commands: string): Finding =>
      fault("store-acl", connection.shown, `its user may not ${commands}`, aclCommand("<user>", controllerRules(cell)));
    const forbidden = await forbiddenCommands(connection, cell);
    if (forbidden.length > 0) return [acl(forbidden.join(", "))];
    const keys = createRedisKeys(cell);
    const found = await inspectServer({
      connection,
      keys,
      clusterUid,
      declaredDurable,
      askConfig: true,
      formats: readableFormats,
    });
    const identity = found.identityFaults.map(({ field, description }) =>
      field === "library"
        ? fault(
            "store-library",
            connection.shown,
            `the function library is not there: ${description}`,
            "holdfast migrate",
          )
        : fault(
            "store-foreign",
            connection.shown,
            `${field} ${description}`,
            "correct HOLDFAST_STORE or HOLDFAST_CELL, or restore a backup (holdfast import)",
          ),
    );
    const volatile = found.faults.map(({ field, description }) => {
      const [what = description, cure = ""] = description.split(/: (.*)/s);
      return fault("store-volatile", `${connection.shown} ${field}`, what, cure);
    });
    const faults = [...identity, ...volatile];
    const well = `keeps what it acknowledges, and is the right one: ${replicationText(found.info)}`;
    return [
      ...faults,
      ...examineReplicas(connection.shown, found.info),
      ...(faults.length > 0 ? [] : [fine("store", connection.shown, well)]),
    ];
  } catch (error) {
    if (isForbidden(error))
      return [
        fault(
          "store-acl",
          connection.shown,
          `its user may not do what a controller does: ${(error as Error).message}`,
          aclCommand("<user>", controllerRules(cell)),
        ),
      ];
    if (error instanceof CallFailure) return [unanswered(connection, error)];
    throw error;
  } finally {
    connection.close();
  }
};
