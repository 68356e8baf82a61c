import { invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import {
  Node,
  NodeServiceDefinition,
  type WatchNodesRequest,
  type WatchNodesResponse,
} from "@holdfast/shared/gen/holdfast/v1/node";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import { nodeNotFound } from "../../commands/errors.ts";
import type { NodePlaces } from "../../commands/node/node-places.ts";
import type { StatsQueries } from "../../commands/volume/stats-model.ts";
import { type CallerScope, everything, isBounded } from "../../domain/access/caller-scope.ts";
import { checkId } from "../../domain/limits.ts";
import type { Nodes, NodeView } from "../../ports.ts";
import { listWithin } from "../access/within-scope.ts";
import type { ApiDeps } from "../api-deps.ts";
import { createChecks } from "../check-request.ts";
import type { MemoryLog } from "../memory-log.ts";
import { nextPageToken, pageFrom, questionOf } from "../page-token.ts";
import { unimplemented } from "../unimplemented.ts";
import { publishedStatsMessage } from "../volume/convert-stats.ts";
import { watchMemory } from "../watch-memory.ts";
import { fitsNode, type NodeFilterInput, type NodeRemarks, nodeFilterFrom, nodeMessage } from "./convert-node.ts";
import { createNodeDrain, type NodeDrainDeps } from "./node-drain.ts";
import { createNodeFence } from "./node-fence.ts";

export interface NodeServiceDeps extends Omit<NodeDrainDeps, "message">, Pick<ApiDeps, "scopeOf"> {
  readonly nodes: Nodes;
  readonly stats: StatsQueries;
  readonly places: NodePlaces;
  readonly remarks: (node: string) => NodeRemarks | undefined;
  /** What changed of nodes lately. */
  readonly log: MemoryLog;
}

type NodeService = Implementation<typeof NodeServiceDefinition>;

/** How many nodes one page may look at before it is handed out short. */
const maxLooked = 2_000;

const noRemarks: NodeRemarks = { rev: 0, lastHeard: undefined, message: "", dispute: undefined };

/** Without the words that name what other namespaces have there. */
const seenIn = (scope: CallerScope, remarks: NodeRemarks): NodeRemarks => {
  if (!isBounded(scope)) return remarks;
  const { overdue: _claims, fenceWaits: _volumes, ...seen } = remarks;
  return seen;
};

export const createNodeService = (deps: NodeServiceDeps): NodeService => {
  const { nodes, places, remarks } = deps;
  const message = (view: NodeView, scope = everything): Node =>
    nodeMessage(view, seenIn(scope, remarks(view.record.name) ?? noRemarks), places.of(view));

  /** In the order of names, read on from where the page before ended; one that finds little is handed out short. */
  const pageOf = (filter: NodeFilterInput, after: string, size: number) => {
    const placementClass = filter.placementClass === "" ? undefined : filter.placementClass;
    const page: NodeView[] = [];
    let last = after;
    for (let looked = 0; looked < maxLooked && page.length < size; ) {
      const names = places.namesAfter(last, size - page.length, placementClass);
      for (const name of names) {
        const view = nodes.get(name);
        if (view !== undefined && fitsNode(filter, view)) page.push(view);
      }
      looked += names.length;
      last = names.at(-1) ?? last;
      if (places.namesAfter(last, 1, placementClass).length === 0) return { page, next: undefined };
    }
    return { page, next: last };
  };

  const decisions: NodeDrainDeps = {
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
  };

  return unimplemented(NodeServiceDefinition, {
    async getNode({ name }, { identity }) {
      const violations = checkId("name", name);
      if (violations.length > 0) throw invalidArgument(violations);
      const view = nodes.get(name);
      if (view === undefined) throw nodes.damage?.(name) ?? nodeNotFound(name, nodes.disputes?.());
      await places.count([view]);
      return { node: message(view, deps.scopeOf(identity)) };
    },

    async listNodes(request, { identity }) {
      const checks = createChecks();
      const filter = nodeFilterFrom(request.filter, checks);
      const scope = deps.scopeOf(identity);
      const question = questionOf("ListNodes", filter, scope);
      const { size, after = "" } = pageFrom(request, question, checks);
      if (checks.violations.length > 0) throw invalidArgument(checks.violations);
      const { page, next } = pageOf(filter, after, size);
      await places.count(page);
      return { nodes: page.map((view) => message(view, scope)), nextPageToken: nextPageToken(next, question) };
    },

    async getNodeStats(request, { identity }) {
      const checks = createChecks();
      const { name } = request;
      const scope = deps.scopeOf(identity);
      const question = questionOf("GetNodeStats", name, scope);
      const page = pageFrom(request, question, checks);
      if (checks.violations.length > 0) throw invalidArgument(checks.violations);
      const { items, next } = await listWithin(scope, { name, namespace: "" }, page, deps.stats.nodeStats);
      return { volumes: items.map(publishedStatsMessage), nextPageToken: nextPageToken(next, question) };
    },

    ...createNodeDrain(decisions),
    ...createNodeFence(decisions),

    watchNodes(request, { identity, signal }) {
      const scope = deps.scopeOf(identity);
      // Asked each time: a scheduler may lose its grant meanwhile.
      const seen = (view: NodeView): Node => message(view, deps.scopeOf(identity));
      return watchNodes({ nodes, places, message: seen, log: deps.log, scope }, request, signal);
    },
  });
};

/** Nodes are watched in memory: who is alive is each controller's own view and in no history. */
async function* watchNodes(
  {
    nodes,
    places,
    log,
    message,
    scope,
  }: Pick<NodeServiceDeps, "nodes" | "places" | "log"> & {
    readonly message: (view: NodeView) => Node;
    readonly scope: CallerScope;
  },
  request: WatchNodesRequest,
  signal: AbortSignal,
): AsyncGenerator<WatchNodesResponse> {
  const checks = createChecks();
  const filter: NodeFilterInput = nodeFilterFrom(request.filter, checks);
  if (checks.violations.length > 0) throw invalidArgument(checks.violations);
  const fits = (view: NodeView): boolean =>
    fitsNode(filter, view) &&
    (filter.placementClass === "" || places.of(view).placementClass === filter.placementClass);
  const messages = watchMemory<Node>({
    log,
    question: questionOf("WatchNodes", filter, scope),
    token: request.resumeToken,
    keys: () => places.namesAfter("", Number.POSITIVE_INFINITY),
    get(name) {
      const view = nodes.get(name);
      return view === undefined || !fits(view) ? undefined : message(view);
    },
    remains(name, last) {
      const view = nodes.get(name);
      return view === undefined ? (last ?? Node.fromPartial({ name })) : message(view);
    },
    signal,
  });
  for await (const { kind, resource, resumeToken } of messages) yield { kind, node: resource, resumeToken };
}
