/**
 * The shared store. Redis is the proposer's memory, never the proof.
 *
 * S1 A commit is one function call: every write or none. S2 A repeated opId answers with the first result.
 * S3 A revision of a key never comes twice within a day of its removal. S5 No command is sent again but by the same opId.
 */
import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import { type Redis, ReplyError } from "ioredis";
import type {
  AggregateKind,
  Commit,
  CommitResult,
  DueEntry,
  StoredRecord,
  StoreIdentity,
} from "../../domain/store-types.ts";
import type { Store } from "../../ports.ts";
import { checkCommit } from "../check-commit.ts";
import { commitArguments, commitResult } from "./commit-arguments.ts";
import { connectRedis, redisPlace, unavailable, whenReady } from "./redis-connection.ts";
import { redisKeys } from "./redis-keys.ts";
import { watchEvents } from "./watch-events.ts";

export interface RedisStoreOptions {
  readonly url: string;
  readonly cell: string;
  readonly log: Logger;
  readonly random: () => number;
  readonly monotonic: () => number;
  readonly commandTimeoutMs?: number;
  /** How long a commit whose answer was lost is settled before it is left as unknown. */
  readonly settleMs?: number;
  readonly maxEvents?: number;
}

/** A record's fields as HMGET answers them: rev, json, exp. */
type Fields = readonly [string | null, string | null, string | null];

