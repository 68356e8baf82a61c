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
import { createRedisKeys, type RedisKeys } from "../store/redis/redis-keys.ts";
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
const forbiddenCommands = async (connection: RedisConnection, keys: RedisKeys): Promise<readonly string[]> => {
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

const aclFault = (shown: string, what: string, cell: string): Finding =>
  fault("store-acl", shown, what, aclCommand("<user>", controllerRules(cell)));

interface Trouble {
  /** In the words of the connection. */
  readonly sign: RegExp;
  readonly finding: (shown: string, why: string, cell: string) => Finding;
}

const masterPlaces =
  "the master, at its sentinels (redis+sentinel://…), or at nodes of its cluster (redis+cluster://…)";

/** The first that fits; the last fits all. */
const troubles: readonly Trouble[] = [
  { sign: /\+cluster\|nodes/, finding: aclFault },
  {
    sign: / is a replica of /,
    finding: (shown, why) => fault("store-replica", shown, why, `point HOLDFAST_STORE at ${masterPlaces}`),
  },
  {
    sign: /WRONGPASS|NOAUTH|invalid username-password/i,
    finding: (shown, why) => fault("store-login", shown, why, "correct the user and password in HOLDFAST_STORE"),
  },
  {
    sign: /CLUSTERDOWN|no node of a cluster|serves? (?:the )?slot |master of slot |a part of the store only/,
    finding: (shown, why) =>
      fault(
        "store-cluster",
        shown,
        why,
        "look at redis-cli --cluster check <host:port of one of its nodes>, and at docs/redis.md",
      ),
  },
  {
    sign: /^/,
    finding: (shown, why) =>
      fault(
        "store-unreachable",
        shown,
        `does not answer: ${why}`,
        "start Redis, or correct HOLDFAST_STORE; look at firewalls and at rediss:// where Redis wants TLS",
      ),
  },
];

const unanswered = ({ shown }: RedisConnection, error: unknown, cell: string): readonly Finding[] => {
  const why = error instanceof Error ? error.message : String(error);
  return troubles
    .filter(({ sign }) => sign.test(why))
    .slice(0, 1)
    .map(({ finding }) => finding(shown, why, cell));
};

const whatAndCure = (description: string): readonly [string, string] => {
  const [what = description, cure = ""] = description.split(/: (.*)/s);
  return [what, cure];
};

export const examineRedis = async (examination: RedisExamination): Promise<readonly Finding[]> => {
  const { url, access, cell, declaredDurable, clusterUid, log, clock, random } = examination;
  const keys = createRedisKeys(cell);
  const connection = createRedisConnection({
    address: parseRedisAddress(url),
    access,
    keys,
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
      return unanswered(connection, error, cell);
    }
    const forbidden = await forbiddenCommands(connection, keys);
    if (forbidden.length > 0) return [aclFault(connection.shown, `its user may not ${forbidden.join(", ")}`, cell)];
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
    const volatile = found.faults.map(({ field, description }) =>
      fault("store-volatile", `${connection.shown} ${field}`, ...whatAndCure(description)),
    );
    const refused =
      found.refusal === undefined
        ? []
        : [fault("store-takes-no-writes", connection.shown, ...whatAndCure(found.refusal.description))];
    const faults = [...identity, ...volatile, ...refused];
    const well = `keeps what it acknowledges, and is the right one: ${replicationText(found.info)}`;
    return [
      ...faults,
      ...examineReplicas(connection.shown, found.info),
      ...(faults.length > 0 ? [] : [fine("store", connection.shown, well)]),
    ];
  } catch (error) {
    if (isForbidden(error))
      return [
        aclFault(connection.shown, `its user may not do what a controller does: ${(error as Error).message}`, cell),
      ];
    if (error instanceof CallFailure) return unanswered(connection, error, cell);
    throw error;
  } finally {
    connection.close();
  }
};
