/**
 * Where the master is, by the word of its sentinels.
 *
 * A majority of them has to answer: what a minority says may be the world before a failover that it did not see. Of what they say
 * the newest counts; each failover has a higher epoch than the one before.
 */
import { Redis } from "ioredis";
import type { RedisAccess } from "./redis-access.ts";
import { type Place, type SentinelAddress, showPlace } from "./redis-address.ts";
import { clientBasics, troubleOf } from "./redis-client.ts";

export interface AskSentinelsOptions {
  readonly address: SentinelAddress;
  readonly access: RedisAccess;
  /** For each of them; they are asked all at once. */
  readonly timeoutMs: number;
}

interface Word {
  readonly place: Place;
  readonly epoch: number;
  /** It holds the master to be dead, and looks for another one. */
  readonly down: boolean;
}

const wordOf = (reply: unknown): Word => {
  const fields = reply as readonly string[];
  const field = (name: string): string => fields[fields.indexOf(name) + 1] ?? "";
  const place = { host: field("ip"), port: Number(field("port")) };
  return { place, epoch: Number(field("config-epoch")), down: field("flags").split(",").includes("o_down") };
};

const askOne = async (sentinel: Place, { address, access, timeoutMs }: AskSentinelsOptions): Promise<Word> => {
  const { tls, master } = address;
  const redis = new Redis({
    ...clientBasics({ tls, access, locate: async () => sentinel }, timeoutMs),
    ...access.sentinelLogin,
    enableReadyCheck: false,
    retryStrategy: () => null,
  });
  let trouble: Error | undefined;
  redis.on("error", (error: Error) => {
    trouble ??= error;
  });
  try {
    await redis.connect();
    return wordOf(await redis.call("SENTINEL", "MASTER", master));
  } catch (error) {
    const cause = trouble ?? (error as Error);
    throw new Error(`${showPlace(sentinel)}: ${troubleOf(address, cause)}`, { cause });
  } finally {
    redis.disconnect();
  }
};

/** As soon as so many of them have answered; the others are not waited for. */
const firstOf = <T>(asked: readonly Promise<T>[], enough: number): Promise<readonly T[]> =>
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

export const askSentinels = async (options: AskSentinelsOptions): Promise<Place> => {
  const { places, master } = options.address;
  const majority = Math.floor(places.length / 2) + 1;
  const asked = places.map((place) => askOne(place, options));
  const words = await firstOf(asked, majority).catch((error: Error) => {
    const need = `of ${places.length} sentinels ${majority} have to say where ${master} is`;
    throw new Error(`${need}, and do not (${error.message}): start them, or correct HOLDFAST_STORE`, { cause: error });
  });
  const newest = words.reduce((best, word) => (word.epoch > best.epoch ? word : best));
  if (newest.down)
    throw new Error(`the sentinels hold ${master} at ${showPlace(newest.place)} to be down: wait for their failover`);
  return newest.place;
};
