/**
 * D17: a loop device is an image's by device and inode. The driver runs in a mount namespace of its own, as in a container, with its state
 * directory bound there; when that namespace ends the kernel spells the path of the image otherwise, for as long as it is bound.
 */
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterEach, beforeEach, expect } from "vitest";
import { loopsUnder } from "../harness/loop-files.ts";
import { type ManagedProcess, startProcess } from "../harness/managed-process.ts";
import { until } from "../harness/until.ts";
import { asRoot } from "./as-root.ts";
import { type CallOutcome, outcomeOf } from "./call-outcome.ts";
import { createDriverProcess, type DriverProcess } from "./driver-process.ts";
import { runCommand } from "./run-command.ts";
import { createVolumeLife, endVolumeLife, type VolumeLife } from "./volume-life.ts";

let driver: DriverProcess | undefined;
let workload: ManagedProcess | undefined;

beforeEach(() => {
  driver = undefined;
  workload = undefined;
});

afterEach(async () => {
  await workload?.kill("SIGKILL");
  await driver?.remove();
});

/** Where the files of the state directory really are: in here each life of the driver has a bind of its own. */
const diskOf = ({ home }: DriverProcess): string => path.join(home, "disk");
const imageOf = (it: DriverProcess, { id }: VolumeLife): string => path.join(diskOf(it), "volumes", id, "image");
const detailsOf = <T>(outcome: CallOutcome<T>): string => (outcome.code === "OK" ? "" : outcome.details);

/** `seen`: whether the host sees what the driver mounts for a workload, as a container's `rshared` directory is seen. */
const startInNamespace = async ({
  seen,
  ownDev = false,
}: {
  readonly seen: boolean;
  /** With a /dev of its own, as a container has without the host's. */
  readonly ownDev?: boolean;
}): Promise<DriverProcess> => {
  const it = await createDriverProcess({
    prepareState: async (home) => {
      const place = path.join(home, "private");
      for (const directory of ["disk", "co", "private/state"])
        await mkdir(path.join(home, directory), { recursive: true });
      await runCommand("mount", "--bind", place, place);
      await runCommand("mount", "--make-private", place);
      await runCommand("mount", "--bind", path.join(home, "co"), path.join(home, "co"));
      await runCommand("mount", seen ? "--make-shared" : "--make-private", path.join(home, "co"));
      return path.join(place, "state");
    },
    wrap: async (home) => {
      const state = `mount --bind ${home}/disk ${home}/private/state`;
      const own = `${home}/private/dev`;
      // Devices that other tests make meanwhile have nodes as well: the driver has to identify every one.
      const nodes = `seq 0 63 | while read n; do mknod ${own}/loop$n b 7 $n || exit 1; done`;
      const dev = `mkdir -p ${own} && mount -t tmpfs none ${own} && cp -a /dev/null /dev/loop-control ${own} && ${nodes} && mount --make-private /dev && mount --move ${own} /dev`;
      const script = `${state}${ownDev ? ` && ${dev}` : ""} && exec "$@"`;
      return ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", script, "sh"];
    },
  });
  driver = it;
  await it.start();
  return it;
};

/** The one loop device of the image, by device and inode. */
const theLoopOf = async (it: DriverProcess, volume: VolumeLife): Promise<string> => {
  const devices = (await loopsUnder(diskOf(it)))
    .filter(({ file }) => file === imageOf(it, volume))
    .map(({ device }) => device);
  expect(devices).toHaveLength(1);
  return devices[0] ?? "";
};

/** The life ends, and the mount namespace with it: from then on the kernel has another text for the image. */
const endNamespace = async (it: DriverProcess, device: string): Promise<void> => {
  const spelling = () => readFile(`/sys/block/${path.basename(device)}/loop/backing_file`, "utf8");
  await it.kill();
  await until("another spelling of the image", async () => !(await spelling()).startsWith(it.home));
};

const inside = (pid: number, ...command: readonly [string, ...string[]]): Promise<string> =>
  runCommand("nsenter", `--mount=/proc/${pid}/ns/mnt`, "--", ...command);

asRoot(
  "D17: the namespace ended and the mount stayed: snapshot and clone have what was written, and all is released",
  async () => {
    const it = await startInNamespace({ seen: true });
    const volume = await createVolumeLife(it, "kept", "ext4");
    await volume.stage();
    await volume.publish();
    const device = await theLoopOf(it, volume);
    await endNamespace(it, device);
    await it.start();
    // Written after the restart and not synced: only a freeze brings it to the disk.
    await writeFile(path.join(volume.targetPath, "file"), "written before the cut");
    const { snapshot } = await it.csi().controller.createSnapshot({ name: "cut", sourceVolumeId: volume.id });
    const snapshotId = snapshot?.snapshotId ?? "";
    expect(snapshot?.readyToUse).toBe(true);
    const copies = [
      await createVolumeLife(it, "restored", "ext4", { volumeContentSource: { snapshot: { snapshotId } } }),
      await createVolumeLife(it, "clone", "ext4", { volumeContentSource: { volume: { volumeId: volume.id } } }),
    ];
    for (const copy of copies) {
      await copy.stage();
      await copy.publish();
      const read = await readFile(path.join(copy.targetPath, "file"), "utf8").catch(String);
      expect([copy.name, read]).toEqual([copy.name, "written before the cut"]);
    }
    // Asked again it is staged by the same device.
    await volume.stage();
    await volume.publish();
    expect(await theLoopOf(it, volume)).toBe(device);
    for (const life of [...copies, volume]) await endVolumeLife(life);
    expect(await loopsUnder(diskOf(it))).toEqual([]);
  },
);

