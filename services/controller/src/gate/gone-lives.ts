/**
 * The words of controllers that nobody waits for any more. They are compared at each look, so that one that was missed is found by the next.
 *
 * CW4 A life is gone when each look of a minute found it away. Its word is taken out of a vetted store if it was the word of that vetting
 * (CW3), or names no plugin and so bars nothing. Any other word stays until a person says that the life is gone.
 */
import type { Vetting } from "@holdfast/model/vetting";
import type { Clock } from "@holdfast/shared/async/clock";
import type { GateWord } from "../records/controller-gates.ts";

/** Of that vetting or without plugins, and gone. */
export type IsOver = (word: GateWord) => boolean;

export const goneMs = 60_000;

export const createGoneLives = (isAway: (issuer: string) => boolean, clock: Pick<Clock, "monotonic">) => {
  /** Since which look each life was found away by all. */
  let away: ReadonlyMap<string, number> = new Map();
  /** One look. */
  return (words: readonly GateWord[], { uid }: Vetting): IsOver => {
    const now = clock.monotonic();
    away = new Map(words.flatMap(({ issuer }) => (isAway(issuer) ? [[issuer, away.get(issuer) ?? now] as const] : [])));
    return ({ issuer, promised, plugins }) =>
      (promised === uid || plugins.length === 0) && now - (away.get(issuer) ?? now) > goneMs;
  };
};
