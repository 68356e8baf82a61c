/** Snapshots: domain ↔ CSI. */

import type { ResponseOf } from "@holdfast/csi/messages";
import { wholeNumber } from "@holdfast/model/whole-number";
import { BlockMetadataType } from "@holdfast/shared/gen/csi/v1/csi";
import type { MadeSnapshot } from "../domain/snapshot/snapshot-answer.ts";
import type { BlockMetadata } from "../domain/snapshot/snapshot-types.ts";
import { accessibleFrom } from "./convert.ts";
import type { PluginInstance } from "./plugin-calls.ts";

type CsiSnapshot = NonNullable<ResponseOf<"CreateSnapshot">["snapshot"]>;

/** Places are believed of a plugin that announces SNAPSHOT_ACCESSIBILITY_CONSTRAINTS alone: of any other the field says nothing. */
export const snapshotFrom = ({ facts }: Pick<PluginInstance, "facts">, snapshot: CsiSnapshot): MadeSnapshot => ({
  externalId: snapshot.snapshotId,
  externalVolumeId: snapshot.sourceVolumeId,
  externalGroupId: snapshot.groupSnapshotId,
  sizeBytes: wholeNumber(snapshot.sizeBytes),
  cutAt: snapshot.creationTime?.getTime() ?? 0,
  ready: snapshot.readyToUse,
  ...(facts.plugin.SNAPSHOT_ACCESSIBILITY_CONSTRAINTS === "yes" && snapshot.accessibleTopology.length > 0
    ? { usableFrom: accessibleFrom(snapshot.accessibleTopology) }
    : {}),
});

export const blocksFrom = (
  message: ResponseOf<"GetMetadataAllocated"> | ResponseOf<"GetMetadataDelta">,
): BlockMetadata => ({
  fixedLength:
    message.blockMetadataType === BlockMetadataType.FIXED_LENGTH
      ? true
      : message.blockMetadataType === BlockMetadataType.VARIABLE_LENGTH
        ? false
        : undefined,
  capacity: message.volumeCapacityBytes,
  blocks: message.blockMetadata.map(({ byteOffset, sizeBytes }) => ({ offset: byteOffset, size: sizeBytes })),
});
