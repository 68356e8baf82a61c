import type { DrainNodeResponse, Node, NodeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/node";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import { validateDrain, validateUndrain } from "../../commands/node/drain-node.ts";
import { validateForget } from "../../commands/node/forget-node.ts";
import type { DrainView, NodeCommands } from "../../commands/node/node-model.ts";
import { volumeKey } from "../../domain/volume/volume.ts";
import type { NodeView } from "../../ports.ts";
import { type ApiDeps, callerOf } from "../api-deps.ts";
import { createChecks, durationMs, refuseAll } from "../check-request.ts";
import { holdUntil } from "../hold-until.ts";
import { drainModeFrom, drainViewMessage } from "./convert-node.ts";

export interface NodeDrainDeps extends Pick<ApiDeps, "wakeups" | "clock" | "tracing"> {
  readonly commands: NodeCommands;
  readonly message: (view: NodeView) => Node;
  /** Under which a change of the node is told. */
  readonly keyOfNode: (node: string) => string;
}

type NodeService = Implementation<typeof NodeServiceDefinition>;

/** Until its claims are gone, or it is drained no more, there is something to wait for. */
const isOver = ({ stage, node }: DrainView): boolean => stage !== "CLAIMS" || node.record.drain === undefined;

export const createNodeDrain = (
  deps: NodeDrainDeps,
): Pick<NodeService, "drainNode" | "watchDrain" | "undrainNode" | "forgetNode"> => {
  const { wakeups, clock } = deps;
  const messageOf = (view: DrainView): DrainNodeResponse => drainViewMessage(view, deps.message(view.node));
  // The node is closed, so that the volumes which are there can only become fewer.
  const keysOf = ({ node, remaining }: DrainView): readonly string[] => [
    deps.keyOfNode(node.record.name),
    ...new Set(remaining.map((one) => volumeKey({ namespace: one.namespace, id: one.volume }))),
  ];

  return {
    async drainNode(request, context) {
      const checks = createChecks();
      const { name } = request;
      const input = {
        name,
        reason: request.reason,
        mode: drainModeFrom(request.mode, checks),
        deadlineMs: durationMs("deadline", request.deadline, checks),
      };
      const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
      refuseAll(checks, () => validateDrain(input));
      const since = wakeups.version();
      const first = await deps.commands.drainNode(input, callerOf(deps, context, "DrainNode"));
      const settled = await holdUntil({
        wakeups,
        clock,
        context,
        waitMs,
        since,
        first,
        keys: keysOf(first),
        settled: isOver,
        read: () => deps.commands.drainView(name),
      });
      return messageOf(settled);
    },

    async *watchDrain({ name }, { signal }) {
      let sent = "";
      for (;;) {
        const since = wakeups.version();
        const view = await deps.commands.drainView(name);
        const message = messageOf(view);
        // That its agent was heard is no progress.
        const text = JSON.stringify([message.remaining, message.stage, view.queuedCount, view.node.record.drain]);
        if (text !== sent) yield message;
        sent = text;
        if (isOver(view)) return;
        await wakeups.wait(keysOf(view), since, signal);
      }
    },

    async undrainNode(input, context) {
      validateUndrain(input);
      return { node: deps.message(await deps.commands.undrainNode(input, callerOf(deps, context, "UndrainNode"))) };
    },

    async forgetNode(input, context) {
      validateForget(input);
      const caller = callerOf(deps, context, "ForgetNode");
      const { effects, risks, absent } = await deps.commands.forgetNode(input, caller);
      return { consequence: { effects: [...effects], risks: [...risks] }, absent };
    },
  };
};
