import { readdir, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { DriverError } from "../domain/driver-error.ts";
import { childMark } from "./run-tool.ts";

interface Stray {
  readonly pid: number;
  readonly command: string;
}

const firstWaitMs = 5;
const longestWaitMs = 200;

/**
 * Kills what a killed life of the driver on this state directory left running (mkfs, cp …) and waits until all of it is gone: before
 * that, nothing of the state directory may be touched. Only the holder of the state directory's lock may call it, before its first child.
 * Answers what it killed. Rejects when the signal aborts while one cannot die, naming it.
 */
export async function endStrayChildren(
  stateDir: string,
  signal: AbortSignal,
  options: { readonly proc?: string; readonly self?: number } = {},
): Promise<readonly Stray[]> {
  const { proc = "/proc", self = process.pid } = options;
  const killed = new Map<number, Stray>();
  for (let wait = firstWaitMs; ; wait = Math.min(wait * 2, longestWaitMs)) {
    const strays = await find(proc, `${childMark}=${stateDir}`, self);
    if (strays.length === 0) return [...killed.values()];
    for (const stray of strays) {
      killed.set(stray.pid, stray);
      kill(stray.pid);
    }
    await sleep(wait, undefined, { signal }).catch((error: unknown) => {
      throw new DriverError("UNAVAILABLE", stuck(stateDir, strays), { cause: error });
    });
  }
}

async function find(proc: string, mark: string, self: number): Promise<readonly Stray[]> {
  const strays: Stray[] = [];
  for (const name of await readdir(proc)) {
    if (!/^\d+$/.test(name) || Number(name) === self) continue;
    // Of a process that has just ended, or of another user, there is nothing to read. That of a zombie is empty.
    const environment = await readFile(`${proc}/${name}/environ`, "utf8").catch(() => "");
    if (!environment.split("\0").includes(mark)) continue;
    const command = (await readFile(`${proc}/${name}/comm`, "utf8").catch(() => "?")).trim();
    strays.push({ pid: Number(name), command });
  }
  return strays;
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It ended between the look and the kill.
  }
}

function stuck(stateDir: string, strays: readonly Stray[]): string {
  const list = strays.map(({ pid, command }) => `${command} (pid ${pid})`).join(", ");
  return (
    `children of an earlier life still work on ${stateDir} and cannot be killed: ${list}. ` +
    "They wait for a disk or a frozen filesystem: fsfreeze -u the mount point, or repair the disk, and start again."
  );
}
