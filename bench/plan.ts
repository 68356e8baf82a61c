import type { AgentsPlan } from "./agents.ts";
import type { BesideTransfersPlan } from "./beside-transfers.ts";
import type { HotPathPlan } from "./hot-path.ts";
import type { LanesPlan } from "./lanes.ts";
import type { ScalePlan } from "./scale.ts";
import type { SharedPlan } from "./shared-controllers.ts";
import type { ThroughputPlan } from "./throughput.ts";

/** How much of everything is done. */
export interface Plan {
  readonly hotPath: HotPathPlan;
  /** As long as the hot path: both sides are to be as warm. */
  readonly traced: HotPathPlan;
  /** Told, and not judged. */
  readonly besideStillPlugin: HotPathPlan;
  readonly tracedTls: HotPathPlan;
  readonly throughput: readonly ThroughputPlan[];
  /** Each takes one attach at a time, whatever the number of claims. */
  readonly nodes: number;
  readonly reactions: number;
  readonly lanes: LanesPlan;
  readonly shared: SharedPlan;
  readonly volumes: number;
  readonly agents: number;
  readonly streams: AgentsPlan;
  readonly transfers: BesideTransfersPlan;
  readonly publications: number;
  /** Claims and releases beside a short and beside a long mount table. */
  readonly tableRounds: number;
  readonly scale: ScalePlan;
}

const inFlight = (volumes: readonly [number, number, number], rounds: number): readonly ThroughputPlan[] =>
  [1, 32, 256].map((each, at) => ({ inFlight: each, volumes: volumes[at] ?? 0, rounds }));

export const plans: Readonly<Record<"full" | "quick", Plan>> = {
  full: {
    hotPath: { volumes: 40, standing: 20, rounds: 12 },
    traced: { volumes: 40, standing: 20, rounds: 12 },
    besideStillPlugin: { volumes: 40, standing: 20, rounds: 6 },
    tracedTls: { volumes: 40, standing: 20, rounds: 12 },
    throughput: inFlight([64, 256, 256], 3),
    nodes: 4,
    reactions: 7,
    lanes: { volumes: 1_000, rounds: 5 },
    shared: { volumes: 256, rounds: 10, warmUpRounds: 20 },
    volumes: 10_000,
    agents: 1000,
    streams: { agents: 10_000, claims: 20, idleSeconds: 60 },
    transfers: { rounds: 3 },
    publications: 1000,
    tableRounds: 40,
    scale: { small: { volumes: 1_000, nodes: 100 }, large: { volumes: 100_000, nodes: 10_000 }, calls: 2_400 },
  },
  quick: {
    hotPath: { volumes: 24, standing: 4, rounds: 2 },
    traced: { volumes: 24, standing: 4, rounds: 2 },
    besideStillPlugin: { volumes: 24, standing: 4, rounds: 1 },
    tracedTls: { volumes: 24, standing: 4, rounds: 2 },
    throughput: inFlight([25, 64, 256], 1),
    nodes: 4,
    reactions: 3,
    lanes: { volumes: 200, rounds: 1 },
    shared: { volumes: 96, rounds: 1, warmUpRounds: 4 },
    volumes: 500,
    agents: 200,
    streams: { agents: 200, claims: 2, idleSeconds: 2 },
    transfers: { rounds: 1 },
    publications: 100,
    tableRounds: 15,
    scale: { small: { volumes: 500, nodes: 20 }, large: { volumes: 10_000, nodes: 1_000 }, calls: 60 },
  },
};
