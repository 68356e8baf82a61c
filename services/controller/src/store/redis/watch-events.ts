import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Redis } from "ioredis";
import type { AggregateKind, StoredEvent } from "../../domain/store-types.ts";
import { unavailable, whenReady } from "./redis-connection.ts";

export interface WatchOptions {
  /** A connection of its own: XREAD BLOCK holds it. */
  readonly connect: () => Redis;
  readonly key: string;
  readonly after: string;
  readonly signal: AbortSignal;
  readonly place: string;
  readonly commandTimeoutMs: number;
}

type Entry = readonly [string, readonly string[]];

const blockMs = 2_000;

const eventOf = ([token, flat]: Entry): StoredEvent => {
  const fields = new Map<string, string>();
  for (let i = 0; i + 1 < flat.length; i += 2) fields.set(flat[i] ?? "", flat[i + 1] ?? "");
  return {
    token,
    type: fields.get("t") ?? "",
    ref: { kind: (fields.get("k") ?? "") as AggregateKind, key: fields.get("i") ?? "" },
    body: fields.get("b") ?? "",
  };
};

const parts = (id: string): readonly [number, number] => {
  const [ms, seq] = id.split("-");
  return [Number(ms), Number(seq ?? 0)];
};

const before = (a: string, b: string): boolean => {
  const [am, as] = parts(a);
  const [bm, bs] = parts(b);
  return am < bm || (am === bm && as < bs);
};

/** The oldest event from which a watcher may go on without a gap, and the newest of all. */
const bounds = async (redis: Redis, key: string): Promise<{ readonly oldest: string; readonly last: string }> => {
  try {
    const flat = (await redis.xinfo("STREAM", key)) as readonly unknown[];
    const field = (name: string): unknown => flat[flat.indexOf(name) + 1];
    // Which event was the last to be pruned is not kept, so a watcher has to have seen one that is still there.
    const pruned = Number(field("entries-added")) > Number(field("length"));
    return {
      oldest: pruned ? String(field("recorded-first-entry-id")) : "0-0",
      last: String(field("last-generated-id")),
    };
  } catch (error) {
    if (error instanceof Error && error.message.includes("no such key")) return { oldest: "0-0", last: "0-0" };
    throw error;
  }
};

/** Events after a token, in order, without a gap: a gap rejects. */
export async function* watchEvents(options: WatchOptions): AsyncIterable<StoredEvent> {
  const { key, signal, place } = options;
  const redis = options.connect();
  const end = (): void => redis.disconnect();
  signal.addEventListener("abort", end, { once: true });
  let after = options.after;
  try {
    signal.throwIfAborted();
    await whenReady(redis, options.commandTimeoutMs, place);
    for (;;) {
      const { oldest, last } = await bounds(redis, key);
      // Behind what was pruned, or ahead of a stream that was lost: either way events are missing.
      if (before(after, oldest) || before(last, after))
        throw new HoldfastError({
          kind: "out_of_range",
          reason: "EVENTS_TRIMMED",
          message: `events after ${after} are no longer kept: list again and watch from the new token`,
          metadata: { token: after },
        });
      const answer = (await redis.xread("COUNT", 500, "BLOCK", blockMs, "STREAMS", key, after)) as
        | readonly (readonly [string, readonly Entry[]])[]
        | null;
      for (const entry of answer?.[0]?.[1] ?? []) {
        after = entry[0];
        yield eventOf(entry);
      }
      signal.throwIfAborted();
    }
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof HoldfastError) throw error;
    throw unavailable(place, "the event stream", error);
  } finally {
    signal.removeEventListener("abort", end);
    redis.disconnect();
  }
}
