/** A host that has not what is needed: room, programs, time, or a state directory that nobody else uses. */
import { type FileHandle, mkdir, open, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterEach, beforeEach, expect } from "vitest";
import { startProcess } from "../harness/managed-process.ts";
import { until } from "../harness/until.ts";
import { asRoot } from "./as-root.ts";
import { type CallOutcome, outcomeOf } from "./call-outcome.ts";
import { createDriverProcess, type DriverProcess, driverMain } from "./driver-process.ts";
import { childrenOf, loopsBelow, mountsBelow } from "./host-facts.ts";
import { runCommand } from "./run-command.ts";
import { patternOf } from "./seeded-random.ts";
import { stateOnSmallExt4 } from "./state-on-disk.ts";
import { capabilityOf, kindFacts, type VolumeKind } from "./volume-kinds.ts";
import { createVolumeLife, endVolumeLife, type VolumeLife } from "./volume-life.ts";

const mib = 1n << 20n;

let driver: DriverProcess | undefined;

beforeEach(() => {
  driver = undefined;
});

afterEach(async () => {
  await driver?.remove();
});

const detailsOf = (outcome: CallOutcome<unknown>): string => (outcome.code === "OK" ? "" : outcome.details);

const startOnSmallDisk = async (): Promise<DriverProcess> => {
  driver = await createDriverProcess({ prepareState: stateOnSmallExt4 });
  await driver.start();
  return driver;
};

const create = (it: DriverProcess, name: string, kind: VolumeKind, bytes: bigint, from?: VolumeLife) =>
  outcomeOf(
    it.csi().controller.createVolume({
      name,
      capacityRange: { requiredBytes: bytes },
      volumeCapabilities: [capabilityOf(kind)],
      parameters: kindFacts[kind].parameters,
      ...(from === undefined ? {} : { volumeContentSource: { volume: { volumeId: from.id } } }),
    }),
  );

const volumeIds = async (it: DriverProcess): Promise<readonly string[]> =>
  (await it.csi().controller.listVolumes({})).entries.map(({ volume }) => volume?.volumeId ?? "");

const nothingHalfMade = async (it: DriverProcess): Promise<void> => {
  expect(await readdir(path.join(it.stateDir, "making"))).toEqual([]);
  expect((await readdir(path.join(it.stateDir, "volumes"))).toSorted()).toEqual((await volumeIds(it)).toSorted());
};

