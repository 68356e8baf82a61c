/**
 * Which process uses what is mounted at a path, for the person who has to end it. Only links below /proc are read, which the kernel
 * answers from memory: nothing that a volume covers is touched. What is only mapped into memory is not found.
 */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Leftover } from "../domain/mounts.ts";
import { isUnder } from "../domain/paths.ts";
import type { FindHolder } from "../ports.ts";

/** About a millisecond of links. */
const linksATurn = 256;

export function createHolderSearch(proc: string): FindHolder {
  return async (path) => {
    const self = readlinkSync(`${proc}/self`);
    let links = 0;
    for (const pid of readdirSync(proc)) {
      if (!/^[0-9]+$/.test(pid) || pid === self) continue;
      const at = `${proc}/${pid}`;
      for (const link of [`${at}/cwd`, `${at}/root`, `${at}/exe`, ...namesIn(`${at}/fd`)]) {
        links += 1;
        if (links % linksATurn === 0) await nextTurn();
        const found = targetOf(link);
        if (found !== undefined && isUnder(found, path)) return holderOf(proc, pid, found);
      }
    }
    return undefined;
  };
}

const holderOf = (proc: string, pid: string, path: string): Leftover => ({
  path,
  pid: Number(pid),
  command: readOr(() => readFileSync(`${proc}/${pid}/comm`, "utf8").trim()) ?? "?",
});

const namesIn = (dir: string): readonly string[] =>
  (readOr(() => readdirSync(dir)) ?? []).map((name) => `${dir}/${name}`);

const targetOf = (link: string): string | undefined => readOr(() => readlinkSync(link));

/** Processes end while they are looked at. */
function readOr<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
