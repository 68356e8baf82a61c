/** What /metrics tells of the controller beside the process and its calls. */
import { createCallMetric } from "@holdfast/csi/call-metrics";
import type { CallReport } from "@holdfast/csi/csi-exchange";
import type { Metrics } from "@holdfast/shared/metrics";
import type { PluginLoad } from "./domain/plugin/plugin-load.ts";
import { type Finding, findingKinds } from "./gate/finding.ts";
import type { Nodes, Store, StoreGate } from "./ports.ts";

export interface MeasuredParts {
  readonly nodes: Pick<Nodes, "list" | "disputes">;
  readonly gate: Pick<StoreGate, "state"> & { findings(): readonly Pick<Finding, "kind">[] };
  readonly commits: () => number;
  /** Volumes that are being worked on. */
  readonly working: () => number;
  /** Controller plugins by name, and how each is called. */
  readonly plugins: () => readonly string[];
  readonly callsOf: (plugin: string) => PluginLoad & { readonly waiting: number };
}

/** Before the parts are there: every CSI call, and what was allowed at the start. */
export const createCallMetrics = (
  metrics: Metrics,
  allowed: { readonly insecure: boolean; readonly volatileStore: boolean },
): { readonly onCall: (report: CallReport) => void } => {
  metrics.gauge({
    name: "holdfast_insecure",
    help: "1: it listens without TLS, on somebody's word.",
    collect: (gauge) => gauge.set({}, Number(allowed.insecure)),
  });
  metrics.gauge({
    name: "holdfast_volatile_store_allowed",
    help: "1: a store that may forget what it acknowledged is accepted, on somebody's word.",
    collect: (gauge) => gauge.set({}, Number(allowed.volatileStore)),
  });
  return { onCall: createCallMetric(metrics) };
};

/** The store, each commit of which is timed: by all that write, and to its answer. */
export const timedCommits = <S extends Pick<Store, "commit">>(metrics: Metrics, store: S): S => {
  const seconds = metrics.histogram({
    name: "holdfast_store_commit_seconds",
    help: "Time from a commit that is asked of the store to its answer.",
    labels: ["outcome"],
  });
  const commit: Store["commit"] = async (asked) => {
    const start = performance.now();
    let outcome = "unknown";
    try {
      const result = await store.commit(asked);
      outcome = result.ok ? "stored" : "refused";
      return result;
    } finally {
      seconds.observe({ outcome }, (performance.now() - start) / 1000);
    }
  };
  return { ...store, commit };
};

const breakerStates: readonly PluginLoad["breaker"][] = ["closed", "open", "half-open"];

const measureCalls = (metrics: Metrics, { plugins, callsOf }: Pick<MeasuredParts, "plugins" | "callsOf">): void => {
  metrics.gauge({
    name: "holdfast_plugin_calls",
    help: "Calls of a controller plugin: under way, waiting for their turn, and allowed at once now.",
    labels: ["plugin", "calls"],
    collect(gauge) {
      for (const plugin of plugins()) {
        const { running, waiting, limit } = callsOf(plugin);
        for (const [calls, value] of Object.entries({ running, waiting, limit })) gauge.set({ plugin, calls }, value);
      }
    },
  });
  metrics.gauge({
    name: "holdfast_plugin_breaker",
    help: "1: the circuit breaker of a controller plugin is in this state; calls are made when it is closed.",
    labels: ["plugin", "state"],
    collect(gauge) {
      for (const plugin of plugins())
        for (const state of breakerStates) gauge.set({ plugin, state }, Number(callsOf(plugin).breaker === state));
    },
  });
};

export const measureParts = (metrics: Metrics, parts: MeasuredParts): void => {
  const { nodes, gate, commits, working } = parts;
  const disputed = (reason: string): number => nodes.disputes?.().filter((each) => each.reason === reason).length ?? 0;
  measureCalls(metrics, parts);
  metrics.gauge({
    name: "holdfast_store_gate_open",
    help: "1: the store may grant.",
    collect: (gauge) => gauge.set({}, Number(gate.state().open)),
  });
  metrics.gauge({
    name: "holdfast_vetting_findings",
    help: "What keeps the store shut, by kind.",
    labels: ["kind"],
    collect(gauge) {
      const found = gate.findings();
      for (const kind of findingKinds) gauge.set({ kind }, found.filter((each) => each.kind === kind).length);
    },
  });
  metrics.gauge({
    name: "holdfast_store_commits",
    help: "Commits of volume records that were asked of the store since the start.",
    collect: (gauge) => gauge.set({}, commits()),
  });
  metrics.gauge({
    name: "holdfast_volumes_working",
    help: "Volumes that are being worked on.",
    collect: (gauge) => gauge.set({}, working()),
  });
  metrics.gauge({
    name: "holdfast_nodes",
    help: "Nodes by what is recorded and by whether they are heard.",
    labels: ["state", "live"],
    collect(gauge) {
      const counts = Map.groupBy(nodes.list(), ({ record, live }) => `${record.state} ${live}`);
      for (const [key, views] of counts) {
        const [state = "", live = ""] = key.split(" ");
        gauge.set({ state, live }, views.length);
      }
    },
  });
  metrics.gauge({
    name: "holdfast_nodes_storage_unwell",
    help: "Nodes whose plugin says that something is wrong with the way to its storage, by status.",
    labels: ["plugin", "status"],
    collect(gauge) {
      const said = nodes
        .list()
        .flatMap(({ record }) =>
          record.plugins.flatMap(({ name, storageHealth = [] }) =>
            [...new Set(storageHealth.map(({ status }) => status))].map((status) => ({ plugin: name, status })),
          ),
        );
      for (const [key, all] of Map.groupBy(said, ({ plugin, status }) => `${plugin} ${status}`)) {
        const [plugin = "", status = ""] = key.split(" ");
        gauge.set({ plugin, status }, all.length);
      }
    },
  });
  metrics.gauge({
    name: "holdfast_nodes_pending",
    help: "Nodes whose name another life asks for, beside claims that the recorded life may hold.",
    collect: (gauge) => gauge.set({}, nodes.list().filter(({ record }) => record.pending !== undefined).length),
  });
  metrics.gauge({
    name: "holdfast_nodes_in_conflict",
    help: "Nodes whose name two live agents use, as far as this controller was asked.",
    collect: (gauge) => gauge.set({}, disputed("NODE_CONFLICT")),
  });
  metrics.gauge({
    name: "holdfast_agents_of_others",
    help: "Agents of another installation that asked this controller to be a node of it.",
    collect: (gauge) => gauge.set({}, disputed("CLUSTER_MISMATCH")),
  });
};
