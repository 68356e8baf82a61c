/**
 * Which of the controllers that share a plugin makes the call of a record, as long as no controller has taken that call.
 *
 * CS1 The key of the record decides. Controllers that see the same sharers name the same one, and a sharer that comes or goes moves its
 * own share and no other. CS2 Where the requests come to all sharers alike, each of them keeps the calls that it is asked for: the work is
 * shared already, and a record that is handed over costs a commit and reads. CS3 One look that finds them unlike proves nothing, for the
 * sharers count a burst at different moments; nor do too few requests.
 */

/** A controller that can call the plugin now. */
export interface Sharer {
  readonly id: string;
  /** How many calls of the plugin it was asked for of late; older ones count for less. */
  readonly asked: number;
}

/** Fewer than this are too few to tell how requests are spread. */
const leastAsked = 20;
const unlike = 0.25;

/** How the requests come to the sharers of a plugin, as the looks so far found it. */
export type Spread = "alike" | "doubted" | "unlike";

export const spreadAfter = (before: Spread, sharers: readonly Sharer[]): Spread => {
  const mean = sharers.reduce((sum, { asked }) => sum + asked, 0) / sharers.length;
  if (!(mean >= leastAsked)) return before; // CS3
  if (sharers.every(({ asked }) => Math.abs(asked - mean) <= unlike * mean)) return "alike"; // CS2
  return before === "alike" ? "doubted" : "unlike";
};

/** FNV-1a, and the last mixing of MurmurHash3: keys that differ in one letter are to differ in every bit. */
const hash = (text: string): number => {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
};

/** CS1: the sharer with the highest number for the key. */
export const sharerOf = (sharers: readonly Sharer[], key: string): string | undefined => {
  let best: { readonly id: string; readonly weight: number } | undefined;
  for (const { id } of sharers) {
    const weight = hash(`${id}\n${key}`);
    if (best === undefined || weight > best.weight) best = { id, weight };
  }
  return best?.id;
};
