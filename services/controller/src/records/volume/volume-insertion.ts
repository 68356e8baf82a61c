/** New volume records. A conflict or a lost answer is settled by reading: what stands there tells whose it is. */
import { traceIdOf } from "@holdfast/model/trace-id";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Change } from "../../domain/change.ts";
import type { Moment } from "../../domain/moment.ts";
import { givenTo } from "../../domain/open-call.ts";
import { type CountWith, uncounted } from "../../domain/quota/quota.ts";
import { asksOf } from "../../domain/steps.ts";
import type { Commit, RecordWrite } from "../../domain/store-types.ts";
import { type VolumeRecord, type VolumeRef, volumeKey } from "../../domain/volume/volume.ts";
import type { Ids, Store } from "../../ports.ts";
import { auditOf } from "../audit-records.ts";
import { eventBody } from "../event-body.ts";
import { countedCommit } from "../quota/counted-commit.ts";
import type { RecordCache } from "../record-cache.ts";
import type { Expects } from "./change-options.ts";
import type { CommitNotice } from "./commit-notice.ts";
import type { Stored } from "./commit-once.ts";
import {
  type DeleteMark,
  decodeDeleteMark,
  decodeVolumeTombstone,
  deleteMarkRef,
  encodeVolume,
  externalEntry,
  volumeRef,
  volumeTombstoneRef,
} from "./volume-codec.ts";
import type { VolumeDecisions } from "./volume-decisions.ts";

export type Make = (at: Moment) => Change;
export type MakeAll = (at: Moment) => readonly Change[];

/** What became of the record of storage that exists already. */
export type Adoption =
  | { readonly kind: "made" }
  /** There is a volume of this id. */
  | { readonly kind: "exists" }
  /** Another record stands for the storage. */
  | { readonly kind: "taken" }
  /** A DeleteVolume for the storage may still arrive. */
  | { readonly kind: "leaving"; readonly mark: DeleteMark };

export interface VolumeInsertion {
  /**
   * False when there is one already; nothing was written then. `expects`: what it relies on, looked up for each try; it rejects
   * when that does not hold any more.
   */
  insert(make: Make, expects?: Expects): Promise<boolean>;
  /** The same for several in one commit: every record is stored, or none is. */
  insertAll(make: MakeAll, expects?: Expects): Promise<boolean>;
  /**
   * The same for storage that exists: only while no other record stands for it and no delete of it may be under way, both compared by
   * the commit itself, so that of two controllers one alone succeeds. `inSpite` of a mark takes it away with the same commit.
   */
  adopt(make: Make, options?: AdoptOptions): Promise<Adoption>;
}

export interface AdoptOptions {
  readonly inSpite?: boolean;
  readonly expects?: Expects;
}

export interface VolumeInsertionDeps {
  readonly store: Pick<Store, "get">;
  readonly decisions: Pick<
    VolumeDecisions,
    "moment" | "orders" | "read" | "exclusively" | "commitOnce" | "rounds" | "route"
  >;
  readonly cache: Pick<RecordCache, "keep">;
  readonly ids: Pick<Ids, "uuid">;
  readonly tell: (notice: CommitNotice) => void;
  readonly counted?: CountWith | undefined;
}

/** What a new record depends on, and what is written beside it. */
interface Terms extends Pick<Commit, "alone" | "expects"> {
  readonly requiresVetted?: true;
  readonly beside?: readonly RecordWrite[];
}

/** The trace of the request that the record comes from. */
const traceOf = ({ trace }: VolumeRecord): Pick<Moment, "traceId"> => {
  const traceId = traceIdOf(trace?.parent);
  return traceId === undefined ? {} : { traceId };
};

const expectsNothing: Expects = async () => [];

const outcomeUnknown = (refs: readonly VolumeRef[]): HoldfastError =>
  new HoldfastError({
    kind: "unavailable",
    reason: "STORE_OUTCOME_UNKNOWN",
    message: `whether volume ${refs.map(volumeKey).join(", ")} was stored is not known; repeat the request with the same id`,
    metadata: { namespace: refs[0]?.namespace ?? "", volume: refs[0]?.id ?? "" },
  });

