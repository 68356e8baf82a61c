// biome-ignore-all lint/suspicious/noThenProperty: a verdict says what then; its value is a word, and nothing awaits a verdict.
/**
 * What an answer of a plugin proves, for every kind of call and every gRPC code: the table of protocol §2.5.
 *
 * One distinction carries everything else. "refused" means that this very call surely changed nothing; "unknown" means
 * that it may have, may still be running, or may finish later, so whoever made it goes on owing the same call or its
 * inverse. A refusal is final only for a caller with no earlier unknown attempt of the same operation: after one of
 * those the debt stays until the inverse call succeeded.
 */
import type { CallKind } from "./call-kind.ts";
import type { CsiMethod } from "./methods.ts";

export const codes = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
] as const;

/** The gRPC codes by name, in the order of their numbers. */
export type Code = (typeof codes)[number];

export interface Verdict {
  readonly outcome: "done" | "refused" | "unknown";
  /**
   * - `continue`: the step is over.
   * - `again`: the same call again after a backoff, or its inverse if the goal changed.
   * - `wait`: as `again`, but an earlier call is known to be running: back off longer, ask nothing else of this volume.
   * - `fail`: the operation ends here with this reason (if no earlier attempt was unknown).
   * - `block`: keep the record, say why and what clears it, try again slowly.
   * - `check-mounts`: the kernel's mount table decides: clean means done, still mounted means blocked.
   * - `check-absence`: only the backend's own listing, or an operator's word, proves that nothing is attached.
   */
  readonly then: "continue" | "again" | "wait" | "fail" | "block" | "check-mounts" | "check-absence";
  /** What has to be different before the same call has any chance. */
  readonly needs?: "credentials" | "capabilities" | "change" | "other-node-detached";
  /** The node has no free slot for this plugin: placement should hear of it. */
  readonly tellPlacement?: true;
  /** With `block`: so many refusals in a row are first answered with `again` (backends list new objects late). */
  readonly afterTries?: number;
}

/** A call that did not succeed, as a value: outcomes are data, only bad arguments are thrown. */
export interface CallFailure {
  readonly method: CsiMethod;
  readonly plugin: string;
  readonly code: Code;
  readonly verdict: Verdict;
  /** Scrubbed of the secrets of the call, at most 1 KiB. */
  readonly message: string;
  /** False: nothing left this process, so the attempt by itself adds no debt. */
  readonly sent: boolean;
  /** The plugin itself sent this status. */
  readonly answered?: boolean;
  /** As of a WireFailure. */
  readonly stale?: boolean;
}

export type CallOutcome<T> =
  | { readonly outcome: "done"; readonly value: T }
  | { readonly outcome: "refused" | "unknown"; readonly failure: CallFailure };

const done: Verdict = { outcome: "done", then: "continue" };
const again: Verdict = { outcome: "unknown", then: "again" };
const wait: Verdict = { outcome: "unknown", then: "wait" };
const fail = (needs: NonNullable<Verdict["needs"]>): Verdict => ({ outcome: "refused", then: "fail", needs });
const block = (needs: NonNullable<Verdict["needs"]>): Verdict => ({ outcome: "refused", then: "block", needs });

/** Calls that make something: an unknown result may exist, so it is repeated or undone, never forgotten. */
const making: Record<Code, Verdict> = {
  OK: done, // The plugin answers OK only when the thing is there, also when it was there before: calls are idempotent.
  CANCELLED: again, // Giving up a call does not stop the plugin; it may go on and finish it.
  UNKNOWN: again, // Plugins written without codes answer this for every error, whatever they had done by then.
  INVALID_ARGUMENT: fail("change"), // A field is wrong: the caller has to fix it before it asks again.
  DEADLINE_EXCEEDED: again, // Time was up for us, not for the backend.
  NOT_FOUND: block("change"), // The volume is not known there: it has to be verified before anything is repeated.
  ALREADY_EXISTS: block("change"), // Something incompatible is there under that name or path; it may hold data: never delete it.
  PERMISSION_DENIED: fail("credentials"), // Known caller, not allowed: ask again when the secret or the rights changed.
  RESOURCE_EXHAUSTED: again, // May be a full backend, may be gRPC's own overload: the second says nothing about the work.
  FAILED_PRECONDITION: block("change"), // The volume is in a state that forbids the call; only that state can change it.
  ABORTED: wait, // An operation on this volume is pending: make sure no other is running, and ask with growing gaps.
  OUT_OF_RANGE: fail("change"), // Size or offset outside what the plugin can do: another value is needed.
  UNIMPLEMENTED: fail("capabilities"), // Not offered by this plugin: must not be repeated until capabilities are re-read.
  INTERNAL: again, // On purpose: a rate limit once came as INTERNAL and volumes were marked detached.
  UNAVAILABLE: again, // The connection broke, before or after the work: nobody can tell.
  DATA_LOSS: again, // Not a code of CSI; a reply that was lost or damaged proves nothing.
  UNAUTHENTICATED: fail("credentials"), // No valid identity in the secrets: ask again when they changed.
};

