import { describe, expect, test } from "vitest";
import type { MountEntry } from "../ports.ts";
import { driverSettings } from "../testing/driver-settings.ts";
import { createNodeFixture } from "../testing/node-fixture.ts";
import { lookAt } from "./mounted.ts";

const entry = (over: Partial<MountEntry>): MountEntry => ({
  mountPoint: "/here",
  root: "/",
  dev: "7:3",
  fsType: "ext4",
  source: "/dev/loop3",
  options: ["rw"],
  superOptions: ["rw"],
  ...over,
});

const look = async (type: "image" | "directory", ...mounts: readonly MountEntry[]) => {
  const at = createNodeFixture();
  const record = await at.addVolume({ type });
  const { image, data } = at.memory.host.state.volumes.paths(record.id);
  if (type === "image")
    for (const [device, readonly] of [
      ["/dev/loop3", false],
      ["/dev/loop4", true],
    ] as const)
      at.memory.world.loops.set(device, { device, image, readonly, bytes: 1n });
  at.memory.world.mounts.push(...mounts);
  const parts = { host: at.memory.host, settings: driverSettings, undoMs: 5 };
  return { mounted: await lookAt(parts, record), data };
};

describe("of an image", () => {
  test("a filesystem is known by its device numbers, whatever it is called", async () => {
    const { mounted } = await look("image", entry({ source: "/dev/disk/by-uuid/1" }));
    expect(mounted.at("/here")).toMatchObject({ kind: "volume", readonly: false });
  });

  test.each([
    ["the same name with other numbers", entry({ dev: "7:9" })],
    ["a directory inside of it", entry({ root: "/inside" })],
    ["a device node of another", entry({ dev: "0:6", root: "/loop33", fsType: "devtmpfs" })],
    ["a file called like the device", entry({ dev: "8:1", root: "/somewhere/loop3" })],
  ])("%s is foreign", async (_, found) => {
    const { mounted } = await look("image", found);
    expect(mounted.at("/here")).toEqual({ kind: "foreign", entry: found });
  });

  test("a device node is known, and read-only if its loop device is", async () => {
    const node = { dev: "0:6", fsType: "devtmpfs", source: "udev" };
    const { mounted } = await look(
      "image",
      entry({ ...node, root: "/loop3", options: ["ro"] }),
      entry({ ...node, root: "/loop4", mountPoint: "/there" }),
    );
    expect(mounted.at("/here")).toMatchObject({ kind: "device", readonly: false, loop: { device: "/dev/loop3" } });
    expect(mounted.at("/there")).toMatchObject({ kind: "device", readonly: true, loop: { device: "/dev/loop4" } });
  });

  test("a device node of an earlier container's /dev is known by its numbers", async () => {
    const node = entry({ dev: "0:77", fsType: "tmpfs", source: "tmpfs", root: "/loop3" });
    const { mounted } = await look("image", node);
    expect(mounted.at("/here")).toMatchObject({ kind: "device", readonly: false, loop: { device: "/dev/loop3" } });
    expect(mounted.loops.map((loop) => mounted.bindsOf(loop).length)).toEqual([1, 0]);
    const hidden = entry({ dev: "0:99", source: "tmpfs" });
    expect((await look("image", node, hidden)).mounted.at("/here")).toMatchObject({ kind: "foreign" });
  });

  test("who uses which device is told apart, a mounted directory inside included", async () => {
    const { mounted } = await look("image", entry({ root: "/inside" }));
    expect(mounted.loops.map((loop) => mounted.filesystemsOn(loop).length)).toEqual([1, 0]);
  });

  test("anything foreign below or on top counts", async () => {
    const foreign = entry({ dev: "0:99", source: "tmpfs" });
    expect((await look("image", foreign, entry({}))).mounted.at("/here")).toMatchObject({ kind: "foreign" });
    expect((await look("image", entry({}), foreign)).mounted.at("/here")).toMatchObject({ kind: "foreign" });
    expect((await look("image", entry({}), entry({}))).mounted.at("/here")).toMatchObject({ kind: "volume" });
  });
});

test("a directory is known by device and root, also after it was deleted", async () => {
  const { data } = await look("directory");
  const of = (root: string) => entry({ dev: "8:1", root, source: "/dev/sda1" });
  expect((await look("directory", of(data))).mounted.at("/here")).toMatchObject({ kind: "volume" });
  expect((await look("directory", of(`${data}//deleted`))).mounted.at("/here")).toMatchObject({ kind: "volume" });
  expect((await look("directory", of(`${data}2`))).mounted.at("/here")).toMatchObject({ kind: "foreign" });
  expect((await look("directory", { ...of(data), dev: "8:2" })).mounted.at("/here")).toMatchObject({ kind: "foreign" });
  expect((await look("directory")).mounted.at("/here")).toEqual({ kind: "nothing" });
});
