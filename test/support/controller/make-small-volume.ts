import { AccessMode, AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import { CreateVolumeRequest } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { ApiWorld } from "./api-world.ts";
import { simPlugin } from "./snapshot-world.ts";

export const smallBytes = 1n << 24n;

/** A volume of the default namespace for one writer, as a caller asks for it. */
export const makeSmallVolume = (world: ApiWorld, id: string) =>
  world.api.volumes.createVolume(
    CreateVolumeRequest.fromPartial({
      namespace: "default",
      id,
      plugin: simPlugin,
      capacity: { requiredBytes: smallBytes },
      capabilities: [
        {
          attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
          accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
        },
      ],
    }),
    world.context(),
  );
