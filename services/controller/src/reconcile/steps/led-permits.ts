import type { Claim } from "../../domain/claim/claim.ts";
import type { Permit, PublishAnswer, ReleaseAnswer } from "../../domain/claim/permit.ts";
import type { NodeRecord } from "../../domain/node/node.ts";

/** What was pushed, and to which life of the node. */
export interface PushedPermit {
  readonly node: NodeRecord;
  readonly permit: Permit;
  readonly answer: Promise<PublishAnswer>;
}

/**
 * Permits that left ahead, by the claim as the answer of its attach leaves it: a claim that changes again is offered its permit anew, and
 * nothing is kept for it.
 */
export type LedPermits = WeakMap<Claim, PushedPermit>;

/** Answers of releases that left ahead, by the claim as the wish leaves it. */
export type LedReleases = WeakMap<Claim, Promise<ReleaseAnswer>>;
