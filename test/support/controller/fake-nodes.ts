import type { NodeRecord } from "@holdfast/controller/domain/node/node";
import type { AuditedAs } from "@holdfast/controller/domain/repair/audit";
import type { NodeDecisions, Nodes, NodeView, Store } from "@holdfast/controller/ports";

/** Nodes that a test sets, each with the plugins that it names. */
export const createFakeNodes = (names: readonly string[], plugins: readonly string[], count: Store["count"]) => {
  const listeners = new Set<(node: string) => void>();
  const record = (name: string): NodeRecord => ({
    name,
    machineId: `machine-${name}`,
    bootId: `boot-${name}-1`,
    journalUid: `journal-${name}-1`,
    instance: `instance-${name}-1`,
    nodeEpoch: 1,
    state: "READY",
    address: "",
    version: "0.1.0",
    verificationScope: "host",
    plugins: plugins.map((each) => ({
      name: each,
      version: "1.0.0",
      instance: `${each}-${name}`,
      role: "NODE",
      health: "HEALTHY",
      healthMessage: "",
      nodeId: name,
      maxVolumes: 0,
      topology: {},
      capabilities: {},
    })),
    registeredAt: 0,
    updatedAt: 0,
  });
  const views = new Map<string, NodeView>(names.map((name) => [name, { record: record(name), live: "alive" }]));
  const nodes: Nodes &
    NodeDecisions & {
      set(name: string, change: Partial<NodeRecord>, live?: NodeView["live"]): void;
      remove(name: string): void;
      /** What decisions about nodes were stored with, in order. */
      readonly audited: AuditedAs[];
    } = {
    audited: [],
    get: (name) => views.get(name),
    list: () => [...views.values()],
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    set(name, change, live) {
      const view = views.get(name) ?? { record: record(name), live: "alive" as const };
      views.set(name, { record: { ...view.record, ...change }, live: live ?? view.live });
      for (const listener of listeners) listener(name);
    },
    remove(name) {
      views.delete(name);
      for (const listener of listeners) listener(name);
    },
    async change(name, decide, audit) {
      const view = views.get(name);
      if (view === undefined) return undefined;
      const next = decide(view.record);
      views.set(name, { ...view, record: next });
      if (next !== view.record && audit !== undefined) nodes.audited.push(audit);
      if (next !== view.record) for (const listener of listeners) listener(name);
      return views.get(name);
    },
    async forget(name, decide, { index, value }) {
      const view = views.get(name);
      if (view === undefined) return "unknown";
      decide(view.record);
      const [carriers = 0] = await count([{ index, value }]);
      if (carriers > 0) return "in use";
      views.delete(name);
      for (const listener of listeners) listener(name);
      return "forgotten";
    },
  };
  return nodes;
};
