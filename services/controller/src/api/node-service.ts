import { createNotifier } from "@holdfast/shared/async/notifier";
import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import { WatchKind } from "@holdfast/shared/gen/holdfast/v1/common";
import {
  type Node,
  NodeServiceDefinition,
  type WatchNodesRequest,
  type WatchNodesResponse,
} from "@holdfast/shared/gen/holdfast/v1/node";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import { checkId } from "../domain/limits.ts";
import type { Nodes, NodeView } from "../ports.ts";
import { createChecks } from "./check-request.ts";
import { fitsNode, type NodeFilterInput, type NodeRemarks, nodeFilterFrom, nodeMessage } from "./convert-node.ts";
import { createNodeDrain, type NodeDrainDeps } from "./node-drain.ts";
import { nextPageToken, pageFrom, questionOf, readToken, writeToken } from "./page-token.ts";
import { notImplemented, unimplemented } from "./unimplemented.ts";

export interface NodeServiceDeps extends Omit<NodeDrainDeps, "message"> {
  readonly nodes: Nodes;
  readonly remarks: (node: string) => NodeRemarks | undefined;
}

type NodeService = Implementation<typeof NodeServiceDefinition>;

const noRemarks: NodeRemarks = { rev: 0, lastHeartbeat: undefined, message: "", conflict: undefined };

export const createNodeService = (deps: NodeServiceDeps): NodeService => {
  const { nodes, remarks } = deps;
  const message = (view: NodeView): Node => nodeMessage(view, remarks(view.record.name) ?? noRemarks);

  return unimplemented(NodeServiceDefinition, {
    async getNode({ name }) {
      const violations = checkId("name", name);
      if (violations.length > 0) throw invalidArgument(violations);
      const view = nodes.get(name);
      if (view === undefined) throw unknownNode(name);
      return { node: message(view) };
    },

    async listNodes(request) {
      const checks = createChecks();
      const filter = nodeFilterFrom(request.filter, checks);
      const question = questionOf("ListNodes", filter);
      const { size, after = "" } = pageFrom(request, question, checks);
      if (checks.violations.length > 0) throw invalidArgument(checks.violations);
      refuseClass(request.filter?.placementClass, "ListNodes");
      const views = sorted(nodes.list()).filter((view) => view.record.name > after && fitsNode(filter, view));
      const page = views.slice(0, size);
      const next = views.length > size ? page.at(-1)?.record.name : undefined;
      return { nodes: page.map(message), nextPageToken: nextPageToken(next, question) };
    },

    ...createNodeDrain({
      get commands() {
        return deps.commands;
      },
      get wakeups() {
        return deps.wakeups;
      },
      clock: deps.clock,
      tracing: deps.tracing,
      keyOfNode: deps.keyOfNode,
      message,
    }),

    watchNodes: (request, { signal }) => watchNodes(nodes, request, message, signal),
  });
};

const sorted = (views: readonly NodeView[]): readonly NodeView[] =>
  [...views].sort((a, b) => (a.record.name < b.record.name ? -1 : 1));

/**
 * Nodes are watched in memory: who is alive is each controller's own view and in no history. A watch that goes on from a token is
 * therefore told of every node once more, as a change, so that nothing is lost.
 */
async function* watchNodes(
  nodes: Nodes,
  request: WatchNodesRequest,
  message: (view: NodeView) => Node,
  signal: AbortSignal,
): AsyncGenerator<WatchNodesResponse> {
  const checks = createChecks();
  const filter: NodeFilterInput = nodeFilterFrom(request.filter, checks);
  const question = questionOf("WatchNodes", filter);
  const resumed = readToken("resume_token", request.resumeToken, question, checks) !== undefined;
  if (checks.violations.length > 0) throw invalidArgument(checks.violations);
  refuseClass(request.filter?.placementClass, "WatchNodes");
  const resumeToken = writeToken("on", question);

  const changed = new Set<string>();
  const sent = new Set<string>();
  const wake = createNotifier();
  const leave = nodes.onChange((name) => {
    changed.add(name);
    wake.notify();
  });
  try {
    const first = resumed ? WatchKind.WATCH_KIND_CHANGED : WatchKind.WATCH_KIND_EXISTING;
    for (const view of sorted(nodes.list())) {
      if (!fitsNode(filter, view)) continue;
      sent.add(view.record.name);
      yield { kind: first, node: message(view), resumeToken };
    }
    if (!resumed) yield { kind: WatchKind.WATCH_KIND_SYNCED, node: undefined, resumeToken };
    for (;;) {
      const version = wake.version();
      for (const name of [...changed]) {
        changed.delete(name);
        const view = nodes.get(name);
        if (view === undefined) continue;
        const fits = fitsNode(filter, view);
        if (!fits && !sent.delete(name)) continue;
        if (fits) sent.add(name);
        const kind = fits ? WatchKind.WATCH_KIND_CHANGED : WatchKind.WATCH_KIND_REMOVED;
        yield { kind, node: message(view), resumeToken };
      }
      await wake.wait(version, signal);
    }
  } finally {
    leave();
  }
}

const refuseClass = (placementClass: string | undefined, rpc: string): void => {
  if ((placementClass ?? "") !== "") throw notImplemented(`/holdfast.v1.NodeService/${rpc}: filter.placement_class`);
};

const unknownNode = (node: string): HoldfastError =>
  new HoldfastError({
    kind: "not_found",
    reason: "NODE_NOT_FOUND",
    message: `no agent ever registered as node ${node}; start the agent there, or correct the name`,
    metadata: { node },
  });
