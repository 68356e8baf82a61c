import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { AgentHeader } from "./convert.ts";

export const otherCluster = ({ name, clusterUid }: AgentHeader, wanted: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "CLUSTER_MISMATCH",
    message: `the agent of node ${name} belongs to installation ${clusterUid}, this is ${wanted}; point it at its own controllers, or empty the host and its state directory first`,
    metadata: { cluster_uid: clusterUid, wanted },
  });