export const createVolumeInsertion = (deps: VolumeInsertionDeps): VolumeInsertion => {
  const { store, decisions, cache, ids, tell, counted = uncounted } = deps;

  const entryOf = (volume: VolumeRecord, { notes, audit }: Change, at: Moment) => {
    const { write, due } = encodeVolume(volume, 0, at.now);
    const audited = auditOf(audit, { now: at.now, revisionBefore: 0 }, volumeRef(volume), 1);
    const asked = { ...at, by: volume.changedBy, ...traceOf(volume) };
    const events = notes.map((note) => ({
      type: note.type,
      ref: volumeRef(volume),
      body: eventBody(
        note,
        1,
        asked,
        asksOf(volume, () => true),
      ),
    }));
    return { volume, write, beside: audited.writes, events: [...events, ...audited.events], due };
  };
  type Entry = ReturnType<typeof entryOf>;

  /** The volumes first, so that the revisions of the answer are theirs. */
  const commitOf = (entries: readonly Entry[], { opId }: Moment) =>
    ({
      opId,
      writes: [...entries.map(({ write }) => write), ...entries.flatMap(({ beside }) => beside)],
      events: entries.flatMap(({ events }) => events),
      requiresVetted: false,
    }) satisfies Commit;

  const made = (entries: readonly Entry[], stored: Stored | undefined): void => {
    for (const [i, { volume, due }] of entries.entries()) {
      const rev = stored?.revs[i];
      if (rev !== undefined) cache.keep(volumeKey(volume), { volume, rev });
      if (stored !== undefined) decisions.orders.note(volumeKey(volume), volume.intent, stored.order);
      tell({ keys: [volumeKey(volume)], related: [], ended: [], due });
    }
  };

  /** Whose records stand there after a commit of which nobody knows what became: one of these tells that all of them were stored. */
  const standing = async (volumes: readonly VolumeRecord[]): Promise<"ours" | "other" | "none"> => {
    const stored = await decisions.read(volumes);
    if (stored.some((found, i) => found !== undefined && found.volume.uid === volumes[i]?.uid)) return "ours";
    return stored.some((found) => found !== undefined) ? "other" : "none";
  };

  /** It was stored by a commit whose answer was lost, and was deleted since, through another controller: no life comes twice. */
  const isOver = async (volume: VolumeRecord): Promise<boolean> => {
    const tombstone = await store.get(volumeTombstoneRef(volume));
    return tombstone !== undefined && decodeVolumeTombstone(tombstone).uid === volume.uid;
  };

  /** Until the records stand, or stand for other lives; `termsOf` is asked before each commit. */
  const enter = async (
    make: MakeAll,
    termsOf: (volumes: readonly VolumeRecord[]) => Promise<Terms | Adoption>,
  ): Promise<Adoption> => {
    const at = decisions.moment();
    const entries = make(at).flatMap((change) =>
      change.volume === null ? [] : [entryOf(givenTo(change.volume, at, decisions.route), change, at)],
    );
    if (entries.length === 0) return { kind: "exists" };
    const volumes = entries.map(({ volume }) => volume);
    const commit = commitOf(entries, at);
    const round = async (n: number): Promise<Adoption | undefined> => {
      const asked = await termsOf(volumes);
      if ("kind" in asked) return asked;
      const { beside = [], ...terms } = asked;
      const opId = n === 0 ? at.opId : ids.uuid();
      const writes = [...commit.writes, ...beside];
      const counts = { found: [], decided: volumes.map((volume) => ({ volume })), remembered: false };
      const stored = await countedCommit(counted, counts, { ...commit, ...terms, opId, writes }, (one) =>
        decisions.commitOnce(one, volumes),
      );
      if (stored === "crowded") return { kind: "taken" };
      const found = stored === undefined ? await standing(volumes) : "ours";
      if (found === "other") return { kind: "exists" };
      if (found === "none")
        return (await Promise.all(volumes.map(isOver))).includes(true) ? { kind: "made" } : undefined;
      made(entries, stored);
      return { kind: "made" };
    };
    return await decisions.exclusively(volumes, () => decisions.rounds(round, () => outcomeUnknown(volumes)));
  };

  const insertAll: VolumeInsertion["insertAll"] = async (make, expects = expectsNothing) => {
    const { kind } = await enter(make, async () => ({ expects: await expects() }));
    return kind === "made";
  };

  return {
    insert: (make, expects) => insertAll((at) => [make(at)], expects),
    insertAll,

    adopt: (make, { inSpite = false, expects = expectsNothing } = {}) =>
      enter(
        (at) => [make(at)],
        async ([volume]) => {
          if (volume === undefined) return { kind: "exists" };
          const mark = await store.get(deleteMarkRef(volume));
          if (mark !== undefined && !inSpite) return { kind: "leaving", mark: decodeDeleteMark(mark) };
          const expected = await expects();
          const gone = { ref: deleteMarkRef(volume), expectedRev: mark?.rev ?? 0 };
          const terms = { alone: externalEntry(volume), requiresVetted: true } as const;
          return mark === undefined
            ? { ...terms, expects: [gone, ...expected] }
            : { ...terms, expects: expected, beside: [{ ...gone, body: null, indexes: [], due: [] }] };
        },
      ),
  };
};
