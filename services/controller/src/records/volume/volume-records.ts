/** Volume records with their meaning: reads, lists, decisions, and who is told of commits. */
import type { Logger } from "@holdfast/shared/log/logger";
import type { ClaimTombstone } from "../../domain/claim/claim.ts";
import type { StoredRecord } from "../../domain/store-types.ts";
import { type VolumeRef, volumeKey } from "../../domain/volume/volume.ts";
import { type AttachSlots, createAttachSlots } from "../attachment/attach-slots.ts";
import type { CallOrders } from "../call-orders.ts";
import type { Changes } from "../changes.ts";
import { createDamagedRecords, type DamagedRecords } from "../damaged-records.ts";
import { createRecordCache, type VersionedVolume } from "../record-cache.ts";
import type { RecordPage } from "../record-table.ts";
import type { ChangeOptions, Lead } from "./change-options.ts";
import type { CommitNotice } from "./commit-notice.ts";
import { createRecentlyEnded } from "./recently-ended.ts";
import {
  claimTombstoneRef,
  decodeClaimTombstone,
  decodeVolume,
  decodeVolumeTombstone,
  dueQueue,
  type EndedLife,
  encodeVolume,
  externalEntry,
  refOfKey,
  type Storage,
  type TombstoneIndex,
  type VolumeIndex,
  type VolumeTombstone,
  volumeTombstoneRef,
  workloadValue,
} from "./volume-codec.ts";
import type { AttachLimitOf } from "./volume-commit.ts";
import {
  type ChangeResult,
  createVolumeDecisions,
  type Decide,
  type DecideMany,
  type VolumeDecisionDeps,
} from "./volume-decisions.ts";
import { createVolumeInsertion, type VolumeInsertion } from "./volume-insertion.ts";

export interface VolumeRecords extends VolumeInsertion {
  /** As it is in the store now. */
  get(ref: VolumeRef): Promise<VersionedVolume | undefined>;
  /** As this process knows it; read when it does not. A decision made from it is still compared at the commit. */
  recent(ref: VolumeRef): Promise<VersionedVolume | undefined>;
  /** As the store has told of it in this turn of the event loop: what a call that leaves now may rest on. */
  current(ref: VolumeRef): Promise<VersionedVolume | undefined>;
  /** The same of several, with one read for all that this process does not know. */
  recentMany(refs: readonly VolumeRef[]): Promise<readonly (VersionedVolume | undefined)[]>;
  getMany(refs: readonly VolumeRef[]): Promise<readonly (VersionedVolume | undefined)[]>;
  /** Without what is damaged; `whole`: an answer without it would be a wrong one, and RECORD_DAMAGED comes in its place. */
  list(
    index: VolumeIndex,
    value: string,
    page: RecordPage,
  ): Promise<{ readonly volumes: readonly VersionedVolume[]; readonly next: string | undefined }>;
  listEnded(
    index: TombstoneIndex,
    value: string,
    page: { readonly after?: string | undefined; readonly limit: number },
  ): Promise<{ readonly claims: readonly ClaimTombstone[]; readonly next: string | undefined }>;
  /** That one life of a claim, if it is over. */
  ended(life: EndedLife): Promise<ClaimTombstone | undefined>;
  deleted(ref: VolumeRef): Promise<VolumeTombstone | undefined>;
  change(ref: VolumeRef, decide: Decide, options?: ChangeOptions): Promise<ChangeResult>;
  changeMany(refs: readonly VolumeRef[], decide: DecideMany, options?: ChangeOptions): Promise<readonly ChangeResult[]>;
  /**
   * The same as long as the workload has claims on none but the volumes that are changed. undefined = it has, and nothing was
   * written. Nobody was asked when nothing is changed.
   */
  changeAlone(
    workload: { readonly namespace: string; readonly workload: string },
    refs: readonly VolumeRef[],
    decide: DecideMany,
    options?: ChangeOptions,
  ): Promise<readonly ChangeResult[] | undefined>;
  /** The change that gives a volume its storage, as long as no other record stands for that. */
  changeOwning(storage: Storage, ref: VolumeRef, decide: Decide, options?: ChangeOptions): Promise<ChangeResult>;
  /** The record that stands for the storage. */
  owner(storage: Storage): Promise<VersionedVolume | undefined>;
  /** Volumes that are remembered with claims of the workload; there may be more. */
  knownOf(namespace: string, workload: string): readonly VersionedVolume[];
  /** Volumes whose time has come, oldest first. */
  due(limit: number): Promise<readonly string[]>;
  nextDue(): Promise<number | undefined>;
  /** Moves the record to its next due time, although nothing changed; before it is looked at, so that no look is lost. */
  reschedule(ref: VolumeRef): Promise<void>;
  /** Another controller wrote revision `rev`: older ones are forgotten, and the waiters are woken whatever is remembered. */
  learnOf(key: string, rev: number | undefined, node?: string): Promise<void> | undefined;
  forgetAll(): void;
  onCommit(listener: (notice: CommitNotice) => void): () => void;
  /** Before a commit; only one that a caller asked for may be led (`leads`). */
  onLead(lead: Lead): () => void;
  /** Whoever acts is to try now what it owes: a request was repeated, or what stood in the way is gone. Writes nothing. */
  remind(ref: VolumeRef): void;
  /** What the calls of this controller's intents carry. */
  readonly orders: CallOrders;
  /** What is used of the nodes' attach slots, and who waits for one. */
  readonly slots: AttachSlots;
  readonly attachLimit: AttachLimitOf;
  /** How many commits were asked of the store; the hot path is held to three and three. */
  commits(): number;
}

