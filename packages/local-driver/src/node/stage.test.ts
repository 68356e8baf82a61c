import { describe, expect, test } from "vitest";
import { driverSettings } from "../testing/driver-settings.ts";
import {
  blockCapability,
  createNodeFixture,
  mountCapability,
  readerCapability,
  stagingPath,
} from "../testing/node-fixture.ts";
import { createNodeOperations } from "./node-operations.ts";

const refused = (code: string, message: RegExp) =>
  expect.objectContaining({ name: "DriverError", code, message: expect.stringMatching(message) });

const foreign = (mountPoint: string) => ({
  mountPoint,
  root: "/",
  dev: "0:99",
  fsType: "tmpfs",
  source: "tmpfs",
  options: ["rw"],
  superOptions: ["rw"],
});

describe("an image", () => {
  test("is formatted once, attached, and mounted with the options of the volume and of the capability", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume({ mutable: { mountOptions: "noatime,discard" } });
    const capability = { ...mountCapability, mountFlags: ["noatime", "nodev"], mountGroup: "2000" };
    await at.stage(id, capability);
    expect(at.memory.world.mounts).toMatchObject([
      { mountPoint: stagingPath, dev: "7:0", fsType: "ext4", options: ["rw", "noatime", "discard", "nodev"] },
    ]);
    expect(at.memory.world.groups.get(stagingPath)).toBe("2000");
    expect(at.record(id)).toMatchObject({
      format: { fsType: "ext4", finished: true },
      staging: { path: stagingPath, capability },
    });
    await at.unstage(id);
    expect(at.memory.leftovers()).toEqual([]);
    at.memory.calls.length = 0;
    await at.stage(id, capability);
    expect(at.memory.calls).not.toContain("images.format");
    expect(at.memory.calls).toContain("images.contents");
  });

  test("is mounted read-only for a reader, who gets no group", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    await at.stage(id, { ...readerCapability, mountGroup: "2000" });
    expect(at.memory.world.mounts).toMatchObject([{ options: ["ro"], superOptions: ["ro"] }]);
    expect(at.memory.world.groups.size).toBe(0);
    expect([...at.memory.world.loops.values()]).toMatchObject([{ readonly: false }]);
  });

  test.each(["ext4", "xfs"] as const)("of %s that grew since has its filesystem grown", async (fsType) => {
    const at = createNodeFixture();
    const { id } = await at.addVolume({ parameters: { fsType } });
    await at.stage(id);
    expect(at.memory.calls).not.toContain(fsType === "xfs" ? "images.fitMounted" : "images.fitUnmounted");
    await at.unstage(id);
    const { image } = at.memory.host.state.volumes.paths(id);
    await at.memory.host.images.grow(image, 128n << 20n, at.signal);
    await at.stage(id);
    expect(at.memory.imageOf("volumes", id).filesystemBytes).toBe(128n << 20n);
  });

  test.each([
    [{ kind: "filesystem", fsType: "btrfs" }, /carries a filesystem of type btrfs; nothing was changed/],
    [{ kind: "signature", name: "crypto_LUKS" }, /carries the signature of crypto_LUKS; nothing was changed/],
  ] as const)("that carries %o and was never formatted is left as it is", async (signature, message) => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    const image = at.memory.imageOf("volumes", id);
    image.signature = signature;
    const before = structuredClone(image);
    await expect(at.stage(id)).rejects.toEqual(refused("FAILED_PRECONDITION", message));
    expect(at.memory.imageOf("volumes", id)).toEqual(before);
    expect(at.record(id)).toMatchObject({ format: undefined, staging: undefined });
    expect(at.memory.leftovers()).toEqual([]);
    expect(at.memory.calls).not.toContain("images.format");
  });

  test("with raw data of a block workload is not formatted; as a block volume it stays usable", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    await at.stage(id, blockCapability);
    await at.publish(id, 1, { capability: blockCapability });
    at.memory.write(id, 1n << 20n, 4, 7);
    await at.unpublish(id, 1);
    await at.unstage(id);
    await expect(at.stage(id)).rejects.toEqual(
      refused("FAILED_PRECONDITION", /carries data without a known signature \(first at byte 1048576\)/),
    );
    await at.stage(id, blockCapability);
    expect(at.memory.imageOf("volumes", id).blocks.get(256n)).toBe(7);
  });

  test("whose filesystem is not the one it was formatted with is left as it is", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    await at.stage(id);
    await at.unstage(id);
    at.memory.imageOf("volumes", id).signature = { kind: "filesystem", fsType: "xfs" };
    await expect(at.stage(id)).rejects.toEqual(
      refused(
        "FAILED_PRECONDITION",
        /was formatted as ext4 and now carries a filesystem of type xfs; nothing was changed/,
      ),
    );
    at.memory.imageOf("volumes", id).signature = undefined;
    at.memory.imageOf("volumes", id).blocks.clear();
    await expect(at.stage(id)).rejects.toEqual(
      refused("FAILED_PRECONDITION", /now carries nothing; nothing was changed/),
    );
  });

  test("an intent that a killed life left is carried out, also with another filesystem", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    at.memory.world.missingPrograms.add("mkfs.ext4");
    await expect(at.stage(id)).rejects.toEqual(refused("FAILED_PRECONDITION", /mkfs\.ext4 is not installed/));
    expect(at.record(id)).toMatchObject({ format: { fsType: "ext4", finished: false }, staging: undefined });
    await at.stage(id, { ...mountCapability, fsType: "xfs" });
    expect(at.record(id).format).toEqual({ fsType: "xfs", finished: true });
  });

  test("raw data written after an unfinished format is never formatted over", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    at.memory.world.missingPrograms.add("mkfs.ext4");
    await expect(at.stage(id)).rejects.toThrow();
    await at.stage(id, blockCapability);
    expect(at.record(id).format).toBeUndefined();
    await at.publish(id, 1, { capability: blockCapability });
    at.memory.write(id, 0n, 1, 9);
    await at.unpublish(id, 1);
    await at.unstage(id);
    at.memory.world.missingPrograms.clear();
    await expect(at.stage(id)).rejects.toEqual(refused("FAILED_PRECONDITION", /data without a known signature/));
  });

  test("an intent is settled by publish, too, when the stage was killed before it could", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    const staging = { path: stagingPath, capability: blockCapability };
    const format = { fsType: "ext4", finished: false } as const;
    await at.memory.host.state.volumes.change(id, (before) => ({ ...before, format, staging }));
    await at.publish(id, 1, { capability: blockCapability });
    expect(at.record(id).format).toBeUndefined();
  });

  test("no loop device has the image while a half-made filesystem is finished", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    at.memory.inject({ on: "images.format", kind: "lost", code: "INTERNAL" });
    await expect(at.stage(id)).rejects.toThrow();
    const { image } = at.memory.host.state.volumes.paths(id);
    at.memory.world.loops.set("/dev/loop5", { device: "/dev/loop5", image, readonly: false, bytes: 1n });
    await at.stage(id, blockCapability);
    expect(at.record(id).format?.finished).toBe(true);
    expect(at.memory.leftovers()).toEqual([]);
  });

  test("a half-made filesystem is finished before the raw device is given out", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    at.memory.inject({ on: "images.format", kind: "lost", code: "INTERNAL" });
    await expect(at.stage(id)).rejects.toThrow();
    expect(at.record(id).format?.finished).toBe(false);
    await at.stage(id, blockCapability);
    expect(at.record(id).format).toEqual({ fsType: "ext4", finished: true });
  });

  test("already mounted by hand elsewhere is neither checked nor formatted, and mounted too", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    await at.stage(id);
    const [mount] = at.memory.world.mounts;
    if (mount === undefined) throw new Error("nothing is mounted");
    at.memory.world.mounts.push({ ...mount, mountPoint: "/mnt/by-hand" });
    at.memory.world.mounts.shift();
    at.memory.calls.length = 0;
    await at.stage(id);
    expect(at.mounts()).toEqual(["/mnt/by-hand", stagingPath]);
    expect(at.memory.calls.filter((call) => /^images\.|^loops\.(attach|detach)/.test(call))).toEqual([]);
  });

  test("a loop device that a killed life left is let go of before mkfs or fsck", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    const { image } = at.memory.host.state.volumes.paths(id);
    at.memory.world.loops.set("/dev/loop5", { device: "/dev/loop5", image, readonly: false, bytes: 4096n });
    await at.stage(id);
    expect([...at.memory.world.loops.values()]).toMatchObject([{ device: "/dev/loop0", bytes: 64n << 20n }]);
  });
});

