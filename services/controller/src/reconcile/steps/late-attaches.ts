/**
 * Whether an attach that had no answer may still be done by its backend.
 *
 * LA1 The record keeps a time of the wall clock, for other controllers and later lives. Once this life has seen it, the wait is one of the
 *     monotonic clock: a step of the wall clock neither ends it early nor draws it out. LA2 It is never longer than a call may take, also
 *     where the wall clock was set back before. LA3 Memory is bounded; what is forgotten is seen anew.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { lateCallMs } from "../../domain/doubt.ts";
import type { Attachment } from "../../domain/volume/volume.ts";

export interface LateAttaches {
  /** To be asked as soon as the record is seen (LA1). */
  isOver(volumeUid: string, attachment: Pick<Attachment, "node" | "lateAttachUntil"> | undefined): boolean;
}

const remembered = 10_000;

export const createLateAttaches = (clock: Pick<Clock, "now" | "monotonic">): LateAttaches => {
  const ends = new Map<string, number>();
  return {
    isOver(volumeUid, attachment) {
      if (attachment?.lateAttachUntil === undefined) return true;
      const key = `${volumeUid} ${attachment.node} ${attachment.lateAttachUntil}`;
      const left = Math.min(Math.max(0, attachment.lateAttachUntil - clock.now()), lateCallMs); // LA2
      const end = ends.get(key) ?? clock.monotonic() + left;
      ends.set(key, end);
      const oldest = ends.size > remembered ? ends.keys().next().value : undefined;
      if (oldest !== undefined) ends.delete(oldest); // LA3
      return clock.monotonic() >= end;
    },
  };
};
