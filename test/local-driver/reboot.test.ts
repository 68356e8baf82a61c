/** A host that booted: files are all that is left. Every call that a CO makes then is right, in whatever order it comes. */
import { readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterEach, beforeEach, expect } from "vitest";
import { asRoot } from "./as-root.ts";
import { outcomeOf } from "./call-outcome.ts";
import { createDriverProcess, type DriverProcess } from "./driver-process.ts";
import { loopsBelow, mountsBelow } from "./host-facts.ts";
import { patternOf } from "./seeded-random.ts";
import { kindFacts, volumeKinds } from "./volume-kinds.ts";
import { createVolumeLife, endVolumeLife, type VolumeLife } from "./volume-life.ts";

let driver: DriverProcess;
let volumes: readonly VolumeLife[];

const bytes = patternOf(7, 100_000);

const write = ({ kind, targetPath }: VolumeLife): Promise<void> =>
  kindFacts[kind].access === "block"
    ? writeFile(targetPath, bytes, { flush: true, flag: "r+" })
    : writeFile(path.join(targetPath, "file"), bytes, { flush: true });

const read = async ({ kind, targetPath }: VolumeLife): Promise<Buffer> =>
  kindFacts[kind].access === "block"
    ? (await readFile(targetPath)).subarray(0, bytes.length)
    : await readFile(path.join(targetPath, "file"));

beforeEach(async () => {
  driver = await createDriverProcess();
});

afterEach(async () => {
  await driver.remove();
});

/** All four kinds in use, and then nothing but files. */
const boot = async (): Promise<void> => {
  await driver.start();
  const made: VolumeLife[] = [];
  for (const kind of volumeKinds) {
    const volume = await createVolumeLife(driver, `of-${kind}`, kind);
    await volume.stage();
    await volume.publish();
    await write(volume);
    made.push(volume);
  }
  volumes = made;
  await driver.reboot();
  expect([await mountsBelow(driver.home), await loopsBelow(driver.home)]).toEqual([[], []]);
  await driver.start();
};

const intact = async (): Promise<void> => {
  for (const volume of volumes) expect([volume.kind, bytes.equals(await read(volume))]).toEqual([volume.kind, true]);
};

const emptied = async (): Promise<void> => {
  for (const volume of volumes) await endVolumeLife(volume);
  expect(await driver.leftovers()).toEqual([]);
  expect(await readdir(path.join(driver.stateDir, "volumes"))).toEqual([]);
};

asRoot("staged and published again with the same arguments, everything is where it was", async () => {
  await boot();
  for (const volume of volumes) {
    await volume.stage();
    await volume.publish();
  }
  await intact();
  await emptied();
});

asRoot("taken off first, as a CO does that knows of the boot, and used anew", async () => {
  await boot();
  for (const volume of volumes) {
    await volume.unpublish();
    await volume.unstage();
  }
  expect(await driver.leftovers()).toEqual([]);
  for (const volume of volumes) {
    await volume.stage();
    await volume.publish();
  }
  await intact();
  await emptied();
});

asRoot("published before it is staged again: refused, and no target of the host's own disk is handed out", async () => {
  await boot();
  for (const volume of volumes.filter(({ kind }) => kindFacts[kind].access === "mount")) {
    const outcome = await outcomeOf(volume.publish());
    expect([volume.kind, outcome.code]).toEqual([volume.kind, "FAILED_PRECONDITION"]);
    expect(outcome.code === "OK" ? "" : outcome.details).toContain("NodeStageVolume");
  }
  expect((await mountsBelow(driver.home)).map(({ point }) => point)).toEqual([]);
});

asRoot("a target that the boot left as a directory with somebody's files is not deleted with them", async () => {
  await boot();
  const [volume] = volumes.filter(({ kind }) => kind === "directory");
  if (volume === undefined) throw new Error("there is no directory volume");
  const mine = path.join(volume.targetPath, "mine");
  await writeFile(mine, "not of the volume");
  const outcome = await outcomeOf(volume.unpublish());
  expect(outcome.code).toBe("FAILED_PRECONDITION");
  expect(await readFile(mine, "utf8")).toBe("not of the volume");
});
