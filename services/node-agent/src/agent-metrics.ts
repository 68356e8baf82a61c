/** What /metrics tells of the agent beside the process itself. */
import { createCallMetric } from "@holdfast/csi/call-metrics";
import type { CallReport } from "@holdfast/csi/csi-exchange";
import type { Metrics } from "@holdfast/shared/metrics";
import { claimPhases, stagePhases } from "./domain/types.ts";
import type { Ledger } from "./ports.ts";
import type { Journal } from "./volumes/journal.ts";

export interface AgentMetrics {
  readonly onCall: (report: CallReport) => void;
}

export function createAgentMetrics(
  metrics: Metrics,
  { ledger, journal }: { readonly ledger: Ledger; readonly journal: Pick<Journal, "syncs" | "bytes" | "waitsBecause"> },
): AgentMetrics {
  metrics.gauge({
    name: "holdfast_journal_syncs",
    help: "Syncs of the journal to disk since the start.",
    collect: (gauge) => gauge.set({}, journal.syncs()),
  });
  metrics.gauge({
    name: "holdfast_journal_bytes",
    help: "Size of the journal.",
    collect: (gauge) => gauge.set({}, journal.bytes()),
  });
  metrics.gauge({
    name: "holdfast_journal_waits",
    help: "1: the disk of the journal is full, and nothing is mounted or released until it has room.",
    collect: (gauge) => gauge.set({}, journal.waitsBecause() === undefined ? 0 : 1),
  });
  metrics.gauge({
    name: "holdfast_claims",
    help: "Claims that the journal holds.",
    labels: ["phase"],
    collect(gauge) {
      const counts = new Map<string, number>(claimPhases.map((phase) => [phase, 0]));
      for (const { claims } of ledger.volumes()) {
        for (const { phase } of Object.values(claims)) counts.set(phase, (counts.get(phase) ?? 0) + 1);
      }
      for (const [phase, count] of counts) gauge.set({ phase }, count);
    },
  });
  metrics.gauge({
    name: "holdfast_stages",
    help: "Volumes by the phase of their stage.",
    labels: ["phase"],
    collect(gauge) {
      const counts = new Map<string, number>(stagePhases.map((phase) => [phase, 0]));
      for (const { stage } of ledger.volumes()) counts.set(stage.phase, (counts.get(stage.phase) ?? 0) + 1);
      for (const [phase, count] of counts) gauge.set({ phase }, count);
    },
  });
  return { onCall: createCallMetric(metrics) };
}
