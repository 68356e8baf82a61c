/**
 * The two commands of README.md in a fresh clone, as somebody who has just come: Node with npm, git, and nothing of ours. It takes the
 * packages of the lock file from the registry. A clone has what is committed. What it leaves on the machine is looked for from outside.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { leftByAll } from "../../demo/look-at-host.ts";
import { blocksOf } from "../documents/guide-walk.ts";
import { full } from "../support/full.ts";

const repo = path.resolve(import.meta.dirname, "../..");
const root = process.getuid?.() === 0;
if (full && !root) console.warn("SKIPPED: a fresh clone's demo makes loop devices, which needs root");

/** As README.md has them, without what stands behind the #. */
const [demo = "", tests = ""] = (
  blocksOf(readFileSync(path.join(repo, "README.md"), "utf8")).find(({ language }) => language === "sh")?.text ?? ""
)
  .split("\n")
  .map((line) => line.replace(/\s*#.*$/, ""));

/** Every path of the user, without those that this repository adds. */
const newcomersPath = (process.env["PATH"] ?? "")
  .split(path.delimiter)
  .filter((folder) => !folder.includes("node_modules") && !folder.endsWith(path.join(".cache", "bin")))
  .join(path.delimiter);

const inShell = async (command: string, cwd: string): Promise<{ readonly code: number; readonly output: string }> => {
  const child = spawn("sh", ["-c", `exec 2>&1\n${command}`], {
    cwd,
    env: { PATH: newcomersPath, HOME: process.env["HOME"] ?? "/root" },
    stdio: ["ignore", "pipe", "ignore"],
  });
  let output = "";
  child.stdout.on("data", (part: Buffer) => {
    output += part.toString("utf8");
  });
  const [code] = (await once(child, "close")) as [number | null];
  return { code: code ?? 1, output };
};

describe.runIf(full && root)("README.md in a fresh clone", () => {
  let dir: string;
  let clone: string;
  beforeAll(async () => {
    dir = await mkdtemp(path.join(tmpdir(), "hf-clone-"));
    clone = path.join(dir, "holdfast");
    const made = spawnSync("git", ["clone", "--quiet", repo, clone], { encoding: "utf8" });
    expect(made.status, made.stderr).toBe(0);
  });
  afterAll(() => rm(dir ?? "/nonexistent", { recursive: true, force: true }));

  test("npm run demo: a real ext4 on a loop device, and nothing of it is left", async () => {
    expect(demo).toBe("npm run demo");
    const known = await readdir(tmpdir());
    const { code, output } = await inShell(demo, clone);
    expect(code, output).toBe(0);
    expect(output).toMatch(/the mount table: ext4 on \/dev\/loop\d+/);
    for (const word of ["wrote early.txt", "cut snapshot", "restored the snapshot", "expanded it", "deleted both"])
      expect(output).toContain(word);
    const [, used = ""] = /published at (\/\S+?)\/node-a\//.exec(output) ?? [];
    expect(known).not.toContain(path.basename(used));
    expect(await leftByAll({ mounts: [] }, used)).toEqual([]);
    expect(await readdir(tmpdir())).not.toContain(path.basename(used));
    expect(await readFile("/proc/self/mountinfo", "utf8")).not.toContain(clone);
    expect(spawnSync("git", ["status", "--porcelain"], { cwd: clone, encoding: "utf8" }).stdout).toBe("");
  }, 900_000);

  test("npm test ends with its one line; here of one file", async () => {
    expect(tests).toBe("npm test");
    const { code, output } = await inShell(`${tests} -- test/wire.test.ts`, clone);
    expect(code, output).toBe(0);
    expect(output.trimEnd().split("\n").at(-1)).toMatch(/^\d+ passed, 0 failed, \d+ skipped$/);
  }, 900_000);
});
