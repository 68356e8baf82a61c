/** The end of a run: everything is read once more, every snapshot by a volume made from it, and all of it is deleted. */

import { worldProblems } from "./check-world.ts";
import type { DriverProcess } from "./driver-process.ts";
import { contentProblems } from "./model-contents.ts";
import type { ModelSnapshot, ModelVolume, ModelWorld } from "./model-world.ts";
import { capabilityOf, kindFacts, type VolumeKind } from "./volume-kinds.ts";

/** Staged, published for reading, looked at, and given back. */
const readThrough = async (
  driver: DriverProcess,
  volume: { readonly id: string; readonly kind: VolumeKind; readonly contents: ModelVolume["contents"] },
  { what, attaching }: { readonly what: string; readonly attaching: boolean },
): Promise<readonly string[]> => {
  const { controller, node } = driver.csi();
  const stagingTargetPath = await driver.stagingPath(`last-${volume.id}`);
  const targetPath = await driver.targetPath(`last-${volume.id}`);
  const common = { volumeId: volume.id, volumeCapability: capabilityOf(volume.kind) };
  if (attaching) await controller.controllerPublishVolume({ ...common, nodeId: "node-a" });
  await node.nodeStageVolume({ ...common, stagingTargetPath });
  await node.nodePublishVolume({ ...common, stagingTargetPath, targetPath, readonly: true });
  const problems = await contentProblems(volume, targetPath);
  await node.nodeUnpublishVolume({ volumeId: volume.id, targetPath });
  await node.nodeUnstageVolume({ volumeId: volume.id, stagingTargetPath });
  if (attaching) await controller.controllerUnpublishVolume({ volumeId: volume.id, nodeId: "" });
  return problems.map((problem) => `${what}: ${problem}`);
};

const giveBack = async (driver: DriverProcess, volume: ModelVolume): Promise<void> => {
  const { controller, node } = driver.csi();
  for (const targetPath of volume.targets.keys()) await node.nodeUnpublishVolume({ volumeId: volume.id, targetPath });
  volume.targets.clear();
  if (volume.staging !== undefined)
    await node.nodeUnstageVolume({ volumeId: volume.id, stagingTargetPath: volume.staging });
  volume.staging = undefined;
  if (volume.attached) await controller.controllerUnpublishVolume({ volumeId: volume.id, nodeId: "node-a" });
  volume.attached = false;
};

/** What was written is among the blocks that the driver calls allocated. */
const metadataProblems = async (driver: DriverProcess, snapshot: ModelSnapshot): Promise<readonly string[]> => {
  if (snapshot.kind !== "block") return [];
  const extents: { readonly from: bigint; readonly to: bigint }[] = [];
  for await (const { blockMetadata } of driver.csi().metadata.getMetadataAllocated({ snapshotId: snapshot.id }))
    extents.push(
      ...blockMetadata.map(({ byteOffset, sizeBytes }) => ({ from: byteOffset, to: byteOffset + sizeBytes })),
    );
  const covered = (from: bigint, to: bigint): boolean => {
    let at = from;
    for (const extent of extents) if (extent.from <= at && extent.to > at) at = extent.to;
    return at >= to;
  };
  return [...snapshot.contents]
    .filter(([slot, { length }]) => {
      const from = BigInt(slot) * BigInt(length);
      return !covered(from, from + BigInt(length));
    })
    .map(([slot]) => `snapshot ${snapshot.id}: slot ${slot} is not among the allocated blocks`);
};

const snapshotProblems = async (
  driver: DriverProcess,
  snapshot: ModelSnapshot,
  attaching: boolean,
): Promise<readonly string[]> => {
  const { controller } = driver.csi();
  const { volume } = await controller.createVolume({
    name: `of-${snapshot.id}`,
    capacityRange: { requiredBytes: snapshot.bytes },
    volumeCapabilities: [capabilityOf(snapshot.kind)],
    parameters: kindFacts[snapshot.kind].parameters,
    volumeContentSource: { snapshot: { snapshotId: snapshot.id } },
  });
  const id = volume?.volumeId ?? "";
  const problems = await readThrough(
    driver,
    { ...snapshot, id },
    { what: `snapshot ${snapshot.name} (${snapshot.kind})`, attaching },
  );
  await controller.deleteVolume({ volumeId: id });
  return [...problems, ...(await metadataProblems(driver, snapshot))];
};

export const emptyWorld = async ({
  driver,
  world,
}: {
  readonly driver: DriverProcess;
  readonly world: ModelWorld;
}): Promise<readonly string[]> => {
  const { controller, group } = driver.csi();
  const problems: string[] = [];
  // Beside the volumes that they were taken of, which are still mounted: each filesystem has an identity of its own.
  for (const snapshot of world.snapshots.values())
    problems.push(...(await snapshotProblems(driver, snapshot, world.attaching)));
  for (const volume of world.volumes.values()) {
    await giveBack(driver, volume);
    const what = `${volume.kind} volume ${volume.name}`;
    problems.push(...(await readThrough(driver, volume, { what, attaching: world.attaching })));
    await controller.deleteVolume({ volumeId: volume.id });
  }
  world.volumes.clear();
  for (const { id, snapshotIds } of world.groups.values())
    await group.deleteVolumeGroupSnapshot({ groupSnapshotId: id, snapshotIds: [...snapshotIds] });
  for (const { id, groupId } of world.snapshots.values())
    if (groupId === "") await controller.deleteSnapshot({ snapshotId: id });
  world.snapshots.clear();
  world.groups.clear();
  return [...problems, ...(await worldProblems(driver, world))];
};
