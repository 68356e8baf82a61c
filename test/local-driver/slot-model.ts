/**
 * One volume name under many clients, as the specification and docs/local-driver.md have it: which answer is right in which state, and what
 * it makes true. Pure: whether a history of overlapping calls is right is decided by trying their orders (linearize.ts).
 */
import type { Code } from "./call-outcome.ts";
import type { VolumeKind } from "./volume-kinds.ts";

export type Place = "a" | "b";

export interface SlotState {
  /** Empty: there is no such volume. */
  readonly id: string;
  readonly bytes: bigint;
  readonly staged: Place | "";
  /** Of each target: "" is not published. */
  readonly targets: Readonly<Record<Place, "" | "ro" | "rw">>;
  readonly snapshot: string;
  readonly snapshotOf: string;
}

export const emptySlot: SlotState = {
  id: "",
  bytes: 0n,
  staged: "",
  targets: { a: "", b: "" },
  snapshot: "",
  snapshotOf: "",
};

export interface SlotKind {
  readonly kind: VolumeKind;
  /** Only one target may be writable. */
  readonly singleWriter: boolean;
}

/** Each with what the caller said, and so could have been wrong about. */
export type SlotCall =
  | { readonly call: "create"; readonly bytes: bigint }
  | { readonly call: "delete"; readonly id: string }
  | { readonly call: "stage"; readonly id: string; readonly path: Place }
  | { readonly call: "unstage"; readonly id: string; readonly path: Place }
  | {
      readonly call: "publish";
      readonly id: string;
      readonly path: Place;
      readonly target: Place;
      readonly how: "ro" | "rw";
    }
  | { readonly call: "unpublish"; readonly id: string; readonly target: Place }
  | { readonly call: "snapshot"; readonly id: string }
  | { readonly call: "deleteSnapshot"; readonly id: string }
  | { readonly call: "clone"; readonly id: string }
  | { readonly call: "expand"; readonly id: string; readonly bytes: bigint }
  | { readonly call: "modify"; readonly id: string }
  | { readonly call: "modifyWrongly"; readonly id: string }
  | { readonly call: "get"; readonly id: string };

/** The code, and of OK what was said: an id, or a size. */
export interface SlotAnswer {
  readonly code: Code;
  readonly said: string;
}

type Of<C extends SlotCall["call"]> = Extract<SlotCall, { readonly call: C }>;

/** The right code, and the state after it; of OK `said` is checked by the rule itself. */
interface Right {
  readonly code: Code;
  readonly state: SlotState;
}

type Rule<C extends SlotCall["call"]> = (state: SlotState, call: Of<C>, said: string, slot: SlotKind) => Right;

const isWritten = ({ kind }: SlotKind, { targets }: SlotState): boolean =>
  (kind === "directory" || kind === "block") && Object.values(targets).includes("rw");

const isPublished = ({ targets }: SlotState): boolean => targets.a !== "" || targets.b !== "";

const other = (place: Place): Place => (place === "a" ? "b" : "a");

/** What was said cannot be: no code is right. */
const never: Code = "UNKNOWN";

const same = (state: SlotState, code: Code): Right => ({ code, state });

/** NOT_FOUND for another volume than the one there is. */
const onVolume =
  <C extends Exclude<SlotCall["call"], "create">>(rule: Rule<C>): Rule<C> =>
  (state, call, said, slot) => {
    const { id } = call as { readonly id: string };
    return state.id === "" || id !== state.id ? same(state, "NOT_FOUND") : rule(state, call, said, slot);
  };

const rules: { readonly [C in SlotCall["call"]]: Rule<C> } = {
  create: (state, { bytes }, said) => {
    if (state.id !== "") {
      if (bytes !== state.bytes) return same(state, "ALREADY_EXISTS");
      return same(state, said === "" || said === state.id ? "OK" : never);
    }
    return { code: "OK", state: { ...state, id: said, bytes, staged: "", targets: emptySlot.targets } };
  },
  delete: (state, { id }, _said, { kind }) => {
    if (id !== state.id) return same(state, "OK");
    // Of a block volume that is staged nothing is on the node until it is published.
    const inUse = kind === "block" ? isPublished(state) : state.staged !== "";
    if (inUse) return same(state, "FAILED_PRECONDITION");
    return { code: "OK", state: { ...emptySlot, snapshot: state.snapshot, snapshotOf: state.snapshotOf } };
  },
  stage: onVolume((state, { path }) => {
    if (state.staged === other(path)) return same(state, "FAILED_PRECONDITION");
    return { code: "OK", state: { ...state, staged: path } };
  }),
  unstage: onVolume((state, { path }) => {
    if (state.staged !== path) return same(state, "OK");
    return isPublished(state) ? same(state, "FAILED_PRECONDITION") : { code: "OK", state: { ...state, staged: "" } };
  }),
  publish: onVolume((state, { path, target, how }, _said, { singleWriter }) => {
    const known = state.targets[target];
    if (known !== "" && known !== how) return same(state, "ALREADY_EXISTS");
    if (state.staged !== path) return same(state, "FAILED_PRECONDITION");
    if (known !== "") return same(state, "OK");
    if (singleWriter && how === "rw" && state.targets[other(target)] === "rw")
      return same(state, "FAILED_PRECONDITION");
    return { code: "OK", state: { ...state, targets: { ...state.targets, [target]: how } } };
  }),
  unpublish: onVolume((state, { target }) => ({
    code: "OK",
    state: { ...state, targets: { ...state.targets, [target]: "" } },
  })),
  snapshot: (state, { id }, said, slot) => {
    if (state.snapshot !== "") {
      if (state.snapshotOf !== id) return same(state, "ALREADY_EXISTS");
      return same(state, said === "" || said === state.snapshot ? "OK" : never);
    }
    if (state.id === "" || id !== state.id) return same(state, "NOT_FOUND");
    if (isWritten(slot, state)) return same(state, "FAILED_PRECONDITION");
    return { code: "OK", state: { ...state, snapshot: said, snapshotOf: id } };
  },
  deleteSnapshot: (state, { id }) => ({
    code: "OK",
    state: id === state.snapshot ? { ...state, snapshot: "", snapshotOf: "" } : state,
  }),
  clone: onVolume((state, _call, _said, slot) => same(state, isWritten(slot, state) ? "FAILED_PRECONDITION" : "OK")),
  expand: onVolume((state, { bytes }, said) => {
    const after = bytes > state.bytes ? bytes : state.bytes;
    return { code: said === "" || said === String(after) ? "OK" : never, state: { ...state, bytes: after } };
  }),
  modify: onVolume((state) => same(state, "OK")),
  modifyWrongly: onVolume((state) => same(state, "INVALID_ARGUMENT")),
  get: onVolume((state, _call, said) => same(state, said === "" || said === String(state.bytes) ? "OK" : never)),
};

/** The state after it; undefined: this answer is wrong in this state. */
export const stepSlot = (
  slot: SlotKind,
  state: SlotState,
  call: SlotCall,
  { code, said }: SlotAnswer,
): SlotState | undefined => {
  const rule = rules[call.call] as Rule<SlotCall["call"]>;
  const right = rule(state, call as never, said, slot);
  return right.code === code ? right.state : undefined;
};
