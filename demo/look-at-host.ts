import { readdir, readFile, statfs } from "node:fs/promises";
import { loopsUnder } from "../test/harness/loop-files.ts";

/** What a volume can leave behind on a machine, a line each. */
export interface HostView {
  readonly mounts: readonly string[];
}

export const lookAtHost = async (): Promise<HostView> => ({
  mounts: (await readFile("/proc/self/mountinfo", "utf8")).split("\n").filter((line) => line !== ""),
});

/** Processes that were started with this directory in their command or environment, but for the one that asks. */
const processesOf = async (dir: string): Promise<readonly string[]> => {
  const found: string[] = [];
  for (const pid of await readdir("/proc")) {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue;
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    // Another user's is not to be read; what the demo starts has its own.
    const environment = await readFile(`/proc/${pid}/environ`, "utf8").catch(() => "");
    if (command.includes(dir) || environment.includes(dir))
      found.push(`process ${pid} ${command.replaceAll("\0", " ").trimEnd()}`);
  }
  return found;
};

const hostNow = async (before: HostView, dir: string): Promise<readonly string[]> => {
  const { mounts } = await lookAtHost();
  const known = new Set(before.mounts);
  const loops = (await loopsUnder(dir)).map(({ device, file }) => `${device} ${file}`);
  return [...mounts.filter((line) => line.includes(dir) && !known.has(line)), ...loops];
};

/** While all still runs: what the volumes of the driver left on the host and in its own directory. */
export const leftByVolumes = async (before: HostView, dir: string): Promise<readonly string[]> => {
  const left = [...(await hostNow(before, dir))];
  for (const folder of ["volumes", "snapshots", "groups"]) {
    const entries = await readdir(`${dir}/local/${folder}`).catch(() => []);
    left.push(...entries.map((entry) => `${dir}/local/${folder}/${entry}`));
  }
  return left;
};

/** When all was stopped: mounts, loop devices, processes and files. */
export const leftByAll = async (before: HostView, dir: string): Promise<readonly string[]> => {
  const files = await readdir(dir).catch(() => []);
  return [...(await hostNow(before, dir)), ...(await processesOf(dir)), ...files.map((file) => `${dir}/${file}`)];
};

export interface Mounted {
  readonly type: string;
  readonly source: string;
  /** Of the filesystem, in bytes, as statfs tells it. */
  readonly size: number;
}

/** What the mount table has at a workload's path. */
export const mountedAt = async (mountPoint: string): Promise<Mounted> => {
  const table = await readFile("/proc/self/mountinfo", "utf8");
  const line = table.split("\n").find((one) => one.split(" ")[4] === mountPoint);
  const [type, source] = (line?.split(" - ")[1] ?? "").split(" ");
  if (type === undefined || source === undefined) throw new Error(`nothing is mounted at ${mountPoint}`);
  const { blocks, bsize } = await statfs(mountPoint);
  return { type, source, size: blocks * bsize };
};
