import { readdir, readFile } from "node:fs/promises";

/** What a volume can leave behind on a machine, a line each. */
export interface HostView {
  readonly mounts: readonly string[];
  /** Loop devices and the files behind them. */
  readonly loops: readonly string[];
}

export const lookAtHost = async (): Promise<HostView> => {
  const mounts = (await readFile("/proc/self/mountinfo", "utf8")).split("\n").filter((line) => line !== "");
  const loops: string[] = [];
  for (const name of await readdir("/sys/block")) {
    const file = await readFile(`/sys/block/${name}/loop/backing_file`, "utf8").catch(() => undefined);
    if (file !== undefined) loops.push(`/dev/${name} ${file.trimEnd()}`);
  }
  return { mounts, loops };
};

/** What is there now, was not before, and has to do with this directory; what the volumes of the driver left in it, too. */
export const newOnHost = async (before: HostView, dir: string): Promise<readonly string[]> => {
  const now = await lookAtHost();
  const known = new Set([...before.mounts, ...before.loops]);
  const left = [...now.mounts, ...now.loops].filter((line) => line.includes(dir) && !known.has(line));
  for (const folder of ["volumes", "snapshots", "groups"]) {
    const entries = await readdir(`${dir}/local/${folder}`).catch(() => []);
    left.push(...entries.map((entry) => `${dir}/local/${folder}/${entry}`));
  }
  return left;
};
