/**
 * Volume after volume on the same few loop devices, with no pause: what was known of the device of before (its size, its filesystem) must
 * not be believed of the next one.
 */
import { readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterEach, beforeEach, expect } from "vitest";
import { sample } from "../support/full.ts";
import { asRoot } from "./as-root.ts";
import { createDriverProcess, type DriverProcess } from "./driver-process.ts";
import { mountsBelow } from "./host-facts.ts";
import { patternOf } from "./seeded-random.ts";
import { createVolumeLife, endVolumeLife } from "./volume-life.ts";

let driver: DriverProcess;

beforeEach(async () => {
  driver = await createDriverProcess();
  await driver.start();
});

afterEach(async () => {
  await driver.remove();
});

const mib = 1n << 20n;

asRoot(
  "image volumes made, used and deleted one after another, ext4 and xfs in turn",
  async () => {
    const count = sample(100, 12);
    for (let turn = 0; turn < count; turn += 1) {
      const kind = turn % 2 === 0 ? "ext4" : "xfs";
      // No two sizes in a row are the same, so that a device's size of before would be found out.
      const bytes = (kind === "ext4" ? 16n : 304n) * mib + BigInt(turn % 5) * mib;
      const volume = await createVolumeLife(driver, `turn-${turn}`, kind, { bytes });
      await volume.stage();
      await volume.publish();
      const [mount] = await mountsBelow(volume.targetPath);
      expect([turn, mount?.fsType]).toEqual([turn, kind]);
      expect((await readdir(volume.targetPath)).filter((name) => name !== "lost+found")).toEqual([]);
      const file = path.join(volume.targetPath, "file");
      await writeFile(file, patternOf(turn, 200_000), { flush: true });
      await volume.unpublish();
      await volume.unstage();
      // What was written is there again on whatever device comes now.
      await volume.stage();
      await volume.publish(true);
      expect(patternOf(turn, 200_000).equals(await readFile(file))).toBe(true);
      await endVolumeLife(volume);
    }
    expect((await driver.csi().controller.listVolumes({})).entries).toEqual([]);
    expect(await driver.leftovers()).toEqual([]);
  },
  sample(600_000, 90_000),
);

asRoot("a device that was a filesystem is a raw disk next, and the other way round", async () => {
  for (let turn = 0; turn < sample(40, 6); turn += 1) {
    const kind = turn % 2 === 0 ? "block" : "ext4";
    const volume = await createVolumeLife(driver, `either-${turn}`, kind, { bytes: 16n * mib });
    await volume.stage();
    await volume.publish();
    if (kind === "block") {
      const raw = await readFile(volume.targetPath);
      expect([raw.length, raw.some((byte) => byte !== 0)]).toEqual([Number(16n * mib), false]);
      await writeFile(volume.targetPath, patternOf(turn, 1 << 20), { flush: true, flag: "r+" });
    } else await writeFile(path.join(volume.targetPath, "file"), "1");
    await endVolumeLife(volume);
  }
  expect(await driver.leftovers()).toEqual([]);
});