describe("a directory", () => {
  test("is bound, and read-only for a reader", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume({ type: "directory" });
    await at.stage(id);
    expect(at.memory.world.mounts).toMatchObject([
      { mountPoint: stagingPath, root: at.memory.host.state.volumes.paths(id).data, options: ["rw"] },
    ]);
    await at.unstage(id);
    await at.stage(id, readerCapability);
    expect(at.memory.world.mounts).toMatchObject([{ options: ["ro"] }]);
  });

  test("has no device, no filesystem of its own and no mount flags", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume({ type: "directory" });
    await expect(at.stage(id, blockCapability)).rejects.toEqual(refused("FAILED_PRECONDITION", /no device/));
    await expect(at.stage(id, { ...mountCapability, fsType: "ext4", mountFlags: ["noatime"] })).rejects.toEqual(
      refused("FAILED_PRECONDITION", /fs_type ext4.*mount_flags noatime/),
    );
    expect(at.memory.calls).not.toContain("volumes.change");
  });
});

test("a block volume has nothing staged but the record", async () => {
  const at = createNodeFixture();
  const { id } = await at.addVolume();
  await at.stage(id, blockCapability);
  expect(at.memory.leftovers()).toEqual([]);
  expect(at.record(id).staging).toEqual({ path: stagingPath, capability: blockCapability });
});

