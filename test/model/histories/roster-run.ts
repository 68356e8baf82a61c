/**
 * What a controller goes on to know of nodes when its store has lost it, by the registry of the product: a record that is older than the one
 * it remembers is not taken for news.
 */
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createNodeRoster } from "../../../services/controller/src/gate/node-roster.ts";
import { createNodeRegistry } from "../../../services/controller/src/nodes/node-registry.ts";
import type { NodeStore } from "../../../services/controller/src/nodes/node-store.ts";
import { canonicalText } from "../search/canonical-text.ts";
import { only } from "../search/only.ts";
import { silentLog } from "./gate-run.ts";
import type { PlainNode, StoredNodes } from "./history-types.ts";
import { viewOf, wholeNode } from "./plain-node.ts";

/** The names of the nodes that a controller keeps beside the store, and of which it finds less there. */
export const missingNodes = (kept: readonly string[], there: readonly PlainNode[]): readonly string[] =>
  createNodeRoster({
    nodes: { list: () => there.map((node) => viewOf(node, {})) },
    lineage: { nodes: () => kept, keepNodes: () => undefined },
    clock: createManualClock(),
  })
    .missing()
    .map(({ node }) => node);

export const rosterRun = async (before: StoredNodes, after: StoredNodes): Promise<StoredNodes> => {
  let stored = before;
  const isLost = (name: string): boolean => canonicalText(before[name] ?? {}) !== canonicalText(after[name] ?? {});
  const revOf = (name: string): number => (stored === after && isLost(name) ? 1 : 2);
  const registry = createNodeRegistry({
    nodes: only<NodeStore>("nodes", {
      all: async () => Object.values(stored).map((node) => ({ record: wholeNode(node), rev: revOf(node.name) })),
      read: async (name: string) => {
        const node = stored[name];
        return node && { record: wholeNode(node), rev: revOf(name) };
      },
      changes: () => async () => {
        throw new Error("nothing is decided of nodes while they are read");
      },
      damage: () => undefined,
    }),
    clock: createManualClock(),
    log: silentLog,
    graceMs: 1,
    controllerId: "c",
    signal: new AbortController().signal,
  });
  await registry.load();
  stored = after;
  await registry.load();
  const known = new Map(registry.list().map(({ record }) => [record.name, record]));
  return Object.fromEntries(
    Object.entries(before).filter(([name, node]) => isLost(name) && known.get(name) === wholeNode(node)),
  );
};