export interface VolumeRecordsDeps extends Omit<VolumeDecisionDeps, "cache" | "slots" | "damages" | "tell" | "lead"> {
  readonly changes: Changes;
  readonly log: Logger;
  readonly remembered?: number;
  readonly damages?: DamagedRecords;
}

const nothingThere: ChangeResult = { volume: null, rev: 0, ended: [], changed: false };

const onlyOne =
  (decide: Decide): DecideMany =>
  ([volume], at) => [volume === undefined ? undefined : decide(volume, at)];

const claimWorkload: VolumeIndex = "claim-workload";

export const createVolumeRecords = (deps: VolumeRecordsDeps): VolumeRecords => {
  const { store, clock, changes, signal, attachLimit, log, damages = createDamagedRecords() } = deps;
  const cache = createRecordCache(deps.remembered);
  const recentlyEnded = createRecentlyEnded();
  const listeners = new Set<(notice: CommitNotice) => void>();

  const tell = (notice: CommitNotice): void => {
    recentlyEnded.keep(notice.ended);
    changes.publish(...notice.keys);
    for (const listener of listeners) listener(notice);
  };
  const slots = createAttachSlots({
    store,
    attachLimit,
    signal,
    onError: (error) =>
      log.warn("the attach slots could not be counted; each grant is compared in the store", { error }),
  });
  const leads = new Set<Lead>();
  const lead: VolumeDecisionDeps["lead"] = (found, decision, commit) => {
    const ahead = decision.flatMap((change, i) => {
      const [before, after] = [found[i]?.volume, change?.volume];
      return before && after ? [...leads].flatMap((one) => one(before, after, commit) ?? []) : [];
    });
    return ahead.length === 0 ? undefined : Promise.all(ahead);
  };
  const decisions = createVolumeDecisions({ ...deps, cache, slots, damages, tell, lead });
  const insertion = createVolumeInsertion({ ...deps, decisions, cache, tell });

  return {
    async get(ref) {
      const [found] = await decisions.read([ref]);
      return found;
    },
    recent: decisions.recent,
    current: decisions.current,
    orders: decisions.orders,
    recentMany: decisions.recentMany,
    getMany: decisions.read,
    async list(index, value, { after, limit, whole }) {
      const page = await store.list({ index, value, limit, after });
      const remembered = (r: StoredRecord): VersionedVolume => {
        const held = cache.get(r.ref.key);
        return held?.rev === r.rev ? held : cache.keep(r.ref.key, { volume: decodeVolume(r), rev: r.rev });
      };
      const volumes = damages.readEach(page.records, remembered, whole);
      return { volumes, next: page.next };
    },
    async listEnded(index, value, { after, limit }) {
      const page = await store.list({ index, value, limit, after });
      return { claims: damages.readEach(page.records, decodeClaimTombstone), next: page.next };
    },
    async ended(life) {
      const known = recentlyEnded.get(life.uid);
      if (known !== undefined) return known;
      const stored = await store.get(claimTombstoneRef(life));
      return stored === undefined ? undefined : damages.read(stored, decodeClaimTombstone);
    },
    async deleted(ref) {
      const stored = await store.get(volumeTombstoneRef(ref));
      return stored === undefined ? undefined : damages.read(stored, decodeVolumeTombstone);
    },
    async change(ref, decide, options) {
      const [result] = await decisions.changeMany([ref], onlyOne(decide), options);
      return result ?? nothingThere;
    },
    changeMany: decisions.changeMany,
    changeAlone: ({ namespace, workload }, refs, decide, options) =>
      decisions.changeAlone({ index: claimWorkload, value: workloadValue(namespace, workload) }, refs, decide, options),
    async changeOwning(storage, ref, decide, options) {
      const results = await decisions.changeAlone(externalEntry(storage), [ref], onlyOne(decide), options);
      return results === undefined ? { ...nothingThere, crowded: true } : (results[0] ?? nothingThere);
    },
    async owner(storage) {
      const { index, value } = externalEntry(storage);
      const [found] = (await store.list({ index, value, limit: 1 })).records;
      return found === undefined ? undefined : { volume: damages.read(found, decodeVolume), rev: found.rev };
    },
    knownOf: cache.ofWorkload,
    ...insertion,
    due: async (limit) => (await store.due(dueQueue, clock.now(), limit)).map((entry) => entry.ref.key),
    nextDue: () => store.nextDue(dueQueue),
    reschedule: (ref) =>
      decisions.exclusively([ref], async () => {
        const held = await decisions.recent(ref);
        if (held === undefined) return;
        const at = decisions.moment();
        const { write } = encodeVolume(held.volume, held.rev, at.now);
        const commit = { opId: at.opId, writes: [write], events: [], requiresVetted: false };
        const stored = await decisions.commitOnce(commit, [ref]);
        if (typeof stored === "object") cache.keep(volumeKey(ref), { volume: held.volume, rev: held.rev + 1 });
      }),
    learnOf(key, rev, node) {
      const forget = (): void => {
        if (rev === undefined) cache.drop(key);
        else cache.outdated(key, rev);
      };
      const tell = (): void => {
        // Also when a read has brought this revision before: the waiters did not see that read.
        changes.publish(key);
        // Whatever is remembered of the volume: it may have been read since, and the slots not counted. Behind the forgetting, so that
        // who waits for it reads it anew.
        slots.learnOf(key, node);
      };
      const known = rev !== undefined && (cache.get(key)?.rev ?? 0) >= rev;
      // In the lane of the volume: a commit of this process that is under way is not forgotten behind its answer.
      if (!known && decisions.busy(key)) return decisions.exclusively([refOfKey(key)], async () => forget()).then(tell);
      if (!known) forget();
      tell();
      return undefined;
    },
    forgetAll() {
      cache.clear();
      recentlyEnded.clear();
      slots.forgetAll();
      changes.publishAll();
    },
    onCommit(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    onLead(one) {
      leads.add(one);
      return () => leads.delete(one);
    },
    remind(ref) {
      const notice: CommitNotice = { keys: [volumeKey(ref)], related: [], ended: [], due: undefined, reminded: true };
      for (const listener of listeners) listener(notice);
    },
    slots,
    attachLimit,
    commits: decisions.commits,
  };
};