/** Calls that take something away: whatever is not proved gone is still there. */
const removing: Record<Code, Verdict> = {
  OK: done, // The plugin answers OK also when the thing was gone before.
  CANCELLED: again, // Giving up does not stop the plugin, nor does it prove that the plugin finished.
  UNKNOWN: again, // No code, no proof.
  INVALID_ARGUMENT: block("change"), // The thing is still there and this request cannot remove it.
  DEADLINE_EXCEEDED: again, // May be gone, may be there: the same call tells.
  NOT_FOUND: done, // A delete of what does not exist has nothing left to do (node and detach calls differ, below).
  ALREADY_EXISTS: again, // Senseless here; still there.
  PERMISSION_DENIED: block("credentials"), // Still there, and stays until the secret or the rights change.
  RESOURCE_EXHAUSTED: again, // Overload: still there.
  FAILED_PRECONDITION: block("change"), // In use, or with dependants: make sure of the users, ask again slowly.
  ABORTED: wait, // An operation on this volume is pending; ask with growing gaps.
  OUT_OF_RANGE: block("change"), // Senseless here, and certain: still there.
  UNIMPLEMENTED: block("capabilities"), // Must not be repeated until capabilities are re-read; still there.
  INTERNAL: again, // Never taken for gone.
  UNAVAILABLE: again, // The connection broke: still there until the same call says otherwise.
  DATA_LOSS: again, // A damaged reply proves nothing.
  UNAUTHENTICATED: block("credentials"), // Still there until the secret changes.
};

/** Calls that change nothing: a missing answer costs a question, never an undo. */
const reading: Record<Code, Verdict> = {
  OK: done,
  CANCELLED: again,
  UNKNOWN: again,
  INVALID_ARGUMENT: fail("change"),
  DEADLINE_EXCEEDED: again,
  NOT_FOUND: fail("change"), // The plugin does not know what was asked for.
  ALREADY_EXISTS: fail("change"),
  PERMISSION_DENIED: fail("credentials"),
  RESOURCE_EXHAUSTED: again,
  FAILED_PRECONDITION: fail("change"), // Probe: the plugin is unhealthy. Others: not in this state.
  ABORTED: wait, // Lists: the token is stale, start again from the first page.
  OUT_OF_RANGE: fail("change"),
  UNIMPLEMENTED: fail("capabilities"),
  INTERNAL: again,
  UNAVAILABLE: again,
  DATA_LOSS: again,
  UNAUTHENTICATED: fail("credentials"),
};

const nodeGone: Pick<Record<Code, Verdict>, "NOT_FOUND"> = {
  // The plugin forgot the volume (a restart is enough); a mount may well be left: the kernel knows, the plugin does not.
  NOT_FOUND: { outcome: "unknown", then: "check-mounts" },
};

const table: Record<CallKind, Record<Code, Verdict>> = {
  create: {
    ...making,
    // The source snapshot or volume is gone; there is nothing to make this volume from.
    NOT_FOUND: fail("change"),
  },
  controllerPublish: {
    ...making,
    // Volume or node not known to the backend: both have to be verified; a fresh one may only be listed late.
    NOT_FOUND: { ...block("change"), afterTries: 5 },
    // Attached to another node. That attachment may be somebody's: it is never detached from here.
    FAILED_PRECONDITION: block("other-node-detached"),
    // Either overload or the node's limit of attached volumes: still unknown, and worth a word to placement.
    RESOURCE_EXHAUSTED: { ...again, tellPlacement: true },
  },
  stage: making,
  publish: making,
  expand: making,
  modify: making,
  snapshotCreate: {
    ...making,
    // The source volume is gone; there is nothing to take a snapshot of.
    NOT_FOUND: fail("change"),
  },
  delete: removing,
  controllerUnpublish: {
    ...removing,
    // Not success: volume or node unknown to the plugin does not prove the disk detached from the machine.
    NOT_FOUND: { outcome: "unknown", then: "check-absence" },
  },
  unpublish: { ...removing, ...nodeGone },
  unstage: { ...removing, ...nodeGone },
  snapshotDelete: removing,
  read: reading,
};

export function verdictOf(kind: CallKind, code: Code): Verdict {
  return table[kind][code];
}

/** gRPC status number → name; a number nobody knows is UNKNOWN, as gRPC itself says. */
export function codeOf(status: number): Code {
  return codes[status] ?? "UNKNOWN";
}
