import type { CallLog } from "../../call-log.ts";

/** The same `kept` again is what the next life finds. */
export const memoryCallLog = (kept = new Map<number, string>()): CallLog => {
  const before = new Map(kept);
  return {
    before: () => before,
    put(text, n = Math.max(0, ...kept.keys()) + 1) {
      kept.set(n, text);
      return n;
    },
    drop: (n) => void kept.delete(n),
    close: () => undefined,
  };
};
