/** The file that remembers a volume is damaged: that volume is refused and named, the others are served, nothing is destroyed. */
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterEach, beforeEach, expect } from "vitest";
import { asRoot } from "./as-root.ts";
import { type CallOutcome, outcomeOf } from "./call-outcome.ts";
import { createDriverProcess, type DriverProcess } from "./driver-process.ts";
import { patternOf } from "./seeded-random.ts";
import { capabilityOf, kindFacts } from "./volume-kinds.ts";
import { createVolumeLife, endVolumeLife, type VolumeLife } from "./volume-life.ts";

let driver: DriverProcess;

beforeEach(async () => {
  driver = await createDriverProcess();
  await driver.start();
});

afterEach(async () => {
  await driver.remove();
});

const sha256 = async (file: string): Promise<string> =>
  createHash("sha256")
    .update(await readFile(file))
    .digest("hex");

const damages: Readonly<Record<string, (text: string) => string>> = {
  truncated: (text) => text.slice(0, text.length / 2),
  "of no bytes": () => "",
  "with one bit turned": (text) =>
    text.replace(/"name":"([^"])/, (_, letter: string) => `"name":"${letter === "a" ? "b" : "a"}`),
  "of a format of the future": (text) => text.replace('"format":1', '"format":99'),
  "with a sum that is not its own": (text) => text.replace(/"sha256":"[0-9a-f]{8}/, '"sha256":"00000000'),
  "full of zeros": (text) => "\0".repeat(text.length),
};

const use = async (volume: VolumeLife, seed: number): Promise<void> => {
  await volume.stage();
  await volume.publish();
  await writeFile(path.join(volume.targetPath, "file"), patternOf(seed, 5000), { flush: true });
};

const detailsOf = (outcome: CallOutcome<unknown>): string => (outcome.code === "OK" ? "" : outcome.details);

/** One after the other: beside another call for the volume each would be told to wait. */
const everyCall = (volume: VolumeLife): readonly (() => Promise<unknown>)[] => {
  const { controller } = driver.csi();
  const { id, name } = volume;
  return [
    () => controller.controllerGetVolume({ volumeId: id }),
    () => volume.stage(),
    () => volume.publish(),
    () => volume.unpublish(),
    () => volume.unstage(),
    () => volume.remove(),
    () => controller.createSnapshot({ sourceVolumeId: id, name: "picture" }),
    () => controller.controllerExpandVolume({ volumeId: id, capacityRange: { requiredBytes: 1n << 27n } }),
    // It may bear this name: a second volume of it would be made otherwise.
    () =>
      controller.createVolume({
        name,
        volumeCapabilities: [capabilityOf("ext4")],
        parameters: kindFacts.ext4.parameters,
      }),
  ];
};

interface Damaged {
  readonly what: string;
  readonly seed: number;
  readonly volume: VolumeLife;
  readonly original: string;
  readonly text: string;
  readonly image: string;
}

asRoot("six records, each damaged in another way, beside one that is sound", async () => {
  const sound = await createVolumeLife(driver, "sound", "ext4");
  await use(sound, 99);
  const broken: { readonly what: string; readonly volume: VolumeLife; readonly seed: number }[] = [];
  for (const what of Object.keys(damages)) {
    const volume = await createVolumeLife(driver, `broken-${broken.length}`, "ext4");
    await use(volume, broken.length);
    await volume.unpublish();
    await volume.unstage();
    broken.push({ what, volume, seed: broken.length });
  }
  await driver.kill();
  const damaged: Damaged[] = [];
  for (const { what, volume, seed } of broken) {
    const original = await readFile(volume.record, "utf8");
    const text = damages[what]?.(original) ?? original;
    expect(text).not.toBe(original);
    await writeFile(volume.record, text);
    damaged.push({ what, seed, volume, original, text, image: await sha256(volume.image) });
  }
  await driver.start();

  for (const { what, volume } of damaged)
    for (const call of everyCall(volume)) {
      const outcome = await outcomeOf(call());
      expect([what, outcome.code]).toEqual([what, "FAILED_PRECONDITION"]);
      expect(detailsOf(outcome)).toContain(volume.record);
    }

  // The other one goes on where it was, and is served in every way; so is a new one.
  expect(patternOf(99, 5000).equals(await readFile(path.join(sound.targetPath, "file")))).toBe(true);
  await sound.unpublish();
  await sound.unstage();
  await use(sound, 99);
  const fresh = await createVolumeLife(driver, "fresh", "ext4");
  await use(fresh, 98);
  await endVolumeLife(fresh);
  const { entries } = await driver.csi().controller.listVolumes({});
  expect(entries.map(({ volume }) => volume?.volumeId)).toContain(sound.id);

  for (const { what, volume, text, image } of damaged)
    expect([what, await readFile(volume.record, "utf8"), await sha256(volume.image)]).toEqual([what, text, image]);

  // The cure: the file from a backup.
  await driver.kill();
  for (const { volume, original } of damaged) await writeFile(volume.record, original);
  await driver.start();
  for (const { what, seed, volume } of damaged) {
    await volume.stage();
    await volume.publish();
    const bytes = await readFile(path.join(volume.targetPath, "file"));
    expect([what, patternOf(seed, 5000).equals(bytes)]).toEqual([what, true]);
    await endVolumeLife(volume);
  }
  await endVolumeLife(sound);
  expect(await driver.leftovers()).toEqual([]);
});

asRoot("a record that is one of another volume's", async () => {
  const one = await createVolumeLife(driver, "one", "directory");
  const other = await createVolumeLife(driver, "other", "directory");
  await driver.kill();
  await writeFile(one.record, await readFile(other.record));
  await driver.start();
  const outcome = await outcomeOf(driver.csi().controller.controllerGetVolume({ volumeId: one.id }));
  expect(outcome.code).toBe("FAILED_PRECONDITION");
  expect(detailsOf(outcome)).toContain(one.record);
  expect((await outcomeOf(other.remove())).code).toBe("OK");
  expect((await outcomeOf(one.remove())).code).toBe("FAILED_PRECONDITION");
});
