import { mkdir, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createHostRig, type HostRig, isRoot } from "../testing/host-rig.ts";

let rig: HostRig;
let place: string;

beforeEach(async () => {
  rig = await createHostRig();
  place = rig.at("place");
});
afterEach(async () => {
  expect(await rig.close()).toEqual([]);
});

it("a directory is made, known, and removed; each twice", async () => {
  expect(await rig.places.exists(place)).toBe(false);
  for (const _ of [1, 2]) await rig.places.makeDirectory(place);
  expect([await rig.places.exists(place), (await stat(place)).isDirectory()]).toEqual([true, true]);
  for (const _ of [1, 2]) await rig.places.remove(place);
  expect(await readdir(rig.stateDir)).toEqual([]);
});

it("a file is made, known, and removed; each twice", async () => {
  for (const _ of [1, 2]) await rig.places.makeFile(place);
  expect([await rig.places.exists(place), (await stat(place)).isFile(), (await stat(place)).size]).toEqual([
    true,
    true,
    0,
  ]);
  for (const _ of [1, 2]) await rig.places.remove(place);
  expect(await readdir(rig.stateDir)).toEqual([]);
});

it("the parent is the caller's to make", async () => {
  const deep = path.join(place, "below");
  for (const make of [rig.places.makeDirectory, rig.places.makeFile])
    await expect(make(deep)).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: `cannot make ${deep}: its parent ${place} is not there; the container orchestrator makes it`,
    });
  expect(await readdir(rig.stateDir)).toEqual([]);
  await rig.places.remove(deep);
  expect(await rig.places.exists(deep)).toBe(false);
});

it("what is there and is something else stays as it is", async () => {
  await writeFile(place, "precious");
  await expect(rig.places.makeDirectory(place)).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
  await expect(rig.places.makeFile(place)).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
  await expect(rig.places.remove(place)).rejects.toMatchObject({
    code: "FAILED_PRECONDITION",
    message: expect.stringMatching(/not an empty file of the driver's making/),
  });
  expect(await readFile(place, "utf8")).toBe("precious");
});

it("a link is followed nowhere", async () => {
  await mkdir(rig.at("elsewhere"));
  await symlink(rig.at("elsewhere"), place);
  for (const act of [rig.places.makeDirectory, rig.places.makeFile, rig.places.remove])
    await expect(act(place)).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
  await symlink(rig.at("nowhere"), rig.at("dangling"));
  expect(await rig.places.exists(rig.at("dangling"))).toBe(true);
  await expect(rig.places.makeDirectory(rig.at("dangling"))).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
  expect((await readdir(rig.stateDir)).sort()).toEqual(["dangling", "elsewhere", "place"]);
});

it("nothing is removed but what is empty", async () => {
  await mkdir(place);
  await writeFile(path.join(place, "data"), "precious");
  await expect(rig.places.remove(place)).rejects.toMatchObject({
    code: "FAILED_PRECONDITION",
    message: expect.stringMatching(/is not empty, and nothing of it is deleted/),
  });
  expect(await readFile(path.join(place, "data"), "utf8")).toBe("precious");
});

it("resolves what is above the last part, and leaves that alone", async () => {
  await mkdir(rig.at("real"));
  await symlink(rig.at("real"), rig.at("link"));
  await symlink(rig.at("real"), rig.at("real/last"));
  expect(await rig.places.resolve(rig.at("link/last"))).toBe(rig.at("real/last"));
  expect(await rig.places.resolve(`${rig.at("link")}/../link/none/`)).toBe(rig.at("real/none"));
  expect(await rig.places.resolve(rig.at("none/below"))).toBe(rig.at("none/below"));
  expect(await rig.places.resolve("/")).toBe("/");
});

describe.skipIf(!isRoot)("with something mounted (as root)", () => {
  it.each(["directory", "file"] as const)(
    "a %s is not removed under its mount, and making it again is no error",
    async (kind) => {
      await rig.makeDirectory("source");
      await writeFile(rig.at("file"), "");
      await (kind === "directory" ? rig.places.makeDirectory(place) : rig.places.makeFile(place));
      await rig.mounts.bind(
        kind === "directory" ? rig.at("source") : rig.at("file"),
        place,
        { readonly: false },
        rig.signal,
      );
      await expect(rig.places.remove(place)).rejects.toMatchObject({
        code: "FAILED_PRECONDITION",
        message: `${place} is not removed: something is mounted on it; unmount it first`,
      });
      await (kind === "directory" ? rig.places.makeDirectory(place) : rig.places.makeFile(place));
      await rig.mounts.unmount(place, rig.signal);
      await rig.places.remove(place);
      expect(await rig.places.exists(place)).toBe(false);
    },
  );

  it("a file that a device is bound on is as it was made", async () => {
    await rig.images.create(rig.at("image"), 1n << 20n, rig.signal);
    const loop = await rig.loops.attach(rig.at("image"), { readonly: false }, rig.signal);
    await rig.places.makeFile(place);
    await rig.mounts.bind(loop.device, place, { readonly: false }, rig.signal);
    await rig.places.makeFile(place);
    await expect(rig.places.makeDirectory(place)).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
    await expect(rig.places.remove(place)).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
    await rig.mounts.unmount(place, rig.signal);
    await rig.places.remove(place);
    await rig.loops.detach(loop, rig.at("image"), rig.signal);
  });
});
