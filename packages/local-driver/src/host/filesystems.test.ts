import { chmod, mkdir, mkdtemp, stat, symlink, truncate, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createHostRig, type HostRig, isRoot } from "../testing/host-rig.ts";
import { createFilesystems } from "./filesystems.ts";
import { createRunTool } from "./run-tool.ts";
import { createSpace } from "./space.ts";

let rig: HostRig;
beforeEach(async () => {
  rig = await createHostRig();
});
afterEach(async () => {
  expect(await rig.close()).toEqual([]);
});

const programs = async (name: string, text: string) => {
  await mkdir(rig.at("bin"));
  await writeFile(rig.at("bin", name), `#!/bin/sh\n${text}\n`);
  await chmod(rig.at("bin", name), 0o755);
  return createFilesystems({ run: createRunTool({ stateDir: rig.stateDir, nodeId: "node-a", path: rig.at("bin") }) });
};

describe("space", () => {
  it("what a file occupies is not what it is long", async () => {
    await writeFile(rig.at("file"), Buffer.alloc(100_000, 1));
    await truncate(rig.at("file"), 1 << 30);
    const allocated = await rig.space.allocatedBytes(rig.at("file"));
    expect(allocated).toBeGreaterThanOrEqual(100_000n);
    expect(allocated).toBeLessThan(200_000n);
    await expect(rig.space.allocatedBytes(rig.at("none"))).rejects.toThrow(/cannot tell what .*none occupies: ENOENT/);
  });

  it.runIf(isRoot)("what is free is what an ordinary writer may have", async () => {
    const place = await rig.makeDirectory("small");
    await rig.run("mount", ["-t", "tmpfs", "-o", "size=8m", "tmpfs", place], { signal: rig.signal });
    const space = createSpace({ stateDir: place });
    expect(await space.freeBytes()).toBe(8n << 20n);
    await writeFile(path.join(place, "file"), Buffer.alloc(1 << 20));
    expect(await space.freeBytes()).toBe(7n << 20n);
    await rig.mounts.unmount(place, rig.signal);
    await expect(createSpace({ stateDir: rig.at("none") }).freeBytes()).rejects.toThrow(/free space of .*none/);
  });
});

describe("usage", () => {
  it.runIf(isRoot)("is that of the filesystem, in bytes and inodes", async () => {
    const place = await rig.makeDirectory("-f small");
    await rig.run("mount", ["-t", "tmpfs", "-o", "size=8m,nr_inodes=100", "tmpfs", place], { signal: rig.signal });
    await writeFile(path.join(place, "file"), Buffer.alloc(1 << 20));
    expect(await rig.filesystems.usage(place, rig.signal)).toEqual({
      bytes: { total: 8n << 20n, used: 1n << 20n, available: 7n << 20n },
      inodes: { total: 100n, used: 2n, available: 98n },
    });
    await rig.mounts.unmount(place, rig.signal);
  });

  it("names what is not there, and does not believe nonsense", async () => {
    await expect(rig.filesystems.usage(rig.at("none"), rig.signal)).rejects.toThrow(/none.*No such file/);
    const filesystems = await programs("stat", "echo 4096 1 2 3 4 -5");
    await expect(filesystems.usage("/", rig.signal)).rejects.toThrow(/stat answered "4096 1 2 3 4 -5\\n"/);
  });

  it("of one that does not answer ends with the caller", async () => {
    const filesystems = await programs("stat", "exec /bin/sleep 600");
    await expect(filesystems.usage("/", AbortSignal.timeout(50))).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
  });
});

describe.skipIf(!isRoot)("giving a volume to a group (as root)", () => {
  it("opens its root to the group, and lets what is made below belong to it", async () => {
    const directory = await rig.makeDirectory("-R data");
    await chmod(directory, 0o705);
    await rig.filesystems.giveToGroup(directory, "4321", rig.signal);
    const { gid, mode } = await stat(directory);
    expect([gid, mode & 0o7777]).toEqual([4321, 0o2775]);
    const below = await mkdtemp(path.join(directory, "x"));
    expect((await stat(below)).gid).toBe(4321);
  });

  it("touches neither what a link points to nor what is below", async () => {
    const directory = await rig.makeDirectory("data");
    await writeFile(path.join(directory, "file"), "");
    const before = await stat(path.join(directory, "file"));
    await rig.filesystems.giveToGroup(directory, "4321", rig.signal);
    const after = await stat(path.join(directory, "file"));
    expect([after.gid, after.mode]).toEqual([before.gid, before.mode]);
    const other = await rig.makeDirectory("other");
    const untouched = await stat(other);
    await symlink(other, rig.at("link"));
    await expect(rig.filesystems.giveToGroup(rig.at("link"), "4321", rig.signal)).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(/it is not a directory/),
    });
    expect([(await stat(other)).gid, (await stat(other)).mode]).toEqual([untouched.gid, untouched.mode]);
  });

  it("does not say that it has, when it has not", async () => {
    const directory = await rig.makeDirectory("data");
    await expect(rig.filesystems.giveToGroup(directory, "no-such-group", rig.signal)).rejects.toThrow();
    await expect(rig.filesystems.giveToGroup(rig.at("none"), "1", rig.signal)).rejects.toThrow(/none/);
    const hung = await programs("find", "exec /bin/sleep 600");
    await expect(hung.giveToGroup(directory, "1", AbortSignal.timeout(50))).rejects.toMatchObject({
      code: "DEADLINE_EXCEEDED",
    });
  });
});
