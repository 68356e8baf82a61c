import { execFile } from "node:child_process";
import { mkdir, open, readFile, rm, truncate, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { createLogger } from "@holdfast/shared/log/logger";
import { afterEach, describe, expect, test } from "vitest";
import type { Capability, FsType, VolumeRecord } from "../domain/records.ts";
import { createBlocks } from "../host/blocks.ts";
import { createTrees } from "../host/trees.ts";
import { createNodeOperations } from "../node/node-operations.ts";
import type { Block, BlockStream, CreateVolumeInput } from "../operations.ts";
import type { Host } from "../ports.ts";
import { openState } from "../state/open-state.ts";
import {
  bytes,
  controllerSettings,
  mib,
  mounting,
  raw,
  refusalOf,
  volumeInput,
} from "../testing/controller-fixture.ts";
import { createHostRig, isRoot } from "../testing/host-rig.ts";
import { createControllerOperations } from "./controller-operations.ts";

/** Controller and node together on the real kernel: what a copy is worth shows when it is mounted. */

const sh = promisify(execFile);
const block = 4096;
const undo: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
});

/** On a disk with reflinks (an xfs of its own), or on whatever the temporary directory is on. */
async function createKernelDriver({ reflinks = false } = {}) {
  const parent = reflinks ? await reflinkDisk() : os.tmpdir();
  const rig = await createHostRig({ parent, name: "hf-controller-" });
  const { run, mounts, signal, stateDir } = rig;
  const state = await openState({
    stateDir: { path: stateDir },
    run,
    mounts,
    log: createLogger({ level: "error" }),
    signal,
  });
  undo.push(async () => {
    await state.settled();
    const left = await rig.leftovers();
    await state.close();
    await rig.close();
    expect(left).toEqual([]);
  });
  const host: Host = {
    ...rig,
    state,
    blocks: createBlocks(),
    trees: createTrees(),
    clock: { now: () => new Date().toISOString() },
    newId: () => crypto.randomUUID(),
  };
  const settings = { ...controllerSettings, attach: false };
  const node = createNodeOperations({ host, settings });
  const operations = createControllerOperations({ host, settings });
  const staging = (volume: VolumeRecord) => path.join(stateDir, `co/${volume.name}/staging`);
  const target = (volume: VolumeRecord) => path.join(stateDir, `co/${volume.name}/target`);
  return {
    ...operations,
    node,
    host,
    signal,
    target,
    volume: (name: string, input: Partial<CreateVolumeInput> = {}) =>
      operations.volumes.createVolume(volumeInput(name, input), signal),
    snapshot: (name: string, { id: volumeId }: VolumeRecord, parameters = {}) =>
      operations.snapshots.createSnapshot({ name, volumeId, parameters }, signal),
    use: async (volume: VolumeRecord, capability: Capability = mounting) => {
      await mkdir(staging(volume), { recursive: true });
      const both = { volumeId: volume.id, stagingPath: staging(volume), capability };
      await node.stage(both, signal);
      await node.publish({ ...both, targetPath: target(volume), readonly: false }, signal);
      return target(volume);
    },
    release: async (volume: VolumeRecord) => {
      await node.unpublish({ volumeId: volume.id, targetPath: target(volume) }, signal);
      await node.unstage({ volumeId: volume.id, stagingPath: staging(volume) }, signal);
    },
  };
}

async function reflinkDisk(): Promise<string> {
  const place = path.join(os.tmpdir(), `hf-reflinks-${crypto.randomUUID()}`);
  await mkdir(path.join(place, "mnt"), { recursive: true });
  undo.push(() => rm(place, { recursive: true, force: true }));
  await writeFile(path.join(place, "disk"), "");
  await truncate(path.join(place, "disk"), 2 * 2 ** 30);
  await sh("mkfs.xfs", ["-q", "-m", "reflink=1", path.join(place, "disk")]);
  await sh("mount", ["-w", "-o", "loop", path.join(place, "disk"), path.join(place, "mnt")]);
  undo.push(() => sh("umount", [path.join(place, "mnt")]));
  return path.join(place, "mnt");
}

