/**
 * "Never send an RPC, or a field, whose capability the plugin did not announce." A call that the plugin does not offer is
 * refused here, exactly as its UNIMPLEMENTED would be; one that it may offer, but has not told yet, waits.
 */
import type { Tri } from "@holdfast/model/tri";
import { VolumeCapability_AccessMode_Mode as Mode, type VolumeCapability } from "@holdfast/shared/gen/csi/v1/csi";
import { type Capability, type PluginFacts, type PluginRole, standingOf } from "./capabilities.ts";
import type { RequestOf } from "./messages.ts";
import { type CsiMethod, type CsiService, methods } from "./methods.ts";
import type { WireFailure } from "./transport.ts";

interface FieldNeed {
  readonly field: string;
  readonly needs: Capability;
}

type FieldNeeds<M extends CsiMethod> = (request: RequestOf<M>) => readonly (FieldNeed | false)[];

const fineModes: ReadonlySet<number> = new Set([Mode.SINGLE_NODE_SINGLE_WRITER, Mode.SINGLE_NODE_MULTI_WRITER]);

/** The two modes that came late are understood only by plugins that say so. */
const fineMode = (capabilities: readonly (VolumeCapability | undefined)[], needs: Capability): FieldNeed | false =>
  capabilities.some((capability) => fineModes.has(capability?.accessMode?.mode ?? 0)) && {
    field: "access_mode",
    needs,
  };

const mountGroup = (capability: VolumeCapability | undefined): FieldNeed | false =>
  (capability?.mount?.volumeMountGroup ?? "") !== "" && {
    field: "volume_capability.mount.volume_mount_group",
    needs: "node:VOLUME_MOUNT_GROUP",
  };

const stagingPath = (path: string): FieldNeed | false =>
  path !== "" && { field: "staging_target_path", needs: "node:STAGE_UNSTAGE_VOLUME" };

const fieldNeeds: { readonly [M in CsiMethod]?: FieldNeeds<M> } = {
  CreateVolume: (request) => [
    request.accessibilityRequirements !== undefined && {
      field: "accessibility_requirements",
      needs: "plugin:VOLUME_ACCESSIBILITY_CONSTRAINTS",
    },
    Object.keys(request.mutableParameters).length > 0 && {
      field: "mutable_parameters",
      needs: "controller:MODIFY_VOLUME",
    },
    request.volumeContentSource?.volume !== undefined && {
      field: "volume_content_source.volume",
      needs: "controller:CLONE_VOLUME",
    },
    request.volumeContentSource?.snapshot !== undefined && {
      field: "volume_content_source.snapshot",
      needs: "controller:CREATE_DELETE_SNAPSHOT",
    },
    fineMode(request.volumeCapabilities, "controller:SINGLE_NODE_MULTI_WRITER"),
  ],
  GetCapacity: (request) => [
    request.accessibleTopology !== undefined && {
      field: "accessible_topology",
      needs: "plugin:VOLUME_ACCESSIBILITY_CONSTRAINTS",
    },
    fineMode(request.volumeCapabilities, "controller:SINGLE_NODE_MULTI_WRITER"),
  ],
  ValidateVolumeCapabilities: (request) => [
    fineMode(request.volumeCapabilities, "controller:SINGLE_NODE_MULTI_WRITER"),
    Object.keys(request.mutableParameters).length > 0 && {
      field: "mutable_parameters",
      needs: "controller:MODIFY_VOLUME",
    },
  ],
  CreateSnapshot: (request) => [
    request.accessibilityRequirements !== undefined && {
      field: "accessibility_requirements",
      needs: "plugin:SNAPSHOT_ACCESSIBILITY_CONSTRAINTS",
    },
  ],
  ControllerPublishVolume: (request) => [
    request.readonly && { field: "readonly", needs: "controller:PUBLISH_READONLY" },
    fineMode([request.volumeCapability], "controller:SINGLE_NODE_MULTI_WRITER"),
  ],
  ControllerExpandVolume: (request) => [fineMode([request.volumeCapability], "controller:SINGLE_NODE_MULTI_WRITER")],
  NodeStageVolume: (request) => [
    fineMode([request.volumeCapability], "node:SINGLE_NODE_MULTI_WRITER"),
    mountGroup(request.volumeCapability),
  ],
  NodePublishVolume: (request) => [
    stagingPath(request.stagingTargetPath),
    fineMode([request.volumeCapability], "node:SINGLE_NODE_MULTI_WRITER"),
    mountGroup(request.volumeCapability),
  ],
  NodeGetVolumeStats: (request) => [stagingPath(request.stagingTargetPath)],
  NodeExpandVolume: (request) => [
    stagingPath(request.stagingTargetPath),
    fineMode([request.volumeCapability], "node:SINGLE_NODE_MULTI_WRITER"),
    mountGroup(request.volumeCapability),
  ],
  NodeGetVolumeHealth: (request) => [stagingPath(request.stagingTargetPath)],
};

const servedBy: Record<PluginRole, Record<CsiService, boolean>> = {
  controller: { Identity: true, Controller: true, GroupController: true, SnapshotMetadata: true, Node: false },
  node: { Identity: true, Controller: false, GroupController: false, SnapshotMetadata: false, Node: true },
  monolith: { Identity: true, Controller: true, GroupController: true, SnapshotMetadata: true, Node: true },
};

/** May this RPC be sent to this plugin? "Never send an RPC whose capability is absent", CSI says in other words. */
export function mayCall(facts: PluginFacts, method: CsiMethod): Tri {
  const { service, needs } = methods[method];
  if (!servedBy[facts.role][service]) return "no";
  return needs === "none" ? "yes" : standingOf(facts, needs);
}

/** Undefined: go ahead. Otherwise the failure that stands for the call that is not made. */
export function gateOf<M extends CsiMethod>(
  facts: PluginFacts,
  method: M,
  request: RequestOf<M> | undefined,
): WireFailure | undefined {
  const call = refusalOf(mayCall(facts, method), method, () => `${method} is not offered by plugin ${facts.name}`);
  if (call !== undefined || request === undefined) return call;
  for (const need of fieldNeeds[method]?.(request) ?? []) {
    if (need === false) continue;
    const { field, needs } = need;
    const refusal = refusalOf(
      standingOf(facts, needs),
      method,
      () =>
        `${method} with ${field} is not offered by plugin ${facts.name}: it lacks ${needs.replace(":", " capability ")}`,
    );
    if (refusal !== undefined) return refusal;
  }
  return undefined;
}

function refusalOf(standing: Tri, method: CsiMethod, message: () => string): WireFailure | undefined {
  if (standing === "yes") return undefined;
  if (standing === "no") return { code: "UNIMPLEMENTED", message: message(), sent: false };
  return { code: "UNAVAILABLE", message: `${method} is waiting for capabilities of the plugin`, sent: false };
}
