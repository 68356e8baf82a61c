/** What a controller remembers of its store beside it, and what that says of the store that it finds. */
import type { Vetting } from "@holdfast/model/vetting";
import type { StoreIdentity } from "../domain/store-types.ts";
import { type Finding, finding } from "./finding.ts";

/** What this controller keeps beside the store. */
export interface Lineage {
  /** The installation that it belonged to before; it is remembered once one was seen. */
  read(): string | undefined;
  remember(clusterUid: string): void;
  /** Whether it saw that vetting in its store. */
  knows(vettingUid: string): boolean;
  saw(vetting: Vetting): void;
  /** The highest generation that it saw, also before it was started; 0 = none. */
  generation(): number;
  /** The nodes that the store had when it was vetted last, and those that were seen in it since; see node-roster.ts. */
  nodes(): readonly string[];
  keepNodes(lines: readonly string[]): void;
}

/**
 * The store is not the one of this controller: it belongs to another installation; or its process was vetted under a lower generation
 * than was seen, so that it is a master which was replaced and does not know it.
 */
export const otherHistory = (
  { clusterUid, vetting: { gen } }: StoreIdentity,
  vetted: boolean,
  lineage: Pick<Lineage, "read" | "generation">,
): Finding | undefined => {
  const [before, seen] = [lineage.read(), lineage.generation()];
  if (before !== undefined && before !== clusterUid)
    return finding(
      "OTHER_HISTORY",
      `the store belongs to installation ${clusterUid}, and this controller to ${before}: point it at its own store, or give it an empty state directory`,
    );
  if (!vetted || gen >= seen) return undefined;
  return finding(
    "OTHER_HISTORY",
    `OTHER_HISTORY: the store was vetted as generation ${gen}, and this controller has seen generation ${seen} of it: another server is the master since; point HOLDFAST_STORE at that one, or take this one for the true one (holdfast repair vet --accept)`,
  );
};
