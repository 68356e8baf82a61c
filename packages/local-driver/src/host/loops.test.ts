import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, link, mkdir, open, readFile, rename, stat, symlink, unlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { LoopDevice } from "../ports.ts";
import { createHostRig, type HostRig, isRoot } from "../testing/host-rig.ts";
import { createLoops } from "./loops.ts";
import { createRunTool } from "./run-tool.ts";

const MiB = 1n << 20n;
let rig: HostRig;
let image: string;
const children: ChildProcess[] = [];

const make = async (name: string, bytes = 8n * MiB): Promise<string> => {
  await rig.images.create(rig.at(name), bytes, rig.signal);
  return rig.at(name);
};
const attach = (file: string, readonly = false): Promise<LoopDevice> =>
  rig.loops.attach(file, { readonly }, rig.signal);

/** The program that runs when one of this name is called by the new run. */
const withProgram = async (name: string, text: string) => {
  await mkdir(rig.at("bin"));
  await writeFile(rig.at("bin", name), `#!/bin/sh\n${text}\n`);
  await chmod(rig.at("bin", name), 0o755);
  return createRunTool({ stateDir: rig.stateDir, nodeId: "node-a", path: `${rig.at("bin")}:${process.env["PATH"]}` });
};

const held = async (program: string, ...args: readonly string[]): Promise<ChildProcess> => {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  children.push(child);
  await once(child.stdout, "data");
  return child;
};

const end = async (child: ChildProcess): Promise<void> => {
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
};

