/** What /metrics tells of what is owed, what is stuck and what waits; all gauges of one scrape ask for the same count. */
import type { Metrics } from "@holdfast/shared/metrics";
import type { BlockedCount, Standing } from "./records/standing.ts";

export interface StandingParts {
  readonly standing: { now(): Promise<Standing> };
  /** Sets that wait for an attach slot. */
  readonly slotsWaiting: () => number;
  readonly now: () => number;
}

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
  const reasons = new Set<string>();
  const blocked = async (set: (reason: string, one: BlockedCount | undefined) => void): Promise<void> => {
    const found = (await standing.now()).blocked;
    for (const reason of found.keys()) reasons.add(reason);
    for (const reason of reasons) set(reason, found.get(reason));
  };
  metrics.gauge({
    name: "holdfast_blocked",
    help: "Volumes and claims that cannot go on by themselves, by reason.",
    labels: ["reason"],
    collect: (gauge) => blocked((reason, one) => gauge.set({ reason }, one?.records ?? 0)),
  });
  metrics.gauge({
    name: "holdfast_blocked_oldest_seconds",
    help: "How long the oldest of them is blocked; 0 for none.",
    labels: ["reason"],
    collect: (gauge) =>
      blocked((reason, one) =>
        gauge.set({ reason }, one === undefined ? 0 : Math.max(0, Math.round((now() - one.since) / 1000))),
      ),
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