asRoot("D17: the namespace ended with its mounts: the device is found again, and no second one is made", async () => {
  const it = await startInNamespace({ seen: false });
  const volume = await createVolumeLife(it, "alone", "ext4");
  await volume.stage();
  await volume.publish();
  await inside(it.pid(), "sh", "-c", `echo precious > ${volume.targetPath}/file`);
  await endNamespace(it, await theLoopOf(it, volume));
  await it.start();
  // Nothing uses it any more, and that is known of a device that is found.
  expect(await loopsUnder(diskOf(it))).toEqual([]);
  await volume.stage();
  await volume.publish();
  await theLoopOf(it, volume);
  expect(await inside(it.pid(), "cat", path.join(volume.targetPath, "file"))).toBe("precious\n");
  await endVolumeLife(volume);
  expect(await loopsUnder(diskOf(it))).toEqual([]);
});

asRoot("D17: mounted where the driver cannot see it: each call is refused, and no second device is made", async () => {
  const it = await startInNamespace({ seen: false });
  const volume = await createVolumeLife(it, "elsewhere", "ext4");
  await volume.stage();
  await volume.publish();
  const command = ["unshare", "--mount", "--propagation", "private", "sleep", "infinity"] as const;
  const holder = startProcess({ name: "workload", command, mountsOf: it.pid() });
  workload = holder;
  await until("the workload", async () => (await readFile(`/proc/${holder.pid}/comm`, "utf8")).trim() === "sleep");
  const device = await theLoopOf(it, volume);
  await endNamespace(it, device);
  await it.start();
  await inside(holder.pid, "sh", "-c", `echo precious > ${volume.targetPath}/file`);

  const { controller } = it.csi();
  const cut = { name: "cut", sourceVolumeId: volume.id };
  for (const parameters of [{}, { live: "allow" }]) {
    const refused = await outcomeOf(controller.createSnapshot({ ...cut, parameters }));
    expect(refused.code).toBe("FAILED_PRECONDITION");
    expect(detailsOf(refused)).toMatch(
      new RegExp(
        `${volume.id}.*/volumes/${volume.id}/image is bound to ${device},.*does not see where.*mounted.*end the`,
      ),
    );
  }
  const removal = await outcomeOf(volume.remove());
  expect([removal.code, detailsOf(removal)]).toEqual(["FAILED_PRECONDITION", expect.stringContaining(device)]);
  // The clients of these tests ask again while a device is held elsewhere, as a CO does.
  const staging = outcomeOf(volume.stage());
  const told = `${device}, the device of ${volume.image}, is still in use: mounted at ${volume.stagingPath} in the mount namespace of pid ${holder.pid} (sleep)`;
  const isTold = () =>
    it
      .output()
      .split("\n")
      .some((line) => line.includes("/csi.v1.Node/NodeStageVolume") && line.includes(told));
  await Promise.race([until("the refusal", isTold), staging]);
  expect(isTold()).toBe(true);
  expect(await theLoopOf(it, volume)).toBe(device);
  await holder.kill("SIGKILL");
  expect((await staging).code).toBe("OK");
  await volume.publish();
  expect(await inside(it.pid(), "cat", path.join(volume.targetPath, "file"))).toBe("precious\n");
  await theLoopOf(it, volume);
  await endVolumeLife(volume);
  expect(await loopsUnder(diskOf(it))).toEqual([]);
});

asRoot(
  "D17: another file has the name of the mounted image: a snapshot, a clone and a deletion are refused",
  async () => {
    const it = await startInNamespace({ seen: true });
    const volume = await createVolumeLife(it, "replaced", "ext4");
    await volume.stage();
    await volume.publish();
    const image = imageOf(it, volume);
    await runCommand("cp", "--sparse=always", image, `${image}.backup`);
    await rename(image, `${image}.before`);
    await rename(`${image}.backup`, image);
    const { controller } = it.csi();
    const refusals = [
      await outcomeOf(
        controller.createSnapshot({ name: "cut", sourceVolumeId: volume.id, parameters: { live: "allow" } }),
      ),
      await outcomeOf(
        createVolumeLife(it, "clone", "ext4", { volumeContentSource: { volume: { volumeId: volume.id } } }),
      ),
      await outcomeOf(volume.remove()),
    ];
    for (const refused of refusals) {
      expect(refused.code).toBe("FAILED_PRECONDITION");
      expect(detailsOf(refused)).toContain(volume.stagingPath);
    }
    // Put back as it was, everything goes on.
    await rename(`${image}.before`, image);
    await endVolumeLife(volume);
    expect(await loopsUnder(diskOf(it))).toEqual([]);
  },
);

asRoot("D17: a published device whose node is of an earlier /dev stays with its image, and is released", async () => {
  const it = await startInNamespace({ seen: true, ownDev: true });
  const volume = await createVolumeLife(it, "raw", "block");
  await volume.stage();
  await volume.publish();
  const device = await theLoopOf(it, volume);
  // Nothing has it open: a bind alone keeps no loop device.
  await endNamespace(it, device);
  await it.start();
  expect(await theLoopOf(it, volume)).toBe(device);
  await writeFile(volume.targetPath, "through the device", { flush: true, flag: "r+" });
  expect((await readFile(imageOf(it, volume))).toString("utf8", 0, 18)).toBe("through the device");
  await endVolumeLife(volume);
  expect(await loopsUnder(diskOf(it))).toEqual([]);
});
