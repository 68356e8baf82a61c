import { type AttachPool, countedSlots, poolKey } from "../../domain/attachment/attach-pool.ts";
import { type AttachLimit, slotKey } from "../../domain/attachment/slots.ts";
import { type Change, type Note, volumeNote } from "../../domain/change.ts";
import { memberKey } from "../../domain/claim/claim-set-change.ts";
import { grantsOrOffers } from "../../domain/claim/grants-or-offers.ts";
import type { Moment } from "../../domain/moment.ts";
import { type Asks, asksOf } from "../../domain/steps.ts";
import type { Commit, EventWrite, RecordWrite, StoredRecord } from "../../domain/store-types.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import { auditOf } from "../audit-records.ts";
import { eventBody } from "../event-body.ts";
import type { VersionedVolume } from "../record-cache.ts";
import {
  encodeClaimTombstone,
  encodeDeleteMark,
  encodeRemoval,
  encodeVolume,
  encodeVolumeTombstone,
  slotEntry,
  volumeRef,
} from "./volume-codec.ts";

/** A record that lets go of its storage while the DeleteVolume may still arrive leaves a mark, so that nobody adopts what is about to vanish. */
export const leavesMark = (before: VolumeRecord, { volume, settled }: Change): boolean =>
  settled === undefined &&
  before.state === "DELETING" &&
  before.externalId !== "" &&
  volume?.externalId !== before.externalId;

/** What stands where the tombstone of a removed volume, and the mark of its storage, go. */
export interface Remains {
  readonly tombstone: StoredRecord | undefined;
  readonly mark: StoredRecord | undefined;
}

/** The pool is that of the plugin on the node, also where the plugin itself takes any number. */
export type AttachLimitOf = (plugin: string, node: string) => AttachLimit & { readonly pool?: AttachPool };

type Bound = NonNullable<Commit["atMost"]>[number];

/**
 * Slots that a grant takes where there are not any number of them, by their names: their bound, whoever else takes one in the same
 * moment. That of a pool bounds the attachments of all its plugins together.
 */
const boundsOf = (before: VolumeRecord, after: VolumeRecord, limitOf: AttachLimitOf): readonly [string, Bound][] =>
  Object.keys(after.attachments).flatMap((node) => {
    if (before.attachments[node] !== undefined) return [];
    const { plugin } = after;
    const { limit, pool } = limitOf(plugin, node);
    const found: [string, Bound][] = [];
    const bound = (key: string, slots: readonly string[], count: number): void =>
      void found.push([key, { entries: slots.map(slotEntry), count }]);
    if (limit !== Number.POSITIVE_INFINITY) bound(slotKey(plugin, node), [slotKey(plugin, node)], limit);
    if (pool !== undefined) bound(poolKey(pool.name, node), countedSlots(plugin, node, pool), pool.limit);
    return found;
  });

/** The other members of the sets of which one ended. */
export const relatedOf = (before: VolumeRecord | undefined, change: Change | undefined): readonly string[] =>
  (change?.ended ?? []).flatMap(({ uid }) =>
    (before?.claims[uid]?.set ?? []).filter((member) => member.uid !== uid).map(memberKey),
  );

const asksNothing = { untaken: false, anyone: false } as const;

/** The controller that is to take the call learns of it by this event, where the commit has no other. */
const notesOfAsking = (
  before: VolumeRecord,
  after: VolumeRecord | null,
  { untaken }: Asks,
  linked: (node: string) => boolean,
): readonly Note[] => (after !== null && untaken && !asksOf(before, linked).untaken ? [volumeNote(after)] : []);

/** One commit of everything that was decided; `undefined` changes are left out. */
export const buildCommit = (
  found: readonly (VersionedVolume | undefined)[],
  changes: readonly (Change | undefined)[],
  remains: readonly (Remains | undefined)[],
  at: Moment,
  limitOf: AttachLimitOf,
  linked: (node: string) => boolean,
): { readonly commit: Commit; readonly due: number | undefined } => {
  const writes: RecordWrite[] = [];
  const events: EventWrite[] = [];
  const due: number[] = [];
  const bounds = new Map<string, Bound>();
  let requiresVetted = false;
  for (const [i, change] of changes.entries()) {
    const before = found[i];
    if (change === undefined || before === undefined) continue;
    if (change.volume === null) {
      writes.push(encodeRemoval(before.volume, before.rev));
      writes.push(
        encodeVolumeTombstone(before.volume, remains[i]?.tombstone?.rev ?? 0, at.now, change.audit !== undefined),
      );
    } else {
      const encoded = encodeVolume(change.volume, before.rev, at.now);
      writes.push(encoded.write);
      if (encoded.due !== undefined) due.push(encoded.due);
    }
    if (leavesMark(before.volume, change))
      writes.push(encodeDeleteMark(before.volume, remains[i]?.mark?.rev ?? 0, at.now));
    writes.push(...change.ended.map(encodeClaimTombstone));
    const ref = volumeRef(before.volume);
    const audited = auditOf(change.audit, { now: at.now, revisionBefore: before.rev }, ref, before.rev + 1);
    writes.push(...audited.writes);
    events.push(...audited.events);
    const asks = change.volume === null ? asksNothing : asksOf(change.volume, linked);
    for (const note of change.notes.length > 0
      ? change.notes
      : notesOfAsking(before.volume, change.volume, asks, linked))
      events.push({ type: note.type, ref, body: eventBody(note, before.rev + 1, at, asks) });
    if (change.volume === null || !grantsOrOffers(before.volume, change.volume)) continue;
    requiresVetted = true;
    for (const [key, bound] of boundsOf(before.volume, change.volume, limitOf)) bounds.set(key, bound);
  }
  return {
    commit: {
      opId: at.opId,
      writes,
      events,
      requiresVetted,
      ...(bounds.size === 0 ? {} : { atMost: [...bounds.values()] }),
    },
    due: due.length === 0 ? undefined : Math.min(...due),
  };
};
