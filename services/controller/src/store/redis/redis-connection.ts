/**
 * One connection to Redis, and the only way to it; redis-client.ts and redis-locator.ts are what ioredis needs for that.
 *
 * C1 No command is sent twice by the client: a command whose reply is lost fails, and whoever sent it decides.
 * C2 Nothing is sent on a connection before it is known which process is at its other end.
 * C3 A connection on which a command timed out is given up: its later replies help nobody, and a half-open one would swallow
 *    the next commands too.
 * C4 Nothing is sent to a replica: what is the master is asked of each server first, and a connection whose server is found to be one
 *    no longer is given up at once. One that was replaced and cannot know it is left when those who chose another one are asked again.
 * C5 Nothing is sent to a node of a cluster that does not serve the whole slot of the store, by its own word; no redirection is followed on
 *    the way, as it would lead to a process that nobody has looked at.
 */
import { backoffDelay } from "@holdfast/model/backoff";
import type { Clock } from "@holdfast/shared/async/clock";
import { createEmitter } from "@holdfast/shared/async/emitter";
import { createNotifier } from "@holdfast/shared/async/notifier";
import { linkSignals } from "@holdfast/shared/async/signals";
import type { Logger } from "@holdfast/shared/log/logger";
import { Redis } from "ioredis";
import { CallFailure, callFailureOf } from "./call-failure.ts";
import { greetServer } from "./greet-server.ts";
import { hashSlot } from "./hash-slot.ts";
import { createRefusalListener } from "./hear-refusal.ts";
import type { RedisAccess } from "./redis-access.ts";
import { type RedisAddress, showPlace } from "./redis-address.ts";
import { clientBasics, troubleOf } from "./redis-client.ts";
import type { RedisKeys } from "./redis-keys.ts";
import { createRedisLocator, type RedisLocator } from "./redis-locator.ts";

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
  /** The server at the other end is no master any more, as it or somebody else said. */
  onDemoted(listener: (reason: string) => void): () => void;
  /** Gives the connection up and makes another one, as its server is no master any more. */
  demoted(reason: string): void;
  /** In words, when another server is the master by now and this one goes on answering: cut off from those who chose, it cannot know. */
  replaced(): Promise<string | undefined>;
  /** Why there is no connection now. */
  trouble(): string | undefined;
  close(): void;
}

export interface RedisConnectionOptions {
  readonly address: RedisAddress;
  readonly access: RedisAccess;
  /** Whose slot a cluster is asked for. */
  readonly keys: RedisKeys;
  /** Shown by CLIENT LIST. */
  readonly name: string;
  readonly commandTimeoutMs: number;
  readonly log: Logger;
  readonly clock: Clock;
  readonly random: () => number;
}

/**
 * Soon after a connection that worked, as commits wait for the next one; then ever later. Never at once and never all together:
 * `attempt` counts from 1 since the last connection that led to a master.
 */
const reconnectDelay = (attempt: number, random: () => number): number =>
  attempt === 1 ? 5 + Math.floor(20 * random()) : 20 + backoffDelay(attempt, { baseMs: 25, capMs: 2000 }, random());

/** What Redis answers when its server has become a replica, or no longer serves the slot. */
const demotions = /^(?:READONLY|UNBLOCKED|MOVED|ASK|TRYAGAIN|CLUSTERDOWN)\b/;

interface ClientHooks {
  readonly locator: RedisLocator;
  readonly nextDelay: () => number;
  readonly demoted: (reason: string) => void;
}

const clientOptions = (options: RedisConnectionOptions, { locator, nextDelay, demoted }: ClientHooks) => {
  const { address, access, name, commandTimeoutMs } = options;
  return {
    ...clientBasics({ tls: address.tls, access, locate: locator.locate }, commandTimeoutMs),
    db: address.db,
    ...(address.username === undefined ? {} : { username: address.username }),
    ...(address.password === undefined ? {} : { password: address.password }),
    connectionName: name,
    autoResendUnfulfilledCommands: false, // C1
    enableReadyCheck: true,
    maxLoadingRetryTime: 500,
    disconnectTimeout: 100,
    retryStrategy: nextDelay,
    // Also of a read that waited meanwhile. 2 would send the command again.
    reconnectOnError: (error: Error): 1 | false => {
      if (!demotions.test(error.message)) return false;
      demoted(error.message); // C4 C5
      return 1; // C1
    },
  };
};

export const createRedisConnection = (options: RedisConnectionOptions): RedisConnection => {
  const { address, keys, commandTimeoutMs, clock } = options;
  const log = options.log.child({ store: address.shown, connection: options.name });
  const changed = createNotifier();
  const listeners = createEmitter<[connected: Connected]>();
  const closing = new AbortController();
  let current: Connected | undefined;
  let sessions = 0;
  let trouble: string | undefined = "not connected yet";
  let attempts = 0;
  const demotion = createEmitter<[reason: string]>();
  const asking = {
    address,
    access: options.access,
    slot: hashSlot(keys.absent),
    timeoutMs: commandTimeoutMs,
  };
  const locator = createRedisLocator(asking);
  /** Asks beside the connection, whose own place is what the locator above found last. */
  const lookout = createRedisLocator(asking);
  let leads: { readonly to: string; readonly since: number } | undefined;
  const nextDelay = (): number => {
    attempts += 1;
    return reconnectDelay(attempts, options.random);
  };
  /** C4 */
  const demoted = (reason: string): void => {
    if (current === undefined) return;
    trouble = reason;
    lose(reason);
    redis.disconnect(true);
    demotion.tell(reason);
  };

  const redis = new Redis(clientOptions(options, { locator, nextDelay, demoted: (reason) => demoted(reason) }));
  const refusals = createRefusalListener((refusal) => {
    if (current === undefined) trouble = refusal;
  });
  redis.on("error", (error: Error) => {
    // Behind TLS a refusal comes through it or not at all.
    const refusal = current === undefined && !address.tls ? refusals.behind(error, locator.last()) : undefined;
    trouble = refusal ?? troubleOf(address, error);
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
    const place = locator.last();
    const at = place === undefined ? address.shown : showPlace(place);
    const runId = await greetServer(redis, { kind: address.kind, at, absentKey: keys.absent });
    if (session !== sessions || redis.status !== "ready") return;
    current = { runId, session }; // C2
    leads = place && { to: showPlace(place), since: clock.monotonic() };
    trouble = undefined;
    attempts = 0;
    log.info("connected to the store", { at, run_id: runId });
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
    onDemoted: demotion.on,
    demoted,
    async replaced() {
      const session = current?.session;
      // Right after a failover not all of those who are asked know it: what led here is believed for a while.
      if (session === undefined || leads === undefined || clock.monotonic() - leads.since < commandTimeoutMs)
        return undefined;
      const place = await lookout.locate().catch(() => undefined);
      if (place === undefined || current?.session !== session || showPlace(place) === leads.to) return undefined;
      return `${leads.to} was replaced by ${showPlace(place)}`;
    },
    trouble: () => trouble,
    close() {
      if (closing.signal.aborted) return;
      closing.abort(new DOMException("the store is closed", "AbortError"));
      redis.disconnect();
    },
  };
};
