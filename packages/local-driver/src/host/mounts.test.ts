import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, open, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseMountinfo } from "@holdfast/model/mountinfo";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { LoopDevice, MountEntry } from "../ports.ts";
import { createHostRig, type HostRig, isRoot } from "../testing/host-rig.ts";
import { createMounts } from "./mounts.ts";
import { createRunTool } from "./run-tool.ts";

let rig: HostRig;
let image: string;
let loop: LoopDevice;
let staged: string;
const children: ChildProcess[] = [];

const at = async (place: string): Promise<readonly MountEntry[]> =>
  (await rig.mounts.table()).filter(({ mountPoint }) => mountPoint === place);

const stage = (options: readonly string[] = []): Promise<void> =>
  rig.mounts.mountDevice(loop.device, staged, { fsType: "ext4", options }, rig.signal);

const bindTo = async (name: string, readonly: boolean): Promise<string> => {
  const target = await rig.makeDirectory(name);
  await rig.mounts.bind(staged, target, { readonly }, rig.signal);
  return target;
};

/** Mounts of a run whose program of this name is another. */
const mountsWith = async (name: string, text: string) => {
  await mkdir(rig.at("bin"), { recursive: true });
  await writeFile(rig.at("bin", name), `#!/bin/sh\n${text}\n`);
  await chmod(rig.at("bin", name), 0o755);
  const run = createRunTool({
    stateDir: rig.stateDir,
    nodeId: "node-a",
    path: `${rig.at("bin")}:${process.env["PATH"]}`,
  });
  return createMounts({ run, stateDir: rig.stateDir });
};
const realOf = async (program: string) => (await rig.run("which", [program], { signal: rig.signal })).stdout.trim();

const isThere = (file: string): Promise<boolean> =>
  stat(file).then(
    () => true,
    () => false,
  );

