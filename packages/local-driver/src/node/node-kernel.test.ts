import { execFile } from "node:child_process";
import { mkdir, open, readFile, rm, stat, statfs, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { parseMountinfo } from "@holdfast/model/mountinfo";
import { createLogger } from "@holdfast/shared/log/logger";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Capability, VolumeRecord } from "../domain/records.ts";
import { createBlocks } from "../host/blocks.ts";
import { createTrees } from "../host/trees.ts";
import type { NodeOperations } from "../operations.ts";
import type { Host } from "../ports.ts";
import { openState } from "../state/open-state.ts";
import { driverSettings } from "../testing/driver-settings.ts";
import { createHostRig, isRoot } from "../testing/host-rig.ts";
import { blockCapability, mountCapability, readerCapability } from "../testing/node-fixture.ts";
import { createNodeOperations } from "./node-operations.ts";

/** On the real kernel, with the real adapters: what the host in memory only says. */

const sh = promisify(execFile);
let at: KernelNode;

beforeEach(async () => {
  at = await createKernelNode();
});

afterEach(async () => {
  // Nothing is taken away for a test that left something.
  expect(await at.close()).toEqual([]);
});

const endOf = async (id: string, ...targets: readonly number[]) => {
  for (const n of targets) await at.unpublish(id, n);
  await at.unstage(id);
  expect(at.host.state.volumes.get(id)).toMatchObject({ staging: undefined, publications: [] });
};

