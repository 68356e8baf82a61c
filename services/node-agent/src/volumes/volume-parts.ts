/** All that deals with the volumes of this host, put together over one journal and one mount table. */
import type { Clock } from "@holdfast/shared/async/clock";
import type { AgentConfig } from "../config.ts";
import { createVolumeManager, type VolumeManager, type VolumeManagerOptions } from "./volume-manager.ts";
import { createVolumeStats, type VolumeStats } from "./volume-stats.ts";

export interface VolumeParts {
  readonly volumes: VolumeManager;
  readonly stats: VolumeStats;
}

export interface VolumePartsOptions extends VolumeManagerOptions {
  readonly config: Pick<AgentConfig, "statsTimeout" | "statsMaxAge">;
  readonly clock: Clock;
}

export function createVolumeParts(options: VolumePartsOptions): VolumeParts {
  const { config } = options;
  return {
    volumes: createVolumeManager(options),
    stats: createVolumeStats({ ...options, deadlineMs: config.statsTimeout, maxAgeMs: config.statsMaxAge }),
  };
}
