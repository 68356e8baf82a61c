import type { VolumeCondition } from "./volume-sample.ts";

/** Where a condition was heard: a node's name, or `backend`, which is no node's. */
export type ConditionSource = `node ${string}` | "backend";

/** The volume's condition as everybody is told it. */
export interface StoredCondition extends VolumeCondition {
  readonly since: number;
  /** Who says that it is abnormal, and what. */
  readonly sources: Readonly<Record<string, string>>;
}

/** What one source has said lately. */
export interface Heard {
  /** What counts, until the other has been said often enough. */
  readonly settled: VolumeCondition;
  /** How often in a row something else was said. */
  readonly against: number;
}

/** One look may be wrong: abnormal is believed the second time in a row, normal the third. */
export const believedAfter = { abnormal: 2, normal: 3 } as const;

const normal: VolumeCondition = { abnormal: false, message: "" };

export const nothingHeard: Heard = { settled: normal, against: 0 };

/** CSI: a look that failed says nothing, and what was known before stays. */
export const hear = (before: Heard, said: VolumeCondition | undefined): Heard => {
  if (said === undefined) return before;
  if (said.abnormal === before.settled.abnormal)
    return said.message === before.settled.message && before.against === 0 ? before : { settled: said, against: 0 };
  const against = before.against + 1;
  return against >= believedAfter[said.abnormal ? "abnormal" : "normal"]
    ? { settled: said.abnormal ? said : normal, against: 0 }
    : { ...before, against };
};

/** "If controller and node differ, believe the worse." */
export const worstOf = (heard: ReadonlyMap<ConditionSource, Heard>): StoredCondition["sources"] =>
  Object.fromEntries(
    [...heard]
      .filter(([, { settled }]) => settled.abnormal)
      .map(([source, { settled }]) => [source, settled.message])
      .sort(([a = ""], [b = ""]) => (a < b ? -1 : 1)),
  );