describe("refuses", () => {
  test("what no volume has", async () => {
    await expect(createNodeFixture().stage("00000000-0000-4000-8000-000000000099")).rejects.toEqual(
      refused("NOT_FOUND", /^volume 00000000-0000-4000-8000-000000000099 on node node-a: there is no such volume$/),
    );
  });

  test("another path, and at the same path another capability, naming both", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    await at.stage(id);
    await expect(at.stage(id, mountCapability, "/co/other")).rejects.toEqual(
      refused(
        "FAILED_PRECONDITION",
        /^volume .* \(data\) on node node-a: it is staged at \/co\/staging; call NodeUnstage/,
      ),
    );
    await expect(at.stage(id, readerCapability)).rejects.toEqual(refused("ALREADY_EXISTS", /another access mode/));
    const other = { ...mountCapability, mountFlags: ["noatime"], mountGroup: "5" };
    await expect(at.stage(id, other)).rejects.toEqual(refused("ALREADY_EXISTS", /another mountFlags, mountGroup/));
    await expect(at.stage(id, blockCapability)).rejects.toEqual(refused("ALREADY_EXISTS", /another access, fsType/));
    // The filesystem that it has anyway is no other one.
    await at.stage(id, { ...mountCapability, fsType: "ext4" });
    expect(at.mounts()).toEqual([stagingPath]);
  });

  test("a staging path that is not there, before anything is done", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    await expect(at.stage(id, mountCapability, "/co/gone")).rejects.toEqual(
      refused("FAILED_PRECONDITION", /staging path \/co\/gone is not there/),
    );
    expect(at.record(id).staging).toBeUndefined();
    expect(at.memory.leftovers()).toEqual([]);
  });

  test("a foreign mount on the staging path, which stays", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    at.memory.world.mounts.push(foreign(stagingPath));
    await expect(at.stage(id)).rejects.toEqual(
      refused(
        "FAILED_PRECONDITION",
        /not of this volume is mounted at \/co\/staging \(tmpfs from tmpfs, device 0:99, root \/\)/,
      ),
    );
    expect(at.mounts()).toEqual([stagingPath]);
    expect(at.memory.leftovers()).toHaveLength(1);
  });

  test("the mount of another volume, though its record is ours", async () => {
    const at = createNodeFixture();
    const one = await at.addVolume();
    const two = await at.addVolume({ name: "other" });
    await at.stage(one.id);
    await expect(at.stage(two.id)).rejects.toEqual(refused("FAILED_PRECONDITION", /not of this volume/));
    await expect(at.unstage(two.id)).resolves.toBeUndefined();
    expect(at.mounts()).toEqual([stagingPath]);
  });

  test("another filesystem than the volume was made for, and unknown flags", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume({ parameters: { fsType: "xfs" } });
    await expect(at.stage(id, { ...mountCapability, fsType: "ext4" })).rejects.toEqual(
      refused("FAILED_PRECONDITION", /fs_type ext4: the volume is for xfs/),
    );
    await expect(at.stage(id, { ...mountCapability, mountFlags: ["suid"] })).rejects.toEqual(
      refused("INVALID_ARGUMENT", /mount option "suid" is not offered/),
    );
  });

  test("a node it is not attached to, where attaching is asked for; an attachment for reading reads", async () => {
    const at = createNodeFixture({ attach: true });
    const { id } = await at.addVolume();
    await expect(at.stage(id)).rejects.toEqual(refused("FAILED_PRECONDITION", /ControllerPublishVolume first/));
    const attached = { nodeId: "node-a", readonly: true, access: "mount", mode: "SINGLE_NODE_WRITER" } as const;
    await at.memory.host.state.volumes.change(id, (before) => ({ ...before, attachments: [attached] }));
    await at.stage(id);
    expect(at.memory.world.mounts).toMatchObject([{ options: ["ro"] }]);
    await at.publish(id, 1);
    expect(at.memory.world.mounts[1]).toMatchObject({ options: ["ro"] });
  });

  test("images on a node that has no loop devices", async () => {
    const at = createNodeFixture({ types: ["directory"] });
    const { id } = await at.addVolume();
    await expect(at.stage(id)).rejects.toEqual(refused("FAILED_PRECONDITION", /images need root and loop devices/));
  });

  test("the raw device while its filesystem is mounted by hand", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    await at.stage(id);
    const [mount] = at.memory.world.mounts;
    if (mount === undefined) throw new Error("nothing is mounted");
    at.memory.world.mounts.push({ ...mount, mountPoint: "/mnt/by-hand" });
    await expect(at.unstage(id)).rejects.toEqual(
      refused("FAILED_PRECONDITION", /still in use at \/mnt\/by-hand .*did not make/),
    );
    expect(at.mounts()).toEqual(["/mnt/by-hand"]);
    expect(at.record(id).staging?.path).toBe(stagingPath);
    await at.memory.host.state.volumes.change(id, (before) => ({ ...before, staging: undefined }));
    await expect(at.stage(id, blockCapability)).rejects.toEqual(
      refused("FAILED_PRECONDITION", /mounted at \/mnt\/by-hand .*device is not given out/),
    );
    expect(at.record(id).staging).toBeUndefined();
  });
});

