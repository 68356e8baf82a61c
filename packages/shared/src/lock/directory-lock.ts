/**
 * One process per directory: two would write one journal, or format one image. The kernel keeps the lock and gives it up with
 * the process, however that ends, so nothing is ever left to be cleaned up and no takeover has to be argued.
 *
 * K1 flock(2) on the directory itself, not on a file in it: whatever is deleted inside, and by whatever path, mount or network
 *    namespace another process comes, it meets the same inode.
 * K2 Node has no flock. The lock belongs to the open file description, which flock(1) is handed as its descriptor 3: it locks and
 *    ends, and the lock stays with ours. No child of this process gets that description otherwise (O_CLOEXEC).
 * K3 The file `lock` in the directory only tells who holds it. It is believed when that process is still there: same boot, same start.
 */
import { spawn } from "node:child_process";
import { closeSync, fstatSync, openSync } from "node:fs";
import { readFile, readlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { bareEnvironment } from "../bare-environment.ts";
import { processStat } from "./process-stat.ts";

export interface DirectoryLock {
  /** Device and inode of the directory: a copy of the directory has others, on any boot of the host. */
  readonly id: string;
  release(): void;
}

interface Holder {
  readonly pid: string;
  /** In clock ticks since the boot: with the pid it names one process, however often pids are used again. */
  readonly startTime: string;
  readonly bootId: string;
}

/** flock(1) answers with this, told so by -E, when another has the lock; its own failures have other codes. */
const taken = 75;

/** Another process has it. Who that is called, and what to do about it, is the caller's to say. */
export class DirectoryTaken extends Error {
  readonly directory: string;
  /** Undefined when it cannot be told for certain. */
  readonly pid: string | undefined;

  constructor(directory: string, pid: string | undefined) {
    super(`another process${pid === undefined ? "" : ` (pid ${pid})`} holds the lock of ${directory}`);
    this.name = "DirectoryTaken";
    this.directory = directory;
    this.pid = pid;
  }
}

/** Throws DirectoryTaken while another process has it. */
export async function takeDirectoryLock(directory: string): Promise<DirectoryLock> {
  // As a number: a FileHandle would be closed by the garbage collector when nobody holds it.
  const descriptor = openSync(directory, "r"); // K1
  const file = path.join(directory, "lock");
  try {
    const { code, complaint } = await flock(descriptor);
    if (code === taken) {
      throw new DirectoryTaken(directory, await livingHolder(file));
    }
    if (code !== 0) throw new Error(`cannot lock the directory ${directory}: ${complaint}`);
    // For people alone: a full disk must not keep a service from starting.
    await writeFile(file, `${JSON.stringify(await holderOf("self"))}\n`, { mode: 0o600 }).catch(() => undefined);
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
  const { dev, ino } = fstatSync(descriptor);
  let held = true;
  return {
    id: `${dev}:${ino}`,
    release: () => {
      if (held) closeSync(descriptor);
      held = false;
    },
  };
}

/** K2 */
function flock(descriptor: number): Promise<{ readonly code: number | null; readonly complaint: string }> {
  return new Promise((resolve, reject) => {
    const args = ["--nonblock", "--exclusive", "--conflict-exit-code", `${taken}`, "3"];
    const child = spawn("flock", args, { env: bareEnvironment, stdio: ["ignore", "ignore", "pipe", descriptor] });
    let complaint = "";
    child.stderr?.setEncoding("utf8").on("data", (part: string) => {
      complaint = `${complaint}${part}`.slice(0, 1000);
    });
    child.once("error", (error: NodeJS.ErrnoException) => {
      const missing = "flock is not installed: apt-get install util-linux";
      reject(error.code === "ENOENT" ? new Error(missing, { cause: error }) : error);
    });
    child.once("close", (code, signal) => {
      resolve({ code, complaint: complaint.trim() || `flock ended with ${signal ?? `exit code ${code}`}` });
    });
  });
}

/** K3 */
async function livingHolder(file: string): Promise<string | undefined> {
  try {
    const told = JSON.parse(await readFile(file, "utf8")) as Partial<Holder>;
    const found = await holderOf(`${told.pid}`);
    return found.startTime === told.startTime && found.bootId === told.bootId ? found.pid : undefined;
  } catch {
    // None told yet, in another pid namespace, or cut off.
    return undefined;
  }
}

async function holderOf(pid: string): Promise<Holder> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  const { startTime = "" } = processStat(stat);
  const bootId = (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
  return { pid: pid === "self" ? await readlink("/proc/self") : pid, startTime, bootId };
}