describe.skipIf(!isRoot)("on the kernel (needs root)", () => {
  test.each(["ext4", "xfs"] as const)(
    "%s: written by one target, read by another, kept over a remount",
    async (fsType) => {
      const capacityBytes = fsType === "xfs" ? 300n << 20n : 32n << 20n;
      const { id } = await at.addVolume({ capacityBytes, mutable: { mountOptions: "noatime" } });
      const capability = { ...mountCapability, fsType, mountGroup: "2345", mountFlags: ["nodev"] };
      await at.stage(id, capability);
      await at.stage(id, capability);
      await at.publish(id, 1, capability);
      await at.publish(id, 1, capability);
      await at.publish(id, 2, capability, true);
      const [staged] = await at.mountsAt(at.staging);
      expect(staged).toMatchObject({ fsType, options: expect.arrayContaining(["rw", "noatime", "nodev"]) });
      const root = await stat(at.target(1));
      expect([root.gid, root.mode & 0o2070]).toEqual([2345, 0o2070]);
      await writeFile(path.join(at.target(1), "hello"), "there");
      expect(await readFile(path.join(at.target(2), "hello"), "utf8")).toBe("there");
      await expect(writeFile(path.join(at.target(2), "no"), "")).rejects.toMatchObject({ code: "EROFS" });
      await endOf(id, 1, 2);
      expect(await at.exists(at.target(1))).toBe(false);
      expect(await at.exists(at.staging)).toBe(true);

      await at.stage(id, { ...readerCapability, fsType });
      await at.publish(id, 3, { ...readerCapability, fsType });
      expect(await readFile(path.join(at.target(3), "hello"), "utf8")).toBe("there");
      await expect(writeFile(path.join(at.staging, "no"), "")).rejects.toMatchObject({ code: "EROFS" });
      await endOf(id, 3);
    },
  );

  test("a directory: bound, read-only where asked", async () => {
    const { id } = await at.addVolume({ type: "directory" });
    await at.stage(id);
    await at.publish(id, 1);
    await at.publish(id, 2, mountCapability, true);
    await writeFile(path.join(at.target(1), "hello"), "there");
    expect(await readFile(path.join(at.target(2), "hello"), "utf8")).toBe("there");
    await expect(writeFile(path.join(at.target(2), "no"), "")).rejects.toMatchObject({ code: "EROFS" });
    expect((await at.node.stats({ volumeId: id, path: at.target(1) }, at.signal)).condition.abnormal).toBe(false);
    await endOf(id, 1, 2);
    const { data } = at.host.state.volumes.paths(id);
    expect(await readFile(path.join(data, "hello"), "utf8")).toBe("there");
  });

  test("a device: written through one target, and not through the read-only one", async () => {
    const { id } = await at.addVolume({ capacityBytes: 1n << 20n });
    await at.stage(id, blockCapability);
    expect(await at.rig.leftovers()).toEqual([]);
    await at.publish(id, 1, blockCapability);
    await at.publish(id, 2, blockCapability, true);
    await at.publish(id, 2, blockCapability, true);
    expect((await stat(at.target(1))).isBlockDevice()).toBe(true);
    const writer = await open(at.target(1), "r+");
    await writer.write(Buffer.from("holdfast"), 0, 8, 0);
    await writer.sync();
    await writer.close();
    // The kernel lets it be opened, and refuses the write.
    const reader = await open(at.target(2), "r+");
    await expect(reader.write(Buffer.from("no"), 0, 2, 4096)).rejects.toMatchObject({ code: "EPERM" });
    expect((await reader.read(Buffer.alloc(8), 0, 8, 0)).buffer.toString()).toBe("holdfast");
    await reader.close();
    const { image } = at.host.state.volumes.paths(id);
    expect((await readFile(image)).toString("latin1", 0, 8)).toBe("holdfast");
    expect(await at.node.stats({ volumeId: id, path: at.target(1) }, at.signal)).toMatchObject({
      access: "block",
      totalBytes: 1n << 20n,
      condition: { abnormal: false },
    });
    await expect(at.unstage(id)).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
    await endOf(id, 1, 2);
    await expect(at.stage(id)).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(/carries data without a known signature.*nothing was changed/),
    });
    expect((await readFile(image)).toString("latin1", 0, 8)).toBe("holdfast");
  });

  test("a device that a workload keeps open is not let go of under it", async () => {
    const { id } = await at.addVolume({ capacityBytes: 1n << 20n });
    await at.stage(id, blockCapability);
    await at.publish(id, 1, blockCapability);
    const held = await open(at.target(1), "r");
    try {
      await expect(at.unpublish(id, 1)).rejects.toMatchObject({
        code: "FAILED_PRECONDITION",
        message: expect.stringMatching(new RegExp(`^volume ${id} \\(data-1\\) on node node-a: .*in use`)),
      });
    } finally {
      await held.close();
    }
    await endOf(id, 1);
  });

  test("a foreign filesystem in the image is not formatted over", async () => {
    const { id } = await at.addVolume();
    const { image } = at.host.state.volumes.paths(id);
    await sh("mkswap", [image]);
    const before = await readFile(image);
    await expect(at.stage(id)).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(/swap; nothing was changed/),
    });
    expect(before.equals(await readFile(image))).toBe(true);
    expect(at.host.state.volumes.get(id)).toMatchObject({ format: undefined, staging: undefined });
  });

  test("a foreign mount on the staging path or the target stays, and is named", async () => {
    const { id } = await at.addVolume();
    await sh("mount", ["-t", "tmpfs", "foreign", at.staging]);
    try {
      await expect(at.stage(id)).rejects.toMatchObject({
        code: "FAILED_PRECONDITION",
        message: expect.stringMatching(/tmpfs from foreign/),
      });
      expect(await at.mountsAt(at.staging)).toHaveLength(1);
    } finally {
      await sh("umount", [at.staging]);
    }
    await at.stage(id);
    await at.host.places.makeDirectory(at.target(1));
    await sh("mount", ["-t", "tmpfs", "foreign", at.target(1)]);
    try {
      await expect(at.publish(id, 1)).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
      await expect(at.unpublish(id, 1)).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
      expect(await at.mountsAt(at.target(1))).toMatchObject([{ source: "foreign" }]);
    } finally {
      await sh("umount", [at.target(1)]);
    }
    await endOf(id);
  });

  test("a target that cannot be made leaves nothing behind", async () => {
    const { id } = await at.addVolume();
    await at.stage(id, blockCapability);
    await expect(at.publish(id, 9, blockCapability)).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(/parent .*pod-9 is not there.*taken back: \/dev\/loop\d+/),
    });
    expect(await at.rig.leftovers()).toEqual([]);
    await endOf(id);
  });

  test("a failed publish leaves what was there before it", async () => {
    const { id } = await at.addVolume();
    await at.stage(id, blockCapability);
    await mkdir(at.target(1));
    await writeFile(path.join(at.target(1), "foreign"), "kept");
    await expect(at.publish(id, 1, blockCapability)).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(/is not an empty file; nothing was changed.*taken back: \/dev\/loop\d+$/),
    });
    expect(await readFile(path.join(at.target(1), "foreign"), "utf8")).toBe("kept");
    await endOf(id);
  });

  test("ext4 grows unmounted, by the next stage", async () => {
    const { id } = await at.addVolume();
    await at.stage(id);
    await writeFile(path.join(at.staging, "hello"), "there");
    await at.unstage(id);
    await grow(id, 64n << 20n);
    await at.stage(id);
    const { bsize, blocks } = await statfs(at.staging);
    expect(bsize * blocks).toBeGreaterThan(48 << 20);
    expect(await readFile(path.join(at.staging, "hello"), "utf8")).toBe("there");
    await endOf(id);
  });

  test("xfs grows mounted, seen by every target", async () => {
    const { id } = await at.addVolume({ capacityBytes: 300n << 20n, parameters: { fsType: "xfs" } });
    await at.stage(id);
    await at.publish(id, 1);
    await grow(id, 400n << 20n);
    const capacity = { requiredBytes: 400n << 20n, limitBytes: 0n };
    const expand = () =>
      at.node.expand({ volumeId: id, path: at.target(1), capacity, capability: undefined }, at.signal);
    expect(await expand()).toEqual({ capacityBytes: 400n << 20n });
    expect(await expand()).toEqual({ capacityBytes: 400n << 20n });
    const { totalBytes } = await at.node.stats({ volumeId: id, path: at.target(1) }, at.signal);
    expect(totalBytes).toBeGreaterThan(320n << 20n);
    await endOf(id, 1);
  });

  test("a published device learns its new size", async () => {
    const { id } = await at.addVolume({ capacityBytes: 1n << 20n });
    await at.stage(id, blockCapability);
    await at.publish(id, 1, blockCapability);
    await grow(id, 2n << 20n);
    const capacity = { requiredBytes: 2n << 20n, limitBytes: 0n };
    await at.node.expand({ volumeId: id, path: at.target(1), capacity, capability: blockCapability }, at.signal);
    const { stdout } = await sh("blockdev", ["--getsize64", at.target(1)]);
    expect(stdout.trim()).toBe(String(2 << 20));
    await endOf(id, 1);
  });

  test("what a reboot takes away comes back by the same calls", async () => {
    const { id } = await at.addVolume();
    await at.stage(id);
    await at.publish(id, 1);
    await writeFile(path.join(at.target(1), "hello"), "there");
    await sh("umount", [at.target(1)]);
    await sh("umount", [at.staging]);
    expect(await at.node.recover(at.signal)).toMatchObject([
      expect.stringMatching(/let go of \/dev\/loop\d+/),
      expect.stringMatching(/was staged at/),
      expect.stringMatching(/was published at/),
    ]);
    expect((await at.node.stats({ volumeId: id, path: at.target(1) }, at.signal)).condition.abnormal).toBe(true);
    await expect(at.publish(id, 1)).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
    await at.stage(id);
    await at.publish(id, 1);
    expect(await readFile(path.join(at.target(1), "hello"), "utf8")).toBe("there");
    await endOf(id, 1);
  });

  test("files that somebody put where a target was are not removed", async () => {
    const { id } = await at.addVolume();
    await at.stage(id);
    await at.publish(id, 1);
    await sh("umount", [at.target(1)]);
    await writeFile(path.join(at.target(1), "foreign"), "kept");
    await expect(at.unpublish(id, 1)).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
    expect(await readFile(path.join(at.target(1), "foreign"), "utf8")).toBe("kept");
    await rm(path.join(at.target(1), "foreign"));
    await endOf(id, 1);
    await writeFile(at.target(1), "foreign");
    await at.unpublish(id, 1);
    expect(await readFile(at.target(1), "utf8")).toBe("foreign");
  });

  test("a mount of the same name in another place is not taken for this volume's", async () => {
    const { id } = await at.addVolume({ type: "directory" });
    const { data } = at.host.state.volumes.paths(id);
    await mkdir(path.join(data, "inside"));
    await sh("mount", ["--bind", path.join(data, "inside"), at.staging]);
    try {
      await expect(at.stage(id)).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
    } finally {
      await sh("umount", [at.staging]);
    }
    await at.stage(id);
    await endOf(id);
  });

  test("a volume whose directory was deleted under it is still let go of", async () => {
    const { id } = await at.addVolume({ type: "directory" });
    await at.stage(id);
    await at.publish(id, 1);
    await rm(at.host.state.volumes.paths(id).data, { recursive: true });
    await endOf(id, 1);
  });

  test("ext4 grows mounted, or says how it does", async () => {
    const { id } = await at.addVolume();
    await at.stage(id);
    await grow(id, 64n << 20n);
    const capacity = { requiredBytes: 64n << 20n, limitBytes: 0n };
    const expanded = await at.node
      .expand({ volumeId: id, path: at.staging, capacity, capability: undefined }, at.signal)
      .catch((error: unknown) => error);
    const { totalBytes } = await at.node.stats({ volumeId: id, path: at.staging }, at.signal);
    if (totalBytes > 48n << 20n) expect(expanded).toEqual({ capacityBytes: 64n << 20n });
    else
      expect(expanded).toMatchObject({
        code: "FAILED_PRECONDITION",
        message: expect.stringMatching(/CAP_SYS_RESOURCE: unstage the volume and stage it again/),
      });
    await endOf(id);
    await at.stage(id);
    expect((await at.node.stats({ volumeId: id, path: at.staging }, at.signal)).totalBytes).toBeGreaterThan(48n << 20n);
    await endOf(id);
  });

  test("what a killed life left frozen is thawed", async () => {
    const { id } = await at.addVolume();
    await at.stage(id);
    await sh("fsfreeze", ["-f", at.staging]);
    await at.node.recover(at.signal);
    await writeFile(path.join(at.staging, "hello"), "there");
    await endOf(id);
  });

  test("a caller that gives up at any moment leaves nothing, or what the next call finishes", async () => {
    const { id } = await at.addVolume();
    for (const ms of [0, 2, 5, 10, 15, 20, 30, 45]) {
      const signal = AbortSignal.timeout(ms);
      const input = { volumeId: id, stagingPath: at.staging, capability: mountCapability };
      const done = await at.node.stage(input, signal).then(
        () => true,
        () => false,
      );
      if (!done) expect(await at.rig.leftovers(), `after ${ms} ms`).toEqual([]);
      await at.stage(id);
      await at.unstage(id);
    }
  });

  test("a shared tree and a copy of it elsewhere: one mount for each, and all of it goes", async () => {
    const { id } = await at.addVolume();
    const copy = await at.rig.makeDirectory("copy");
    const co = path.dirname(at.staging);
    await sh("mount", ["--bind", co, co]);
    await sh("mount", ["--make-private", co]);
    await sh("mount", ["--make-shared", co]);
    await sh("mount", ["--rbind", co, copy]);
    try {
      await at.stage(id);
      await at.publish(id, 1);
      await at.stage(id);
      await at.publish(id, 1);
      expect(await at.mountsAt(path.join(copy, "staging"))).toHaveLength(1);
      await endOf(id, 1);
      expect(await at.mountsAt(path.join(copy, "staging"))).toEqual([]);
    } finally {
      await sh("umount", ["-R", copy]);
      await sh("umount", ["-R", co]);
    }
  });
});

