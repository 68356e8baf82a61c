import { describe, expect, test } from "vitest";
import { driverSettings } from "../testing/driver-settings.ts";
import {
  blockCapability,
  createNodeFixture,
  mountCapability,
  readerCapability,
  stagingPath,
  targetPath,
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

const staged = async (capability = mountCapability, type: "image" | "directory" = "image") => {
  const at = createNodeFixture();
  const { id } = await at.addVolume({ type });
  await at.stage(id, capability);
  at.memory.calls.length = 0;
  return { at, id };
};

describe("a filesystem", () => {
  test("is bound to as many targets as asked for, each read-only or not", async () => {
    const { at, id } = await staged();
    await at.publish(id, 1);
    await at.publish(id, 2, { readonly: true });
    await at.publish(id, 3, { capability: readerCapability });
    expect(at.memory.world.mounts.slice(1)).toMatchObject([
      { mountPoint: targetPath(1), dev: "7:0", options: ["rw"] },
      { mountPoint: targetPath(2), dev: "7:0", options: ["ro"] },
      { mountPoint: targetPath(3), dev: "7:0", options: ["ro"] },
    ]);
    expect(at.memory.world.loops.size).toBe(1);
    expect(at.record(id).publications.map(({ path, readonly }) => [path, readonly])).toEqual([
      [targetPath(1), false],
      [targetPath(2), true],
      [targetPath(3), false],
    ]);
  });

  test("a bind that a killed life left writable is made again as read-only", async () => {
    const { at, id } = await staged();
    await at.publish(id, 1, { readonly: true });
    const bind = at.memory.world.mounts[1];
    if (bind === undefined) throw new Error("nothing is bound");
    at.memory.world.mounts[1] = { ...bind, options: ["rw"] };
    await at.publish(id, 1, { readonly: true });
    expect(at.memory.world.mounts[1]).toMatchObject({ mountPoint: targetPath(1), options: ["ro"] });
    expect(at.memory.world.mounts).toHaveLength(2);
  });
});

describe("a device", () => {
  test("is shared by its targets, through a read-only loop where it may only be read", async () => {
    const { at, id } = await staged(blockCapability);
    await at.publish(id, 1, { capability: blockCapability });
    await at.publish(id, 2, { capability: blockCapability });
    await at.publish(id, 3, { capability: blockCapability, readonly: true });
    expect([...at.memory.world.loops.values()].map(({ device, readonly }) => [device, readonly])).toEqual([
      ["/dev/loop0", false],
      ["/dev/loop1", true],
    ]);
    expect(at.memory.world.mounts.map(({ mountPoint, root }) => [mountPoint, root])).toEqual([
      [targetPath(1), "/loop0"],
      [targetPath(2), "/loop0"],
      [targetPath(3), "/loop1"],
    ]);
    expect(at.memory.world.places.get(targetPath(1))).toBe("file");
    await at.unpublish(id, 1);
    expect([...at.memory.world.loops.keys()]).toEqual(["/dev/loop0", "/dev/loop1"]);
    await at.unpublish(id, 3);
    expect([...at.memory.world.loops.keys()]).toEqual(["/dev/loop0"]);
    await at.unpublish(id, 2);
    expect(at.memory.leftovers()).toEqual([]);
  });

  test("of a formatted volume shows its filesystem", async () => {
    const { at, id } = await staged();
    await at.unstage(id);
    await at.stage(id, blockCapability);
    await at.publish(id, 1, { capability: blockCapability });
    expect(at.record(id).format).toEqual({ fsType: "ext4", finished: true });
    expect(at.mounts()).toEqual([targetPath(1)]);
  });

  test("that somebody keeps open after the unpublish is said, and asked for again", async () => {
    const { at, id } = await staged(blockCapability);
    await at.publish(id, 1, { capability: blockCapability });
    at.memory.world.busy.add("/dev/loop0");
    await expect(at.unpublish(id, 1)).rejects.toEqual(
      refused("FAILED_PRECONDITION", /^volume .* on node node-a: .*\/dev\/loop0 is in use/),
    );
    expect(at.record(id).publications).toHaveLength(1);
    await expect(at.unstage(id)).rejects.toEqual(refused("FAILED_PRECONDITION", /in use/));
    at.memory.world.busy.clear();
    await at.unpublish(id, 1);
    await at.unstage(id);
    expect(at.memory.leftovers()).toEqual([]);
  });
});

describe("refuses", () => {
  test("what is not staged, is staged elsewhere, or was staged before a reboot", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    await expect(at.publish(id, 1)).rejects.toEqual(refused("FAILED_PRECONDITION", /not staged; call NodeStageVolume/));
    await at.stage(id, mountCapability, "/co/other");
    await expect(at.publish(id, 1)).rejects.toEqual(
      refused("FAILED_PRECONDITION", /staged at \/co\/other, and not at \/co\/staging/),
    );
    await at.unstage(id, "/co/other");
    await at.stage(id);
    at.memory.reboot();
    await expect(at.publish(id, 1)).rejects.toEqual(
      refused(
        "FAILED_PRECONDITION",
        /was staged at \/co\/staging, and now nothing is mounted there; call NodeStageVolume/,
      ),
    );
    expect(at.record(id).publications).toEqual([]);
    expect(at.memory.world.places.has(targetPath(1))).toBe(false);
  });

  test("another use of the same target", async () => {
    const { at, id } = await staged();
    await at.publish(id, 1);
    await expect(at.publish(id, 1, { readonly: true })).rejects.toEqual(
      refused("ALREADY_EXISTS", /published at .* with another readonly/),
    );
    await expect(at.publish(id, 1, { capability: readerCapability })).rejects.toEqual(
      refused("ALREADY_EXISTS", /another access mode/),
    );
    await expect(at.publish(id, 1, { capability: blockCapability })).rejects.toEqual(
      refused("ALREADY_EXISTS", /another access/),
    );
    expect(at.mounts()).toEqual([stagingPath, targetPath(1)]);
  });

  test("another use than what is staged", async () => {
    const { at, id } = await staged(readerCapability);
    await expect(at.publish(id, 1)).rejects.toEqual(
      refused("FAILED_PRECONDITION", /staged as SINGLE_NODE_READER_ONLY, and writing was asked for/),
    );
    await expect(at.publish(id, 1, { capability: blockCapability })).rejects.toEqual(
      refused("FAILED_PRECONDITION", /staged with another access/),
    );
    await at.publish(id, 1, { capability: readerCapability });
    expect(at.mounts()).toEqual([stagingPath, targetPath(1)]);
  });

  test.each([
    ["single, then multi", "SINGLE_NODE_SINGLE_WRITER", "SINGLE_NODE_MULTI_WRITER"],
    ["multi, then single", "SINGLE_NODE_MULTI_WRITER", "SINGLE_NODE_SINGLE_WRITER"],
    ["single, then single", "SINGLE_NODE_SINGLE_WRITER", "SINGLE_NODE_SINGLE_WRITER"],
  ] as const)("a second writer (%s); readers are welcome", async (_, first, second) => {
    const { at, id } = await staged();
    await at.publish(id, 1, { capability: { ...mountCapability, mode: first } });
    const wanted = { ...mountCapability, mode: second };
    await expect(at.publish(id, 2, { capability: wanted })).rejects.toEqual(
      refused("FAILED_PRECONDITION", /for writing at \/co\/pods\/1\/target, and SINGLE_NODE_SINGLE_WRITER/),
    );
    expect(at.memory.world.places.has(targetPath(2))).toBe(false);
    await at.publish(id, 2, { capability: wanted, readonly: true });
    await at.publish(id, 1, { capability: { ...mountCapability, mode: first } });
    await at.unpublish(id, 1);
    await at.publish(id, 3, { capability: wanted });
    expect(at.mounts()).toEqual([stagingPath, targetPath(2), targetPath(3)]);
  });

  test("no second writer where only a mount of before a reboot is recorded", async () => {
    const capability = { ...mountCapability, mode: "SINGLE_NODE_SINGLE_WRITER" } as const;
    const { at, id } = await staged(capability);
    await at.publish(id, 1, { capability });
    at.memory.reboot();
    await at.stage(id, capability);
    await at.publish(id, 2, { capability });
    expect(at.mounts()).toEqual([stagingPath, targetPath(2)]);
    await at.unpublish(id, 1);
    expect(at.record(id).publications.map(({ path }) => path)).toEqual([targetPath(2)]);
  });

  test("a foreign mount on the target, which stays, and so does the record", async () => {
    const { at, id } = await staged();
    at.memory.world.places.set(targetPath(1), "directory");
    at.memory.world.mounts.push(foreign(targetPath(1)));
    await expect(at.publish(id, 1)).rejects.toEqual(
      refused("FAILED_PRECONDITION", /mounted at \/co\/pods\/1\/target \(tmpfs/),
    );
    await expect(at.unpublish(id, 1)).rejects.toEqual(
      refused("FAILED_PRECONDITION", /mounted at \/co\/pods\/1\/target/),
    );
    expect(at.mounts()).toEqual([stagingPath, targetPath(1)]);
    expect(at.record(id).publications).toEqual([]);
    expect(at.memory.world.places.has(targetPath(1))).toBe(true);
  });

  test("a target that is the staging path or lies in the volume", async () => {
    const { at, id } = await staged();
    for (const target of [stagingPath, `${stagingPath}/inside`]) {
      const input = { volumeId: id, stagingPath, targetPath: target, capability: mountCapability, readonly: false };
      await expect(at.node.publish(input, at.signal)).rejects.toEqual(
        refused("INVALID_ARGUMENT", /staging path or inside/),
      );
    }
    expect(at.mounts()).toEqual([stagingPath]);
  });

  test("a target whose parent is not there, leaving nothing", async () => {
    const { at, id } = await staged(blockCapability);
    await expect(at.publish(id, 9, { capability: blockCapability })).rejects.toEqual(
      refused("INTERNAL", /^volume .*\/co\/pods\/9 is not there; taken back: \/dev\/loop0$/),
    );
    expect(at.record(id).publications).toEqual([]);
    expect(at.memory.leftovers()).toEqual([]);
  });

  test("a place of the wrong kind at the target, leaving no mount", async () => {
    const { at, id } = await staged();
    at.memory.world.places.set(targetPath(1), "file");
    await expect(at.publish(id, 1)).rejects.toThrow(/EEXIST/);
    expect(at.mounts()).toEqual([stagingPath]);
    expect(at.record(id).publications).toEqual([]);
  });
});

describe("unpublish", () => {
  test("of what was never published is fine, and touches nothing", async () => {
    const { at, id } = await staged();
    at.memory.world.places.set(targetPath(2), "directory");
    await at.unpublish(id, 1);
    await at.unpublish(id, 2);
    expect(at.memory.world.places.has(targetPath(2))).toBe(true);
    expect(at.memory.calls.filter((call) => !/resolve|table|of$/.test(call))).toEqual([]);
  });

  test("of the staging path is refused", async () => {
    const { at, id } = await staged();
    await expect(at.node.unpublish({ volumeId: id, targetPath: stagingPath }, at.signal)).rejects.toEqual(
      refused("FAILED_PRECONDITION", /is its staging path, and no target/),
    );
    expect(at.mounts()).toEqual([stagingPath]);
  });

  test("of a mount of this volume that no record knows unmounts it and leaves the path", async () => {
    const { at, id } = await staged();
    const [mount] = at.memory.world.mounts;
    if (mount === undefined) throw new Error("nothing is mounted");
    at.memory.world.places.set(targetPath(1), "directory");
    at.memory.world.mounts.push({ ...mount, mountPoint: targetPath(1) });
    await at.unpublish(id, 1);
    expect(at.mounts()).toEqual([stagingPath]);
    expect(at.memory.world.places.has(targetPath(1))).toBe(true);
  });

  test("of a busy target says so and can be asked again", async () => {
    const { at, id } = await staged();
    await at.publish(id, 1);
    at.memory.world.busy.add(targetPath(1));
    await expect(at.unpublish(id, 1)).rejects.toEqual(refused("FAILED_PRECONDITION", /in use by somebody/));
    expect(at.record(id).publications).toHaveLength(1);
    at.memory.world.busy.clear();
    await at.unpublish(id, 1);
    expect(at.record(id).publications).toEqual([]);
    expect(at.memory.world.places.has(targetPath(1))).toBe(false);
  });

  test("an exit code is not believed: a mount that stays is an error", async () => {
    const { at, id } = await staged();
    await at.publish(id, 1);
    const { host } = at.memory;
    const lying = { ...host, mounts: { ...host.mounts, unmount: async () => undefined } };
    const node = createNodeOperations({ host: lying, settings: driverSettings });
    await expect(node.unpublish({ volumeId: id, targetPath: targetPath(1) }, at.signal)).rejects.toEqual(
      refused("INTERNAL", /still in the mount table/),
    );
    expect(at.record(id).publications).toHaveLength(1);
  });
});

describe("unstage", () => {
  test("while published is refused, naming the targets", async () => {
    const { at, id } = await staged();
    await at.publish(id, 1);
    await at.publish(id, 2);
    await expect(at.unstage(id)).rejects.toEqual(
      refused("FAILED_PRECONDITION", /published at \/co\/pods\/1\/target, \/co\/pods\/2\/target; call NodeUnpublish/),
    );
    expect(at.mounts()).toHaveLength(3);
  });

  test("of what is not staged there is fine", async () => {
    const { at, id } = await staged();
    await at.unstage(id, "/co/other");
    at.memory.world.mounts.push(foreign("/co/other"));
    await at.unstage(id, "/co/other");
    expect(at.mounts()).toEqual([stagingPath, "/co/other"]);
    expect(at.record(id).staging?.path).toBe(stagingPath);
  });

  test("under a foreign mount is refused: what is below would be lost from sight", async () => {
    const { at, id } = await staged();
    at.memory.world.mounts.push(foreign(stagingPath));
    await expect(at.unstage(id)).rejects.toEqual(refused("FAILED_PRECONDITION", /not of this volume/));
    expect(at.mounts()).toEqual([stagingPath, stagingPath]);
  });

  test("after a reboot cleans the record; what was published is cleaned by unpublish, in any order", async () => {
    const { at, id } = await staged();
    await at.publish(id, 1);
    at.memory.reboot();
    await at.unstage(id);
    expect(at.record(id).staging).toBeUndefined();
    expect(at.record(id).publications).toHaveLength(1);
    await at.unpublish(id, 1);
    expect(at.record(id).publications).toEqual([]);
    expect(at.memory.world.places.has(targetPath(1))).toBe(false);
  });
});

test("a directory volume goes the same way", async () => {
  const { at, id } = await staged(mountCapability, "directory");
  await at.publish(id, 1, { readonly: true });
  const root = at.memory.host.state.volumes.paths(id).data;
  expect(at.memory.world.mounts).toMatchObject([
    { mountPoint: stagingPath, root, options: ["rw"] },
    { mountPoint: targetPath(1), root, options: ["ro"] },
  ]);
  await at.unpublish(id, 1);
  await at.unstage(id);
  expect(at.memory.leftovers()).toEqual([]);
});

describe("what others did", () => {
  test("an exit code is not believed: a bind that is not there is an error, and the target goes", async () => {
    const { at, id } = await staged();
    const { host } = at.memory;
    const lying = { ...host, mounts: { ...host.mounts, bind: async () => undefined } };
    const node = createNodeOperations({ host: lying, settings: driverSettings });
    const input = {
      volumeId: id,
      stagingPath,
      targetPath: targetPath(1),
      capability: mountCapability,
      readonly: false,
    };
    await expect(node.publish(input, at.signal)).rejects.toEqual(
      refused("INTERNAL", /shows nothing there; call again; taken back: the target \/co\/pods\/1\/target$/),
    );
    expect(at.record(id).publications).toEqual([]);
    expect(at.memory.world.places.has(targetPath(1))).toBe(false);
  });

  test("the raw device is not given out while its filesystem is mounted by hand", async () => {
    const { at, id } = await staged();
    await at.unstage(id);
    await at.stage(id, blockCapability);
    const { image } = at.memory.host.state.volumes.paths(id);
    at.memory.world.loops.set("/dev/loop5", { device: "/dev/loop5", image, readonly: false, bytes: 1n });
    at.memory.world.mounts.push({ ...foreign("/mnt/by-hand"), dev: "7:5", source: "/dev/loop5" });
    await expect(at.publish(id, 1, { capability: blockCapability })).rejects.toEqual(
      refused("FAILED_PRECONDITION", /filesystem is mounted at \/mnt\/by-hand .*nothing was left behind$/),
    );
    expect(at.mounts()).toEqual(["/mnt/by-hand"]);
  });

  test("an idle loop device of a killed life, which may have an old size, is not used again", async () => {
    const { at, id } = await staged(blockCapability);
    const { image } = at.memory.host.state.volumes.paths(id);
    at.memory.world.loops.set("/dev/loop5", { device: "/dev/loop5", image, readonly: false, bytes: 4096n });
    await at.publish(id, 1, { capability: blockCapability });
    expect([...at.memory.world.loops.values()]).toMatchObject([{ device: "/dev/loop0", bytes: 64n << 20n }]);
  });

  test("a target of ours that cannot be removed stays recorded", async () => {
    const { at, id } = await staged();
    at.memory.inject(
      { on: "mounts.bind", kind: "fail", code: "INTERNAL", message: "no bind" },
      { on: "places.remove", kind: "fail", code: "FAILED_PRECONDITION", message: "not empty" },
    );
    await expect(at.publish(id, 1)).rejects.toEqual(
      refused(
        "INTERNAL",
        /no bind; not everything could be taken back \(not empty\); NodeUnpublishVolume takes the rest$/,
      ),
    );
    expect(at.record(id).publications).toHaveLength(1);
    await at.unpublish(id, 1);
    expect(at.memory.world.places.has(targetPath(1))).toBe(false);
  });

  test("a target that was there and is empty goes too: to make and to remove it is the plugin's", async () => {
    const { at, id } = await staged();
    at.memory.world.places.set(targetPath(1), "directory");
    at.memory.inject({ on: "mounts.bind", kind: "lost", code: "INTERNAL" });
    await expect(at.publish(id, 1)).rejects.toEqual(refused("INTERNAL", /taken back: the mount at .*, the target/));
    expect(at.mounts()).toEqual([stagingPath]);
    expect(at.record(id).publications).toEqual([]);
  });
});

test("attached for reading nobody writes, and so nobody is a second writer", async () => {
  const at = createNodeFixture({ attach: true });
  const capability = { ...mountCapability, mode: "SINGLE_NODE_SINGLE_WRITER" } as const;
  const attached = { nodeId: "node-a", readonly: true, access: "mount", mode: capability.mode } as const;
  const { id } = await at.addVolume({ attachments: [attached] });
  await at.stage(id, capability);
  await at.publish(id, 1, { capability });
  await at.publish(id, 2, { capability });
  expect(at.memory.world.mounts.map(({ options }) => options)).toEqual([["ro"], ["ro"], ["ro"]]);
});
