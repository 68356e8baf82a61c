import { mkdir, readdir, unlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createHostRig, type HostRig, isRoot } from "../testing/host-rig.ts";
import { recoverHost } from "./recover-host.ts";

let rig: HostRig;
beforeEach(async () => {
  rig = await createHostRig();
});
afterEach(async () => {
  expect(await rig.close()).toEqual([]);
});

it("finds nothing to do where nothing was left, and keeps what is not its own", async () => {
  await mkdir(rig.at("making"));
  await writeFile(rig.at("format.json"), "{}");
  expect(await recoverHost(rig, rig.signal)).toEqual([]);
  expect((await readdir(rig.stateDir)).sort()).toEqual(["format.json", "making"]);
});

it("takes away the files of a probe that was cut short", async () => {
  await mkdir(rig.at(".reflink-x"));
  await writeFile(rig.at(".reflink-x/from"), "");
  await recoverHost(rig, rig.signal);
  expect(await readdir(rig.stateDir)).toEqual([]);
});

describe.skipIf(!isRoot)("as root", () => {
  it("takes away a bind half-made, with the data behind it kept", async () => {
    await mkdir(rig.at("data"));
    await writeFile(rig.at("data/file"), "precious");
    for (const _ of [1, 2])
      await rig.mounts.bind(rig.at("data"), await rig.makeDirectory("binding"), { readonly: false }, rig.signal);
    const [first, ...others] = await recoverHost(rig, rig.signal);
    expect(first).toBe(`unmounted ${rig.at("binding")}, a bind that was not finished`);
    expect(others.every((it) => it === first)).toBe(true);
    expect([await rig.leftovers(), await readdir(rig.at("data"))]).toEqual([[], ["file"]]);
  });

  it("lets go of the devices of unfinished copies, deleted ones too, and of no volume's", async () => {
    const make = async (name: string) => {
      await mkdir(path.dirname(rig.at(name)), { recursive: true });
      await rig.images.create(rig.at(name), 1n << 20n, rig.signal);
      return rig.loops.attach(rig.at(name), { readonly: false }, rig.signal);
    };
    const volume = await make("volumes/v/image");
    const making = await make("making/m/image");
    const trash = await make("trash/t.1/image");
    await unlink(rig.at("trash/t.1/image"));
    expect([...(await recoverHost(rig, rig.signal))].sort()).toEqual(
      [
        `let go of ${making.device}, of the unfinished ${rig.at("making/m/image")}`,
        `let go of ${trash.device}, of the unfinished ${rig.at("trash/t.1/image")}`,
      ].sort(),
    );
    expect(await rig.leftovers()).toEqual([`${volume.device} ${rig.at("volumes/v/image")}`]);
    await rig.loops.detach(volume, rig.at("volumes/v/image"), rig.signal);
  });
});
