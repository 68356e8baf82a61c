import type { ControllerDefinition, ValidateVolumeCapabilitiesRequest } from "@holdfast/shared/gen/csi/v1/csi";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import { DriverError } from "../domain/driver-error.ts";
import type { DriverSettings, SnapshotOperations, VolumeOperations } from "../operations.ts";
import type { Admit } from "./admit.ts";
import { controllerCapabilities } from "./capabilities.ts";
import { offeredCapability, toCapability } from "./check-capability.ts";
import { every, violationsOf } from "./check-field.ts";
import { fromSnapshot, fromVolume, fromVolumeStatus } from "./convert-answer.ts";
import { toCapacity, toCreateVolume, toOptionalCapability, toSureCapability } from "./convert-request.ts";

export interface ControllerParts {
  readonly settings: DriverSettings;
  readonly volumes: VolumeOperations;
  readonly snapshots: SnapshotOperations;
  readonly admit: Admit;
}

export const createControllerService = ({
  settings,
  volumes,
  snapshots,
  admit,
}: ControllerParts): Implementation<typeof ControllerDefinition> => {
  const mustAttach = (method: string): void => {
    if (settings.attach) return;
    throw new DriverError("UNIMPLEMENTED", `${method}: attaching is switched off; HOLDFAST_LOCAL_ATTACH=1 offers it`);
  };

  const noHealth = (method: string) => async (): Promise<never> => {
    throw new DriverError(
      "UNIMPLEMENTED",
      `${method}: ask ControllerGetVolume for the condition, or NodeGetVolumeHealth`,
    );
  };

  /** What this driver never offers, for whatever volume; the volume itself may still refuse the rest. */
  const notOffered = (request: Pick<ValidateVolumeCapabilitiesRequest, "volumeCapabilities">): string =>
    violationsOf(every(offeredCapability), request.volumeCapabilities, "volume_capabilities")
      .map(({ field, description }) => `${field} ${description}`)
      .join("; ");

  return {
    createVolume: (request, context) =>
      admit("CreateVolume", request, context, async (signal) => ({
        volume: fromVolume(await volumes.createVolume(toCreateVolume(request), signal), settings),
      })),

    deleteVolume: (request, context) =>
      admit("DeleteVolume", request, context, async (signal) => {
        await volumes.deleteVolume(request.volumeId, signal);
        return {};
      }),

    controllerPublishVolume: async (request, context) => {
      mustAttach("ControllerPublishVolume");
      return await admit("ControllerPublishVolume", request, context, async () => {
        const capability = toSureCapability(request.volumeCapability);
        await volumes.attach(request.volumeId, { nodeId: request.nodeId, capability, readonly: request.readonly });
        return { publishContext: {} };
      });
    },

    controllerUnpublishVolume: async (request, context) => {
      mustAttach("ControllerUnpublishVolume");
      return await admit("ControllerUnpublishVolume", request, context, async () => {
        await volumes.detach(request.volumeId, request.nodeId);
        return {};
      });
    },

    validateVolumeCapabilities: (request, context) =>
      admit("ValidateVolumeCapabilities", request, context, async () => {
        const { volumeContext, volumeCapabilities, parameters, mutableParameters } = request;
        // Also when nothing can be confirmed: an unknown volume is NOT_FOUND.
        await volumes.getVolume(request.volumeId);
        if (Object.keys(volumeContext).length > 0)
          return { confirmed: undefined, message: "volume_context: volumes of this driver have none" };
        const refused = notOffered(request);
        if (refused !== "") return { confirmed: undefined, message: refused };
        const capabilities = volumeCapabilities.map(toCapability);
        const why = await volumes.validateCapabilities(request.volumeId, {
          capabilities,
          parameters,
          mutableParameters,
        });
        if (why !== undefined) return { confirmed: undefined, message: why };
        return { confirmed: { volumeContext, volumeCapabilities, parameters, mutableParameters }, message: "" };
      }),

    listVolumes: (request, context) =>
      admit("ListVolumes", request, context, async () => {
        const page = await volumes.listVolumes(request);
        return {
          entries: page.entries.map((entry) => ({
            volume: fromVolume(entry.volume, settings),
            status: fromVolumeStatus(entry, settings),
          })),
          nextToken: page.nextToken,
        };
      }),

    getCapacity: (request, context) =>
      admit("GetCapacity", request, context, async () => {
        if (notOffered(request) !== "") return { availableCapacity: 0n };
        const room = await volumes.capacity({
          capabilities: request.volumeCapabilities.map(toCapability),
          parameters: request.parameters,
          segments: request.accessibleTopology?.segments ?? {},
        });
        return {
          availableCapacity: room.availableBytes,
          maximumVolumeSize: room.maximumVolumeBytes,
          minimumVolumeSize: room.minimumVolumeBytes,
        };
      }),

    controllerGetCapabilities: async () => ({ capabilities: controllerCapabilities(settings) }),

    createSnapshot: (request, context) =>
      admit("CreateSnapshot", request, context, async (signal) => {
        const { name, sourceVolumeId: volumeId, parameters } = request;
        return { snapshot: fromSnapshot(await snapshots.createSnapshot({ name, volumeId, parameters }, signal)) };
      }),

    deleteSnapshot: (request, context) =>
      admit("DeleteSnapshot", request, context, async () => {
        await snapshots.deleteSnapshot(request.snapshotId);
        return {};
      }),

    listSnapshots: (request, context) =>
      admit("ListSnapshots", request, context, async () => {
        const { sourceVolumeId: volumeId, snapshotId } = request;
        const page = await snapshots.listSnapshots(request, { volumeId, snapshotId });
        return {
          entries: page.entries.map((snapshot) => ({ snapshot: fromSnapshot(snapshot) })),
          nextToken: page.nextToken,
        };
      }),

    getSnapshot: (request, context) =>
      admit("GetSnapshot", request, context, async () => ({
        snapshot: fromSnapshot(await snapshots.getSnapshot(request.snapshotId)),
      })),

    controllerExpandVolume: (request, context) =>
      admit("ControllerExpandVolume", request, context, async (signal) => {
        const capability = toOptionalCapability(request.volumeCapability);
        return await volumes.expandVolume(
          request.volumeId,
          { capacity: toCapacity(request.capacityRange), capability },
          signal,
        );
      }),

    controllerGetVolume: (request, context) =>
      admit("ControllerGetVolume", request, context, async () => {
        const found = await volumes.getVolume(request.volumeId);
        return { volume: fromVolume(found.volume, settings), status: fromVolumeStatus(found, settings) };
      }),

    controllerListVolumeHealth: noHealth("ControllerListVolumeHealth"),
    controllerGetVolumeHealth: noHealth("ControllerGetVolumeHealth"),

    controllerModifyVolume: (request, context) =>
      admit("ControllerModifyVolume", request, context, async () => {
        await volumes.modifyVolume(request.volumeId, request.mutableParameters);
        return {};
      }),
  };
};
