import { describe, expect, test } from "vitest";
import {
  blockCapability,
  createNodeFixture,
  mountCapability,
  stagingPath,
  targetPath,
} from "../testing/node-fixture.ts";

const published = async (capability = mountCapability, type: "image" | "directory" = "image") => {
  const at = createNodeFixture();
  const { id } = await at.addVolume({ type });
  await at.stage(id, capability);
  await at.publish(id, 1, { capability });
  const stats = (path: string) => at.node.stats({ volumeId: id, path }, at.signal);
  return { at, id, stats };
};

const inOrder = { abnormal: false, message: "in order" };

test.each(["image", "directory"] as const)(
  "a mounted %s has the usage of its filesystem, by both paths",
  async (type) => {
    const { stats } = await published(mountCapability, type);
    const total = type === "image" ? 64n << 20n : 100n << 30n;
    for (const path of [stagingPath, targetPath(1)])
      expect(await stats(path)).toMatchObject({
        access: "mount",
        totalBytes: total,
        usage: { bytes: { total, used: total / 4n }, inodes: { total: 1000n } },
        condition: inOrder,
      });
  },
);

test("a device has its size alone, staged or published", async () => {
  const { stats } = await published(blockCapability);
  for (const path of [stagingPath, targetPath(1)])
    expect(await stats(path)).toEqual({
      access: "block",
      totalBytes: 64n << 20n,
      usage: undefined,
      condition: inOrder,
    });
});

test("a path where it is not is NOT_FOUND", async () => {
  const { at, id, stats } = await published();
  await expect(stats("/co/pods/2/target")).rejects.toMatchObject({ code: "NOT_FOUND" });
  await at.unpublish(id, 1);
  await expect(stats(targetPath(1))).rejects.toMatchObject({ code: "NOT_FOUND" });
  await expect(at.node.stats({ volumeId: "gone", path: stagingPath }, at.signal)).rejects.toMatchObject({
    code: "NOT_FOUND",
  });
});

describe("trouble is an answer", () => {
  test("the image is gone", async () => {
    const { at, id, stats } = await published();
    at.memory.world.files.delete(at.memory.host.state.volumes.paths(id).image);
    const { condition } = await stats(targetPath(1));
    expect(condition).toMatchObject({ abnormal: true, message: expect.stringMatching(/image .* is gone/) });
  });

  test.each(["ro", "emergency_ro", "shutdown"])("the kernel has turned the filesystem to %s", async (option) => {
    const { at, stats } = await published();
    const { mounts } = at.memory.world;
    for (const [n, entry] of mounts.entries()) mounts[n] = { ...entry, superOptions: [option] };
    expect((await stats(targetPath(1))).condition).toMatchObject({
      abnormal: true,
      message: expect.stringMatching(/stopped writing .*kernel log/),
    });
  });

  test("nothing is mounted any more, or something else", async () => {
    const { at, id, stats } = await published();
    at.memory.reboot();
    expect(await stats(targetPath(1))).toMatchObject({
      totalBytes: 64n << 20n,
      usage: undefined,
      condition: { abnormal: true, message: expect.stringMatching(/nothing is mounted .*NodeStageVolume/) },
    });
    const other = await at.addVolume({ name: "other", type: "directory" });
    const { data } = at.memory.host.state.volumes.paths(other.id);
    at.memory.world.mounts.push({
      mountPoint: stagingPath,
      root: data,
      dev: "8:1",
      fsType: "ext4",
      source: "/dev/sda1",
      options: ["rw"],
      superOptions: ["rw"],
    });
    expect((await at.node.stats({ volumeId: id, path: stagingPath }, at.signal)).condition).toMatchObject({
      abnormal: true,
      message: expect.stringMatching(/something else is mounted/),
    });
  });

  test("also by a target that is read-only for its workload", async () => {
    const { at, id } = await published();
    await at.publish(id, 2, { readonly: true });
    const { mounts } = at.memory.world;
    for (const [n, entry] of mounts.entries()) mounts[n] = { ...entry, superOptions: ["ro"] };
    const { condition } = await at.node.stats({ volumeId: id, path: targetPath(2) }, at.signal);
    expect(condition).toMatchObject({ abnormal: true });
  });

  test("a staged reader is in order though its filesystem is read-only", async () => {
    const { stats } = await published({ ...mountCapability, mode: "SINGLE_NODE_READER_ONLY" });
    expect((await stats(stagingPath)).condition).toEqual(inOrder);
  });

  test("a usage that cannot be read is an error, unless it is already known why", async () => {
    const { at, id, stats } = await published();
    at.memory.inject({ on: "filesystems.usage", kind: "fail", code: "DEADLINE_EXCEEDED", message: "statfs hangs" });
    await expect(stats(targetPath(1))).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
    at.memory.world.files.delete(at.memory.host.state.volumes.paths(id).image);
    at.memory.inject({ on: "filesystems.usage", kind: "fail", code: "INTERNAL", message: "EIO" });
    expect(await stats(targetPath(1))).toMatchObject({
      usage: undefined,
      condition: { message: expect.stringMatching(/is gone.*usage cannot be read: EIO/) },
    });
  });
});
