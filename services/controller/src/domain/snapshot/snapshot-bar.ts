/** What the overtaken calls of a snapshot or a group keep back, by bar.ts, and what their end brings. */

import { callBar } from "../bar.ts";
import { barBlock } from "../bar-block.ts";
import type { Moment } from "../moment.ts";
import type { Blocked } from "../outcome.ts";
import { type CutRecord, pinsSource } from "./snapshot.ts";

/** A call that cuts may come late: until it has ended there is no delete, which it could follow, and its source is kept. */
export const mayBeCutLate = (record: CutRecord): boolean => callBar(record, "delete") !== undefined;

/** Deleted, with a delete before that may come late: the record keeps the name and the id from another use. */
export const isDeleted = ({ state, intent, bars }: CutRecord): boolean =>
  state === "DELETING" && intent === undefined && bars.length > 0;

/** Deleted, and to be deleted once more when a call that cuts it can no longer arrive. */
export const isDeletedForNow = ({ state, attempts }: CutRecord): boolean =>
  state === "DELETING" && attempts.lastError?.reason === "CUT_UNANSWERED";

/** The plugin may still need the volume that is cut. */
export const needsVolume = (record: CutRecord): boolean =>
  pinsSource[record.state] || record.asked === true || mayBeCutLate(record);

/** BR3: the overtaken call has ended. */
export const cutBarLifted = (record: CutRecord, opId: string, at: Moment): CutRecord | null => {
  const bars = record.bars.filter((bar) => bar.opId !== opId);
  if (bars.length === record.bars.length) return record;
  return bars.length === 0 && isDeleted(record) ? null : { ...record, bars, updatedAt: at.now };
};

/** Everything of it that cannot go on by itself, its own call first. */
export const cutBlocks = (record: CutRecord): readonly Blocked[] => [
  ...(record.blocked === undefined ? [] : [record.blocked]),
  ...record.bars.map((bar) => barBlock(record, bar)),
];

/** There are such blocks; no words are made for them, as each commit asks. */
export const isCutBlocked = ({ blocked, bars }: CutRecord): boolean => blocked !== undefined || bars.length > 0;
