import type { GroupControllerDefinition } from "@holdfast/shared/gen/csi/v1/csi";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { DriverSettings, SnapshotOperations } from "../operations.ts";
import type { Admit } from "./admit.ts";
import { groupCapabilities } from "./capabilities.ts";
import { fromGroup } from "./convert-answer.ts";

export interface GroupControllerParts {
  readonly settings: DriverSettings;
  readonly snapshots: SnapshotOperations;
  readonly admit: Admit;
}

export const createGroupControllerService = ({
  settings,
  snapshots,
  admit,
}: GroupControllerParts): Implementation<typeof GroupControllerDefinition> => ({
  groupControllerGetCapabilities: async () => ({ capabilities: groupCapabilities(settings) }),

  createVolumeGroupSnapshot: (request, context) =>
    admit("CreateVolumeGroupSnapshot", request, context, async (signal) => {
      const { name, sourceVolumeIds: volumeIds, parameters } = request;
      const made = await snapshots.createGroup({ name, volumeIds, parameters }, signal);
      return { groupSnapshot: fromGroup(made.group, made.snapshots) };
    }),

  deleteVolumeGroupSnapshot: (request, context) =>
    admit("DeleteVolumeGroupSnapshot", request, context, async () => {
      await snapshots.deleteGroup(request.groupSnapshotId, request.snapshotIds);
      return {};
    }),

  getVolumeGroupSnapshot: (request, context) =>
    admit("GetVolumeGroupSnapshot", request, context, async () => {
      const found = await snapshots.getGroup(request.groupSnapshotId, request.snapshotIds);
      return { groupSnapshot: fromGroup(found.group, found.snapshots) };
    }),
});
