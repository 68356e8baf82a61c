/** What is decided without a node's word is decided only of a node whose agent is silent. */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { NodeView } from "../../ports.ts";

export const notSuspect = ({ record: { name }, live, linked }: NodeView): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "NODE_NOT_SUSPECT",
    message:
      linked === true || (linked === undefined && live === "alive")
        ? `the agent of node ${name} is alive and would register again; stop it first, then repeat`
        : `node ${name} is not known to be silent: another controller may have its link; stop its agent, and repeat once it is SUSPECT (HOLDFAST_LINK_GRACE)`,
    metadata: { node: name },
  });
