/** Which of several instances of a plugin is called: one at a time, and another only when that one cannot be. */

export interface Candidate {
  readonly id: string;
  /** Beside this controller: secrets of its calls reach no other host. */
  readonly local: boolean;
  /** Rises with the age of a local one; those on nodes come in the order of their names. */
  readonly rank: number;
  /** It failed lately, and is left alone until then. */
  readonly restsUntil: number;
}

/**
 * Those beside the controller go first, the newest of them in front: it is the one that an upgrade has just started. Of those on
 * nodes the one that was called last stays the one: many drivers keep in memory what two instances would have to share. When
 * all of them rest, the one whose rest ends first is tried; whether to try at all is not asked here.
 */
export const chooseInstance = <C extends Candidate>(
  candidates: readonly C[],
  last: string | undefined,
  now: number,
): C | undefined => {
  const before = (a: C, b: C): boolean => {
    const [restA, restB] = [Math.max(0, a.restsUntil - now), Math.max(0, b.restsUntil - now)];
    if (restA !== restB) return restA < restB;
    if (a.local !== b.local) return a.local;
    if (!a.local && a.id === last) return true;
    if (!b.local && b.id === last) return false;
    return a.local ? a.rank > b.rank : a.rank < b.rank;
  };
  return candidates.reduce<C | undefined>(
    (best, one) => (best === undefined || before(one, best) ? one : best),
    undefined,
  );
};
