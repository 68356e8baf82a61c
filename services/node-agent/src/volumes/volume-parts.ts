/** All that deals with the volumes of this host, put together over one journal and one mount table. */
import type { Clock } from "@holdfast/shared/async/clock";
import type { AgentConfig } from "../config.ts";
import type { KillableChildren } from "../ports.ts";
import { createSecureMount } from "./secure-mount.ts";
import { createVolumeManager, type VolumeManager, type VolumeManagerOptions } from "./volume-manager.ts";
import { createVolumeStats, type VolumeStats } from "./volume-stats.ts";

export interface VolumeParts {
  readonly volumes: VolumeManager;
  readonly stats: VolumeStats;
}

export interface VolumePartsOptions extends Omit<VolumeManagerOptions, "secure" | "allowedOptions"> {
  readonly config: Pick<AgentConfig, "statsTimeout" | "statsMaxAge" | "mountOptionsAllowed" | "mountOptionsForced">;
  readonly clock: Clock;
  readonly children: KillableChildren;
}

export function createVolumeParts(options: VolumePartsOptions): VolumeParts {
  const { config } = options;
  const secure = createSecureMount({ ...options, forced: config.mountOptionsForced });
  return {
    volumes: createVolumeManager({ ...options, secure, allowedOptions: config.mountOptionsAllowed }),
    stats: createVolumeStats({ ...options, deadlineMs: config.statsTimeout, maxAgeMs: config.statsMaxAge }),
  };
}
