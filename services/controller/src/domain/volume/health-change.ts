import { healthText, type VolumeHealthEntry } from "@holdfast/model/health";
import { type Change, foldChanges, type Note, noChange, volumeNote } from "../change.ts";
import type { Moment } from "../moment.ts";
import type { VolumeRecord } from "./volume.ts";
import {
  type HealthSide,
  type HealthView,
  nodeOfSide,
  restoreCommand,
  type StoredHealth,
  sidesOf,
  sideWords,
  worstStatus,
} from "./volume-health.ts";

/** A view that is said again and again is not stored each time. */
const refreshMs = 300_000;
/** For so long a node is believed about a volume that it no longer has: nobody can ask it again. */
const believedMs = 600_000;

const isBelieved = ({ attachments }: VolumeRecord, node: string, { heardAt }: HealthView, now: number): boolean =>
  attachments[node] !== undefined || now - heardAt < believedMs;

const sameEntries = (a: readonly VolumeHealthEntry[], b: readonly VolumeHealthEntry[]): boolean =>
  JSON.stringify(a) === JSON.stringify(b);

const withViews = (volume: VolumeRecord, views: StoredHealth, now: number): VolumeRecord => {
  const { health: _before, ...rest } = volume;
  return Object.keys(views).length === 0 ? { ...rest, updatedAt: now } : { ...rest, health: views, updatedAt: now };
};

/** Says itself what has changed: the state of the volume is what it was. */
const healthNote = (volume: VolumeRecord, side: HealthSide, health: string, said: string): Note => {
  const { type, body } = volumeNote(volume);
  const node = nodeOfSide(side);
  const next = health === "DATA_LOSS" ? `; restore it from a snapshot: ${restoreCommand(volume)}` : "";
  const words = said === "" ? "knows of nothing adverse any more" : `says ${said}${next}`;
  return { type, body: { ...body, health, said: `${sideWords(side)} ${words}`, ...(node === "" ? {} : { node }) } };
};

/** What one side says now. An event for each change of it; what it says again is stored anew only now and then. */
export const healthSeen = (
  volume: VolumeRecord,
  side: HealthSide,
  entries: readonly VolumeHealthEntry[],
  at: Pick<Moment, "now">,
): Change => {
  const views = volume.health ?? {};
  const before = views[side];
  if (entries.length === 0) {
    if (before === undefined) return noChange(volume);
    const { [side]: _over, ...left } = views;
    const after = withViews(volume, left, at.now);
    return { volume: after, ended: [], notes: [healthNote(after, side, "GOOD", "")] };
  }
  const same = before !== undefined && sameEntries(before.entries, entries);
  if (same && at.now - before.heardAt < refreshMs) return noChange(volume);
  const view: HealthView = { since: before?.since ?? at.now, heardAt: at.now, entries };
  const after = withViews(volume, { ...views, [side]: view }, at.now);
  if (same) return { volume: after, ended: [], notes: [] };
  const word = worstStatus(entries) ?? "UNRECOGNISED";
  return { volume: after, ended: [], notes: [healthNote(after, side, word, healthText(entries))] };
};

/** Views of nodes that have not had the volume for long. */
export const healthForgotten = (volume: VolumeRecord, at: Pick<Moment, "now">): Change => {
  const gone = sidesOf(volume).filter(
    ([side, view]) => side !== "backend" && !isBelieved(volume, nodeOfSide(side), view, at.now),
  );
  return foldChanges(volume, gone, (v, [side]) => healthSeen(v, side, [], at));
};
