/** What is said of a node whose name another life asks for, and which claims the recorded life speaks for. */
import type { Claim } from "../claim/claim.ts";
import { admitCommand } from "../operator-command.ts";
import type { Blocked } from "../outcome.ts";
import type { NodeRecord } from "./node.ts";

/**
 * A claim that was granted to an earlier life, or a call that was given to it, and nobody has said that it is over: this life proves
 * nothing about that one.
 */
export const speaksFor = (
  { speaksFrom = 0 }: Pick<NodeRecord, "speaksFrom">,
  { nodeEpoch }: { readonly nodeEpoch?: Claim["nodeEpoch"] | undefined },
): boolean => nodeEpoch === undefined || nodeEpoch >= speaksFrom;

export const pendingBlock = ({ name, bootId, pending }: NodeRecord): Blocked | undefined =>
  pending === undefined
    ? undefined
    : {
        since: pending.since,
        reason: "NODE_PENDING",
        message: `life ${pending.life} (machine ${pending.machineId}, boot ${pending.bootId}, journal ${pending.journalUid}) asks for the name ${name}, and claims stand that the recorded life (boot ${bootId}) may still hold; life ${pending.life} gets no permit, and its releases are not believed`,
        missingProof: `which of the two lives node ${name} is`,
        clearWith: `when the recorded life is over: ${admitCommand(name, pending.life)}; when life ${pending.life} is a copy: stop its agent, or give it another HOLDFAST_NODE`,
      };
