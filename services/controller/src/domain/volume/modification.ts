import type { Attempts, Blocked, Ending } from "../outcome.ts";

type Parameters = Readonly<Record<string, string>>;

/** WANTED, CALLING, UNCERTAIN and REFUSED as of an expansion. */
export const modificationStates = ["WANTED", "CALLING", "UNCERTAIN", "REFUSED"] as const;
export type ModificationState = (typeof modificationStates)[number];

/** What the backend is asked to change. The volume's own parameters follow only when it has answered. */
export interface Modification {
  readonly state: ModificationState;
  /** Only what differs from the volume's parameters, or is in doubt. */
  readonly target: Parameters;
  readonly uncertainSince?: number;
  /** The last answer was a refusal for certain: no call for this target is under way any more, whatever the ones before did. */
  readonly answered?: boolean;
  readonly attempts: Attempts;
  readonly blocked?: Blocked;
  readonly failure?: Ending;
  readonly trace?: { readonly parent: string; readonly at: number };
  readonly since: number;
}

/**
 * What one more request means beside what is set and what is wanted already:
 * `has`     all of it is set, or wanted already
 * `wish`    the keys to change from now on
 * `frozen`  another target may be half done at the backend: only the same one may be asked for
 */
export type ModifyVerdict =
  | { readonly kind: "has" }
  | { readonly kind: "wish"; readonly target: Parameters }
  | { readonly kind: "frozen"; readonly target: Parameters };

export const isModifying = (modification: Modification | undefined): modification is Modification =>
  modification !== undefined && modification.state !== "REFUSED";

const changed = (wanted: Parameters, has: Parameters): Parameters =>
  Object.fromEntries(Object.entries(wanted).filter(([key, value]) => has[key] !== value));

const isEmpty = (map: object): boolean => Object.keys(map).length === 0;

/** CSI: only the keys to change are sent; a key left out keeps its value. */
export const judgeModify = (
  has: Parameters,
  modification: Modification | undefined,
  wanted: Parameters,
): ModifyVerdict => {
  if (!isModifying(modification)) {
    const target = changed(wanted, has);
    return isEmpty(target) ? { kind: "has" } : { kind: "wish", target };
  }
  const { target, state } = modification;
  if (isEmpty(changed(wanted, { ...has, ...target }))) return { kind: "has" };
  // Nothing was called yet: what is asked last counts, key by key.
  if (state === "WANTED" && modification.uncertainSince === undefined)
    return { kind: "wish", target: changed({ ...target, ...wanted }, has) };
  // A value for each key in doubt makes all of them known again.
  const covers = Object.keys(target).every((key) => wanted[key] !== undefined);
  if (state === "UNCERTAIN" && modification.answered === true && covers)
    return { kind: "wish", target: { ...changed(wanted, has), ...pick(wanted, Object.keys(target)) } };
  return { kind: "frozen", target };
};

const pick = (map: Parameters, keys: readonly string[]): Parameters =>
  Object.fromEntries(keys.flatMap((key) => (map[key] === undefined ? [] : [[key, map[key]]])));
