/**
 * Of which records the store has told in this very turn of the event loop, by answering the commit that wrote them. Until the turn ends
 * that answer is as good as a read whose answer came in it: between either and a call that leaves now nothing else was heard.
 */
export interface FreshKeys {
  note(key: string): void;
  has(key: string): boolean;
}

/** `endOfTurn` runs what it is given behind everything that the answers of this turn have set off; without it nothing is fresh. */
export const createFreshKeys = (endOfTurn: ((run: () => void) => void) | undefined): FreshKeys => {
  const keys = new Set<string>();
  return {
    note(key) {
      if (endOfTurn === undefined) return;
      if (keys.size === 0) endOfTurn(() => keys.clear());
      keys.add(key);
    },
    has: (key) => keys.has(key),
  };
};
