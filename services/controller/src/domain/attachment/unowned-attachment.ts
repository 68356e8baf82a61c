import type { Attachment, VolumeRecord } from "../volume/volume.ts";

/** All that the detach of an attachment needs which no record has: it is owed by itself, and no claim comes with it. */
export const unownedAttachment = (
  volume: VolumeRecord,
  place: Pick<Attachment, "node" | "nodeId" | "nodeEpoch" | "machineId">,
): Attachment => ({
  ...place,
  state: "DETACHING",
  needsCalls: true,
  readOnly: false,
  accessMode: volume.capabilities[0]?.accessMode ?? "UNKNOWN",
  attachmentMode: volume.capabilities[0]?.attachmentMode ?? "FILE_SYSTEM",
  fsType: "",
  mountFlags: [],
  volumeMountGroup: "",
  publishContext: {},
  ...(volume.secretRefs.controllerPublish === undefined ? {} : { secretRef: volume.secretRefs.controllerPublish }),
  pluginVersion: volume.pluginVersion,
});
