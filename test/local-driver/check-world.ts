/** Compares all that the driver says, and all that the kernel and the disk show, with the model. Empty: nothing differs. */
import { access, open, readdir, statfs } from "node:fs/promises";
import path from "node:path";
import type { DriverProcess } from "./driver-process.ts";
import { loopsBelow, mountsBelow, strayFiles } from "./host-facts.ts";
import { contentProblems } from "./model-contents.ts";
import { type ModelVolume, type ModelWorld, writableTargets } from "./model-world.ts";
import { kindFacts } from "./volume-kinds.ts";

/** Both sides as sorted lines; answers each that only one of them has. */
const differ = (what: string, seen: Iterable<string>, believed: Iterable<string>): readonly string[] => {
  const has = new Set(seen);
  const should = new Set(believed);
  return [
    ...[...has].filter((line) => !should.has(line)).map((line) => `${what}: ${line} should not be`),
    ...[...should].filter((line) => !has.has(line)).map((line) => `${what}: ${line} is missing`),
  ];
};

const answerProblems = async (driver: DriverProcess, world: ModelWorld): Promise<readonly string[]> => {
  const { controller } = driver.csi();
  const volumes = await controller.listVolumes({});
  const snapshots = await controller.listSnapshots({});
  return [
    ...differ(
      "ListVolumes",
      volumes.entries.map(
        ({ volume, status }) =>
          `${volume?.volumeId} of ${volume?.capacityBytes} bytes on ${status?.publishedNodeIds}${status?.volumeCondition?.abnormal ? `, abnormal: ${status.volumeCondition.message}` : ""}`,
      ),
      [...world.volumes.values()].map(
        ({ id, bytes, attached }) => `${id} of ${bytes} bytes on ${attached ? "node-a" : ""}`,
      ),
    ),
    ...differ(
      "ListSnapshots",
      snapshots.entries.map(
        ({ snapshot }) =>
          `${snapshot?.snapshotId} of ${snapshot?.sourceVolumeId} in group ${snapshot?.groupSnapshotId}`,
      ),
      [...world.snapshots.values()].map(({ id, volumeId, groupId }) => `${id} of ${volumeId} in group ${groupId}`),
    ),
  ];
};

const mountProblems = async (driver: DriverProcess, world: ModelWorld): Promise<readonly string[]> => {
  const seen = await mountsBelow(path.join(driver.home, "co"));
  const volumes = [...world.volumes.values()];
  // A read-only bind of a device stops no writes: there the device itself is, and volumeProblems tries.
  const devices = new Set(volumes.flatMap(({ kind, targets }) => (kind === "block" ? [...targets.keys()] : [])));
  const line = (point: string, readonly: boolean): string =>
    `${point}${devices.has(point) ? "" : readonly ? " ro" : " rw"}`;
  const believed = volumes.flatMap(({ kind, staging, targets }) => [
    ...(staging !== undefined && kindFacts[kind].access === "mount" ? [line(staging, false)] : []),
    ...[...targets].map(([target, readonly]) => line(target, readonly)),
  ]);
  const twice = seen.length - new Set(seen.map(({ point }) => point)).size;
  return [
    ...differ(
      "mount",
      seen.map(({ point, options }) => line(point, options.includes("ro"))),
      believed,
    ),
    ...(twice === 0 ? [] : [`mount: ${twice} stacked on another`]),
  ];
};

/** A device is there when, and only when, a mount or a target uses it. */
const believedLoops = (driver: DriverProcess, volume: ModelVolume): readonly string[] => {
  const image = path.join(driver.stateDir, "volumes", volume.id, "image");
  if (volume.kind === "directory") return [];
  if (volume.kind !== "block") return volume.staging === undefined ? [] : [`${image} rw`];
  const writable = writableTargets(volume).length;
  return [...(writable > 0 ? [`${image} rw`] : []), ...(volume.targets.size > writable ? [`${image} ro`] : [])];
};

