/** What is said of a node whose name another life asks for, and which claims the recorded life speaks for. */
import type { Claim } from "../claim/claim.ts";
import { admitCommand } from "../operator-command.ts";
import type { Blocked } from "../outcome.ts";
import type { NodeRecord, PendingLife } from "./node.ts";
import { provesReboot } from "./node-life.ts";

/**
 * A claim that was granted to an earlier life, or a call that was given to it, and nobody has said that it is over: this life proves
 * nothing about that one.
 */
export const speaksFor = (
  { speaksFrom = 0 }: Pick<NodeRecord, "speaksFrom">,
  { nodeEpoch }: { readonly nodeEpoch?: Claim["nodeEpoch"] | undefined },
): boolean => nodeEpoch === undefined || nodeEpoch >= speaksFrom;

/** Another boot of the very host waits for the link of the recorded one to end, and for nobody's word. */
const bootBlock = ({ name, bootId }: NodeRecord, { life, bootId: now, since }: PendingLife): Blocked => ({
  since,
  reason: "NODE_PENDING",
  message: `life ${life} is boot ${now} of the host of node ${name}, and a controller has, or may have, the link of boot ${bootId}`,
  missingProof: `that boot ${bootId} of node ${name} speaks no more`,
  clearWith: `nothing to do when the host was booted: life ${life} is taken once no controller has had that link for a grace (HOLDFAST_LINK_GRACE); when both boots run, one is a copy: stop its agent, and give it another HOLDFAST_NODE and HOLDFAST_HOST_IDENTITY`,
});

export const pendingBlock = (node: NodeRecord): Blocked | undefined => {
  const { name, bootId, pending } = node;
  if (pending === undefined) return undefined;
  if (provesReboot(node, pending)) return bootBlock(node, pending);
  return {
    since: pending.since,
    reason: "NODE_PENDING",
    message: `life ${pending.life} (machine ${pending.machineId}, boot ${pending.bootId}, journal ${pending.journalUid}) asks for the name ${name}, and claims stand that the recorded life (boot ${bootId}) may still hold; life ${pending.life} gets no permit, and its releases are not believed`,
    missingProof: `which of the two lives node ${name} is`,
    clearWith: `when the recorded life is over: ${admitCommand(name, pending.life)}; when life ${pending.life} is a copy: stop its agent, or give it another HOLDFAST_NODE`,
  };
};
