/** The file that remembers a volume is damaged: that volume is refused and named, the others are served, nothing is destroyed. */
import { createHash } from "node:crypto";
import { readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterEach, beforeEach, expect } from "vitest";
import { asRoot } from "./as-root.ts";
import { type CallOutcome, outcomeOf } from "./call-outcome.ts";
import { createDriverProcess, type DriverProcess } from "./driver-process.ts";
import { patternOf } from "./seeded-random.ts";
import { capabilityOf, kindFacts } from "./volume-kinds.ts";
import { createVolumeLife, type VolumeLife } from "./volume-life.ts";

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

for (const [what, damage] of Object.entries(damages))
  asRoot(`a record ${what}`, async () => {
    const broken = await createVolumeLife(driver, "broken", "ext4");
    const sound = await createVolumeLife(driver, "sound", "ext4");
    await use(broken, 1);
    await use(sound, 2);
    await broken.unpublish();
    await broken.unstage();
    await driver.kill();
    const original = await readFile(broken.record, "utf8");
    const damaged = damage(original);
    expect(damaged).not.toBe(original);
    await writeFile(broken.record, damaged);
    const image = await sha256(broken.image);
    await driver.start();

    const { controller } = driver.csi();
    const refused = [
      await outcomeOf(controller.controllerGetVolume({ volumeId: broken.id })),
      await outcomeOf(broken.stage()),
      await outcomeOf(broken.publish()),
      await outcomeOf(broken.unpublish()),
      await outcomeOf(broken.unstage()),
      await outcomeOf(broken.remove()),
      await outcomeOf(controller.createSnapshot({ sourceVolumeId: broken.id, name: "of-broken" })),
      await outcomeOf(
        controller.controllerExpandVolume({ volumeId: broken.id, capacityRange: { requiredBytes: 1n << 27n } }),
      ),
      // It may bear this name: a second volume of it would be made otherwise.
      await outcomeOf(
        controller.createVolume({
          name: broken.name,
          volumeCapabilities: [capabilityOf("ext4")],
          parameters: kindFacts.ext4.parameters,
        }),
      ),
    ];
    expect(refused.map(({ code }) => code)).toEqual(refused.map(() => "FAILED_PRECONDITION"));
    for (const outcome of refused) expect(detailsOf(outcome)).toContain(broken.record);

    // The other one goes on where it was, and is served in every way.
    expect(patternOf(2, 5000).equals(await readFile(path.join(sound.targetPath, "file")))).toBe(true);
    await sound.unpublish();
    await sound.unstage();
    await use(sound, 2);
    const listed = (await controller.listVolumes({})).entries.map(({ volume }) => volume?.volumeId);
    expect(listed).toContain(sound.id);

    expect([await readFile(broken.record, "utf8"), await sha256(broken.image)]).toEqual([damaged, image]);
    expect(await readdir(path.dirname(broken.record))).toEqual(["image", "record.json"]);

    // The cure: the file from a backup.
    await driver.kill();
    await writeFile(broken.record, original);
    await driver.start();
    await broken.stage();
    await broken.publish();
    expect(patternOf(1, 5000).equals(await readFile(path.join(broken.targetPath, "file")))).toBe(true);
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