describe("a path behind a symbolic link", () => {
  test("is one place, however it is spelled", async () => {
    const at = createNodeFixture();
    at.memory.world.links.set("/var/co", "/co");
    const { id } = await at.addVolume();
    await at.stage(id, mountCapability, "/var/co/staging");
    await at.stage(id, mountCapability, "/var/co/staging");
    await at.stage(id);
    expect(at.mounts()).toEqual([stagingPath]);
    await at.publish(id, 1);
    const targetPath = "/var/co/pods/1/target";
    expect((await at.node.stats({ volumeId: id, path: targetPath }, at.signal)).condition.abnormal).toBe(false);
    await at.node.unpublish({ volumeId: id, targetPath }, at.signal);
    await at.unstage(id);
    expect(at.memory.leftovers()).toEqual([]);
    expect(at.record(id)).toMatchObject({ staging: undefined, publications: [] });
  });
});

test("propagation that shows one mount twice is no second mount, and both lines go", async () => {
  const at = createNodeFixture();
  const { id } = await at.addVolume();
  await at.stage(id);
  const [mount] = at.memory.world.mounts;
  if (mount === undefined) throw new Error("nothing is mounted");
  at.memory.world.mounts.push(structuredClone(mount));
  await at.stage(id);
  await at.publish(id, 1);
  await at.unpublish(id, 1);
  await at.unstage(id);
  expect(at.memory.leftovers()).toEqual([]);
});

