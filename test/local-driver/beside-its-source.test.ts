/** Copies of a filesystem that is mounted: mounted beside it, on the same node, each for itself. */
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { asRoot } from "./as-root.ts";
import { createDriverProcess, type DriverProcess } from "./driver-process.ts";
import { runCommand } from "./run-command.ts";
import { patternOf } from "./seeded-random.ts";
import { createVolumeLife, endVolumeLife, type VolumeLife } from "./volume-life.ts";

let driver: DriverProcess;

beforeAll(async () => {
  driver = await createDriverProcess();
  await driver.start();
});

afterAll(async () => {
  await driver.remove();
});

const fileOf = ({ targetPath }: VolumeLife): string => path.join(targetPath, "file");

const identityOf = async ({ image }: VolumeLife): Promise<string> =>
  (await runCommand("blkid", "--probe", "--match-tag", "UUID", "--output", "value", image)).trim();

for (const kind of ["ext4", "xfs"] as const)
  asRoot(
    `${kind}: a clone and a volume of a snapshot, mounted beside their source, have its bytes and not its identity`,
    async () => {
      const { controller } = driver.csi();
      const source = await createVolumeLife(driver, `source-${kind}`, kind);
      await source.stage();
      await source.publish();
      await writeFile(fileOf(source), patternOf(1, 50_000));
      const { snapshot } = await controller.createSnapshot({ sourceVolumeId: source.id, name: `of-${kind}` });
      const { snapshotId = "" } = snapshot ?? {};
      const from = { clone: { volume: { volumeId: source.id } }, restored: { snapshot: { snapshotId } } };
      const copies: VolumeLife[] = [];
      for (const [what, volumeContentSource] of Object.entries(from))
        copies.push(await createVolumeLife(driver, `${what}-${kind}`, kind, { volumeContentSource }));
      await writeFile(fileOf(source), "written after the copies");
      for (const copy of copies) {
        await copy.stage();
        await copy.publish();
        expect([copy.name, patternOf(1, 50_000).equals(await readFile(fileOf(copy)))]).toEqual([copy.name, true]);
        await writeFile(fileOf(copy), copy.name);
      }
      expect(await readFile(fileOf(source), "utf8")).toBe("written after the copies");
      const all = [source, ...copies];
      expect(new Set(await Promise.all(all.map(identityOf))).size).toBe(3);
      for (const volume of all) await endVolumeLife(volume);
      await controller.deleteSnapshot({ snapshotId });
      expect(await driver.leftovers()).toEqual([]);
    },
  );
