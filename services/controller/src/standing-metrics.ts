/** What /metrics tells of what is owed, what is stuck and what waits; all gauges of one scrape ask for the same count. */
import type { Metrics } from "@holdfast/shared/metrics";
import type { BlockedCount } from "./records/bounded-count.ts";
import { type DamagedRecords, damagedByKind } from "./records/damaged-records.ts";
import type { SnapshotStanding } from "./records/snapshot-standing.ts";
import type { Standing } from "./records/standing.ts";

export interface StandingParts {
  readonly standing: { now(): Promise<Standing> };
  /** Sets that wait for an attach slot. */
  readonly slotsWaiting: () => number;
  readonly now: () => number;
}

interface BlockedFor {
  readonly records: number;
  /** Of the oldest. */
  readonly seconds: number;
}

/** A reason that was there once is told as 0 from then on: an alarm sees that it is over. */
const everyReason = (
  standing: { now(): Promise<{ readonly blocked: ReadonlyMap<string, BlockedCount> }> },
  now: () => number,
): ((set: (reason: string, found: BlockedFor) => void) => Promise<void>) => {
  const reasons = new Set<string>();
  return async (set) => {
    const found = (await standing.now()).blocked;
    for (const reason of found.keys()) reasons.add(reason);
    for (const reason of reasons) {
      const { records = 0, since = now() } = found.get(reason) ?? {};
      set(reason, { records, seconds: Math.max(0, Math.round((now() - since) / 1_000)) });
    }
  };
};

export const measureDamage = (metrics: Metrics, damages: Pick<DamagedRecords, "list">): void => {
  metrics.gauge({
    name: "holdfast_records_damaged",
    help: "Records of the store that were found damaged since the start and not read as sound again, by kind; the log names each.",
    labels: ["kind"],
    collect: async (gauge) => {
      for (const [kind, count] of damagedByKind(damages.list())) gauge.set({ kind }, count);
    },
  });
};

export const measureStanding = (metrics: Metrics, { standing, slotsWaiting, now }: StandingParts): void => {
  metrics.gauge({
    name: "holdfast_claims_owed",
    help: "Claims of volumes on which something is owed, by state; QUEUED is the length of all queues.",
    labels: ["state"],
    async collect(gauge) {
      for (const [state, count] of (await standing.now()).claims) gauge.set({ state }, count);
    },
  });
  // A label that was there once is told as 0 from then on: an alarm sees that it is over.
  const operations = new Set<string>();
  metrics.gauge({
    name: "holdfast_intents",
    help: "Calls that are owed to backends, by operation.",
    labels: ["operation"],
    async collect(gauge) {
      const { intents } = await standing.now();
      for (const operation of intents.keys()) operations.add(operation);
      for (const operation of operations) gauge.set({ operation }, intents.get(operation) ?? 0);
    },
  });
  metrics.gauge({
    name: "holdfast_intents_uncertain",
    help: "Those of which an attempt has no certain answer.",
    collect: async (gauge) => gauge.set({}, (await standing.now()).uncertain),
  });
  const blocked = everyReason(standing, now);
  metrics.gauge({
    name: "holdfast_blocked",
    help: "Volumes, claims and changes of volumes that cannot go on by themselves, by reason.",
    labels: ["reason"],
    collect: (gauge) => blocked((reason, { records }) => gauge.set({ reason }, records)),
  });
  metrics.gauge({
    name: "holdfast_blocked_oldest_seconds",
    help: "How long the oldest of them is blocked; 0 for none.",
    labels: ["reason"],
    collect: (gauge) => blocked((reason, { seconds }) => gauge.set({ reason }, seconds)),
  });
  metrics.gauge({
    name: "holdfast_gates_silent",
    help: "Plugin instances that bars of volumes wait for and whose gates give no answer.",
    collect: async (gauge) => gauge.set({}, (await standing.now()).silentGates.size),
  });
  metrics.gauge({
    name: "holdfast_standing_partial",
    help: "1: more is owed than is counted; claims, intents and blocks are told too low.",
    collect: async (gauge) => gauge.set({}, Number((await standing.now()).partial)),
  });
  metrics.gauge({
    name: "holdfast_attach_slots_waiting",
    help: "Sets of claims that lack nothing but an attach slot of their node.",
    collect: (gauge) => gauge.set({}, slotsWaiting()),
  });
};

export interface SnapshotStandingParts {
  readonly standing: { now(): Promise<SnapshotStanding> };
  /** Snapshots and groups that are being worked on. */
  readonly working: () => number;
  readonly now: () => number;
}

/** The same of snapshots and groups. */
export const measureSnapshots = (metrics: Metrics, { standing, working, now }: SnapshotStandingParts): void => {
  metrics.gauge({
    name: "holdfast_snapshots_owed",
    help: "Snapshots and groups on which something is owed, by state: the queue of calls to their backends.",
    labels: ["kind", "state"],
    async collect(gauge) {
      for (const [kind, states] of Object.entries((await standing.now()).owed))
        for (const [state, count] of states) gauge.set({ kind, state }, count);
    },
  });
  metrics.gauge({
    name: "holdfast_snapshots_uncertain",
    help: "Those of which an attempt has no certain answer.",
    collect: async (gauge) => gauge.set({}, (await standing.now()).uncertain),
  });
  const blocked = everyReason(standing, now);
  metrics.gauge({
    name: "holdfast_snapshots_blocked",
    help: "Snapshots and groups that cannot go on by themselves, by reason.",
    labels: ["reason"],
    collect: (gauge) => blocked((reason, { records }) => gauge.set({ reason }, records)),
  });
  metrics.gauge({
    name: "holdfast_snapshots_blocked_oldest_seconds",
    help: "How long the oldest of them is blocked; 0 for none.",
    labels: ["reason"],
    collect: (gauge) => blocked((reason, { seconds }) => gauge.set({ reason }, seconds)),
  });
  metrics.gauge({
    name: "holdfast_snapshots_gates_silent",
    help: "Plugin instances that bars of snapshots and groups wait for and whose gates give no answer.",
    collect: async (gauge) => gauge.set({}, (await standing.now()).silentGates.size),
  });
  metrics.gauge({
    name: "holdfast_snapshots_partial",
    help: "1: more snapshots are owed than are counted; the figures of snapshots are told too low.",
    collect: async (gauge) => gauge.set({}, Number((await standing.now()).partial)),
  });
  metrics.gauge({
    name: "holdfast_snapshots_working",
    help: "Snapshots and groups that are being worked on.",
    collect: (gauge) => gauge.set({}, working()),
  });
};
