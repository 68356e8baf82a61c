/** Use of a workload's volumes: of each the one measurement that all workloads of this host share. */
import type { Clock } from "@holdfast/shared/async/clock";
import type { MeasureError, VolumeMeasure } from "../domain/volume-figures.ts";
import type { WorkloadState, WorkloadVolume } from "../domain/workload-machine.ts";
import type { HeldClaims } from "./held-claims.ts";

export interface WorkloadVolumeStats extends Partial<Pick<VolumeMeasure, "figures" | "measuredAt" | "error">> {
  readonly alias: string;
  readonly volume: string;
  /** Other workloads of this host use it too: the figures are of all of them together. */
  readonly shared: boolean;
}

export interface WorkloadStatsOptions {
  readonly held: Pick<HeldClaims, "of">;
  /** Measured once, however many ask. Undefined: nothing of it is published here. */
  readonly measure: (volumeUid: string) => Promise<VolumeMeasure | undefined>;
  readonly clock: Pick<Clock, "now">;
}

export interface WorkloadStats {
  of(state: WorkloadState): Promise<readonly WorkloadVolumeStats[]>;
}

export function createWorkloadStats({ held, measure, clock }: WorkloadStatsOptions): WorkloadStats {
  const notMounted = (state: WorkloadState, volume: string): MeasureError => ({
    reason: "MOUNT_MISSING",
    message: `volume ${state.namespace}/${volume} is not mounted for workload ${state.workload}`,
    method: "",
    code: "",
    at: clock.now(),
  });

  const oneOf = async (state: WorkloadState, { alias, volume }: WorkloadVolume): Promise<WorkloadVolumeStats> => {
    const uid = state.claimUids[alias];
    const found = held.of(state).find(({ claim }) => claim.facts.claimUid === uid && claim.phase === "published");
    const measured = found === undefined ? undefined : await measure(found.volume.ref.volumeUid);
    if (measured === undefined) return { alias, volume, shared: false, error: notMounted(state, volume) };
    const { figures, measuredAt, error, sharedBy } = measured;
    return {
      alias,
      volume,
      shared: sharedBy > 1,
      figures,
      ...(measuredAt === undefined ? {} : { measuredAt }),
      ...(error === undefined ? {} : { error }),
    };
  };

  return { of: (state) => Promise.all(state.volumes.map((wanted) => oneOf(state, wanted))) };
}
