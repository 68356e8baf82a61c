/** One volume through the calls of a CO, for tests that are about something else than the calls. */
import path from "node:path";
import type { CreateVolumeRequest, DeepPartial } from "@holdfast/shared/gen/csi/v1/csi";
import type { DriverProcess } from "./driver-process.ts";
import { capabilityOf, kindFacts, type VolumeKind } from "./volume-kinds.ts";

export interface VolumeLife {
  readonly id: string;
  readonly name: string;
  readonly kind: VolumeKind;
  readonly stagingPath: string;
  readonly targetPath: string;
  /** Where its image is. */
  readonly image: string;
  /** The file that remembers it. */
  readonly record: string;
  readonly stage: () => Promise<unknown>;
  readonly publish: (readonly?: boolean) => Promise<unknown>;
  readonly unpublish: () => Promise<unknown>;
  readonly unstage: () => Promise<unknown>;
  readonly remove: () => Promise<unknown>;
}

export const createVolumeLife = async (
  driver: DriverProcess,
  name: string,
  kind: VolumeKind,
  {
    bytes,
    volumeContentSource,
  }: Pick<DeepPartial<CreateVolumeRequest>, "volumeContentSource"> & { readonly bytes?: bigint } = {},
): Promise<VolumeLife> => {
  const { csi } = driver;
  const { volume } = await csi().controller.createVolume({
    name,
    capacityRange: { requiredBytes: bytes ?? kindFacts[kind].bytes },
    volumeCapabilities: [capabilityOf(kind)],
    parameters: kindFacts[kind].parameters,
    volumeContentSource,
  });
  if (volume === undefined) throw new Error(`CreateVolume ${name} answered no volume`);
  const { volumeId } = volume;
  const stagingPath = await driver.stagingPath(name);
  const targetPath = await driver.targetPath(name);
  const volumeCapability = capabilityOf(kind);
  const home = path.join(driver.stateDir, "volumes", volumeId);
  return {
    id: volumeId,
    name,
    kind,
    stagingPath,
    targetPath,
    image: path.join(home, "image"),
    record: path.join(home, "record.json"),
    stage: () => csi().node.nodeStageVolume({ volumeId, stagingTargetPath: stagingPath, volumeCapability }),
    publish: (readonly = false) =>
      csi().node.nodePublishVolume({
        volumeId,
        stagingTargetPath: stagingPath,
        targetPath,
        volumeCapability,
        readonly,
      }),
    unpublish: () => csi().node.nodeUnpublishVolume({ volumeId, targetPath }),
    unstage: () => csi().node.nodeUnstageVolume({ volumeId, stagingTargetPath: stagingPath }),
    remove: () => csi().controller.deleteVolume({ volumeId }),
  };
};

/** Everything taken off the node, and the volume deleted. */
export const endVolumeLife = async (life: VolumeLife): Promise<void> => {
  await life.unpublish();
  await life.unstage();
  await life.remove();
};
