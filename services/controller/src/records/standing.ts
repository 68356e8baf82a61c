/**
 * How everything stands, counted for /metrics. Never all volumes: what is owed and what is blocked has an index each, what is settled is counted
 * by a slow walk in the background.
 *
 * N1 A count looks at a bounded number of records; beyond it `partial` says so. N2 Two scrapes in a row cost one count. N3 No label takes a name
 * of a volume, workload or node.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { type ClaimState, claimStates } from "../domain/claim.ts";
import type { VolumeRecord } from "../domain/volume.ts";
import type { VolumeRecords } from "./volume-records.ts";

export interface BlockedCount {
  readonly records: number;
  readonly since: number;
}

export interface Standing {
  readonly claims: ReadonlyMap<ClaimState, number>;
  readonly intents: ReadonlyMap<string, number>;
  /** Intents of which an attempt has no certain answer. */
  readonly uncertain: number;
  /** By reason. */
  readonly blocked: ReadonlyMap<string, BlockedCount>;
  readonly at: number;
  readonly partial: boolean;
}

export interface StandingDeps {
  readonly records: Pick<VolumeRecords, "list">;
  readonly clock: Clock;
  /** At most so many records a count. */
  readonly most?: number;
}

const pageSize = 500;
const freshMs = 5_000;

const add = (counts: Map<string, number>, key: string): void => void counts.set(key, (counts.get(key) ?? 0) + 1);

const blockedIn = ({ blocked, claims }: VolumeRecord): readonly { readonly reason: string; readonly since: number }[] =>
  [blocked, ...Object.values(claims).map((claim) => claim.blocked)].filter((one) => one !== undefined);

export const createStanding = ({ records, clock, most = 20_000 }: StandingDeps): { now(): Promise<Standing> } => {
  let last: Promise<Standing> | undefined;
  let lastAt = Number.NEGATIVE_INFINITY;

  const each = async (
    index: "volume-unsettled" | "volume-blocked",
    look: (volume: VolumeRecord) => void,
  ): Promise<boolean> => {
    let after: string | undefined;
    for (let seen = 0; seen < most; ) {
      const page = await records.list(index, "all", { after, limit: pageSize });
      for (const { volume } of page.volumes) look(volume);
      seen += page.volumes.length;
      if (page.next === undefined) return true;
      after = page.next;
    }
    return false; // N1
  };

  const count = async (): Promise<Standing> => {
    const claims = new Map<ClaimState, number>(claimStates.map((state) => [state, 0]));
    const intents = new Map<string, number>();
    const blocked = new Map<string, BlockedCount>();
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
      for (const { reason, since } of blockedIn(volume)) {
        const known = blocked.get(reason);
        blocked.set(reason, { records: (known?.records ?? 0) + 1, since: Math.min(known?.since ?? since, since) });
      }
    });
    return { claims, intents, uncertain, blocked, at: clock.now(), partial: !(whole && wholeBlocked) };
  };

  return {
    now() {
      if (last !== undefined && clock.now() - lastAt < freshMs) return last; // N2
      lastAt = clock.now();
      last = count();
      last.catch(() => {
        last = undefined;
      });
      return last;
    },
  };
};
