import type { ClaimState } from "./claim.ts";

/** What can happen to a claim. Most come from an answer of the plugin or the agent; `release_wanted` from a caller. */
export const claimEvents = [
  "grant_attach",
  "grant_offer",
  "queue_timeout",
  "attached",
  "attach_refused",
  "attach_owed",
  "attach_unknown",
  "recalled",
  "published",
  "not_mounted",
  "permit_refused",
  "publish_unknown",
  "publication_lost",
  "release_wanted",
  "released",
  "release_unknown",
  "detached",
  "detach_unknown",
  "fenced",
] as const;

export type ClaimEvent = (typeof claimEvents)[number];

/**
 * A state to go to, or:
 * `stay`   the state is kept, something beside it changes (attempts, goal, degraded);
 * `leave`  the node is proved clean, or fenced: the last claim there goes to DETACHING, any other ends;
 * `end`    over: FENCED when its node was fenced, FAILED when the claim carries another failure, else RELEASED;
 * `ignore` a late or repeated message that no longer means anything.
 */
export type ClaimCell = ClaimState | "stay" | "leave" | "end" | "ignore";

type Row = Record<ClaimEvent, ClaimCell>;

const over: Row = {
  grant_attach: "ignore",
  grant_offer: "ignore",
  queue_timeout: "ignore",
  attached: "ignore",
  attach_refused: "ignore",
  attach_owed: "ignore",
  attach_unknown: "ignore",
  recalled: "ignore",
  published: "ignore",
  not_mounted: "ignore",
  permit_refused: "ignore",
  publish_unknown: "ignore",
  publication_lost: "ignore",
  release_wanted: "ignore",
  released: "ignore",
  release_unknown: "ignore",
  detached: "ignore",
  detach_unknown: "ignore",
  fenced: "ignore",
};

/** The claim machine of docs/protocol.md. Total: a new state or event does not compile until every cell is placed. */
export const claimMachine: Record<ClaimState, Row> = {
  QUEUED: {
    ...over,
    grant_attach: "ATTACHING",
    grant_offer: "OFFERED",
    queue_timeout: "end",
    release_wanted: "end",
    fenced: "end",
  },
  // A release wanted here only changes the goal: the attach may be in flight, and only its answer, or its undo, is legal next.
  ATTACHING: {
    ...over,
    attached: "OFFERED",
    attach_refused: "end",
    attach_owed: "DETACHING",
    attach_unknown: "stay",
    recalled: "RELEASING",
    release_wanted: "stay",
    fenced: "DETACHING",
  },
  OFFERED: {
    ...over,
    published: "ACTIVE",
    not_mounted: "leave",
    permit_refused: "RELEASING",
    publish_unknown: "stay",
    release_wanted: "RELEASING",
    released: "leave",
    fenced: "leave",
  },
  // A running workload is never torn down because a repeated permit failed: it stays, degraded, until somebody releases it.
  ACTIVE: {
    ...over,
    published: "stay",
    not_mounted: "leave",
    permit_refused: "stay",
    publish_unknown: "stay",
    publication_lost: "stay",
    release_wanted: "RELEASING",
    released: "leave",
    fenced: "leave",
  },
  // A late `not_mounted` carries the same journalled RELEASED(e) as the answer that is awaited.
  RELEASING: {
    ...over,
    not_mounted: "leave",
    release_wanted: "stay",
    released: "leave",
    release_unknown: "stay",
    fenced: "leave",
  },
  DETACHING: {
    ...over,
    release_wanted: "stay",
    detached: "end",
    detach_unknown: "stay",
    fenced: "stay",
  },
  RELEASED: over,
  FAILED: over,
  FENCED: over,
};

/** States in which a claim holds its volume, so that others must be compatible with it. */
export const holds: Record<ClaimState, boolean> = {
  QUEUED: false,
  ATTACHING: true,
  OFFERED: true,
  ACTIVE: true,
  RELEASING: true,
  DETACHING: true,
  RELEASED: false,
  FAILED: false,
  FENCED: false,
};

/** States in which the agent may hold a permit for it, so that its epoch keeps the agent's floor down. */
export const permitLives: Record<ClaimState, boolean> = {
  QUEUED: false,
  ATTACHING: true,
  OFFERED: true,
  ACTIVE: true,
  RELEASING: true,
  DETACHING: false,
  RELEASED: false,
  FAILED: false,
  FENCED: false,
};
