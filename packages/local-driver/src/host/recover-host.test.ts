import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, readdir, readFile, stat, unlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createHostRig, type HostRig, isRoot } from "../testing/host-rig.ts";
import { recoverHost } from "./recover-host.ts";
import { createRunTool } from "./run-tool.ts";
import { endStrayChildren } from "./stray-children.ts";

let rig: HostRig;
beforeEach(async () => {
  rig = await createHostRig();
});
afterEach(async () => {
  expect(await rig.close()).toEqual([]);
});

it("finds nothing to do where nothing was left, and keeps what is not its own", async () => {
  await mkdir(rig.at("making"));
  await writeFile(rig.at("format.json"), "{}");
  expect(await recoverHost(rig, rig.signal)).toEqual([]);
  expect((await readdir(rig.stateDir)).sort()).toEqual(["format.json", "making"]);
});

it("takes away the files of a probe that was cut short", async () => {
  await mkdir(rig.at(".reflink-x"));
  await writeFile(rig.at(".reflink-x/from"), "");
  await recoverHost(rig, rig.signal);
  expect(await readdir(rig.stateDir)).toEqual([]);
});

describe.skipIf(!isRoot)("as root", () => {
  it("takes away a bind half-made, with the data behind it kept", async () => {
    await mkdir(rig.at("data"));
    await writeFile(rig.at("data/file"), "precious");
    for (const _ of [1, 2])
      await rig.mounts.bind(rig.at("data"), await rig.makeDirectory("binding"), { readonly: false }, rig.signal);
    const [first, ...others] = await recoverHost(rig, rig.signal);
    expect(first).toBe(`unmounted ${rig.at("binding")}, a bind that was not finished`);
    expect(others.every((it) => it === first)).toBe(true);
    expect([await rig.leftovers(), await readdir(rig.at("data"))]).toEqual([[], ["file"]]);
  });

  it("lets go of the devices of unfinished copies, deleted ones too, and of no volume's", async () => {
    const make = async (name: string) => {
      await mkdir(path.dirname(rig.at(name)), { recursive: true });
      await rig.images.create(rig.at(name), 1n << 20n, rig.signal);
      return rig.loops.attach(rig.at(name), { readonly: false }, rig.signal);
    };
    const volume = await make("volumes/v/image");
    const making = await make("making/m/image");
    const trash = await make("trash/t.1/image");
    await unlink(rig.at("trash/t.1/image"));
    expect([...(await recoverHost(rig, rig.signal))].sort()).toEqual(
      [
        `let go of ${making.device}, of the unfinished ${rig.at("making/m/image")}`,
        `let go of ${trash.device}, of the unfinished ${rig.at("trash/t.1/image")}`,
      ].sort(),
    );
    expect(await rig.leftovers()).toEqual([`${volume.device} ${rig.at("volumes/v/image")}`]);
    await rig.loops.detach(volume, rig.at("volumes/v/image"), rig.signal);
  });

  it("lets go of the device of an unfinished copy whatever the kernel calls its file, and of no volume's", async () => {
    const bindings: string[] = [];
    for (const name of ["making/m", "volumes/v"]) {
      await mkdir(rig.at(name), { recursive: true });
      await rig.images.create(rig.at(name, "image"), 1n << 20n, rig.signal);
      const place = await rig.makeDirectory("place");
      const script = `mount --bind ${rig.stateDir} ${place} && losetup --find --show ${place}/${name}/image`;
      const { stdout } = await rig.run("unshare", ["--mount", "sh", "-c", script], { signal: rig.signal });
      bindings.push(stdout.trim());
    }
    const [making = "", volume = ""] = bindings;
    const named = (device: string) => readFile(`/sys/block/${path.basename(device)}/loop/backing_file`, "utf8");
    for (const device of bindings) while ((await named(device)).includes(rig.stateDir)) await sleep(5);
    expect(await recoverHost(rig, rig.signal)).toEqual([
      `let go of ${making}, of the unfinished ${rig.at("making/m/image")}`,
    ]);
    const left = await rig.loops.of(rig.at("volumes/v/image"));
    expect(left.map(({ device }) => device)).toEqual([volume]);
    for (const loop of left) await rig.loops.detach(loop, rig.at("volumes/v/image"), rig.signal);
  });

  it("goes on with the start when a device cannot be identified, and says which", async () => {
    await mkdir(rig.at("making/m"), { recursive: true });
    await rig.images.create(rig.at("making/m/image"), 1n << 20n, rig.signal);
    const loop = await rig.loops.attach(rig.at("making/m/image"), { readonly: false }, rig.signal);
    await mkdir(rig.at("bin"));
    await writeFile(rig.at("bin/losetup"), "#!/bin/sh\n");
    await chmod(rig.at("bin/losetup"), 0o755);
    const blind = createRunTool({
      stateDir: rig.stateDir,
      nodeId: "a",
      path: `${rig.at("bin")}:${process.env["PATH"]}`,
    });
    expect(await recoverHost({ ...rig, run: blind }, rig.signal)).toEqual([
      expect.stringMatching(/^\/dev\/loop\d+ is bound to a file, and losetup cannot tell to which/),
    ]);
    await rig.loops.detach(loop, rig.at("making/m/image"), rig.signal);
  });

  /** Runs these lines in a process of their own, which is killed when the program of this name has done its work and hangs. */
  const killedIn = async (program: string, lines: string): Promise<void> => {
    const real = (await rig.run("which", [program], { signal: rig.signal })).stdout.trim();
    await mkdir(rig.at("bin"));
    await writeFile(rig.at("bin", program), `#!/bin/sh\n${real} "$@"; touch ${rig.at("begun")}; sleep 600\n`);
    await chmod(rig.at("bin", program), 0o755);
    const module = (name: string) => JSON.stringify(new URL(name, import.meta.url).href);
    const script = `
      const { createRunTool } = await import(${module("./run-tool.ts")});
      const { createLoops } = await import(${module("./loops.ts")});
      const { createMounts } = await import(${module("./mounts.ts")});
      const { createImages } = await import(${module("./images.ts")});
      const stateDir = ${JSON.stringify(rig.stateDir)};
      const run = createRunTool({ stateDir, nodeId: "a", path: stateDir + "/bin:" + process.env.PATH });
      const loops = createLoops({ run });
      const mounts = createMounts({ run, stateDir });
      const images = createImages({ run, loops });
      const signal = new AbortController().signal;
      ${lines}`;
    const life = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: "inherit" });
    const ended = once(life, "exit");
    while (!(await stat(rig.at("begun")).catch(() => undefined))) {
      expect(life.exitCode).toBe(null);
      await sleep(5);
    }
    life.kill("SIGKILL");
    await ended;
  };

  it("after a kill in the middle of a new identity nothing is left of its mount and its device", async () => {
    await mkdir(rig.at("making"));
    const image = rig.at("making/image");
    await rig.images.create(image, 300n << 20n, rig.signal);
    await rig.images.format(image, "xfs", rig.signal);
    await killedIn("mount", `await images.newIdentity(${JSON.stringify(image)}, "xfs", signal);`);
    // The mount lives in the namespace of the hung child, and the device with it.
    expect((await rig.loops.of(image)).length).toBe(1);
    expect((await endStrayChildren(rig.stateDir, rig.signal)).map(({ command }) => command)).toContain("mount");
    await recoverHost(rig, rig.signal);
    expect([await rig.loops.of(image), await rig.leftovers()]).toEqual([[], []]);
    await rig.images.newIdentity(image, "xfs", rig.signal);
  });

  it("after a kill in the middle of a read-only bind nothing of it is left", async () => {
    await mkdir(rig.at("data"));
    await mkdir(rig.at("target"));
    await killedIn("mount", `await mounts.bind(stateDir + "/data", stateDir + "/target", { readonly: true }, signal);`);
    expect(await rig.leftovers()).toEqual([rig.at("binding")]);
    await endStrayChildren(rig.stateDir, rig.signal);
    await recoverHost(rig, rig.signal);
    expect(await rig.leftovers()).toEqual([]);
  });
});
