import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import path from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { leftByAll } from "../../demo/look-at-host.ts";
import { until } from "../harness/until.ts";
import { asNobody } from "../support/as-nobody.ts";
import { childEnvironment } from "../support/child-environment.ts";
import { full } from "../support/full.ts";

const repo = path.resolve(import.meta.dirname, "../..");
const demo = path.join(repo, "demo/main.ts");
const root = process.getuid?.() === 0;

/** As a user who may read this repository and enter a user namespace; with both, the demo needs no root. */
const namespaces =
  root &&
  spawnSync(asNobody[0], [...asNobody.slice(1), "unshare", "--user", "--map-root-user", "--mount", "cat", demo])
    .status === 0;

if (!root) console.warn("SKIPPED: loop devices and real mounts need root");
else if (!namespaces)
  console.warn("SKIPPED: no user namespace for a user without rights, or it may not read this repository");

interface Run {
  readonly child: ChildProcess;
  output(): string;
  readonly over: Promise<{ readonly code: number | null; readonly output: string }>;
}

const start = (command: readonly string[]): Run => {
  const [file = "", ...args] = command;
  const child = spawn(file, args, {
    cwd: repo,
    // The commands that it prints begin with `node`: the one that runs this.
    env: {
      ...childEnvironment(),
      PATH: `${path.dirname(process.execPath)}:${process.env["PATH"] ?? ""}`,
      HOME: "/tmp",
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (part: Buffer) => {
      output += part.toString("utf8");
    });
  const over = new Promise<{ code: number | null; output: string }>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, output }));
  });
  return { child, output: () => output, over };
};

const clean = "Cleaned up: no process, mount, loop device or file is left.";

/** Others may mount meanwhile; what the demo could have left lies in the directory that it names. */
const expectNothingLeft = async (output: string): Promise<void> => {
  const [, dir = ""] = /published at (\/\S+?)\/node-a\//.exec(output) ?? [];
  expect(dir).not.toBe("");
  expect(await leftByAll({ mounts: [] }, dir)).toEqual([]);
  expect(spawnSync("test", ["-e", dir]).status).toBe(1);
};

const expectSteps = (output: string): void => {
  for (const step of [
    "cut snapshot demo/monday while the volume is mounted",
    "expanded it to 128 MiB, in use",
    "restored the snapshot into a second volume",
    "claimed both for workload web-2 as one set",
    "early.txt in both: written through the mount",
    "late.txt only in data: written after the snapshot",
    "deleted both volumes and the snapshot",
    clean,
  ])
    expect(output).toContain(step);
};

describe("npm run demo", () => {
  it.skipIf(!namespaces)("without root has directories in a namespace of its own, and leaves nothing", async () => {
    const { code, output } = await start([...asNobody, process.execPath, demo]).over;
    expectSteps(output);
    expect(output).not.toContain("/dev/loop");
    expect(code).toBe(0);
    await expectNothingLeft(output);
  });

  it.skipIf(!root)(
    "as root has filesystems behind loop devices that grow; with --keep its commands work as printed; nothing is left",
    async () => {
      const run = start([process.execPath, demo, "--keep"]);
      onTestFinished(() => void run.child.kill("SIGTERM"));
      try {
        await until(
          "the commands",
          () => {
            if (run.child.exitCode !== null) throw new Error(run.output());
            return run.output().includes("Ctrl-C ends it");
          },
          120_000,
        );
        const commands = run.output().match(/^ {2}node packages\/cli\/bin\/holdfast\.mjs .*$/gm) ?? [];
        expect(commands.length).toBeGreaterThanOrEqual(8);
        for (const command of commands) {
          const { code, output } = await start(["sh", "-c", command]).over;
          expect(code, `${command}\n${output}`).toBe(0);
        }
      } finally {
        run.child.kill("SIGTERM");
      }
      const { code, output } = await run.over;
      expectSteps(output);
      expect(output).toMatch(/the mount table: ext4 on \/dev\/loop\d+/);
      expect(output).toMatch(/the mount table: restored is ext4 on \/dev\/loop\d+/);
      const [, before, now] = /\(the filesystem: (\d+) MiB before, (\d+) MiB now\)/.exec(output) ?? [];
      expect(Number(now) - Number(before)).toBeGreaterThanOrEqual(48);
      expect(output).toMatch(/holdfast-local-driver\s+csi\.v1\.Node\/NodePublishVolume/);
      expect(code).toBe(0);
      await expectNothingLeft(output);
    },
    240_000,
  );

  it.runIf(full)("with --tls enrols two nodes, serves whom an operator grants, and refuses the others", async () => {
    const { code, output } = await start([process.execPath, demo, "--tls"]).over;
    for (const step of ["no grant, and may do nothing", "it was used before", "has ended the connection of node-b"])
      expect(output).toContain(step);
    expect(code).toBe(0);
  });
});