describe("what others did", () => {
  test("a device that is bound by hand is neither formatted nor mounted", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    const { image } = at.memory.host.state.volumes.paths(id);
    at.memory.world.loops.set("/dev/loop5", { device: "/dev/loop5", image, readonly: false, bytes: 64n << 20n });
    at.memory.world.mounts.push({ ...foreign("/mnt/device"), root: "/loop5", dev: "0:6", fsType: "devtmpfs" });
    await expect(at.stage(id)).rejects.toEqual(
      refused("FAILED_PRECONDITION", /device is still bound at \/mnt\/device .*; nothing was left behind$/),
    );
    expect(at.mounts()).toEqual(["/mnt/device"]);
    expect(at.record(id)).toMatchObject({ format: undefined, staging: undefined });
  });

  test("an exit code is not believed: a mount that is not there is an error", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    const { host } = at.memory;
    const lying = { ...host, mounts: { ...host.mounts, mountDevice: async () => undefined } };
    const node = createNodeOperations({ host: lying, settings: driverSettings });
    await expect(node.stage({ volumeId: id, stagingPath, capability: mountCapability }, at.signal)).rejects.toEqual(
      refused("INTERNAL", /table shows nothing there; call again; taken back: \/dev\/loop0$/),
    );
    expect(at.record(id).staging).toBeUndefined();
    expect(at.memory.leftovers()).toEqual([]);
  });

  test("unmounted by hand under its targets: a failed stage keeps the record, the next one mounts", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    await at.stage(id);
    await at.publish(id, 1);
    at.memory.world.mounts.shift();
    const before = at.record(id);
    at.memory.inject({ on: "mounts.mountDevice", kind: "lost", code: "INTERNAL" });
    await expect(at.stage(id)).rejects.toEqual(refused("INTERNAL", /taken back: the mount at \/co\/staging$/));
    expect(at.record(id)).toEqual(before);
    await at.stage(id);
    expect(at.mounts().toSorted()).toEqual(["/co/pods/1/target", stagingPath]);
    expect(at.memory.world.loops.size).toBe(1);
  });

  test("mounted by hand through a read-only device: read it can be, written not", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    await at.stage(id);
    await at.unstage(id);
    const { image } = at.memory.host.state.volumes.paths(id);
    at.memory.world.loops.set("/dev/loop5", { device: "/dev/loop5", image, readonly: true, bytes: 64n << 20n });
    at.memory.world.mounts.push({ ...foreign("/mnt/by-hand"), dev: "7:5", source: "/dev/loop5", options: ["ro"] });
    await expect(at.stage(id)).rejects.toEqual(
      refused("FAILED_PRECONDITION", /through the read-only device \/dev\/loop5 at \/mnt\/by-hand/),
    );
    await at.stage(id, readerCapability);
    expect(at.memory.world.mounts[1]).toMatchObject({ mountPoint: stagingPath, dev: "7:5", options: ["ro"] });
  });

  test("a half-made read-only bind is made whole; in use and otherwise than asked for it is refused", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume({ type: "directory" });
    const turn = (options: readonly string[]) => {
      const [mount, ...rest] = at.memory.world.mounts;
      if (mount === undefined) throw new Error("nothing is mounted");
      at.memory.world.mounts.splice(0, rest.length + 1, { ...mount, options }, ...rest);
    };
    await at.stage(id, readerCapability);
    turn(["rw"]);
    await at.stage(id, readerCapability);
    expect(at.memory.world.mounts).toMatchObject([{ mountPoint: stagingPath, options: ["ro"] }]);
    await at.publish(id, 1, { capability: readerCapability });
    turn(["rw"]);
    await expect(at.stage(id, readerCapability)).rejects.toEqual(
      refused("FAILED_PRECONDITION", /otherwise than asked for, and in use; unpublish it first/),
    );
    expect(at.mounts()).toHaveLength(2);
  });

  test("a loop device that no record knows of goes with an unstage of what is not staged", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    const { image } = at.memory.host.state.volumes.paths(id);
    at.memory.world.loops.set("/dev/loop5", { device: "/dev/loop5", image, readonly: true, bytes: 1n });
    await at.unstage(id);
    expect(at.memory.leftovers()).toEqual([]);
  });
});