const loopProblems = async (driver: DriverProcess, world: ModelWorld): Promise<readonly string[]> => {
  const loops = (await loopsBelow(driver.home)).filter(({ image }) => image.startsWith(`${driver.stateDir}/`));
  const names = loops.map(({ image, readonly }) => `${image} ${readonly ? "ro" : "rw"}`);
  return [
    ...differ(
      "loop device",
      names,
      [...world.volumes.values()].flatMap((volume) => believedLoops(driver, volume)),
    ),
    ...(new Set(names).size === names.length ? [] : [`loop device: two of one image: ${names.toSorted().join(", ")}`]),
  ];
};

const fileProblems = async (driver: DriverProcess, world: ModelWorld): Promise<readonly string[]> => {
  const places = { volumes: world.volumes, snapshots: world.snapshots, groups: world.groups };
  const problems = [...(await strayFiles(driver.stateDir))]
    // What was removed is deleted in its own time; that it ends is looked at when all is over.
    .filter((file) => !file.startsWith("trash/"))
    .map((file) => `file ${file} should not be`);
  for (const [place, model] of Object.entries(places))
    problems.push(...differ(place, await readdir(path.join(driver.stateDir, place)), model.keys()));
  const isThere = async (file: string): Promise<boolean> =>
    access(file).then(
      () => true,
      () => false,
    );
  const believed = new Set([...world.volumes.values()].flatMap(({ targets }) => [...targets.keys()]));
  const parents = await readdir(path.join(driver.home, "co")).catch(() => []);
  for (const parent of parents) {
    const target = path.join(driver.home, "co", parent, "target");
    if ((await isThere(target)) !== believed.has(target))
      problems.push(`target ${target} ${believed.has(target) ? "is missing" : "was left behind"}`);
  }
  return problems;
};

/** Where a workload could look now, if anywhere. */
export const readablePlace = (volume: ModelVolume): string | undefined =>
  kindFacts[volume.kind].access === "mount" ? volume.staging : [...volume.targets.keys()].at(0);

const sizeProblems = async (volume: ModelVolume): Promise<readonly string[]> => {
  if (volume.staging === undefined || volume.growing || kindFacts[volume.kind].fsType === "") return [];
  const { blocks, bsize } = await statfs(volume.staging);
  // xfs takes 64 MiB for its log, ext4 a few for its journal and tables.
  const least = volume.kind === "xfs" ? Number(volume.bytes) - 80 * 2 ** 20 : Number(volume.bytes) * 0.75;
  return blocks * bsize >= least && blocks * bsize <= Number(volume.bytes)
    ? []
    : [`the filesystem has ${blocks * bsize} bytes of ${volume.bytes}`];
};

/** The kernel lets a read-only device be opened for writing, and refuses the write: here of the bytes that are there anyway. */
const canBeWritten = async (device: string): Promise<boolean> => {
  const handle = await open(device, "r+");
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(4096), 0, 4096, 0);
    await handle.write(buffer, 0, bytesRead, 0);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EPERM") return false;
    throw error;
  } finally {
    await handle.close();
  }
};

const deviceProblems = async ({ kind, targets }: ModelVolume): Promise<readonly string[]> => {
  const problems: string[] = [];
  if (kind === "block")
    for (const [target, readonly] of targets)
      if ((await canBeWritten(target)) === readonly)
        problems.push(`${target} ${readonly ? "can" : "cannot"} be written`);
  return problems;
};

/** Of a volume that is mounted, or published as a device. */
export const volumeProblems = async (volume: ModelVolume): Promise<readonly string[]> => {
  const place = readablePlace(volume);
  if (place === undefined) return [];
  const mount = (await mountsBelow(place)).at(-1);
  const options = volume.stagedOptions === "" ? [] : volume.stagedOptions.split(",");
  const problems = [
    ...(await contentProblems(volume, place)),
    ...(await sizeProblems(volume)),
    ...(await deviceProblems(volume)),
    ...options.filter((option) => !mount?.options.includes(option)).map((option) => `not mounted with ${option}`),
  ];
  return problems.map((problem) => `${volume.kind} volume ${volume.name} (${volume.id}): ${problem}`);
};

export const worldProblems = async (driver: DriverProcess, world: ModelWorld): Promise<readonly string[]> => [
  ...(await answerProblems(driver, world)),
  ...(await mountProblems(driver, world)),
  ...(await loopProblems(driver, world)),
  ...(await fileProblems(driver, world)),
];
