/** What everybody on the machine may read of a process. */
import { readdir, readFile } from "node:fs/promises";

export interface ShownProcess {
  readonly argv: string;
  readonly environ: string;
}

const file = (pid: number, name: string): Promise<string> => readFile(`/proc/${pid}/${name}`, "latin1").catch(() => "");

export const shownByProcess = async (pid: number): Promise<ShownProcess> => ({
  argv: (await file(pid, "cmdline")).replaceAll("\0", "\n"),
  environ: (await file(pid, "environ")).replaceAll("\0", "\n"),
});

export const childrenOf = async (parents: readonly number[]): Promise<readonly number[]> => {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const parentOf = async (pid: number) => Number(/\) \S (\d+) /.exec(await file(pid, "stat"))?.[1]);
  const found = await Promise.all(pids.map(async (pid) => ({ pid, parent: await parentOf(pid) })));
  return found.filter(({ parent }) => parents.includes(parent)).map(({ pid }) => pid);
};