describe.skipIf(!isRoot)("loop devices (as root)", () => {
  beforeEach(async () => {
    rig = await createHostRig();
    image = await make("image");
  });
  afterEach(async () => {
    for (const child of children.splice(0)) if (child.exitCode === null && child.signalCode === null) await end(child);
    expect(await rig.close()).toEqual([]);
  });

  it("an image has none until it gets one, and none after that has gone; each step twice", async () => {
    expect(await rig.loops.of(image)).toEqual([]);
    const loop = await attach(image);
    expect(loop).toEqual({
      device: expect.stringMatching(/^\/dev\/loop\d+$/),
      dev: expect.stringMatching(/^7:\d+$/),
      readonly: false,
    });
    expect(await attach(image)).toEqual(loop);
    expect(await rig.loops.of(image)).toEqual([loop]);
    await rig.loops.detach(loop, image, rig.signal);
    await rig.loops.detach(loop, image, rig.signal);
    expect(await rig.loops.of(image)).toEqual([]);
    expect(await rig.leftovers()).toEqual([]);
  });

  it("what is written to one is in the image", async () => {
    const loop = await attach(image);
    const device = await open(loop.device, "r+");
    await device.write(Buffer.from("through the device"), 0, 18, 4096);
    await device.sync();
    await device.close();
    await rig.loops.detach(loop, image, rig.signal);
    expect((await readFile(image)).toString("utf8", 4096, 4114)).toBe("through the device");
  });

  it("a read-only one really refuses writes, while the read-write one beside it takes them", async () => {
    const [reader, writer] = [await attach(image, true), await attach(image)];
    expect(await rig.loops.of(image)).toEqual(expect.arrayContaining([reader, writer]));
    expect([reader.readonly, writer.readonly]).toEqual([true, false]);
    const before = await readFile(image);
    await expect(
      open(reader.device, "r+").then((device) => device.write("x").finally(() => device.close())),
    ).rejects.toMatchObject({
      code: expect.stringMatching(/^(EACCES|EPERM|EROFS)$/),
    });
    // Nor by a node of another name and mode.
    await rig.run("mknod", ["-m", "666", rig.at("node"), "b", "7", reader.dev.slice(2)], { signal: rig.signal });
    const { code } = await rig.run("dd", ["if=/dev/zero", `of=${rig.at("node")}`, "bs=4096", "count=1"], {
      signal: rig.signal,
      judges: [0, 1],
    });
    expect([code, (await readFile(image)).equals(before)]).toEqual([1, true]);
    for (const loop of [reader, writer]) await rig.loops.detach(loop, image, rig.signal);
  });

  it("a device that somebody set read-only before takes writes when it gets a new image", async () => {
    const loop = await attach(image);
    await rig.run("blockdev", ["--setro", loop.device], { signal: rig.signal });
    expect((await rig.loops.of(image))[0]?.readonly).toBe(true);
    await rig.loops.detach(loop, image, rig.signal);
    const other = await make("other");
    // Others on this machine may take the number meanwhile; whichever it gets, it has to be writable.
    const again = await attach(other);
    expect(again.readonly).toBe(false);
    const device = await open(again.device, "r+");
    await device.write("x");
    await device.close();
    await rig.loops.detach(again, other, rig.signal);
    if (again.device !== loop.device)
      await rig.run("blockdev", ["--setrw", loop.device], { signal: rig.signal, judges: [0, 1] });
  });

  it("eight at once get a device each; the same image at once gets one", async () => {
    const images = await Promise.all([0, 1, 2, 3, 4, 5, 6, 7].map((n) => make(`image-${n}`)));
    const loops = await Promise.all(images.map((it) => attach(it)));
    expect(new Set(loops.map(({ device }) => device)).size).toBe(8);
    const same = await Promise.all([attach(image), attach(image), attach(image)]);
    expect(new Set(same.map(({ device }) => device)).size).toBe(1);
    await Promise.all(
      [...images, image].map(async (it, at) => {
        const loop = loops[at] ?? same[0];
        if (loop !== undefined) await rig.loops.detach(loop, it, rig.signal);
      }),
    );
    expect(await rig.leftovers()).toEqual([]);
  });

  it.each(["-r", "two words", "line\nfeed", "tab\tand \\040", "ünï", "name (deleted)", "a,b=c"])(
    "an image named %j",
    async (name) => {
      const odd = await make(name);
      const loop = await attach(odd);
      expect(await rig.loops.of(odd)).toEqual([loop]);
      expect(await rig.loops.of(image)).toEqual([]);
      await rig.loops.detach(loop, odd, rig.signal);
      expect(await rig.loops.of(odd)).toEqual([]);
    },
  );

  it("is found by any spelling of the directory", async () => {
    await symlink(rig.stateDir, rig.at("link"));
    const loop = await attach(path.join(rig.at("link"), "image"));
    expect(await rig.loops.of(`${rig.stateDir}/./image`)).toEqual([loop]);
    await rig.loops.detach(loop, path.join(rig.at("link"), "image"), rig.signal);
  });

  it("follows an image that moves, and one that was deleted; a new one of that name is another", async () => {
    const loop = await attach(image);
    await rename(image, rig.at("moved"));
    expect([await rig.loops.of(image), await rig.loops.of(rig.at("moved"))]).toEqual([[], [loop]]);
    await unlink(rig.at("moved"));
    expect(await rig.loops.of(rig.at("moved"))).toEqual([loop]);
    await make("moved");
    expect(await rig.loops.of(rig.at("moved"))).toEqual([]);
    await unlink(rig.at("moved"));
    await rig.loops.detach(loop, rig.at("moved"), rig.signal);
    expect(await rig.loops.of(rig.at("moved"))).toEqual([]);
  });

  it("is known by device and inode: by a second name, and not by the name that another file took", async () => {
    const loop = await attach(image);
    await link(image, rig.at("linked"));
    expect([await rig.loops.of(rig.at("linked")), await attach(rig.at("linked"))]).toEqual([[loop], loop]);
    await rename(image, rig.at("before"));
    await make("image");
    expect(await rig.loops.of(image)).toEqual([]);
    const other = await attach(image);
    expect(other.device).not.toBe(loop.device);
    await rig.loops.detach(other, image, rig.signal);
    await rig.loops.detach(loop, rig.at("before"), rig.signal);
  });

  it("is found after the mount namespace ended in which its image was opened, whatever the kernel calls the image then", async () => {
    const [disk, place] = [await rig.makeDirectory("disk"), await rig.makeDirectory("place")];
    const inside = await make("disk/image");
    const script = `mount --bind ${disk} ${place} && losetup --find --show ${place}/image`;
    const { stdout } = await rig.run("unshare", ["--mount", "sh", "-c", script], { signal: rig.signal });
    const device = stdout.trim();
    const named = () => readFile(`/sys/block/${path.basename(device)}/loop/backing_file`, "utf8");
    while ((await named()).includes(rig.stateDir)) await sleep(5);
    expect(await rig.loops.of(inside)).toEqual([expect.objectContaining({ device })]);
    const loop = await attach(inside);
    expect(loop.device).toBe(device);
    await rig.loops.detach(loop, inside, rig.signal);
    expect(await rig.loops.of(inside)).toEqual([]);
  });

  it("a second device that another process binds to the image at the same time is refused, and ours is let go of", async () => {
    const real = (await rig.run("which", ["losetup"], { signal: rig.signal })).stdout.trim();
    const program = `case "$1" in --find) ${real} --find ${image};; esac; exec ${real} "$@"`;
    const loops = createLoops({ run: await withProgram("losetup", program) });
    await expect(loops.attach(image, { readonly: false }, rig.signal)).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(/\/dev\/loop\d+ was bound to .*image by another process.*losetup --detach/),
    });
    expect(await rig.loops.of(image)).toEqual([]);
  });

  it("a device that losetup cannot identify may have any image: nothing is attached, and the device is named", async () => {
    const loop = await attach(image);
    const real = (await rig.run("which", ["losetup"], { signal: rig.signal })).stdout.trim();
    const program = `case "$1" in --list) ${real} "$@" | sed 's|^${loop.device} [0-9]* [^ ]*|${loop.device}  |';; *) exec ${real} "$@";; esac`;
    const loops = createLoops({ run: await withProgram("losetup", program) });
    const refusal = {
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(new RegExp(`^${loop.device} is bound to a file, and losetup cannot tell`)),
    };
    await expect(loops.of(image)).rejects.toMatchObject(refusal);
    await expect(loops.attach(image, { readonly: false }, rig.signal)).rejects.toMatchObject(refusal);
    expect(await rig.loops.of(image)).toEqual([loop]);
    await rig.loops.detach(loop, image, rig.signal);
  });

  it("does not let go of a device that carries another image by now", async () => {
    const other = await make("other");
    const loop = await attach(other);
    await rig.loops.detach(loop, image, rig.signal);
    expect(await rig.loops.of(other)).toEqual([loop]);
    await rig.loops.detach(loop, other, rig.signal);
  });

  it("one that is held open is refused by name and goes with its last user; meanwhile it is not given out again", async () => {
    const loop = await attach(image);
    const holder = await held("sh", "-c", `exec 3<${loop.device}; echo holds; read never`);
    const impatient = createLoops({ run: rig.run, patienceMs: 50 });
    await expect(impatient.detach(loop, image, rig.signal)).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(new RegExp(`${loop.device}.*open in pid ${holder.pid} \\(sh\\).*repeat the call`)),
    });
    await expect(impatient.attach(image, { readonly: false }, rig.signal)).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
    });
    await end(holder);
    await rig.loops.detach(loop, image, rig.signal);
    expect(await rig.loops.of(image)).toEqual([]);
  });

  it("one that is mounted in another namespace is refused with who has it", async () => {
    await rig.images.grow(image, 16n * MiB, rig.signal);
    await rig.images.format(image, "ext4", rig.signal);
    const loop = await attach(image);
    const place = await rig.makeDirectory("place");
    const script = `mount -t ext4 ${loop.device} ${place} && echo mounted; read never`;
    const holder = await held("unshare", "--mount", "sh", "-c", script);
    const impatient = createLoops({ run: rig.run, patienceMs: 50 });
    await expect(impatient.detach(loop, image, rig.signal)).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(
        new RegExp(`mounted at ${place} in the mount namespace of pid ${holder.pid} \\(sh\\)`),
      ),
    });
    await end(holder);
    await rig.loops.detach(loop, image, rig.signal);
  });

  it("waits for whoever looks at a new device for a moment", async () => {
    const loop = await attach(image);
    const holder = await held("sh", "-c", `exec 3<${loop.device}; echo holds; sleep 0.3`);
    await rig.loops.detach(loop, image, rig.signal);
    expect(await rig.loops.of(image)).toEqual([]);
    expect(holder.pid).toBeDefined();
  });

  it("the wait for a holder ends with the caller", async () => {
    const loop = await attach(image);
    const holder = await held("sh", "-c", `exec 3<${loop.device}; echo holds; read never`);
    await expect(rig.loops.detach(loop, image, AbortSignal.timeout(60))).rejects.toMatchObject({
      code: "DEADLINE_EXCEEDED",
    });
    await end(holder);
    await rig.loops.detach(loop, image, rig.signal);
  });

  it.each([
    ["before the device is there", "touch BEGUN; sleep 600"],
    ["after it is there, and before that is told", 'REAL "$@"; touch BEGUN; sleep 600'],
  ])("an attach that is given up %s leaves none", async (_when, text) => {
    const real = (await rig.run("which", ["losetup"], { signal: rig.signal })).stdout.trim();
    const program = `case "$1" in --find) ${text.replace("REAL", real).replace("BEGUN", rig.at("begun"))};; *) exec ${real} "$@";; esac`;
    const loops = createLoops({ run: await withProgram("losetup", program) });
    const controller = new AbortController();
    const attaching = loops.attach(image, { readonly: false }, controller.signal);
    while (!(await stat(rig.at("begun")).catch(() => undefined))) await sleep(5);
    controller.abort();
    await expect(attaching).rejects.toMatchObject({ code: "CANCELLED" });
    expect(await rig.loops.of(image)).toEqual([]);
    // And the next one is not stuck behind it.
    const loop = await rig.loops.attach(image, { readonly: false }, rig.signal);
    await rig.loops.detach(loop, image, rig.signal);
  });

  it("a losetup that tells of another device is not believed", async () => {
    const loops = createLoops({ run: await withProgram("losetup", "echo /dev/loop-control") });
    await expect(loops.attach(image, { readonly: false }, rig.signal)).rejects.toThrow();
    expect(await rig.loops.of(image)).toEqual([]);
  });

  it("names the image that is not there", async () => {
    await expect(attach(rig.at("none"))).rejects.toMatchObject({
      message: expect.stringMatching(/none.*No such file/),
    });
  });

  it("learns of the growth of its image", async () => {
    const loop = await attach(image);
    const size = async () =>
      (await rig.run("blockdev", ["--getsize64", loop.device], { signal: rig.signal })).stdout.trim();
    await rig.images.grow(image, 32n * MiB, rig.signal);
    expect(await size()).toBe(String(8n * MiB));
    await rig.loops.refresh(loop, rig.signal);
    expect(await size()).toBe(String(32n * MiB));
    await rig.loops.detach(loop, image, rig.signal);
  });
});