export const createRedisStore = async (options: RedisStoreOptions): Promise<Store> => {
  const { log, commandTimeoutMs = 2_000, settleMs = 6_000, maxEvents = 100_000 } = options;
  const place = redisPlace(options.url);
  const keys = redisKeys(options.cell);
  const redis = connectRedis({ url: options.url, log, commandTimeoutMs, random: options.random });
  const suspects = new Set<(reason: string) => void>();
  const stopping = new AbortController();
  let runId = "";

  const suspect = (reason: string): void => {
    for (const tell of [...suspects]) tell(reason);
  };

  /** Turns what ioredis throws into what the port promises. */
  const ask = async <T>(what: string, command: () => Promise<T>): Promise<T> => {
    try {
      if (redis.status !== "ready") await whenReady(redis, commandTimeoutMs, place);
      return await command();
    } catch (error) {
      if (isHoldfastError(error)) throw error;
      if (error instanceof ReplyError)
        throw new HoldfastError({
          kind: "unavailable",
          reason: "STORE_UNAVAILABLE",
          message: `the store at ${place} refused ${what}: ${(error as Error).message}; see \`holdfast doctor\``,
          metadata: { store: place },
          cause: error,
        });
      throw unavailable(place, what, error);
    }
  };

  const identity = async (): Promise<StoreIdentity> => {
    const [id = "", clusterUid = "", schema = "0", gen = "0", vettedRunId = ""] = (await ask("hf_identity", () =>
      redis.fcall("hf_identity", 1, keys.meta),
    )) as readonly string[];
    return { runId: id, clusterUid, schema: Number(schema), gen: Number(gen), vettedRunId };
  };

  const recordOf = (kind: AggregateKind, key: string, [rev, json, exp]: Fields): StoredRecord | undefined =>
    rev === null || json === null || (exp !== null && Number(exp) <= Date.now())
      ? undefined
      : { ref: { kind, key }, rev: Number(rev), body: json };

  const send = async (commit: Commit): Promise<CommitResult> => {
    const args = commitArguments(keys.prefix, commit, runId, maxEvents);
    return commitResult(await redis.fcall("hf_commit", 1, keys.meta, ...args), place);
  };

  /** Until the answer is known: the same opId again is answered with the first result (S2, S5). */
  const settle = async (commit: Commit): Promise<CommitResult> => {
    const end = options.monotonic() + settleMs;
    let sent = false;
    for (;;) {
      try {
        await whenReady(redis, Math.max(1, Math.min(commandTimeoutMs, end - options.monotonic())), place);
        sent = true;
        return await send(commit);
      } catch (error) {
        if (isHoldfastError(error) && error.reason !== "STORE_UNAVAILABLE") throw error;
        // Redis answered: it is not a matter of a lost answer. MISCONF, OOM, READONLY and NOPERM wrote nothing.
        if (error instanceof ReplyError)
          throw unavailable(place, `it refused the commit: ${(error as Error).message}`, error);
        if (options.monotonic() < end && !stopping.signal.aborted) continue;
        if (!sent) throw unavailable(place, "commit", error);
        throw new HoldfastError({
          kind: "unavailable",
          reason: "STORE_OUTCOME_UNKNOWN",
          message: `the store at ${place} did not answer a commit; it may or may not be written: read again before deciding`,
          metadata: { store: place },
          cause: error,
        });
      }
    }
  };

  redis.on("ready", () => {
    void identity().then(
      (found) => {
        if (runId !== "" && found.runId !== runId) {
          runId = found.runId;
          suspect(`the Redis process at ${place} is another one (run_id ${found.runId})`);
        } else runId = found.runId;
      },
      (error: unknown) => log.warn("the store's identity could not be read", { error }),
    );
  });
  redis.on("close", () => suspect(`the connection to ${place} was lost`));
  await whenReady(redis, Math.max(10_000, commandTimeoutMs), place);
  runId = (await identity()).runId;

  return {
    kind: "redis",
    get: async (ref) =>
      recordOf(
        ref.kind,
        ref.key,
        (await ask("a read", () => redis.hmget(keys.record(ref), "rev", "json", "exp"))) as unknown as Fields,
      ),
    getMany: async (refs) => {
      if (refs.length === 0) return [];
      const answers = await ask("a read", async () => {
        const pipeline = redis.pipeline();
        for (const ref of refs) pipeline.hmget(keys.record(ref), "rev", "json", "exp");
        return pipeline.exec();
      });
      return refs.map((ref, i) => {
        const [error, fields] = answers?.[i] ?? [new Error("no answer")];
        if (error !== null) throw unavailable(place, "a read", error);
        return recordOf(ref.kind, ref.key, fields as Fields);
      });
    },
    list: async (query) => {
      const [last = "", ...flat] = (await ask("a listing", () =>
        redis.fcall("hf_list", 1, keys.index(query.index, query.value), keys.prefix, query.after ?? "", query.limit),
      )) as readonly string[];
      const records: StoredRecord[] = [];
      for (let i = 0; i + 3 < flat.length; i += 4)
        records.push({
          ref: { kind: flat[i] as AggregateKind, key: flat[i + 1] ?? "" },
          rev: Number(flat[i + 2]),
          body: flat[i + 3] ?? "",
        });
      return { records, ...(last === "" ? {} : { next: last }) };
    },
    commit: (commit) => {
      checkCommit(commit);
      return settle(commit);
    },
    due: async (queue, until, limit): Promise<readonly DueEntry[]> => {
      const flat = (await ask("the due queue", () =>
        redis.call("ZRANGE", keys.due(queue), "-inf", until, "BYSCORE", "LIMIT", 0, limit, "WITHSCORES"),
      )) as readonly string[];
      const entries: DueEntry[] = [];
      for (let i = 0; i + 1 < flat.length; i += 2) {
        const [kind = "", key = ""] = (flat[i] ?? "").split("\0");
        entries.push({ queue, ref: { kind: kind as AggregateKind, key }, at: Number(flat[i + 1]) });
      }
      return entries;
    },
    nextDue: async (queue) => {
      const [, at] = (await ask("the due queue", () =>
        redis.call("ZRANGE", keys.due(queue), 0, 0, "WITHSCORES"),
      )) as readonly string[];
      return at === undefined ? undefined : Number(at);
    },
    head: async () => {
      const last = await ask("the event stream", () => redis.xrevrange(keys.events, "+", "-", "COUNT", 1));
      return last[0]?.[0] ?? "0-0";
    },
    watch: (after, signal) =>
      watchEvents({
        connect: (): Redis =>
          connectRedis({ url: options.url, log, commandTimeoutMs, random: options.random, blocking: true }),
        key: keys.events,
        after,
        signal: AbortSignal.any([signal, stopping.signal]),
        place,
        commandTimeoutMs,
      }),
    identity,
    markVetted: async (vetted, gen) => {
      const done = await ask("hf_vet", () => redis.fcall("hf_vet", 1, keys.meta, vetted, gen));
      if (done !== 1) throw unavailable(place, "it restarted while it was vetted");
    },
    onSuspect: (listener) => {
      suspects.add(listener);
      return () => suspects.delete(listener);
    },
    close: async () => {
      stopping.abort(new DOMException("the store is closed", "AbortError"));
      redis.disconnect();
    },
  };
};
