import { durationWords } from "./duration.ts";

/** `3m ago`; `-` for a time that was never set. */
export const ago = (at: Date | undefined, now: number): string =>
  at === undefined ? "-" : `${durationWords(now - at.getTime())} ago`;

/** `in 12s`, `now`. */
export const ahead = (at: Date | undefined, now: number): string => {
  if (at === undefined) return "-";
  return at.getTime() <= now ? "now" : `in ${durationWords(at.getTime() - now + 999)}`;
};

export const moment = (at: Date | undefined): string => at?.toISOString() ?? "-";
