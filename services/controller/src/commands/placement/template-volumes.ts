/**
 * The volumes that claims would bring, as placement judges them: as they would be made, or as they stand since an earlier request. What
 * CreateClaims would refuse on every node speaks against every node.
 */
import { type HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { isLeaving } from "../../domain/claim/ephemeral.ts";
import {
  type PlacementObstacle,
  type PlacementReason,
  placementReason,
} from "../../domain/placement/placement-reason.ts";
import { addedBy, changeOfVolume, excessOf } from "../../domain/quota/quota.ts";
import { defaultRetry } from "../../domain/retry.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import { quotaExceeded, sizeMissing } from "../../records/quota/quota-errors.ts";
import type { QuotaRecords } from "../../records/quota/quota-records.ts";
import { volumeLeavingWithClaim } from "../claim/claim-volumes.ts";
import type { CommandDeps } from "../command-deps.ts";
import { volumeExists } from "../errors.ts";
import type { CreateVolumeInput } from "../model.ts";
import { findContentSource } from "../volume/content-source.ts";
import { checkPlugin, differs, newVolume } from "../volume/create-volume.ts";

/** By volume key; what speaks against a volume stands in place of it. */
export type TemplateVolumes = (
  templates: readonly CreateVolumeInput[],
  standing: ReadonlyMap<string, VolumeRecord | undefined>,
) => Promise<ReadonlyMap<string, VolumeRecord | PlacementReason>>;

export interface TemplateVolumesDeps extends Pick<CommandDeps, "records" | "cuts" | "plugins"> {
  readonly quotas: Pick<QuotaRecords, "get">;
}

/** Errors of CreateVolume that have an obstacle of their own. */
const obstacles: ReadonlyMap<string, PlacementObstacle> = new Map([
  ["PLUGIN_NOT_FOUND", "PLUGIN_MISSING"],
  ["PLUGIN_AMBIGUOUS", "CONTROLLER_PLUGIN_MISSING"],
  ["CAPABILITY_MISMATCH", "CAPABILITY_MISMATCH"],
  ["TOPOLOGY_MISMATCH", "TOPOLOGY_MISMATCH"],
  ["QUOTA_EXCEEDED", "QUOTA_EXCEEDED"],
]);

const reasonOf = ({ id, plugin }: CreateVolumeInput, error: HoldfastError, transient = false): PlacementReason =>
  placementReason(obstacles.get(error.reason) ?? "VOLUME_NOT_AVAILABLE", error.message, {
    ...{ volume: id, plugin, transient },
  });

export const isReason = (found: VolumeRecord | PlacementReason): found is PlacementReason => "obstacle" in found;

const nobody = { who: "", why: "" };
const unmade = { now: 0, issuer: "", opId: "", random: 0, retry: defaultRetry };

export const createTemplateVolumes = (deps: TemplateVolumesDeps): TemplateVolumes => {
  const found = async (
    template: CreateVolumeInput,
    volume: VolumeRecord | undefined,
  ): Promise<VolumeRecord | PlacementReason> => {
    if (volume !== undefined) {
      if (isLeaving(volume)) return reasonOf(template, volumeLeavingWithClaim(volume), true);
      const field = differs(template, volume);
      return field === undefined ? volume : reasonOf(template, volumeExists(template, field));
    }
    try {
      checkPlugin(template, deps.plugins);
      const source = (await findContentSource(deps, template))?.source;
      return newVolume(template, nobody, "", { name: "", source }, unmade);
    } catch (error) {
      // What is wrong with the request itself is told as that.
      if (!isHoldfastError(error) || error.kind === "invalid") throw error;
      return reasonOf(template, error);
    }
  };

  /** All that would be made, counted together. */
  const beyondQuota = async (volumes: readonly VolumeRecord[]): Promise<HoldfastError | undefined> => {
    for (const [namespace, added] of addedBy(volumes.flatMap((volume) => changeOfVolume(undefined, volume) ?? []))) {
      const quota = await deps.quotas.get(namespace);
      if (quota === undefined) continue;
      const { limits } = quota.record;
      if (limits.bytes !== undefined && added.sizeless) throw sizeMissing(namespace);
      const excess = excessOf(limits, quota.used, added);
      if (excess !== undefined) return quotaExceeded(namespace, excess);
    }
    return undefined;
  };

  return async (templates, standing) => {
    const volumes = new Map<string, VolumeRecord | PlacementReason>();
    const made = new Map<string, { readonly template: CreateVolumeInput; readonly volume: VolumeRecord }>();
    for (const template of templates) {
      const key = volumeKey(template);
      const volume = await found(template, standing.get(key));
      volumes.set(key, volume);
      if (standing.get(key) === undefined && !isReason(volume)) made.set(key, { template, volume });
    }
    const excess = await beyondQuota([...made.values()].map(({ volume }) => volume));
    if (excess !== undefined) for (const [key, { template }] of made) volumes.set(key, reasonOf(template, excess));
    return volumes;
  };
};
