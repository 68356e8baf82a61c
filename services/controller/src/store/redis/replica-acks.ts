/**
 * Waits until a replica has what was committed on this connection: a failover loses less then, and leaves less behind at plugins. It proves
 * nothing, as that replica may be lost together with its master, and no rule rests on it.
 *
 * RA1 What is committed while one WAIT is on its way is covered by the next. RA2 Another session says nothing of what was written in
 * the one before. RA3 Where there is no replica, or the store's user may not WAIT, nothing is waited for; whether
 * it may is asked anew in each session.
 */
import type { Logger } from "@holdfast/shared/log/logger";
import { isForbidden } from "./call-failure.ts";
import { onlineReplicas, parseInfo } from "./parse-info.ts";
import type { RedisConnection } from "./redis-connection.ts";

export interface ReplicaAcks {
  /** How many replicas the server has, as somebody looked. */
  saw(replicas: number): void;
  /** What was written in that session before this call is at a replica. False: it may be at the master alone. */
  acknowledged(session: number): Promise<boolean>;
}

/** Commands of this connection wait as long. */
const patienceMs = 200;

export const createReplicaAcks = ({
  connection,
  log,
}: {
  readonly connection: Pick<RedisConnection, "call" | "current">;
  readonly log: Logger;
}): ReplicaAcks => {
  let replicas = 0;
  /** The session in which it was said. */
  let forbidden: number | undefined;
  let waiting: Promise<boolean> | undefined;
  let next: Promise<boolean> | undefined;

  const wait = async (): Promise<boolean> => {
    const session = connection.current()?.session;
    try {
      const acknowledged = Number(await connection.call("WAIT", 1, patienceMs));
      if (connection.current()?.session !== session) return false; // RA2
      if (acknowledged > 0) return true;
      replicas = onlineReplicas(parseInfo(String(await connection.call("INFO", "replication"))));
      return replicas === 0;
    } catch (error) {
      if (!isForbidden(error)) return false;
      forbidden = session;
      log.warn("the store's user may not WAIT: what replicas have not received is answered all the same", { error });
      return true;
    }
  };

  /** RA1 */
  const covered = (): Promise<boolean> => {
    if (waiting === undefined) {
      waiting = wait().finally(() => {
        waiting = undefined;
      });
      return waiting;
    }
    next ??= waiting.then(() => {
      next = undefined;
      return covered();
    });
    return next;
  };

  return {
    saw(found) {
      replicas = found;
    },
    async acknowledged(session) {
      if (replicas === 0 || (forbidden !== undefined && forbidden === connection.current()?.session)) return true; // RA3
      return (await covered()) && connection.current()?.session === session; // RA2
    },
  };
};
