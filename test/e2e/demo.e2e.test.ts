import { spawn, spawnSync } from "node:child_process";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { lookAtHost } from "../../demo/look-at-host.ts";

const demo = path.resolve(import.meta.dirname, "../../demo/main.ts");
const root = process.getuid?.() === 0;

/** As a user who may read this repository and enter a user namespace; with both, the demo needs no root. */
const asNobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] as const;
const namespaces =
  root &&
  spawnSync(asNobody[0], [...asNobody.slice(1), "unshare", "--user", "--map-root-user", "--mount", "cat", demo])
    .status === 0;

if (!root) console.warn("SKIPPED: loop devices and real mounts need root");
else if (!namespaces)
  console.warn("SKIPPED: no user namespace for a user without rights, or it may not read this repository");

const run = (command: readonly string[]): Promise<{ readonly code: number | null; readonly output: string }> =>
  new Promise((resolve, reject) => {
    const [file = "", ...args] = command;
    const child = spawn(file, args, {
      env: { PATH: process.env["PATH"] ?? "", HOME: "/tmp" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (part: Buffer) => {
        output += part.toString("utf8");
      });
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, output }));
  });

/** Others may mount meanwhile; what the demo could have left lies in the directory that it names. */
const expectNothingLeft = async (output: string): Promise<void> => {
  const [, dir] = /published at (\/\S+?)\/node-a\//.exec(output) ?? [];
  expect(dir).toBeDefined();
  const { mounts, loops } = await lookAtHost();
  expect([...mounts, ...loops].filter((line) => line.includes(dir ?? ""))).toEqual([]);
  expect(spawnSync("test", ["-e", dir ?? ""]).status).toBe(1);
};

describe("npm run demo", () => {
  it.skipIf(!root)("as root has a filesystem behind a loop device, and leaves nothing", async () => {
    const { code, output } = await run([process.execPath, demo]);
    expect(output).toMatch(/the mount table: ext4 on \/dev\/loop\d+/);
    expect(output).toContain("web-2, which reads: written through the mount");
    expect(output).toMatch(/holdfast-local-driver\s+csi\.v1\.Node\/NodePublishVolume/);
    expect(output).toContain("Cleaned up: no process, mount, loop device or file is left.");
    expect(code).toBe(0);
    await expectNothingLeft(output);
  });

  it.skipIf(!namespaces)("without root has a directory in a namespace of its own, and leaves nothing", async () => {
    const { code, output } = await run([...asNobody, process.execPath, demo]);
    expect(output).not.toContain("/dev/loop");
    expect(output).toContain("web-2, which reads: written through the mount");
    expect(output).toContain("Cleaned up: no process, mount, loop device or file is left.");
    expect(code).toBe(0);
    await expectNothingLeft(output);
  });
});
