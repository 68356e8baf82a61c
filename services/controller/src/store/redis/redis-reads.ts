/** What is read of records, indices and queues. */
import type { AggregateRef, DueEntry, ListPage, StoredRecord } from "../../domain/store-types.ts";
import type { Store } from "../../ports.ts";
import { libraryFunctions } from "./library.ts";
import { type RedisKeys, refOfMember } from "./redis-keys.ts";

type Ask = (what: string, command: string, ...args: readonly (string | number)[]) => Promise<unknown>;

type RedisReads = Pick<Store, "get" | "getMany" | "list" | "count" | "due" | "nextDue">;

export const createRedisReads = (keys: RedisKeys, ask: Ask): RedisReads => {
  const getMany = async (refs: readonly AggregateRef[]): Promise<readonly (StoredRecord | undefined)[]> => {
    if (refs.length === 0) return [];
    const names = refs.map((ref) => keys.record(ref));
    const reply = (await ask("read", "FCALL_RO", libraryFunctions.read, names.length, ...names)) as (
      | string
      | number
      | null
    )[];
    return refs.map((ref, i) => {
      const [rev, body] = [reply[i * 2], reply[i * 2 + 1]];
      if (typeof rev === "string") return { ref, rev: 0, body: "", damage: rev };
      return typeof rev === "number" && typeof body === "string" ? { ref, rev, body } : undefined;
    });
  };

  return {
    getMany,
    get: async (ref) => (await getMany([ref]))[0],
    async list({ index, value, after = "", limit }): Promise<ListPage> {
      const args = [keys.index(index, value), keys.absent, keys.prefix, after, limit];
      const reply = (await ask("list", "FCALL_RO", libraryFunctions.list, 2, ...args)) as (string | number)[];
      const records: StoredRecord[] = [];
      for (let at = 1; at + 2 < reply.length; at += 3) {
        const [ref, rev] = [refOfMember(String(reply[at])), reply[at + 1]];
        if (typeof rev === "number") records.push({ ref, rev, body: String(reply[at + 2]) });
        else records.push({ ref, rev: 0, body: "", damage: String(rev) });
      }
      const next = String(reply[0] ?? "");
      return next === "" ? { records } : { records, next };
    },
    async count(entries) {
      if (entries.length === 0) return [];
      const names = [...entries.map(({ index, value }) => keys.index(index, value)), keys.absent];
      const reply = (await ask("count", "FCALL_RO", libraryFunctions.count, names.length, ...names)) as number[];
      return reply.slice(0, entries.length);
    },
    async due(queue, now, limit): Promise<readonly DueEntry[]> {
      const range = [keys.queue(queue), "-inf", now, "BYSCORE", "LIMIT", 0, limit, "WITHSCORES"];
      const reply = (await ask("due", "ZRANGE", ...range)) as string[];
      return Array.from({ length: reply.length / 2 }, (_, i) => ({
        queue,
        ref: refOfMember(reply[i * 2] ?? ""),
        at: Number(reply[i * 2 + 1]),
      }));
    },
    async nextDue(queue) {
      const reply = (await ask("due", "ZRANGE", keys.queue(queue), 0, 0, "WITHSCORES")) as string[];
      return reply[1] === undefined ? undefined : Number(reply[1]);
    },
  };
};
