/**
 * The store of any number of controllers.
 *
 * R1 A commit is one function call, one round trip. R2 A lost answer is settled here: the same opId again, a bounded number of
 * times; what stays unknown is told as unknown. R3 Only the vetted process is granted from, and only while it keeps what it
 * acknowledges. R4 Whatever hints at lost writes is told to the listeners; it costs them a look, never the truth.
 * R5 Nothing is written to a store whose format was raised beyond what is read here.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { createEmitter } from "@holdfast/shared/async/emitter";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import type { StoreFormats } from "../../domain/store-format.ts";
import type { AggregateRef, Commit, CommitResult, DueEntry, ListPage, StoredRecord } from "../../domain/store-types.ts";
import type { Store } from "../../ports.ts";
import { checkCommit } from "../check-commit.ts";
import { eventToken, seqOfToken } from "../event-token.ts";
import type { ImportMark } from "../import-mark.ts";
import {
  metaDamaged,
  recordDamaged,
  storeForeign,
  storeNewer,
  storeOutcomeUnknown,
  storeUnavailable,
  storeUnvetted,
} from "../store-errors.ts";
import { CallFailure } from "./call-failure.ts";
import { decodeCommit, encodeCommit } from "./commit-call.ts";
import { startEventTail } from "./event-tail.ts";
import { libraryFunctions } from "./library.ts";
import type { RedisConnection } from "./redis-connection.ts";
import { createRedisImportMark } from "./redis-import-mark.ts";
import { createRedisKeys, refOfMember } from "./redis-keys.ts";
import { readIdentity } from "./store-identity.ts";
import { watchEvents } from "./watch-events.ts";

export interface RedisStoreOptions {
  readonly connection: RedisConnection;
  readonly tailConnection: RedisConnection;
  readonly cell: string;
  readonly clusterUid: string;
  /** As found when the store was opened. */
  readonly runId: string;
  readonly gen: number;
  /** Of the records, as found then. */
  readonly format: number;
  /** What is read here. */
  readonly formats: StoreFormats;
  readonly maxEvents: number;
  /** How long a lost answer is looked for. */
  readonly settleMs: number;
  readonly blockMs: number;
  readonly restMs: number;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface RedisStore extends Store {
  /** Whether the server keeps what it acknowledges; undefined = it does. While it does not, nothing is granted. */
  setUnfit(finding: string | undefined): void;
  suspect(reason: string): void;
  /** What a look at the store found. */
  noteFormat(format: number): void;
  readonly closed: AbortSignal;
  readonly importMark: ImportMark;
}

const maxAttempts = 5;

