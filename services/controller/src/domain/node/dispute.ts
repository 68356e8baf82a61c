/** An agent that asks for the name of a node and is refused, and what people are told of it. */
import type { Blocked } from "../outcome.ts";

interface Refused {
  readonly since: number;
  readonly machineId: string;
  readonly bootId: string;
  readonly why: string;
}

/** Known to the controller that was asked alone, as long as that agent goes on asking. */
export interface Dispute extends Refused {
  readonly node: string;
  /** A live process has the name; or the one that asks belongs to another installation. */
  readonly reason: "NODE_CONFLICT" | "CLUSTER_MISMATCH";
}

const remedies: Readonly<
  Record<Dispute["reason"], (name: string) => { readonly missingProof: string; readonly clearWith: string }>
> = {
  NODE_CONFLICT: (name) => ({
    missingProof: "that only one of the two is meant to be this node",
    clearWith: `"systemctl stop holdfast-node-agent" on the machine that is not ${name}, or another HOLDFAST_NODE there; the other one is the node then`,
  }),
  CLUSTER_MISMATCH: () => ({
    missingProof: "which installation that host is meant to belong to",
    clearWith:
      'correct HOLDFAST_CONTROLLERS there, and "systemctl restart holdfast-node-agent"; when the host is to come here, release what it holds in its own installation first, and empty its HOLDFAST_STATE_DIR',
  }),
};

export const disputeBlock = ({ node, reason, since, machineId, bootId, why }: Dispute): Blocked => ({
  ...remedies[reason](node),
  since,
  reason,
  message: `an agent on machine ${machineId} (boot ${bootId}) asks for the name ${node}: ${why}`,
});
