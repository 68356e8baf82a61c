/**
 * Which process uses what is mounted at a path, for the person who has to end it. Only links below /proc are read, which the kernel
 * answers from memory: nothing that a volume covers is touched. What is only mapped into memory is not found.
 */
import { readdirSync, readlinkSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import { isUnder } from "../domain/paths.ts";
import type { FindHolder } from "../ports.ts";
import { commandOf, isPid, linkOf, linksATurn } from "./process-links.ts";

export function createHolderSearch(proc: string): FindHolder {
  return async (path) => {
    const self = readlinkSync(`${proc}/self`);
    let links = 0;
    for (const pid of readdirSync(proc)) {
      if (!isPid(pid) || pid === self) continue;
      const at = `${proc}/${pid}`;
      for (const link of [`${at}/cwd`, `${at}/root`, `${at}/exe`, ...namesIn(`${at}/fd`)]) {
        links += 1;
        if (links % linksATurn === 0) await nextTurn();
        const found = linkOf(link);
        if (found !== undefined && isUnder(found, path))
          return { path: found, pid: Number(pid), command: commandOf(proc, pid) };
      }
    }
    return undefined;
  };
}

/** None of a process that has ended. */
const namesIn = (dir: string): readonly string[] => {
  try {
    return readdirSync(dir).map((name) => `${dir}/${name}`);
  } catch {
    return [];
  }
};
