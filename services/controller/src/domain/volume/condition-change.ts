import { type Change, type Note, noChange, volumeNote } from "../change.ts";
import type { Moment } from "../moment.ts";
import type { StoredCondition } from "./condition.ts";
import type { VolumeRecord } from "./volume.ts";

/** A node speaks of a volume as long as it has it. */
const speaks = (volume: VolumeRecord, source: string): boolean =>
  !source.startsWith("node ") || volume.attachments[source.slice("node ".length)] !== undefined;

const messageOf = (sources: readonly (readonly [string, string])[]): string =>
  sources
    .map(([source, message]) => `${source}: ${message === "" ? "abnormal" : message}`)
    .join("; ")
    .slice(0, 1024);

/** Says itself what has changed: the state of the volume is what it was. */
const conditionNote = (volume: VolumeRecord, condition: "ABNORMAL" | "NORMAL"): Note => {
  const { type, body } = volumeNote(volume);
  return { type, body: { ...body, condition } };
};

/** What the sources say that count by now. Stored only when it is not what the volume shows. */
export const conditionSeen = (volume: VolumeRecord, heard: StoredCondition["sources"], at: Moment): Change => {
  const sources = Object.entries(heard).filter(([source]) => speaks(volume, source));
  const before = volume.condition;
  if (sources.length === 0) {
    if (before === undefined) return noChange(volume);
    const { condition: _over, ...rest } = volume;
    const after = { ...rest, updatedAt: at.now };
    return { volume: after, ended: [], notes: [conditionNote(after, "NORMAL")] };
  }
  const message = messageOf(sources);
  if (before?.message === message) return noChange(volume);
  const condition: StoredCondition = {
    abnormal: true,
    message,
    since: before?.since ?? at.now,
    sources: Object.fromEntries(sources),
  };
  const after = { ...volume, condition, updatedAt: at.now };
  return { volume: after, ended: [], notes: [conditionNote(after, "ABNORMAL")] };
};