export const createRedisStore = (options: RedisStoreOptions): RedisStore => {
  const { connection, tailConnection, clusterUid, maxEvents, settleMs, clock, log } = options;
  const keys = createRedisKeys(options.cell);
  const { shown } = connection;
  const listeners = createEmitter<[reason: string]>();
  const closing = new AbortController();
  let unfit: string | undefined;
  let highestGen = options.gen;
  let lastRun = options.runId;
  let { format } = options;
  let tail: ReturnType<typeof startEventTail> | undefined;

  const suspect = (reason: string): void => {
    log.warn("the store may have lost writes", { reason });
    listeners.tell(reason); // R4
  };
  connection.onConnected(({ runId }) => {
    const before = lastRun;
    lastRun = runId;
    if (before === runId) suspect(`the connection to ${shown} was lost and made again; the process is the same`);
    else suspect(`${shown} is another process now: ${runId} in place of ${before}`);
  });

  connection.onDemoted((reason) => suspect(`${shown} is no master any more: ${reason}`));

  const noteFormat = (found: number): void => {
    format = Math.max(format, found);
  };

  /** Whatever has no effect, or the same effect twice: its outcome need not be settled. */
  const ask = async (what: string, command: string, ...args: readonly (string | number)[]): Promise<unknown> => {
    try {
      return await connection.call(command, ...args);
    } catch (error) {
      if (!(error instanceof CallFailure)) throw error;
      throw storeUnavailable(shown, what, error);
    }
  };

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

  /** What the function answered, turned into a result or the error that it is. */
  const settled = (commit: Commit, runId: string, reply: unknown): CommitResult => {
    const answer = decodeCommit(commit, runId, reply);
    switch (answer.kind) {
      case "result":
        return answer.result;
      case "unvetted": {
        const lost =
          answer.vettedRunId === answer.runId ? `generation ${answer.gen}, ${highestGen} was seen` : "not vetted";
        const finding = `process ${answer.runId}: ${lost}`;
        suspect(finding);
        throw storeUnvetted(shown, finding); // R3
      }
      case "damaged":
        throw recordDamaged(answer.ref, answer.damage);
      case "meta":
        throw metaDamaged(shown, answer.field, answer.found);
      case "newer": {
        const newer = storeNewer(shown, answer.format, options.formats);
        unfit = newer.message;
        suspect(newer.message);
        throw newer; // R5
      }
      case "foreign":
        suspect(`${shown} holds other data than that of ${clusterUid}`);
        throw storeForeign(shown, answer.clusterUid, clusterUid);
    }
  };

  const commit = async (wanted: Commit): Promise<CommitResult> => {
    checkCommit(wanted);
    if (wanted.requiresVetted && unfit !== undefined) throw storeUnvetted(shown, unfit); // R3
    const encode = encodeCommit(keys, wanted);
    const until = clock.monotonic() + settleMs;
    let lost: CallFailure | undefined;
    for (let attempt = 1; ; attempt++) {
      const answered = tail?.sent();
      try {
        const { runId, session } = await connection.connected();
        const args = encode({ clusterUid, runId, gen: highestGen, maxEvents, newest: options.formats.newest });
        const reply = await connection.call("FCALL", libraryFunctions.commit, ...args); // R1
        const result = settled(wanted, runId, reply);
        if (result.ok) noteFormat(wanted.raisesFormat ?? format);
        const seq = result.ok ? seqOfToken(runId, result.token) : undefined;
        if (seq !== undefined && connection.current()?.session === session) tail?.committed(runId, seq, wanted.events);
        return result.ok && lost !== undefined ? { ...result, repeated: true } : result;
      } catch (error) {
        if (!(error instanceof CallFailure)) throw error;
        if (error.certainty === "unknown") lost = error;
        else if (lost === undefined) throw storeUnavailable(shown, "commit", error);
        if (attempt >= maxAttempts || clock.monotonic() >= until || closing.signal.aborted)
          throw storeOutcomeUnknown(shown, wanted.opId, lost.message, lost); // R2
      } finally {
        answered?.();
      }
    }
  };

  return {
    kind: "redis",
    getMany,
    get: async (ref) => (await getMany([ref]))[0],
    async list({ index, value, after = "", limit }): Promise<ListPage> {
      const args = [keys.index(index, value), keys.prefix, after, limit];
      const reply = (await ask("list", "FCALL_RO", libraryFunctions.list, 1, ...args)) as (string | number)[];
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
      const names = entries.map(({ index, value }) => keys.index(index, value));
      return (await ask("count", "FCALL_RO", libraryFunctions.count, names.length, ...names)) as number[];
    },
    commit,
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
    async head() {
      const { runId } = await connection.connected().catch((error: CallFailure) => {
        throw storeUnavailable(shown, "head", error);
      });
      const [seq] = (await ask("head", "HMGET", keys.meta, "seq")) as [string | null];
      return eventToken(runId, Number(seq ?? 0));
    },
    watch(after, signal) {
      tail ??= startEventTail({
        connection: tailConnection,
        stream: keys.events,
        blockMs: options.blockMs,
        restMs: options.restMs,
        kept: Math.min(1024, maxEvents),
        clock,
        signal: closing.signal,
      });
      const ended = AbortSignal.any([signal, closing.signal]);
      return watchEvents({ connection, tail, stream: keys.events, after, signal: ended });
    },
    async identity() {
      const found = await readIdentity(shown, ask, keys);
      highestGen = Math.max(highestGen, found.gen);
      noteFormat(found.format);
      return {
        clusterUid: found.clusterUid,
        format: found.format,
        gen: found.gen,
        runId: found.runId,
        // What does not keep its word is not vetted, whatever it was before. R3
        vettedRunId: unfit === undefined ? found.vettedRunId : "",
      };
    },
    format: () => format,
    async markVetted(runId, gen) {
      if (unfit !== undefined) throw storeUnvetted(shown, unfit); // R3
      const args = [libraryFunctions.vet, 1, keys.meta, clusterUid, runId, gen];
      const [word, found, value] = (await ask("vet", "FCALL", ...args)) as string[];
      if (word === "foreign") throw storeForeign(shown, found ?? "", clusterUid);
      if (word === "meta") throw metaDamaged(shown, found ?? "", value ?? "");
      if (word === "other") throw storeUnvetted(shown, `vetted was process ${runId}, but it is ${found} by now`);
      if (word === "older")
        throw new HoldfastError({
          kind: "precondition",
          reason: "STORE_UNVETTED",
          message: `the store ${shown} has generation ${found}, it cannot be vetted for the older ${gen}: vet again`,
          metadata: { store: shown, gen: found ?? "" },
        });
      highestGen = Math.max(highestGen, gen);
    },
    onSuspect: listeners.on,
    async close() {
      closing.abort(new DOMException("the store is closed", "AbortError"));
      connection.close();
      tailConnection.close();
    },
    setUnfit(finding) {
      unfit = finding;
    },
    suspect,
    noteFormat,
    closed: closing.signal,
    importMark: createRedisImportMark(keys, (...command) => ask("import", ...command)),
  };
};
