/** A release from the history, with its own harness, and services of either release in an environment that is told. */
import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Cluster } from "./cluster.ts";
import { type ManagedProcess, startProcess } from "./managed-process.ts";

export const repo = path.resolve(import.meta.dirname, "../..");

export const isInHistory = (commit: string): boolean => {
  try {
    execFileSync("git", ["cat-file", "-e", `${commit}^{commit}`], { cwd: repo, stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
};

type Cleanup = (end: () => Promise<unknown> | unknown) => void;

/** The tree of that commit, ready to run. */
export const treeOf = async (commit: string, cleanup: Cleanup): Promise<string> => {
  const dir = await mkdtemp(path.join(tmpdir(), "hf-before-"));
  const at = path.join(dir, "tree");
  execFileSync("git", ["worktree", "add", "--detach", at, commit], { cwd: repo, stdio: "ignore" });
  cleanup(async () => {
    execFileSync("git", ["worktree", "remove", "--force", at], { cwd: repo, stdio: "ignore" });
    await rm(dir, { recursive: true, force: true });
  });
  await symlink(path.join(repo, ".cache"), path.join(at, ".cache"));
  execFileSync("npm", ["run", "-s", "generate"], { cwd: at, stdio: "inherit" });
  return at;
};

export const harnessOf = async (
  tree: string,
): Promise<{ readonly startCluster: (options: object) => Promise<Cluster> }> =>
  await import(path.join(tree, "test/harness/cluster.ts"));

export const environmentOf = async ({ pid }: ManagedProcess): Promise<Record<string, string>> =>
  Object.fromEntries(
    (await readFile(`/proc/${pid}/environ`, "utf8"))
      .split("\0")
      .filter((line) => line.includes("="))
      .map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
  );

export const ready = (started: ManagedProcess): Promise<Record<string, unknown>> =>
  started.line((line) => line["message"] === "ready", "its line `ready`");

export const startService = async (
  tree: string,
  service: "controller" | "node-agent",
  env: Record<string, string>,
  cleanup: Cleanup,
): Promise<ManagedProcess> => {
  const started = startProcess({
    name: service,
    command: [process.execPath, "--disable-sigusr1", path.join(tree, `services/${service}/src/main.ts`)],
    env,
  });
  cleanup(() => started.kill("SIGKILL"));
  return started;
};

/** The kernel gives a mount another number whenever it is made anew. */
export const mountsBelow = async (dirs: readonly string[]): Promise<readonly string[]> =>
  (await readFile("/proc/self/mountinfo", "utf8"))
    .split("\n")
    .map((line) => line.split(" "))
    .filter(([, , , , point]) => dirs.some((dir) => point?.startsWith(`${dir}/`)))
    .map(([id, , , , point]) => `${id} ${point}`)
    .sort();
