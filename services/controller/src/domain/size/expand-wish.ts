import type { VolumeRecord } from "../volume/volume.ts";
import { type Expansion, isPending, type SizeRange } from "./expansion.ts";
import { sizeOf } from "./growth.ts";

/**
 * What one more request for a size means beside what the volume has and what is wanted already:
 * `has`      it has that size, or the wish is there already: nothing to store
 * `wish`     the range that is wanted from now on
 * `give-up`  nothing was called for the larger size yet, and now nobody wants it
 * `shrinks`  it is bigger than the request allows, and volumes do not shrink
 * `clashes`  what is wanted already forbids it: it has to end first
 */
export type WishVerdict =
  | { readonly kind: "has" }
  | { readonly kind: "wish"; readonly range: SizeRange }
  | { readonly kind: "give-up" }
  | { readonly kind: "shrinks"; readonly size: number }
  | { readonly kind: "clashes"; readonly standing: SizeRange };

const tighter = (a: number, b: number): number => (a === 0 || b === 0 ? Math.max(a, b) : Math.min(a, b));

const same = (a: SizeRange, b: SizeRange): boolean => a.required === b.required && a.limit === b.limit;

/** What is wanted as things stand, with what came while a call was under way. */
export const standingWish = ({ target, next }: Expansion): SizeRange => next ?? target;

/**
 * Wishes merge to the largest. One whose limit is below what is wanted takes its place: that is how a size that was a mistake is
 * taken back. After a call that may have worked it is asked for without the limit, since the backend may be beyond it already.
 */
export const judgeWish = (volume: VolumeRecord, range: SizeRange): WishVerdict => {
  const size = sizeOf(volume);
  if (range.limit > 0 && range.limit < size) return { kind: "shrinks", size };
  const { expansion, growth } = volume;
  // What nodes alone are to make is wanted already, and may have been begun.
  if (!isPending(expansion) && growth?.byNodes === true && range.required > size && range.required <= growth.bytes)
    return { kind: "has" };
  if (!isPending(expansion)) return range.required <= size ? { kind: "has" } : { kind: "wish", range };
  const standing = standingWish(expansion);
  if (range.limit > 0 && range.limit < standing.required) {
    if (expansion.state === "WANTED") return range.required <= size ? { kind: "give-up" } : { kind: "wish", range };
    const lowered = { required: Math.max(range.required, size), limit: 0 };
    return same(lowered, standing) ? { kind: "has" } : { kind: "wish", range: lowered };
  }
  const merged = {
    required: Math.max(range.required, standing.required),
    limit: tighter(range.limit, standing.limit),
  };
  if (merged.limit > 0 && merged.limit < merged.required) return { kind: "clashes", standing };
  // What is called for already cannot be narrowed any more; its answer tells.
  const narrowed = merged.required === standing.required && expansion.state !== "WANTED";
  return same(merged, standing) || narrowed ? { kind: "has" } : { kind: "wish", range: merged };
};