const writeWhileThereIsRoom = async (file: FileHandle, bytes: number): Promise<void> => {
  try {
    for (;;) {
      await file.write(Buffer.alloc(bytes, 1));
      // The blocks of a buffered write are taken when it is synced.
      await file.sync();
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
  }
};

/** To the last block. */
const fillDisk = async (it: DriverProcess): Promise<() => Promise<void>> => {
  const filler = path.join(it.stateDir, "lost+found", "filler");
  const file = await open(filler, "w");
  for (const bytes of [1 << 20, 65_536, 4096]) await writeWhileThereIsRoom(file, bytes);
  await file.close();
  return () => rm(filler);
};

asRoot("a volume that the disk has no room for", async () => {
  const it = await startOnSmallDisk();
  const { availableCapacity } = await it.csi().controller.getCapacity({});
  const outcome = await create(it, "large", "ext4", availableCapacity + mib);
  expect(outcome.code).toBe("RESOURCE_EXHAUSTED");
  expect(detailsOf(outcome)).toMatch(/free/);
  await nothingHalfMade(it);
  expect((await create(it, "large", "ext4", availableCapacity - mib)).code).toBe("OK");
  // What is promised to one is not there for the next, though the file of the first is still sparse.
  expect((await create(it, "next", "ext4", 16n * mib)).code).toBe("RESOURCE_EXHAUSTED");
  expect(await volumeIds(it)).toHaveLength(1);
});

asRoot("a clone, a growth and a snapshot that the disk has no room for", async () => {
  const it = await startOnSmallDisk();
  const volume = await createVolumeLife(it, "first", "ext4", { bytes: 48n * mib });
  await volume.stage();
  await volume.publish();
  await writeFile(path.join(volume.targetPath, "file"), patternOf(1, 25 << 20), { flush: true });
  const cloned = await create(it, "clone", "ext4", 48n * mib, volume);
  expect(cloned.code).toBe("RESOURCE_EXHAUSTED");
  await nothingHalfMade(it);
  const grown = await outcomeOf(
    it.csi().controller.controllerExpandVolume({ volumeId: volume.id, capacityRange: { requiredBytes: 200n * mib } }),
  );
  expect(grown.code).toBe("RESOURCE_EXHAUSTED");
  // The filesystem was frozen for the copy that failed: it is writable again.
  await writeFile(path.join(volume.targetPath, "another"), "1", { flush: true });
  expect(patternOf(1, 25 << 20).equals(await readFile(path.join(volume.targetPath, "file")))).toBe(true);
  await endVolumeLife(volume);
  await until("the deleted volume's room", async () => (await create(it, "second", "ext4", 60n * mib)).code === "OK");
});

asRoot("a clone of a directory that turns out too large on the way", async () => {
  const it = await startOnSmallDisk();
  const volume = await createVolumeLife(it, "directory", "directory");
  await volume.stage();
  await volume.publish();
  await writeFile(path.join(volume.targetPath, "file"), patternOf(1, 50 << 20), { flush: true });
  await volume.unpublish();
  const outcome = await create(it, "clone", "directory", mib, volume);
  expect(outcome.code).toBe("RESOURCE_EXHAUSTED");
  await nothingHalfMade(it);
  const snapshot = await outcomeOf(it.csi().controller.createSnapshot({ sourceVolumeId: volume.id, name: "picture" }));
  expect(snapshot.code).toBe("RESOURCE_EXHAUSTED");
  expect(await readdir(path.join(it.stateDir, "snapshots"))).toEqual([]);
  expect((await readFile(path.join(volume.stagingPath, "file"))).equals(patternOf(1, 50 << 20))).toBe(true);
  await rm(path.join(volume.stagingPath, "file"));
  await until("room for the clone", async () => (await create(it, "clone", "directory", mib, volume)).code === "OK");
});

asRoot(
  "not one block left: whatever has to be remembered is refused and undone, what is there stays, deleting works",
  async () => {
    const it = await startOnSmallDisk();
    const idle = await createVolumeLife(it, "idle", "ext4", { bytes: 20n * mib });
    const used = await createVolumeLife(it, "used", "directory");
    await used.stage();
    await used.publish();
    await writeFile(path.join(used.targetPath, "file"), "of before", { flush: true });
    const makeRoom = await fillDisk(it);
    const refused = [
      await create(it, "more", "directory", 1n),
      await outcomeOf(idle.stage()),
      await outcomeOf(it.csi().controller.createSnapshot({ sourceVolumeId: idle.id, name: "picture" })),
    ];
    expect(refused.map(({ code }) => code)).toEqual(refused.map(() => "RESOURCE_EXHAUSTED"));
    // One block is enough for it, and the accounts of the disk may still have one.
    const modified = await outcomeOf(
      it.csi().controller.controllerModifyVolume({ volumeId: idle.id, mutableParameters: { "label.a": "b" } }),
    );
    expect(["OK", "RESOURCE_EXHAUSTED"]).toContain(modified.code);
    await nothingHalfMade(it);
    expect((await mountsBelow(idle.stagingPath)).length).toBe(0);
    expect((await loopsBelow(it.home)).filter(({ image }) => image === idle.image)).toEqual([]);
    expect(await readFile(path.join(used.targetPath, "file"), "utf8")).toBe("of before");

    // A life that starts on a full disk reads what the one before has stored.
    await it.kill();
    await it.start();
    expect((await volumeIds(it)).toSorted()).toEqual([idle.id, used.id].toSorted());
    expect((await outcomeOf(idle.remove())).code).toBe("OK");
    await makeRoom();

    await endVolumeLife(used);
    const volume = await createVolumeLife(it, "after", "ext4", { bytes: 20n * mib });
    await volume.stage();
    await endVolumeLife(volume);
    expect((await it.leftovers()).filter((what) => !what.endsWith("lost+found"))).toEqual([]);
  },
);

/**
 * A process whose /usr/sbin has everything but mkfs.xfs, in a mount namespace of its own: `sh` makes it and becomes the program that
 * follows.
 */
const withoutMkfsXfs = async (home: string): Promise<readonly [string, ...string[]]> => {
  const real = path.join(home, "sbin-real");
  const bare = path.join(home, "sbin-bare");
  await mkdir(real);
  await mkdir(bare);
  for (const name of await readdir("/usr/sbin"))
    if (name !== "mkfs.xfs") await symlink(path.join(real, name), path.join(bare, name));
  const script = `mount --bind /usr/sbin ${real} && mount --bind ${bare} /usr/sbin && exec "$@"`;
  return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"];
};

asRoot("a host without mkfs.xfs: said with the package that has it, and everything else goes on", async () => {
  driver = await createDriverProcess({ wrap: withoutMkfsXfs });
  await driver.start();
  const xfs = await createVolumeLife(driver, "of-xfs", "xfs");
  const outcome = await outcomeOf(xfs.stage());
  expect(outcome.code).toBe("FAILED_PRECONDITION");
  expect(detailsOf(outcome)).toMatch(/mkfs\.xfs is not installed on node node-a.*apt-get install xfsprogs/);
  expect(await driver.leftovers()).toEqual([]);
  const ext4 = await createVolumeLife(driver, "of-ext4", "ext4");
  await ext4.stage();
  await endVolumeLife(ext4);
  // Installed meanwhile: no start is needed.
  await runCommand("nsenter", "--mount", `--target=${driver.pid()}`, "umount", "/usr/sbin");
  await xfs.stage();
  await endVolumeLife(xfs);
  expect(await driver.leftovers()).toEqual([]);
});

asRoot("a second driver on the same state directory: refused with the process that has it", async () => {
  driver = await createDriverProcess();
  await driver.start();
  const volume = await createVolumeLife(driver, "mine", "directory");
  const second = startProcess({
    name: "second",
    command: [process.execPath, driverMain],
    env: {
      HOLDFAST_LOCAL_SOCKET: path.join(driver.home, "second.sock"),
      HOLDFAST_LOCAL_STATE_DIR: driver.stateDir,
      HOLDFAST_LOCAL_NODE_ID: "node-a",
    },
  });
  expect(await second.exited()).toBeGreaterThan(0);
  expect(second.output()).toContain(String(driver.pid()));
  expect(second.output()).toContain(driver.stateDir);
  expect(await volumeIds(driver)).toEqual([volume.id]);
  await endVolumeLife(volume);
});

/** As a CO asks again: what is still being undone is ABORTED until it is. */
const askUntilDone = async <T>(call: () => Promise<T>): Promise<T> =>
  until("an answer that is not ABORTED", async () => {
    const outcome = await outcomeOf(call());
    if (outcome.code === "ABORTED") return undefined;
    if (outcome.code === "OK") return outcome.answer;
    throw new Error(`${outcome.code}: ${outcome.details}`);
  });

asRoot("50 ms for a large clone: given up in time, nothing of it stays, and asked again it is made", async () => {
  driver = await createDriverProcess();
  const it = driver;
  await it.start();
  const bytes = 256n * mib;
  const volume = await createVolumeLife(it, "large", "block", { bytes });
  const contents = patternOf(5, Number(bytes));
  await writeFile(volume.image, contents, { flush: true, flag: "r+" });
  const request = {
    name: "clone",
    capacityRange: { requiredBytes: bytes },
    volumeCapabilities: [capabilityOf("block")],
    parameters: kindFacts.block.parameters,
    volumeContentSource: { volume: { volumeId: volume.id } },
  };
  const { controller } = it.csi();
  expect((await outcomeOf(controller.createVolume(request, { deadline: 50 }))).code).toBe("DEADLINE_EXCEEDED");
  const snapshot = { name: "picture", sourceVolumeId: volume.id };
  await until(
    "the volume to be free",
    async () => (await outcomeOf(controller.createSnapshot(snapshot, { deadline: 50 }))).code === "DEADLINE_EXCEEDED",
  );
  await until("the copies to be gone", async () => (await readdir(path.join(it.stateDir, "making"))).length === 0);
  expect(await it.leftovers()).toEqual([]);
  expect(await volumeIds(it)).toEqual([volume.id]);
  const { volume: clone } = await askUntilDone(() => controller.createVolume(request));
  const copy = path.join(it.stateDir, "volumes", clone?.volumeId ?? "", "image");
  expect(contents.equals(await readFile(copy))).toBe(true);
  expect(await childrenOf(it.stateDir)).toEqual([]);
});

asRoot(
  "a deadline in the middle of NodeStageVolume: taken back or finished, and asked again it is staged",
  async () => {
    driver = await createDriverProcess();
    const it = driver;
    await it.start();
    for (const deadline of [1, 5, 15, 40, 80]) {
      const volume = await createVolumeLife(it, `within-${deadline}`, "ext4");
      const outcome = await outcomeOf(
        it.csi().node.nodeStageVolume(
          {
            volumeId: volume.id,
            stagingTargetPath: volume.stagingPath,
            volumeCapability: capabilityOf("ext4"),
          },
          { deadline },
        ),
      );
      expect(["OK", "DEADLINE_EXCEEDED"]).toContain(outcome.code);
      await askUntilDone(volume.stage);
      await volume.publish();
      await writeFile(path.join(volume.targetPath, "file"), "1");
      await endVolumeLife(volume);
      expect(await it.leftovers()).toEqual([]);
    }
  },
);
