/** All that deals with the volumes of this host, put together over one journal and one mount table. */
import type { Clock } from "@holdfast/shared/async/clock";
import type { Metrics } from "@holdfast/shared/metrics";
import type { AgentConfig } from "../config.ts";
import type { HeldClaim, VolumeRef } from "../domain/types.ts";
import type { KillableChildren, TokenSource } from "../ports.ts";
import { createHealthQuestion } from "./health-question.ts";
import { createLingeringMounts } from "./lingering-mounts.ts";
import { createMountWatch, type MountWatch } from "./mount-watch.ts";
import { createRepublisher, type Republisher } from "./republisher.ts";
import { createSecureMount } from "./secure-mount.ts";
import { tellDamage } from "./tell-damage.ts";
import { createUpkeep, type Upkeep } from "./upkeep.ts";
import { createVolumeManager, type VolumeManager, type VolumeManagerOptions } from "./volume-manager.ts";
import { meterVolumes } from "./volume-metrics.ts";
import { createVolumeStats, type VolumeStats } from "./volume-stats.ts";

export interface VolumeParts {
  readonly volumes: VolumeManager;
  readonly stats: VolumeStats;
  readonly watch: MountWatch;
  readonly upkeep: Upkeep;
  readonly republisher: Republisher;
}

type Made = "secure" | "allowedOptions" | "deadMounts" | "lingering";

export interface VolumePartsOptions extends Omit<VolumeManagerOptions, Made> {
  readonly config: Pick<
    AgentConfig,
    | "rootDir"
    | "statsTimeout"
    | "statsMaxAge"
    | "mountOptionsAllowed"
    | "mountOptionsForced"
    | "deadMounts"
    | "orphanMounts"
  >;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly children: KillableChildren;
  readonly registered: () => boolean;
  readonly random: () => number;
  readonly tokens: TokenSource;
}

export function createVolumeParts(options: VolumePartsOptions): VolumeParts {
  const { config } = options;
  const secure = createSecureMount({ ...options, forced: config.mountOptionsForced });
  const lose = (ref: VolumeRef, dead: ReadonlySet<number>): Promise<readonly HeldClaim[]> => volumes.lose(ref, dead);
  const watch = createMountWatch({ ...options, rootDir: config.rootDir, policy: config.deadMounts, lose });
  const allowedOptions = config.mountOptionsAllowed;
  const lingering = createLingeringMounts(options);
  const manager = createVolumeManager({ ...options, secure, allowedOptions, deadMounts: watch, lingering });
  const bare = tellDamage(options.ledger, options.node, manager);
  const asking = createHealthQuestion(bare, options);
  const republisher = createRepublisher(asking, { ...options, secure });
  const volumes: VolumeManager = meterVolumes(republisher.volumes, { ...options, lost: watch.lost });
  const stats = createVolumeStats({ ...options, deadlineMs: config.statsTimeout, maxAgeMs: config.statsMaxAge });
  const upkeep = createUpkeep({ ...options, volumes, orphans: config.orphanMounts });
  return { volumes, stats, watch, upkeep, republisher };
}
