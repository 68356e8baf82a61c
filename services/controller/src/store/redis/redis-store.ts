/**
 * The store of any number of controllers.
 *
 * R1 A commit is one function call, one round trip. R2 A lost answer is settled here: the same opId again, a bounded number of
 * times; what stays unknown is told as unknown. R3 Only the vetted process is granted from, and only while it keeps what it
 * acknowledges. R4 Whatever hints at lost writes is told to the listeners; it costs them a look, never the truth.
 * R5 Nothing is written to a store whose format was raised beyond what is read here. R6 Nothing is written to a store that has lost
 * a commit that was seen here, before that was told. R7 A commit is answered when a replica has it, where there is one.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { createEmitter } from "@holdfast/shared/async/emitter";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import type { StoreFormats } from "../../domain/store-format.ts";
import type { Commit, CommitResult } from "../../domain/store-types.ts";
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
import { createRedisKeys } from "./redis-keys.ts";
import { createRedisReads } from "./redis-reads.ts";
import { createReplicaAcks } from "./replica-acks.ts";
import { createSeenCommits, missingCommits } from "./seen-commits.ts";
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
  /** Number of the newest commit then. */
  readonly sequence: number;
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
  /** How many replicas the server has. */
  sawReplicas(count: number): void;
  suspect(reason: string): void;
  /** The listeners look, as something changed for the better. */
  lookAgain(reason: string): void;
  /** What a look at the store found. */
  noteFormat(format: number): void;
  readonly closed: AbortSignal;
  readonly importMark: ImportMark;
}

const maxAttempts = 5;
const noReplica =
  "it is done, and no replica has it: a failover may lose it; see whether the replicas of the store keep up";

export const createRedisStore = (options: RedisStoreOptions): RedisStore => {
  const { connection, tailConnection, clusterUid, maxEvents, settleMs, clock, log } = options;
  const keys = createRedisKeys(options.cell);
  const { shown } = connection;
  const listeners = createEmitter<[reason: string]>();
  const closing = new AbortController();
  const seen = createSeenCommits(options.sequence);
  const acks = createReplicaAcks({ connection, log });
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

  connection.onDemoted((reason) => suspect(`${shown} is no master of the store any more: ${reason}`));

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

  /** What the function answered, turned into a result or the error that it is. */
  const settled = (commit: Commit, runId: string, reply: unknown): CommitResult => {
    const answer = decodeCommit(commit, runId, reply);
    switch (answer.kind) {
      case "result":
        return answer.result;
      case "unvetted": {
        const lost =
          answer.vettedRunId !== answer.runId
            ? "not vetted"
            : answer.ofVettedHistory
              ? `generation ${answer.gen}, ${highestGen} was seen`
              : "its replication history is not the one that was vetted";
        const finding = `process ${answer.runId}: ${lost}`;
        suspect(finding);
        throw storeUnvetted(shown, finding); // R3
      }
      case "behind": {
        const finding = missingCommits(answer.sequence, seen.highest());
        seen.refused();
        suspect(finding);
        throw storeUnvetted(shown, finding); // R6
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
        const args = encode({
          clusterUid,
          runId,
          gen: highestGen,
          maxEvents,
          newest: options.formats.newest,
          sequence: seen.carried(wanted.requiresVetted),
        });
        const reply = await connection.call("FCALL", libraryFunctions.commit, ...args); // R1
        const result = settled(wanted, runId, reply);
        if (result.ok) noteFormat(wanted.raisesFormat ?? format);
        if (result.ok) seen.saw(result.order.sequence);
        const seq = result.ok ? seqOfToken(runId, result.token) : undefined;
        if (seq !== undefined && connection.current()?.session === session) tail?.committed(runId, seq, wanted.events);
        if (result.ok && !(await acks.acknowledged(session))) throw new CallFailure("unknown", noReplica); // R7
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

  /** The generation that stands in the way, if there is one. */
  const vettingStep = async (
    runId: string,
    step: string,
    ...args: readonly (string | number)[]
  ): Promise<string | undefined> => {
    const reply = await ask("vet", "FCALL", step, 1, keys.meta, clusterUid, runId, ...args);
    const [word, found = "", value = ""] = reply as string[];
    if (word === "foreign") throw storeForeign(shown, found, clusterUid);
    if (word === "meta") throw metaDamaged(shown, found, value);
    if (word === "other") throw storeUnvetted(shown, `vetted was process ${runId}, but it is ${found} by now`);
    return word === "older" ? found : undefined;
  };

  return {
    kind: "redis",
    ...createRedisReads(keys, ask),
    commit,
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
      const before = seen.highest();
      const found = await readIdentity(shown, ask, keys);
      highestGen = Math.max(highestGen, found.gen);
      noteFormat(found.format);
      const { behind, news } = seen.compare(found.sequence, before);
      if (news !== undefined) suspect(news); // R6
      const { turn } = found;
      const keptAll = !behind && turn !== undefined && !seen.sawBetween(turn.lastBefore, turn.firstAfter);
      return {
        clusterUid: found.clusterUid,
        format: found.format,
        vetting: { gen: found.gen, uid: found.vettingUid },
        begun: found.begun && !behind,
        runId: found.runId,
        // What does not keep its word is not vetted, nor what has lost commits, whatever it was before. R3 R6
        vettedRunId: unfit === undefined && !behind ? found.vettedRunId : "",
        lastVetted: found.lastVetted,
        keptAll,
      };
    },
    format: () => format,
    async beginVetting(runId, { gen, uid }) {
      await vettingStep(runId, libraryFunctions.begin, gen, seen.highest(), uid);
    },
    async markVetted(runId, { gen, uid }) {
      if (unfit !== undefined) throw storeUnvetted(shown, unfit); // R3
      const older = await vettingStep(runId, libraryFunctions.vet, gen, seen.highest(), uid);
      if (older !== undefined)
        throw new HoldfastError({
          kind: "precondition",
          reason: "STORE_UNVETTED",
          message: `the store ${shown} has generation ${older}, it cannot be vetted for the ${gen} of vetting ${uid}: vet again`,
          metadata: { store: shown, gen: older },
        });
      highestGen = Math.max(highestGen, gen);
      seen.vetted();
    },
    onSuspect: listeners.on,
    async close() {
      closing.abort(new DOMException("the store is closed", "AbortError"));
      connection.close();
      tailConnection.close();
    },
    sawReplicas: acks.saw,
    setUnfit(finding) {
      unfit = finding;
    },
    suspect,
    lookAgain: listeners.tell,
    noteFormat,
    closed: closing.signal,
    importMark: createRedisImportMark(keys, (...command) => ask("import", ...command)),
  };
};