const grow = async (id: string, bytes: bigint) => {
  await at.host.images.grow(at.host.state.volumes.paths(id).image, bytes, at.signal);
  await at.host.state.volumes.change(id, (record) => ({ ...record, capacityBytes: bytes }));
};

type KernelNode = Awaited<ReturnType<typeof createKernelNode>>;

/** The operations of a node on the real kernel and a real state directory, with the directories that the orchestrator makes. */
async function createKernelNode() {
  const rig = await createHostRig({ name: "hf-node-" });
  const { run, mounts, signal, stateDir } = rig;
  const log = createLogger({ level: "error" });
  const state = await openState({ stateDir: { path: stateDir }, run, mounts, log, signal });
  let ids = 0;
  const host: Host = {
    ...rig,
    state,
    blocks: createBlocks(),
    trees: createTrees(),
    clock: { now: () => new Date(0).toISOString() },
    newId: () => {
      ids += 1;
      return `00000000-0000-4000-8000-${String(ids).padStart(12, "0")}`;
    },
  };
  const node: NodeOperations = createNodeOperations({ host, settings: driverSettings });
  const staging = path.join(stateDir, "co/staging");
  const target = (n: number) => path.join(stateDir, `co/pod-${n}/target`);
  for (const directory of [staging, path.dirname(target(1)), path.dirname(target(2)), path.dirname(target(3))])
    await mkdir(directory, { recursive: true });

  return {
    rig,
    host,
    node,
    signal,
    staging,
    target,
    addVolume: async (over: Partial<VolumeRecord> = {}): Promise<VolumeRecord> => {
      const record: VolumeRecord = {
        kind: "volume",
        id: host.newId(),
        name: `data-${ids}`,
        type: "image",
        capacityBytes: 32n << 20n,
        createdAt: host.clock.now(),
        parameters: {},
        source: undefined,
        mutable: {},
        format: undefined,
        attachments: [],
        staging: undefined,
        publications: [],
        ...over,
      };
      await state.volumes.add(record, async (paths) => {
        if (record.type === "image") await host.images.create(paths.image, record.capacityBytes, signal);
        else await host.trees.makeRoot(paths.data);
      });
      return record;
    },
    stage: (volumeId: string, capability: Capability = mountCapability) =>
      node.stage({ volumeId, stagingPath: staging, capability }, signal),
    unstage: (volumeId: string) => node.unstage({ volumeId, stagingPath: staging }, signal),
    publish: (volumeId: string, n: number, capability: Capability = mountCapability, readonly = false) =>
      node.publish({ volumeId, stagingPath: staging, targetPath: target(n), capability, readonly }, signal),
    unpublish: (volumeId: string, n: number) => node.unpublish({ volumeId, targetPath: target(n) }, signal),
    /** Lines of the mount table for one path. */
    mountsAt: async (place: string) =>
      parseMountinfo(await readFile("/proc/self/mountinfo", "utf8")).filter(({ path: at }) => at === place),
    exists: (place: string) =>
      stat(place).then(
        () => true,
        () => false,
      ),
    close: async (): Promise<readonly string[]> => {
      await state.settled();
      const left = await rig.leftovers();
      await state.close();
      await rig.close();
      return left;
    },
  };
}
