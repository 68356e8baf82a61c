import type { ClaimTombstone } from "../../domain/claim/claim.ts";

/** What is told of a commit of this process. */
export interface CommitNotice {
  /** Volume keys. */
  readonly keys: readonly string[];
  /** Volumes on which other members of a set wait, of which a member ended in this commit. */
  readonly related: readonly string[];
  readonly ended: readonly ClaimTombstone[];
  /** When the earliest of them wants to be looked at. */
  readonly due: number | undefined;
  /** Nothing was written: somebody asks again for what is owed, and the pause before the next try is over. */
  readonly reminded?: true;
}
