/**
 * How everything stands, counted for /metrics. Never all volumes: what is owed and what is blocked has an index each, what is settled is counted
 * by a slow walk in the background.
 *
 * N1 A count looks at a bounded number of records; beyond it `partial` says so. N2 Two scrapes in a row cost one count. N3 No label takes a name
 * of a volume, workload or node.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { silentGatesOf } from "../domain/bar-block.ts";
import { type ClaimState, claimStates } from "../domain/claim/claim.ts";
import { blocksOf } from "../domain/size/growth.ts";
import type { VolumeRecord } from "../domain/volume/volume.ts";
import { type BlockedCount, countBlocked, countBounded, countOnce } from "./bounded-count.ts";
import type { VolumeRecords } from "./volume/volume-records.ts";

export interface Standing {
  readonly claims: ReadonlyMap<ClaimState, number>;
  readonly intents: ReadonlyMap<string, number>;
  /** Intents of which an attempt has no certain answer. */
  readonly uncertain: number;
  /** By reason. */
  readonly blocked: ReadonlyMap<string, BlockedCount>;
  /** Plugin instances that bars wait for and whose gates give no answer. */
  readonly silentGates: ReadonlySet<string>;
  readonly partial: boolean;
}

export interface StandingDeps {
  readonly records: Pick<VolumeRecords, "list">;
  readonly clock: Clock;
  /** At most so many records a count. */
  readonly most?: number;
}

const add = (counts: Map<string, number>, key: string): void => void counts.set(key, (counts.get(key) ?? 0) + 1);

export const createStanding = ({ records, clock, most = 20_000 }: StandingDeps): { now(): Promise<Standing> } => {
  const each = (index: "volume-unsettled" | "volume-blocked", look: (volume: VolumeRecord) => void): Promise<boolean> =>
    countBounded(
      most, // N1
      async (page) => {
        const { volumes: items, next } = await records.list(index, "all", page);
        return { items, next };
      },
      ({ volume }) => look(volume),
    );

  const count = async (): Promise<Standing> => {
    const claims = new Map<ClaimState, number>(claimStates.map((state) => [state, 0]));
    const intents = new Map<string, number>();
    const blocked = new Map<string, BlockedCount>();
    const silentGates = new Set<string>();
    let uncertain = 0;
    const whole = await each("volume-unsettled", (volume) => {
      for (const { state } of Object.values(volume.claims)) claims.set(state, (claims.get(state) ?? 0) + 1);
      // A paused attach is owed like any other, without the intent until its next try.
      for (const { paused } of Object.values(volume.attachments)) {
        if (paused === undefined) continue;
        add(intents, "attach");
        if (paused.uncertainSince !== undefined) uncertain += 1;
      }
      if (volume.intent === undefined) return;
      add(intents, volume.intent.op);
      if (volume.intent.uncertainSince !== undefined) uncertain += 1;
    });
    const wholeBlocked = await each("volume-blocked", (volume) => {
      for (const block of blocksOf(volume)) countBlocked(blocked, block);
      for (const gate of silentGatesOf(volume)) silentGates.add(gate);
    });
    return { claims, intents, uncertain, blocked, silentGates, partial: !(whole && wholeBlocked) };
  };

  return { now: countOnce(clock, count) }; // N2
};
