/**
 * One connection to Redis, the only file that knows ioredis.
 *
 * C1 No command is sent twice by the client: a command whose reply is lost fails, and whoever sent it decides.
 * C2 Nothing is sent on a connection before it is known which process is at its other end.
 * C3 A connection on which a command timed out is given up: its later replies help nobody, and a half-open one would swallow
 *    the next commands too.
 */
import { backoffDelay } from "@holdfast/model/backoff";
import type { Clock } from "@holdfast/shared/async/clock";
import { createEmitter } from "@holdfast/shared/async/emitter";
import { createNotifier } from "@holdfast/shared/async/notifier";
import { linkSignals } from "@holdfast/shared/async/signals";
import type { Logger } from "@holdfast/shared/log/logger";
import { Redis } from "ioredis";
import { CallFailure, callFailureOf } from "./call-failure.ts";
import type { RedisAccess } from "./redis-access.ts";
import type { RedisAddress } from "./redis-address.ts";
import { connectorOf } from "./redis-connector.ts";
import { meaningOfTls } from "./redis-tls.ts";

export interface Connected {
  /** Names the process, a new one after each start of Redis. */
  readonly runId: string;
  /** Counts the connections made so far. */
  readonly session: number;
}

export interface RedisConnection {
  readonly shown: string;
  /** What is at the other end; waits for it, `call`'s time at most. */
  connected(): Promise<Connected>;
  /** The same without waiting. */
  current(): Connected | undefined;
  /** Waits for a connection, sends once, and fails with a CallFailure that says what is known. */
  call(command: string, ...args: readonly (string | number)[]): Promise<unknown>;
  onConnected(listener: (connected: Connected) => void): () => void;
  /** Why there is no connection now. */
  trouble(): string | undefined;
  close(): void;
}

export interface RedisConnectionOptions {
  readonly address: RedisAddress;
  readonly access: RedisAccess;
  /** Shown by CLIENT LIST. */
  readonly name: string;
  readonly commandTimeoutMs: number;
  readonly log: Logger;
  readonly clock: Clock;
  readonly random: () => number;
}

/**
 * Soon after a connection that worked, as commits wait for the next one; then ever later. Never at once and never all together:
 * `attempt` counts from 1 since the last connection that was ready.
 */
const reconnectDelay = (attempt: number, random: () => number): number =>
  attempt === 1 ? 5 + Math.floor(20 * random()) : 20 + backoffDelay(attempt, { baseMs: 25, capMs: 2000 }, random());

const clientOptions = ({ address, access, name, commandTimeoutMs, random }: RedisConnectionOptions) => {
  const { host, port, tls } = address;
  return {
    Connector: connectorOf({ tls, access, locate: async () => ({ host, port }) }),
    db: address.db,
    ...(address.username === undefined ? {} : { username: address.username }),
    ...(address.password === undefined ? {} : { password: address.password }),
    // Tells ioredis which event of the socket to wait for; the connector knows the rest.
    ...(tls ? { tls: {} } : {}),
    connectionName: name,
    // The restricted user may say who it is and nothing more; RESP3 and CLIENT SETINFO are not needed.
    protocol: 2 as const,
    disableClientInfo: true,
    lazyConnect: true,
    autoResendUnfulfilledCommands: false, // C1
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    enableReadyCheck: true,
    maxLoadingRetryTime: 500,
    connectTimeout: commandTimeoutMs,
    commandTimeout: commandTimeoutMs,
    disconnectTimeout: 100,
    retryStrategy: (attempt: number) => reconnectDelay(attempt, random),
    // A replica that was a master: find the new one. 2 would send the command again.
    reconnectOnError: (error: Error): 1 | false => (error.message.startsWith("READONLY") ? 1 : false), // C1
  };
};

export const createRedisConnection = (options: RedisConnectionOptions): RedisConnection => {
  const { address, commandTimeoutMs, clock } = options;
  const log = options.log.child({ store: address.shown, connection: options.name });
  const changed = createNotifier();
  const listeners = createEmitter<[connected: Connected]>();
  const closing = new AbortController();
  let current: Connected | undefined;
  let sessions = 0;
  let trouble: string | undefined = "not connected yet";

  const redis = new Redis(clientOptions(options));
  redis.on("error", (error: Error) => {
    trouble = (address.tls ? meaningOfTls(error) : undefined) ?? error.message;
  });
  /** Whoever comes now waits for the next connection. */
  const lose = (reason: string): void => {
    if (current === undefined) return;
    current = undefined;
    trouble ??= reason;
    if (!closing.signal.aborted) log.warn("the connection to the store is lost", { reason: trouble });
  };
  redis.on("close", () => lose("connection closed"));
  const greet = async (): Promise<void> => {
    const session = ++sessions;
    const info = String(await redis.info("server"));
    const runId = /^run_id:(\w+)/m.exec(info)?.[1];
    if (runId === undefined) throw new Error("INFO server names no run_id");
    if (session !== sessions || redis.status !== "ready") return;
    current = { runId, session }; // C2
    trouble = undefined;
    log.info("connected to the store", { run_id: runId });
    listeners.tell(current);
    changed.notify();
  };
  redis.on("ready", () => {
    greet().catch((error: unknown) => {
      trouble = error instanceof Error ? error.message : String(error);
      if (!closing.signal.aborted && redis.status === "ready") redis.disconnect(true);
    });
  });
  redis.connect().catch(() => undefined); // told by the events

  const connected = async (): Promise<Connected> => {
    if (current !== undefined) return current;
    const limit = linkSignals(closing.signal);
    const cancel = clock.timer(commandTimeoutMs, () => limit.abort(new DOMException("no connection", "TimeoutError")));
    try {
      for (let seen = changed.version(); current === undefined; ) seen = await changed.wait(seen, limit.signal);
      return current;
    } catch (cause) {
      const reason = closing.signal.aborted ? "the store is closed" : `not connected: ${trouble ?? "unknown"}`;
      throw new CallFailure("not-sent", reason, { cause });
    } finally {
      cancel();
      limit.dispose();
    }
  };

  return {
    shown: address.shown,
    connected,
    current: () => current,
    async call(command, ...args) {
      for (;;) {
        const { session } = await connected();
        try {
          return await redis.call(command, ...args);
        } catch (error) {
          const failure = callFailureOf(error);
          const own = current?.session === session;
          if (failure.message === "Command timed out" && own) {
            lose(`no answer to ${command} within ${commandTimeoutMs} ms`);
            redis.disconnect(true); // C3
          }
          if (failure.certainty !== "not-sent") throw failure;
          // It ended before this was written to it: nothing was sent, the next connection may take it. C1
          if (own) lose("connection ended");
        }
      }
    },
    onConnected: listeners.on,
    trouble: () => trouble,
    close() {
      if (closing.signal.aborted) return;
      closing.abort(new DOMException("the store is closed", "AbortError"));
      redis.disconnect();
    },
  };
};
