/**
 * Where the master is, by the word of its sentinels.
 *
 * A majority of them has to answer: what a minority says may be the world before a failover that it did not see. Of what they say
 * the newest counts; each failover has a higher epoch than the one before.
 */
import { askPlace, firstOf, majorityOf, newestOf } from "./ask-place.ts";
import type { RedisAccess } from "./redis-access.ts";
import { type Place, type SentinelAddress, showPlace } from "./redis-address.ts";

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

export const askSentinels = async ({ address, access, timeoutMs }: AskSentinelsOptions): Promise<Place> => {
  const { places, master, tls } = address;
  const login = access.sentinelLogin ?? {};
  const majority = majorityOf(places);
  const asked = places.map(async (place) =>
    wordOf(await askPlace({ place, tls, login, access, timeoutMs }, "SENTINEL", "MASTER", master)),
  );
  const words = await firstOf(asked, majority).catch((error: Error) => {
    const need = `of ${places.length} sentinels ${majority} have to say where ${master} is`;
    throw new Error(`${need}, and do not (${error.message}): start them, or correct HOLDFAST_STORE`, { cause: error });
  });
  const newest = newestOf(words);
  if (newest === undefined) throw new Error("no sentinel is named");
  if (newest.down)
    throw new Error(`the sentinels hold ${master} at ${showPlace(newest.place)} to be down: wait for their failover`);
  return newest.place;
};
