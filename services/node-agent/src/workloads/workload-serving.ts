/** What is served of the workloads beside their commands: use of their volumes, and the history that watches follow. */
import type { Clock } from "@holdfast/shared/async/clock";
import { type WorkloadName, type WorkloadState, workloadKey } from "../domain/workload-machine.ts";
import type { Ledger } from "../ports.ts";
import { createWorkloadFeed, type WorkloadFeed } from "./workload-feed.ts";
import type { WorkloadManager } from "./workload-manager.ts";
import { createWorkloadStats, type WorkloadStats, type WorkloadStatsOptions } from "./workload-stats.ts";

export interface WorkloadServingOptions {
  readonly node: string;
  readonly ledger: Pick<Ledger, "agent">;
  readonly workloads: WorkloadManager;
  readonly stats: { volumeStats: WorkloadStatsOptions["measure"] };
  /** One life of the agent. */
  readonly instance: string;
  readonly clock: Pick<Clock, "now">;
}

export interface WorkloadServing {
  readonly node: string;
  readonly workloads: WorkloadManager;
  readonly stats: WorkloadStats;
  readonly feed: WorkloadFeed;
  readonly stateOf: (name: WorkloadName) => WorkloadState | undefined;
}

/** Changes that a watch may be behind. */
const keep = 4096;

export function createWorkloadServing(options: WorkloadServingOptions): WorkloadServing {
  const { node, ledger, workloads, stats, instance, clock } = options;
  const feed = createWorkloadFeed({ workloads, instance, keep });
  workloads.onChange(feed.note);
  return {
    node,
    workloads,
    feed,
    stats: createWorkloadStats({ held: workloads.held, measure: stats.volumeStats, clock }),
    stateOf: (name) => ledger.agent().workloads[workloadKey(name)],
  };
}