describe.skipIf(!isRoot)("mounts (as root)", () => {
  beforeEach(async () => {
    rig = await createHostRig();
    image = rig.at("image");
    await rig.images.create(image, 16n << 20n, rig.signal);
    await rig.images.format(image, "ext4", rig.signal);
    loop = await rig.loops.attach(image, { readonly: false }, rig.signal);
    staged = await rig.makeDirectory("staged");
  });
  afterEach(async () => {
    for (const child of children.splice(0)) child.kill("SIGKILL");
    for (const { mountPoint } of [...(await rig.mounts.table())].reverse())
      if (mountPoint.startsWith(`${rig.stateDir}/`)) await rig.mounts.unmount(mountPoint, rig.signal);
    await rig.loops.detach(loop, image, rig.signal);
    expect(await rig.close()).toEqual([]);
  });

  it("a device is mounted with its options and writable, and the table shows it as it is", async () => {
    await stage(["noatime", "nosuid"]);
    expect(await at(staged)).toEqual([
      {
        ...{ mountPoint: staged, root: "/", dev: loop.dev, fsType: "ext4", source: loop.device },
        ...{ options: ["rw", "nosuid", "noatime"], superOptions: expect.arrayContaining(["rw"]) },
      },
    ]);
    await writeFile(path.join(staged, "file"), "text");
    await rig.mounts.unmount(staged, rig.signal);
    await rig.mounts.unmount(staged, rig.signal);
    expect([await at(staged), await readdir(staged)]).toEqual([[], []]);
  });

  it("a device that refuses writes is not silently mounted read-only, unless that was asked for", async () => {
    await rig.run("blockdev", ["--setro", loop.device], { signal: rig.signal });
    await expect(stage()).rejects.toMatchObject({
      message: expect.stringMatching(/mount .*: it ended with exit code 32/),
    });
    expect(await at(staged)).toEqual([]);
    await stage(["ro"]);
    expect((await at(staged))[0]?.options).toContain("ro");
    await rig.mounts.unmount(staged, rig.signal);
    await rig.run("blockdev", ["--setrw", loop.device], { signal: rig.signal });
  });

  it("a writable bind and a read-only one of the same volume keep apart", async () => {
    await stage(["nosuid", "nodev", "noexec", "noatime"]);
    const [writer, reader] = [await bindTo("writer", false), await bindTo("reader", true)];
    await writeFile(path.join(writer, "file"), "text");
    expect(await readFile(path.join(reader, "file"), "utf8")).toBe("text");
    await expect(writeFile(path.join(reader, "file"), "no")).rejects.toMatchObject({ code: "EROFS" });
    const options = async (place: string) => (await at(place)).map((entry) => entry.options);
    expect(await options(writer)).toEqual([["rw", "nosuid", "nodev", "noexec", "noatime"]]);
    expect(await options(reader)).toEqual([["ro", "nosuid", "nodev", "noexec", "noatime"]]);
    expect((await readdir(rig.stateDir)).sort()).toEqual(["binding", "image", "reader", "staged", "writer"]);
    expect(await at(rig.at("binding"))).toEqual([]);
  });

  it("a read-only bind is read-only in the namespaces that it spreads to", async () => {
    await stage();
    const shared = await rig.makeDirectory("shared");
    for (const args of [
      ["--bind", shared, shared],
      ["--make-private", shared],
      ["--make-shared", shared],
    ])
      await rig.run("mount", args, { signal: rig.signal });
    await rig.makeDirectory("shared/target");
    const peer = spawn("unshare", ["--mount", "--propagation", "unchanged", "sh", "-c", "echo ready; read never"], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    children.push(peer);
    await once(peer.stdout, "data");
    await rig.mounts.bind(staged, rig.at("shared/target"), { readonly: true }, rig.signal);
    const seen = parseMountinfo(await readFile(`/proc/${peer.pid}/mountinfo`, "utf8"));
    const there = seen.filter(({ path }) => path === rig.at("shared/target"));
    expect(there.map(({ options }) => options[0])).toEqual(["ro"]);
    expect(seen.filter(({ path }) => path === rig.at("binding"))).toEqual([]);
    const ended = once(peer, "exit");
    peer.kill("SIGKILL");
    await ended;
  });

  it("many read-only binds at once do not mix", async () => {
    await stage();
    const other = await rig.makeDirectory("other");
    await writeFile(path.join(other, "whose"), "other");
    await writeFile(path.join(staged, "whose"), "staged");
    const targets = await Promise.all([0, 1, 2, 3, 4, 5].map((n) => rig.makeDirectory(`target-${n}`)));
    await Promise.all(
      targets.map((target, n) => rig.mounts.bind(n % 2 === 0 ? staged : other, target, { readonly: true }, rig.signal)),
    );
    expect(await Promise.all(targets.map((target) => readFile(path.join(target, "whose"), "utf8")))).toEqual(
      targets.map((_target, n) => (n % 2 === 0 ? "staged" : "other")),
    );
  });

  it.each(["mount --bind", "remount", "second bind"])(
    "a read-only bind whose %s fails leaves nothing",
    async (step) => {
      await stage();
      const target = await rig.makeDirectory("target");
      const conditions = {
        "mount --bind": "*",
        remount: "*remount*",
        "second bind": `*${rig.at("binding")}\\ ${target}*`,
      };
      const real = await realOf("mount");
      const text = `case "$*" in ${conditions[step as keyof typeof conditions]}) echo refused >&2; exit 32;; esac; exec ${real} "$@"`;
      const mounts = await mountsWith("mount", text);
      await expect(mounts.bind(staged, target, { readonly: true }, rig.signal)).rejects.toThrow(/refused/);
      expect([await at(target), await at(rig.at("binding"))]).toEqual([[], []]);
      await rig.mounts.bind(staged, target, { readonly: true }, rig.signal);
    },
  );

  it("a read-only bind that a killed life left half-made is taken away by the next", async () => {
    await stage();
    await rig.makeDirectory("binding");
    await rig.mounts.bind(staged, rig.at("binding"), { readonly: false }, rig.signal);
    await bindTo("reader", true);
    expect(await at(rig.at("binding"))).toEqual([]);
    expect((await at(rig.at("reader")))[0]?.options[0]).toBe("ro");
  });

  it.each([
    ["before it is made", "touch BEGUN; sleep 600"],
    ["after it is made, and before that is told", 'REAL "$@"; touch BEGUN; sleep 600'],
  ])("a mount that is given up %s is not there", async (_when, text) => {
    const begun = rig.at("begun");
    const mounts = await mountsWith("mount", text.replace("REAL", await realOf("mount")).replace("BEGUN", begun));
    const controller = new AbortController();
    const mounting = mounts.mountDevice(loop.device, staged, { fsType: "ext4", options: [] }, controller.signal);
    while (!(await isThere(begun))) await sleep(5);
    controller.abort(new DOMException("", "TimeoutError"));
    await expect(mounting).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
    expect(await at(staged)).toEqual([]);
  });

  it("a device node is bound onto a file, and known again by its place in /dev", async () => {
    const target = rig.at("device");
    await writeFile(target, "");
    await rig.mounts.bind(loop.device, target, { readonly: false }, rig.signal);
    const identity = await rig.mounts.identityOf(loop.device);
    expect(identity.root).toBe(loop.device.slice("/dev".length));
    expect((await at(target)).map(({ dev, root }) => ({ dev, root }))).toEqual([identity]);
    const device = await open(target, "r+");
    await device.write(Buffer.from("raw"), 0, 3, 12 << 20);
    await device.sync();
    await device.close();
    expect((await readFile(image)).toString("utf8", 12 << 20, (12 << 20) + 3)).toBe("raw");
    await rig.mounts.unmount(target, rig.signal);
    expect((await stat(target)).isFile()).toBe(true);
  });

  it("a read-only device is bound as it is: the device itself refuses writes", async () => {
    const reader = await rig.loops.attach(image, { readonly: true }, rig.signal);
    await writeFile(rig.at("device"), "");
    await rig.mounts.bind(reader.device, rig.at("device"), { readonly: true }, rig.signal);
    const before = await readFile(image);
    const { code } = await rig.run(
      "dd",
      ["if=/dev/urandom", `of=${rig.at("device")}`, "bs=4096", "count=1", "conv=notrunc"],
      { signal: rig.signal, judges: [0, 1] },
    );
    expect([code, (await readFile(image)).equals(before)]).toEqual([1, true]);
    await rig.mounts.unmount(rig.at("device"), rig.signal);
    await rig.loops.detach(reader, image, rig.signal);
  });

  it("a directory is known again by device and root, through links and mounts in the way", async () => {
    await mkdir(rig.at("data"));
    const own = await rig.mounts.identityOf(rig.at("data"));
    await rig.mounts.bind(rig.at("data"), staged, { readonly: false }, rig.signal);
    expect((await at(staged)).map(({ dev, root }) => ({ dev, root }))).toEqual([own]);
    expect(await rig.mounts.identityOf(staged)).toEqual(own);
    await mkdir(rig.at("data/below"));
    expect(await rig.mounts.identityOf(path.join(staged, "below"))).toEqual({ ...own, root: `${own.root}/below` });
    await symlink(rig.stateDir, rig.at("link"));
    expect(await rig.mounts.identityOf(path.join(rig.at("link"), "data"))).toEqual(own);
    const { dev } = await stat(rig.at("data"));
    expect(own.dev).toBe(`${dev >> 8}:${dev & 0xff}`);
  });

  it.each(["-o remount", "two words", "line\nfeed and \\134", "tab\t#"])("a target named %j", async (name) => {
    const target = await rig.makeDirectory(name);
    await rig.mounts.mountDevice(loop.device, target, { fsType: "ext4", options: [] }, rig.signal);
    const reader = await rig.makeDirectory(`${name} ro`);
    await rig.mounts.bind(target, reader, { readonly: true }, rig.signal);
    expect([(await at(target)).length, (await at(reader)).length]).toEqual([1, 1]);
    for (const place of [reader, target]) await rig.mounts.unmount(place, rig.signal);
    expect([(await at(target)).length, (await at(reader)).length]).toEqual([0, 0]);
  });

  it("what is in use is not unmounted, by force or otherwise", async () => {
    await stage();
    const file = await open(path.join(staged, "file"), "w");
    await expect(rig.mounts.unmount(staged, rig.signal)).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(new RegExp(`${staged} cannot be unmounted: it is in use`)),
    });
    await file.write("still there");
    await file.close();
    await rig.mounts.unmount(staged, rig.signal);
  });

  it("takes off what is on top, one at a time", async () => {
    await stage();
    await rig.mounts.bind(await rig.makeDirectory("other"), staged, { readonly: false }, rig.signal);
    expect((await at(staged)).length).toBe(2);
    await rig.mounts.unmount(staged, rig.signal);
    expect((await at(staged)).map(({ dev }) => dev)).toEqual([loop.dev]);
  });

  it("nothing is mounted where there is no such place, or in the name of a caller that has given up", async () => {
    await rig.mounts.unmount(rig.at("none/below"), rig.signal);
    await expect(
      rig.mounts.mountDevice(loop.device, rig.at("none"), { fsType: "ext4", options: [] }, rig.signal),
    ).rejects.toThrow(/none/);
    await expect(rig.mounts.bind(staged, rig.at("none"), { readonly: true }, rig.signal)).rejects.toThrow(/none/);
    await stage();
    await expect(rig.mounts.unmount(staged, AbortSignal.abort())).rejects.toMatchObject({ code: "CANCELLED" });
    expect((await at(staged)).length).toBe(1);
    expect(await at(rig.at("binding"))).toEqual([]);
  });
});
