import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { CallContext } from "@holdfast/shared/grpc/call-context";
import { formatIdentity } from "@holdfast/shared/grpc/identity";

/** Throws for a caller that does not speak for this node. */
export type CallerCheck = (node: string, caller: Pick<CallContext, "identity">) => void;

/**
 * I9: who speaks for a node is that node. Where callers have certificates, nothing else opens a link; where they have none, a caller
 * that says nothing of itself is taken at its word.
 */
export const createCallerCheck =
  ({ certified }: { readonly certified: boolean }): CallerCheck =>
  (node, { identity }) => {
    const { role, name, certificate } = identity;
    if (role === "node" && name === node && (!certified || certificate !== undefined)) return;
    if (!certified && (role === "anonymous" || role === "local")) return;
    throw new HoldfastError({
      kind: "permission",
      reason: "PERMISSION_DENIED",
      message: `${formatIdentity(identity)} may not speak for node ${node}${certified ? `: its agent has a certificate of node/${node}` : ""}`,
      metadata: { node },
    });
  };
