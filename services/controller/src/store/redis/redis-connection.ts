import { backoffDelay } from "@holdfast/shared/async/backoff";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import { Redis } from "ioredis";

export interface RedisConnectionOptions {
  readonly url: string;
  readonly log: Logger;
  readonly commandTimeoutMs: number;
  readonly random: () => number;
  /** For XREAD BLOCK: such a command may take long. */
  readonly blocking?: boolean;
}

/** Where it is, without the user and password that the URL may carry. */
export const redisPlace = (url: string): string => {
  try {
    const { protocol, host, pathname } = new URL(url);
    return `${protocol}//${host}${pathname}`;
  } catch {
    return "redis";
  }
};

/**
 * One connection by the rules that keep a lost answer from becoming a second effect: nothing is queued while offline, nothing is sent
 * again by the library, every command has an end.
 */
export const connectRedis = (options: RedisConnectionOptions): Redis => {
  const redis = new Redis(options.url, {
    // With the default an INCR whose answer was lost ran twice.
    autoResendUnfulfilledCommands: false,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    enableReadyCheck: true,
    // Flat answers, the same from every version that is supported.
    protocol: 2,
    connectTimeout: options.commandTimeoutMs,
    ...(options.blocking === true ? {} : { commandTimeout: options.commandTimeoutMs }),
    // The first try is at once: one lost connection is common, and every commit waits for it.
    retryStrategy: (times) =>
      times === 1 ? 5 : 20 + backoffDelay(times, { baseMs: 50, capMs: 1_000 }, options.random),
    // 1 = reconnect (the master may be elsewhere by now); never 2, which would send the command again.
    reconnectOnError: (error) => (error.message.startsWith("READONLY") ? 1 : false),
    lazyConnect: true,
  });
  redis.on("error", (error: Error) => options.log.debug("redis connection", { error: error.message }));
  return redis;
};

/** Resolves when commands can be sent; rejects when that takes too long. */
export const whenReady = async (redis: Redis, timeoutMs: number, place: string): Promise<void> => {
  if (redis.status === "ready") return;
  if (redis.status === "wait") void redis.connect().catch(() => undefined);
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => {
      redis.off("ready", ready);
      reject(unavailable(place, `not reachable within ${timeoutMs} ms`));
    }, timeoutMs);
    const ready = (): void => {
      clearTimeout(timer);
      resolve();
    };
    redis.once("ready", ready);
  });
};

export const unavailable = (place: string, why: string, cause?: unknown): HoldfastError =>
  new HoldfastError({
    kind: "unavailable",
    reason: "STORE_UNAVAILABLE",
    message: `the store at ${place} does not answer (${why}); mounts are not touched, ask again`,
    metadata: { store: place },
    cause,
  });
