import type { CutState } from "./snapshot.ts";

/** What happens to a snapshot or a group. */
export const cutEvents = [
  /** The plugin has it, and is not done with it. */
  "cut",
  /** The plugin has it, and volumes can be made from it. */
  "ready",
  /** Refused, and no attempt is in doubt: nothing was made. */
  "refused",
  /** Refused after an attempt that nobody knows the outcome of. */
  "refused_in_doubt",
  /** Refused until something changes elsewhere; no certain answer; or an answer that does not fit the record. */
  "not_answered",
  "delete_wanted",
  "deleted",
  "not_deleted",
  /** A person takes it on that the backend may have something that nobody names. */
  "given_up",
] as const;
export type CutEvent = (typeof cutEvents)[number];

/**
 * `made`: the next state, or DELETING if nobody wants it any more. `stay`: only what is beside the state changes. `gone`: the
 * record ends. `unless-wanted`: FAILED, or gone if nobody wants it. `ignored`: a late or repeated message.
 */
export type CutCell = "made:CUT" | "made:READY" | "stay" | "unless-wanted" | "DELETING" | "gone" | "ignored";

/** Total: every state × event; docs/protocol.md has the same table. */
export const cutMachine: Readonly<Record<CutState, Readonly<Record<CutEvent, CutCell>>>> = {
  CREATING: {
    cut: "made:CUT",
    ready: "made:READY",
    refused: "unless-wanted",
    refused_in_doubt: "stay",
    not_answered: "stay",
    // The call may have been made: it is replayed until it is known, and then undone.
    delete_wanted: "stay",
    deleted: "ignored",
    not_deleted: "ignored",
    given_up: "gone",
  },
  // It exists: no refusal makes it less so, and nothing but a wish removes it.
  CUT: {
    cut: "made:CUT",
    ready: "made:READY",
    refused: "stay",
    refused_in_doubt: "stay",
    not_answered: "stay",
    delete_wanted: "DELETING",
    deleted: "ignored",
    not_deleted: "ignored",
    given_up: "ignored",
  },
  READY: {
    cut: "ignored",
    ready: "ignored",
    refused: "ignored",
    refused_in_doubt: "ignored",
    not_answered: "ignored",
    delete_wanted: "DELETING",
    deleted: "ignored",
    not_deleted: "ignored",
    given_up: "ignored",
  },
  DELETING: {
    cut: "ignored",
    ready: "ignored",
    refused: "ignored",
    refused_in_doubt: "ignored",
    not_answered: "ignored",
    delete_wanted: "ignored",
    deleted: "gone",
    not_deleted: "stay",
    given_up: "gone",
  },
  FAILED: {
    cut: "ignored",
    ready: "ignored",
    refused: "ignored",
    refused_in_doubt: "ignored",
    not_answered: "ignored",
    delete_wanted: "gone",
    deleted: "ignored",
    not_deleted: "ignored",
    given_up: "ignored",
  },
};

export const cellOf = (state: CutState, event: CutEvent): CutCell => cutMachine[state][event];