const blocksOf = async (stream: BlockStream): Promise<readonly Block[]> => {
  const found: Block[] = [];
  for await (const message of stream.blocks) found.push(...message);
  return found;
};
const numbersOf = (found: readonly Block[]): readonly number[] =>
  found.flatMap(({ offset, size }) =>
    Array.from({ length: Number(size) / block }, (_, n) => Number(offset) / block + n),
  );

describe.skipIf(!isRoot)("on the kernel (needs root)", () => {
  test.each<[FsType, boolean]>([
    ["ext4", false],
    ["xfs", false],
    ["ext4", true],
    ["xfs", true],
  ])(
    "%s in use, reflinks %s: a snapshot and a clone are whole, and mount beside their source",
    async (fsType, reflinks) => {
      const at = await createKernelDriver({ reflinks });
      const source = await at.volume("source", { parameters: { fsType } });
      const place = await at.use(source);
      await writeFile(path.join(place, "before"), "x".repeat(100_000));
      // Open and not synced: the freeze has to bring it to the disk.
      const writer = await open(path.join(place, "open"), "w");
      await writer.write("not synced");
      const snapshot = await at.snapshot("s", source);
      await writeFile(path.join(place, "after"), "");
      await writer.close();

      const larger = bytes(source.capacityBytes + 64n * mib);
      const restored = await at.volume("restored", { source: { kind: "snapshot", id: snapshot.id }, capacity: larger });
      const clone = await at.volume("clone", { source: { kind: "volume", id: source.id } });
      for (const [volume, hasAfter] of [
        [restored, false],
        [clone, true],
      ] as const) {
        const copy = await at.use(volume);
        expect(await readFile(path.join(copy, "before"), "utf8")).toBe("x".repeat(100_000));
        expect(await readFile(path.join(copy, "open"), "utf8")).toBe("not synced");
        const after = await readFile(path.join(copy, "after")).then(
          () => true,
          () => false,
        );
        expect(after).toBe(hasAfter);
        await writeFile(path.join(copy, "mine"), volume.name);
      }
      const total = async (volume: VolumeRecord) =>
        (await at.node.stats({ volumeId: volume.id, path: at.target(volume) }, at.signal)).usage?.bytes.total ?? 0n;
      expect((await total(restored)) - (await total(source))).toBeGreaterThan(32n * mib);

      for (const volume of [source, restored, clone]) {
        expect(await refusalOf(at.volumes.deleteVolume(volume.id, at.signal))).toMatchObject({
          code: "FAILED_PRECONDITION",
          message: expect.stringContaining(at.target(volume)),
        });
        await at.release(volume);
        await at.volumes.deleteVolume(volume.id, at.signal);
      }
      await at.snapshots.deleteSnapshot(snapshot.id);
    },
  );

  test("a group of two filesystems in use is of one moment", async () => {
    const at = await createKernelDriver();
    const volumes = [await at.volume("a"), await at.volume("b")] as const;
    const places = [await at.use(volumes[0]), await at.use(volumes[1])] as const;
    const files = await Promise.all(places.map((place) => open(path.join(place, "n"), "w")));
    let ended = false;
    // First the one, then the other: a picture of one moment never has the second ahead.
    const writing = (async () => {
      for (let n = 1; !ended; n += 1)
        for (const file of files) {
          await file.write(String(n).padStart(12, "0"), 0);
          await file.datasync();
        }
    })();
    const ids = volumes.map(({ id }) => id);
    const { group, snapshots } = await at.snapshots.createGroup(
      { name: "g", volumeIds: ids, parameters: {} },
      at.signal,
    );
    ended = true;
    await writing;
    for (const file of files) await file.close();

    const seen: number[] = [];
    for (const { id, volumeId } of snapshots) {
      const copy = await at.volume(`copy-${volumeId}`, { source: { kind: "snapshot", id } });
      seen.push(Number(await readFile(path.join(await at.use(copy), "n"), "utf8")));
      await at.release(copy);
    }
    const [first = 0, second = 0] = seen;
    expect(first).toBeGreaterThan(0);
    expect([0, 1]).toContain(first - second);
    for (const volume of volumes) await at.release(volume);
    await at.snapshots.deleteGroup(group.id, group.snapshotIds);
    expect(at.host.state.snapshots.all()).toEqual([]);
  });

  test.each([false, true])("snapshot metadata is what the bytes say (reflinks %s)", async (reflinks) => {
    const at = await createKernelDriver({ reflinks });
    const volume = await at.volume("v", { capabilities: [raw], capacity: bytes(16n * mib) });
    const device = await at.use(volume, raw);
    const put = async (writes: readonly (readonly [number, number])[]) => {
      const file = await open(device, "r+");
      for (const [at, value] of writes) await file.write(Buffer.alloc(block, value), 0, block, at * block);
      await file.sync();
      await file.close();
    };
    await put([0, 1, 2, 100, 4095].map((n) => [n, 1]));
    const base = await at.snapshot("base", volume, { live: "allow" });
    // Other contents, the same contents, zeros, and new ones.
    await put([
      [1, 2],
      [2, 1],
      [100, 0],
      [200, 3],
      [201, 0],
    ]);
    const target = await at.snapshot("target", volume, { live: "allow" });
    const ask = { startingOffset: 0n, maxResults: 0 };
    const allocated = await at.metadata.allocated({ snapshotId: target.id, ...ask }, at.signal);
    expect(numbersOf(await blocksOf(allocated))).toEqual(expect.arrayContaining([0, 1, 2, 200, 4095]));
    const delta = await at.metadata.delta({ baseSnapshotId: base.id, targetSnapshotId: target.id, ...ask }, at.signal);
    expect(delta.capacityBytes).toBe(16n * mib);
    expect(numbersOf(await blocksOf(delta))).toEqual([1, 100, 200]);
    await at.release(volume);
  });

  test("what is owed to a sparse image is not free, and growing online shows", async () => {
    const at = await createKernelDriver({ reflinks: true });
    const free = async () =>
      (await at.volumes.capacity({ capabilities: [], parameters: {}, segments: {} })).availableBytes;
    const before = await free();
    const volume = await at.volume("v", { parameters: { fsType: "xfs" } });
    expect(Number(before - (await free())) / Number(volume.capacityBytes)).toBeCloseTo(1, 1);
    await at.use(volume);
    const capacity = bytes(400n * mib);
    expect(await at.volumes.expandVolume(volume.id, { capacity, capability: mounting }, at.signal)).toEqual({
      capacityBytes: 400n * mib,
      nodeExpansionRequired: true,
    });
    const place = at.target(volume);
    await at.node.expand({ volumeId: volume.id, path: place, capacity, capability: mounting }, at.signal);
    const { usage } = await at.node.stats({ volumeId: volume.id, path: place }, at.signal);
    expect(usage?.bytes.total).toBeGreaterThan(300n * mib);
    expect((await refusalOf(at.volume("huge", { capacity: bytes(1n << 40n) }))).code).toBe("RESOURCE_EXHAUSTED");
    await at.release(volume);
  });

  test("a directory in use is copied only when its writers are gone, or when asked to in spite of them", async () => {
    const at = await createKernelDriver();
    const source = await at.volume("source", { parameters: { type: "directory" } });
    const place = await at.use(source);
    await writeFile(path.join(place, "file"), "x");
    expect((await refusalOf(at.snapshot("s", source))).message).toContain(place);
    expect((await refusalOf(at.volumes.deleteVolume(source.id, at.signal))).message).toContain(place);
    const snapshot = await at.snapshot("live", source, { live: "allow" });
    await at.release(source);
    await at.snapshot("s", source);
    const restored = await at.volume("restored", { source: { kind: "snapshot", id: snapshot.id } });
    expect(await readFile(path.join(await at.use(restored), "file"), "utf8")).toBe("x");
    await at.release(restored);
    await at.volumes.deleteVolume(source.id, at.signal);
  });
});
