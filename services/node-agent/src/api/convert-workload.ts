/** Messages of holdfast.agent.v1.WorkloadService ↔ orders and answers. */

import { msOfDuration } from "@holdfast/model/wire-duration";
import { claimVolumeId } from "@holdfast/shared/claim-volume-id";
import type { Duration } from "@holdfast/shared/gen/google/protobuf/duration";
import {
  type ContainerMount,
  type GetWorkloadStatsResponse,
  type MountInfo,
  MountPropagation,
  type PrepareWorkloadRequest,
  type WatchWorkloadsResponse,
  type Workload,
  type WorkloadVolume as WorkloadVolumeMessage,
} from "@holdfast/shared/gen/holdfast/agent/v1/workload";
import type { ClaimSpec } from "@holdfast/shared/gen/holdfast/v1/claim";
import { type DeepPartial, UsageUnit, WatchKind } from "@holdfast/shared/gen/holdfast/v1/common";
import { accessModeFrom, attachmentModeFrom } from "@holdfast/shared/grpc/convert-model";
import type { ContainerPlace, Propagation, WorkloadName, WorkloadVolume } from "../domain/workload-machine.ts";
import type { WantedClaim } from "../workloads/controller-claims.ts";
import { claimMessage, templateText } from "../workloads/convert-claim.ts";
import type { WorkloadChange } from "../workloads/workload-feed.ts";
import type { WorkloadOrder } from "../workloads/workload-manager.ts";
import type { WorkloadVolumeStats } from "../workloads/workload-stats.ts";
import type { WorkloadView } from "../workloads/workload-views.ts";
import { type Checks, createChecks } from "./checks.ts";

const most = { volumes: 64, replaces: 64, places: 64, waitMs: 600_000, containerPathBytes: 4096 };

export function checkName(checks: Checks, { namespace, workload }: WorkloadName): WorkloadName {
  checks.id("namespace", namespace);
  checks.workload("workload", workload);
  return { namespace, workload };
}

/** Milliseconds; `absent` when none was given. */
export function waitFrom(checks: Checks, duration: Duration | undefined, absent: number): number {
  if (duration === undefined) return absent;
  const ms = msOfDuration(duration);
  checks.that(ms !== undefined, "wait_for", "has to be a duration of zero or more");
  return Math.min(ms ?? absent, most.waitMs);
}

export function prepareFrom(request: PrepareWorkloadRequest): {
  readonly order: WorkloadOrder;
  readonly waitMs: number;
} {
  const checks = createChecks();
  const name = checkName(checks, request);
  const { volumes, replaces, requestId, ticket } = request;
  checks.that(volumes.length >= 1 && volumes.length <= most.volumes, "volumes", `has to name 1 to ${most.volumes}`);
  const parts = volumes.slice(0, most.volumes).map((volume, i) => volumeFrom(checks, `volumes[${i}]`, volume));
  const aliases = parts.map(({ claim }) => claim.alias);
  for (const [i, alias] of aliases.entries())
    checks.that(aliases.indexOf(alias) === i, `volumes[${i}].claim.alias`, `"${alias.slice(0, 64)}" is used twice`);
  checks.that(replaces.length <= most.replaces, "replaces", `has to name at most ${most.replaces}`);
  for (const [i, workload] of replaces.slice(0, most.replaces).entries()) {
    checks.workload(`replaces[${i}]`, workload);
    checks.that(workload !== request.workload, `replaces[${i}]`, "a workload does not replace itself");
  }
  if (requestId !== "") checks.text("request_id", requestId);
  const waitMs = waitFrom(checks, request.waitFor, most.waitMs);
  checks.end();
  const order = {
    ...name,
    replaces,
    requestId,
    ticket,
    claims: parts.map(({ claim }) => broughtBy(request.workload, claim)),
    volumes: parts.map(({ claim, volume }) => ({ ...volume, volume: broughtBy(request.workload, claim).volume })),
  };
  return { order, waitMs };
}

function volumeFrom(
  checks: Checks,
  field: string,
  { claim, mounts }: WorkloadVolumeMessage,
): { readonly claim: WantedClaim; readonly volume: WorkloadVolume } {
  checks.that(claim !== undefined, `${field}.claim`, "is required");
  const wanted = claimFrom(checks, `${field}.claim`, claim);
  const { alias, volume, readOnly } = wanted;
  checks.that(mounts.length <= most.places, `${field}.mounts`, `has to name at most ${most.places}`);
  const places = mounts.slice(0, most.places).map((mount, i) => placeFrom(checks, `${field}.mounts[${i}]`, mount));
  return { claim: wanted, volume: { alias, volume, readOnly, places } };
}

/** What a template makes is known by its id before it is there. */
const broughtBy = (workload: string, claim: WantedClaim): WantedClaim =>
  claim.template === undefined ? claim : { ...claim, volume: claimVolumeId(workload, claim.alias) };

