import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import {
  Node,
  NodeServiceDefinition,
  type WatchNodesRequest,
  type WatchNodesResponse,
} from "@holdfast/shared/gen/holdfast/v1/node";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { StatsQueries } from "../commands/stats-model.ts";
import { checkId } from "../domain/limits.ts";
import type { Nodes, NodeView } from "../ports.ts";
import { createChecks } from "./check-request.ts";
import { fitsNode, type NodeFilterInput, type NodeRemarks, nodeFilterFrom, nodeMessage } from "./convert-node.ts";
import { publishedStatsMessage } from "./convert-stats.ts";
import type { MemoryLog } from "./memory-log.ts";
import { createNodeDrain, type NodeDrainDeps } from "./node-drain.ts";
import { nextPageToken, pageFrom, questionOf } from "./page-token.ts";
import { notImplemented, unimplemented } from "./unimplemented.ts";
import { watchMemory } from "./watch-memory.ts";

export interface NodeServiceDeps extends Omit<NodeDrainDeps, "message"> {
  readonly nodes: Nodes;
  readonly stats: StatsQueries;
  readonly remarks: (node: string) => NodeRemarks | undefined;
  /** What changed of nodes lately. */
  readonly log: MemoryLog;
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

    async getNodeStats(request) {
      const checks = createChecks();
      const question = questionOf("GetNodeStats", request.name);
      const page = pageFrom(request, question, checks);
      if (checks.violations.length > 0) throw invalidArgument(checks.violations);
      const { items, next } = await deps.stats.nodeStats(request.name, page);
      return { volumes: items.map(publishedStatsMessage), nextPageToken: nextPageToken(next, question) };
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

    watchNodes: (request, { signal }) => watchNodes(nodes, deps.log, request, message, signal),
  });
};

const sorted = (views: readonly NodeView[]): readonly NodeView[] =>
  [...views].sort((a, b) => (a.record.name < b.record.name ? -1 : 1));

/** Nodes are watched in memory: who is alive is each controller's own view and in no history. */
async function* watchNodes(
  nodes: Nodes,
  log: MemoryLog,
  request: WatchNodesRequest,
  message: (view: NodeView) => Node,
  signal: AbortSignal,
): AsyncGenerator<WatchNodesResponse> {
  const checks = createChecks();
  const filter: NodeFilterInput = nodeFilterFrom(request.filter, checks);
  if (checks.violations.length > 0) throw invalidArgument(checks.violations);
  refuseClass(request.filter?.placementClass, "WatchNodes");
  const messages = watchMemory<Node>({
    log,
    question: questionOf("WatchNodes", filter),
    token: request.resumeToken,
    keys: () => sorted(nodes.list()).map(({ record }) => record.name),
    get(name) {
      const view = nodes.get(name);
      return view === undefined || !fitsNode(filter, view) ? undefined : message(view);
    },
    remains(name, last) {
      const view = nodes.get(name);
      return view === undefined ? (last ?? Node.fromPartial({ name })) : message(view);
    },
    signal,
  });
  for await (const { kind, resource, resumeToken } of messages) yield { kind, node: resource, resumeToken };
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
