/** Questions to those who know where the master is: sentinels, or nodes of a cluster. */
import { Redis } from "ioredis";
import type { Login, RedisAccess } from "./redis-access.ts";
import { type Place, showPlace } from "./redis-address.ts";
import { clientBasics, troubleOf } from "./redis-client.ts";

export interface AskPlaceOptions {
  readonly place: Place;
  readonly tls: boolean;
  readonly login: Partial<Login>;
  readonly access: RedisAccess;
  readonly timeoutMs: number;
}

/** On a connection of its own: they are asked seldom, and each time some of them may be others. */
export const askPlace = async (
  options: AskPlaceOptions,
  ...question: readonly [string, ...string[]]
): Promise<unknown> => {
  const { place, tls, login, access, timeoutMs } = options;
  const redis = new Redis({
    ...clientBasics({ tls, access, locate: async () => place }, timeoutMs),
    ...login,
    enableReadyCheck: false,
    retryStrategy: () => null,
  });
  let trouble: Error | undefined;
  redis.on("error", (error: Error) => {
    trouble ??= error;
  });
  const [command, ...args] = question;
  try {
    await redis.connect();
    return await redis.call(command, ...args);
  } catch (error) {
    const cause = trouble ?? (error as Error);
    throw new Error(`${showPlace(place)}: ${troubleOf({ tls }, cause)}`, { cause });
  } finally {
    redis.disconnect();
  }
};

/** As soon as so many of them have answered; the others are not waited for. */
export const firstOf = <T>(asked: readonly Promise<T>[], enough: number): Promise<readonly T[]> =>
  new Promise((resolve, reject) => {
    const answers: T[] = [];
    const failures: string[] = [];
    for (const one of asked)
      one.then(
        (answer) => {
          answers.push(answer);
          if (answers.length === enough) resolve([...answers]);
        },
        (error: Error) => {
          failures.push(error.message);
          if (failures.length === asked.length - enough + 1) reject(new Error(failures.join("; ")));
        },
      );
  });

export const majorityOf = (asked: readonly unknown[]): number => Math.floor(asked.length / 2) + 1;

interface Dated {
  readonly epoch: number;
}

/** Each failover has a higher epoch than the one before. */
export const newestOf = <T extends Dated>(words: readonly T[]): T | undefined =>
  words.reduce<T | undefined>(
    (best, word) => (best !== undefined && best.epoch >= word.epoch ? best : word),
    undefined,
  );
