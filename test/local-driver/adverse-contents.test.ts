/** Something else is in the place of an image: the driver looks before it formats, refuses, and leaves every byte as it is. */
import { createHash } from "node:crypto";
import { open, readFile, truncate, writeFile } from "node:fs/promises";
import { afterAll, beforeAll, expect } from "vitest";
import { asRoot } from "./as-root.ts";
import { outcomeOf } from "./call-outcome.ts";
import { createDriverProcess, type DriverProcess } from "./driver-process.ts";
import { runCommand } from "./run-command.ts";
import { patternOf } from "./seeded-random.ts";
import { createVolumeLife, endVolumeLife } from "./volume-life.ts";

let driver: DriverProcess;

beforeAll(async () => {
  driver = await createDriverProcess();
  await driver.start();
});

afterAll(async () => {
  await driver.remove();
});

const sha256 = async (file: string): Promise<string> =>
  createHash("sha256")
    .update(await readFile(file))
    .digest("hex");

const put = async (image: string, offset: number, bytes: Buffer): Promise<void> => {
  const file = await open(image, "r+");
  await file.write(bytes, 0, bytes.length, offset);
  await file.close();
};

/** The four entries of a partition table for one Linux partition, and the mark that makes it one. */
const partitionTable = (): Buffer => {
  const entry = Buffer.alloc(16);
  entry.writeUInt8(0x83, 4);
  entry.writeUInt32LE(2048, 8);
  entry.writeUInt32LE(16_384, 12);
  const sector = Buffer.alloc(512);
  entry.copy(sector, 446);
  sector.writeUInt16LE(0xaa55, 510);
  return sector;
};

interface Foreign {
  readonly what: string;
  readonly place: (image: string) => Promise<unknown>;
  /** Said to whoever has to find out what it is. */
  readonly named: RegExp;
  /** Of the volume; an xfs takes 300 MiB at least. */
  readonly kind?: "xfs";
}

const foreign: readonly Foreign[] = [
  { what: "an ext4", place: (image) => runCommand("mkfs.ext4", "-q", image), named: /ext4/ },
  {
    what: "an ext4 where xfs is wanted",
    place: (image) => runCommand("mkfs.ext4", "-q", image),
    named: /ext4/,
    kind: "xfs",
  },
  { what: "an xfs", place: (image) => runCommand("mkfs.xfs", "-q", image), named: /xfs/, kind: "xfs" },
  { what: "an ext2", place: (image) => runCommand("mkfs.ext2", "-q", image), named: /ext2/ },
  { what: "swap", place: (image) => runCommand("mkswap", image), named: /swap/ },
  { what: "a partition table", place: (image) => put(image, 0, partitionTable()), named: /dos|partition/ },
  {
    what: "LUKS",
    place: (image) => put(image, 0, Buffer.concat([Buffer.from("LUKS\xba\xbe\0\x02", "latin1"), patternOf(1, 4088)])),
    named: /LUKS|data/,
  },
  { what: "one byte far in", place: (image) => put(image, 31_000_123, Buffer.from([1])), named: /data/ },
  { what: "raw data at the start", place: (image) => put(image, 0, patternOf(3, 65_536)), named: /data/ },
];

for (const { what, place, named, kind = "ext4" } of foreign)
  asRoot(`never formatted by this driver, and there is ${what}: refused, no byte changed`, async () => {
    const volume = await createVolumeLife(driver, what.replaceAll(" ", "-"), kind);
    await place(volume.image);
    const before = await sha256(volume.image);
    const outcome = await outcomeOf(volume.stage());
    expect(outcome.code).toBe("FAILED_PRECONDITION");
    if (outcome.code !== "OK") {
      expect(outcome.details).toMatch(named);
      expect(outcome.details).toContain(volume.image);
    }
    expect(await sha256(volume.image)).toBe(before);
    expect(await driver.leftovers()).toEqual([]);
    await volume.unstage();
    await volume.remove();
  });

asRoot("formatted here, and another filesystem is in its place: refused, no byte changed", async () => {
  for (const [kind, other] of [
    ["ext4", "xfs"],
    ["xfs", "ext4"],
  ] as const) {
    const volume = await createVolumeLife(driver, `was-${kind}`, kind, { bytes: 320n << 20n });
    await volume.stage();
    await volume.unstage();
    await writeFile(volume.image, "");
    await truncate(volume.image, 320 << 20);
    await runCommand(`mkfs.${other}`, "-q", volume.image);
    const before = await sha256(volume.image);
    const outcome = await outcomeOf(volume.stage());
    expect([kind, outcome.code]).toEqual([kind, "FAILED_PRECONDITION"]);
    if (outcome.code !== "OK") expect(outcome.details).toContain(other);
    expect([kind, await sha256(volume.image)]).toEqual([kind, before]);
    expect(await driver.leftovers()).toEqual([]);
  }
});

asRoot("formatted here, and the image is blank now: refused, not formatted anew over what was lost", async () => {
  const volume = await createVolumeLife(driver, "lost", "ext4");
  await volume.stage();
  await volume.unstage();
  await writeFile(volume.image, "");
  await truncate(volume.image, 32 << 20);
  const before = await sha256(volume.image);
  expect((await outcomeOf(volume.stage())).code).toBe("FAILED_PRECONDITION");
  expect(await sha256(volume.image)).toBe(before);
  expect(await driver.leftovers()).toEqual([]);
});

asRoot(
  "raw data of a block workload is not mounted over, and is there when it is asked for as a device again",
  async () => {
    const volume = await createVolumeLife(driver, "raw", "block", { bytes: 32n << 20n });
    await volume.stage();
    await volume.publish();
    await writeFile(volume.targetPath, patternOf(9, 65_536), { flush: true, flag: "r+" });
    await volume.unpublish();
    await volume.unstage();
    const outcome = await outcomeOf(
      driver.csi().node.nodeStageVolume({
        volumeId: volume.id,
        stagingTargetPath: volume.stagingPath,
        volumeCapability: { mount: { fsType: "ext4" }, accessMode: { mode: 1 } },
      }),
    );
    expect(outcome.code).toBe("FAILED_PRECONDITION");
    await volume.stage();
    await volume.publish(true);
    expect(patternOf(9, 65_536).equals((await readFile(volume.targetPath)).subarray(0, 65_536))).toBe(true);
    await endVolumeLife(volume);
  },
);

asRoot("an image that was cut short: abnormal, refused, and not grown back to a size that would hide it", async () => {
  const volume = await createVolumeLife(driver, "cut", "ext4");
  await volume.stage();
  await volume.unstage();
  await truncate(volume.image, 9_000_000);
  const before = await sha256(volume.image);
  const { status } = await driver.csi().controller.controllerGetVolume({ volumeId: volume.id });
  expect(status?.volumeCondition?.abnormal).toBe(true);
  expect((await outcomeOf(volume.stage())).code).toBe("FAILED_PRECONDITION");
  expect(await sha256(volume.image)).toBe(before);
  expect(await driver.leftovers()).toEqual([]);
});
