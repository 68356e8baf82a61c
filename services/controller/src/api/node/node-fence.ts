import type {
  FenceNodeRequest,
  FenceNodeResponse,
  Node,
  NodeServiceDefinition,
} from "@holdfast/shared/gen/holdfast/v1/node";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import { validateFence } from "../../commands/node/fence-node.ts";
import type { FenceEvidence, FenceView } from "../../commands/node/node-model.ts";
import { callerOf } from "../api-deps.ts";
import { createChecks, durationMs, refuseAll } from "../check-request.ts";
import { holdUntil } from "../hold-until.ts";
import { remainingMessage } from "./convert-node.ts";
import type { NodeDrainDeps } from "./node-drain.ts";

/** A word that was not given is no evidence, which the command says with what to do. */
const evidenceFrom = ({ powerOffAttestation, detachFences }: FenceNodeRequest): FenceEvidence | undefined => {
  if (powerOffAttestation !== undefined) return { kind: "power-off", words: powerOffAttestation };
  return detachFences === true ? { kind: "on-detach" } : undefined;
};

export const createNodeFence = (
  deps: NodeDrainDeps,
): Pick<Implementation<typeof NodeServiceDefinition>, "fenceNode"> => {
  const { wakeups, clock } = deps;
  const responseOf = ({ node, effects, risks, ...left }: FenceView): FenceNodeResponse => ({
    node: deps.message(node) satisfies Node,
    ...remainingMessage(node, left),
    consequence: { effects: [...effects], risks: [...risks] },
  });
  return {
    async fenceNode(request, context) {
      const checks = createChecks();
      const { name, reason, dryRun, requestId } = request;
      const expectedNodeEpoch = Number(request.expectedNodeEpoch);
      const input = { name, reason, dryRun, requestId, expectedNodeEpoch, evidence: evidenceFrom(request) };
      const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
      refuseAll(checks, () => validateFence(input));
      const since = wakeups.version();
      const first = await deps.commands.fenceNode(input, callerOf(deps, context, "FenceNode"));
      const node = await holdUntil({
        wakeups,
        clock,
        context,
        waitMs: dryRun ? 0 : waitMs,
        since,
        first,
        keys: [deps.keyOfNode(name)],
        settled: (view) => view.node.record.state !== "FENCING",
        read: () => deps.commands.fenceView(name),
      });
      return responseOf(node);
    },
  };
};