function claimFrom(checks: Checks, field: string, claim: ClaimSpec | undefined): WantedClaim {
  const { volume = "", alias = "", readOnly = false, capability } = claim ?? {};
  if (claim === undefined) return { volume, alias, readOnly, capability: undefined };
  const { template } = claim;
  if (template === undefined) checks.id(`${field}.volume`, volume);
  else {
    checks.that(volume === "", `${field}.volume`, "has to be empty with a template, which makes it");
    checks.that(alias !== "", `${field}.alias`, "is required with a template: the volume is named after it");
    checks.that(
      capability !== undefined,
      `${field}.capability`,
      "is required with a template: the volume is made with it",
    );
  }
  if (alias !== "") checks.id(`${field}.alias`, alias);
  const brought = template === undefined ? {} : { template: templateText(template) };
  const wanted = { volume, alias: alias === "" ? volume : alias, readOnly, ...brought };
  if (capability === undefined) return { ...wanted, capability: undefined };
  const { fsType, mountFlags, volumeMountGroup } = capability;
  const accessMode = accessModeFrom(capability.accessMode);
  const attachmentMode = attachmentModeFrom(capability.attachmentMode);
  checks.that(accessMode !== "UNKNOWN", `${field}.capability.access_mode`, "is required");
  checks.that(attachmentMode !== undefined, `${field}.capability.attachment_mode`, "is required");
  checks.fsType(`${field}.capability.fs_type`, fsType);
  checks.flags(`${field}.capability.mount_flags`, mountFlags);
  if (volumeMountGroup !== "") checks.text(`${field}.capability.volume_mount_group`, volumeMountGroup);
  if (attachmentMode === "BLOCK_DEVICE") {
    const bare = fsType === "" && mountFlags.length === 0 && volumeMountGroup === "";
    const says = "a block device has no fs_type, mount_flags or volume_mount_group";
    checks.that(bare, `${field}.capability.attachment_mode`, says);
  }
  const modes = { accessMode, attachmentMode: attachmentMode ?? "FILE_SYSTEM" } as const;
  return { ...wanted, capability: { ...modes, fsType, mountFlags, volumeMountGroup } };
}

const propagations: Readonly<Record<number, Propagation>> = {
  [MountPropagation.MOUNT_PROPAGATION_UNSPECIFIED]: "private",
  [MountPropagation.MOUNT_PROPAGATION_PRIVATE]: "private",
  [MountPropagation.MOUNT_PROPAGATION_HOST_TO_CONTAINER]: "host-to-container",
  [MountPropagation.MOUNT_PROPAGATION_BIDIRECTIONAL]: "bidirectional",
};

const propagationMessages: Readonly<Record<Propagation, MountPropagation>> = {
  private: MountPropagation.MOUNT_PROPAGATION_PRIVATE,
  "host-to-container": MountPropagation.MOUNT_PROPAGATION_HOST_TO_CONTAINER,
  bidirectional: MountPropagation.MOUNT_PROPAGATION_BIDIRECTIONAL,
};

function placeFrom(checks: Checks, field: string, mount: ContainerMount): ContainerPlace {
  const { container, containerPath, readOnly } = mount;
  if (container !== "") checks.text(`${field}.container`, container);
  const bytes = Buffer.byteLength(containerPath);
  const absolute = containerPath.startsWith("/") && bytes <= most.containerPathBytes && !containerPath.includes("\0");
  const climbs = containerPath.split("/").includes("..");
  const says = `has to be an absolute path of at most ${most.containerPathBytes} bytes without ".."`;
  checks.that(absolute && !climbs, `${field}.container_path`, says);
  const propagation = propagations[mount.propagation];
  checks.that(propagation !== undefined, `${field}.propagation`, "is none of the values");
  return { container, path: containerPath, readOnly, propagation: propagation ?? "private" };
}

export function workloadMessage(view: WorkloadView, node: string): DeepPartial<Workload> {
  const { namespace, workload, ready, restart } = view;
  return {
    namespace,
    workload,
    ready,
    mounts: view.mounts.map(mountMessage),
    claims: view.claims.map((claim) => claimMessage(claim, node)),
    restartWantedSince: restart === undefined ? undefined : new Date(restart.since),
    restartReason: restart?.reason ?? "",
  };
}

const mountMessage = (row: WorkloadView["mounts"][number]): DeepPartial<MountInfo> => ({
  alias: row.alias,
  volume: row.volume,
  container: row.container,
  hostPath: row.hostPath,
  containerPath: row.path,
  readOnly: row.readOnly,
  propagation: propagationMessages[row.propagation],
  device: row.device,
});

const watchKinds: Readonly<Record<WorkloadChange["kind"], WatchKind>> = {
  existing: WatchKind.WATCH_KIND_EXISTING,
  synced: WatchKind.WATCH_KIND_SYNCED,
  changed: WatchKind.WATCH_KIND_CHANGED,
  removed: WatchKind.WATCH_KIND_REMOVED,
};

export const changeMessage = (change: WorkloadChange, node: string): DeepPartial<WatchWorkloadsResponse> => ({
  kind: watchKinds[change.kind],
  workload: change.view === undefined ? undefined : workloadMessage(change.view, node),
  resumeToken: change.resumeToken,
});

const units = { bytes: UsageUnit.USAGE_UNIT_BYTES, inodes: UsageUnit.USAGE_UNIT_INODES } as const;

export const statsMessage = (volumes: readonly WorkloadVolumeStats[]): DeepPartial<GetWorkloadStatsResponse> => ({
  volumes: volumes.map(({ alias, volume, shared, figures, measuredAt, error }) => ({
    alias,
    volume,
    shared,
    usage: (figures?.usage ?? []).map((one) => ({ ...one, unit: units[one.unit] })),
    condition: figures?.condition,
    measuredAt: measuredAt === undefined ? undefined : new Date(measuredAt),
    error:
      error === undefined
        ? undefined
        : {
            reason: error.reason,
            message: error.message,
            csiMethod: error.method,
            csiCode: error.code,
            at: new Date(error.at),
          },
  })),
});
