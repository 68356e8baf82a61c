import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { LoopDevice } from "../ports.ts";

const maxNamed = 5;
/** About a millisecond. */
const processesATurn = 32;

/** Who keeps a device in use, for the message of a refusal: filesystems mounted in any namespace, and processes that have it open. */
export async function deviceHolders(
  proc: string,
  { device, dev }: Pick<LoopDevice, "device" | "dev">,
): Promise<readonly string[]> {
  const holders = new Set<string>();
  const namespaces = new Set<string>();
  const pids = readdirSync(proc).filter((name) => /^\d+$/.test(name));
  for (const [at, pid] of pids.entries()) {
    if (at % processesATurn === processesATurn - 1) await nextTurn();
    if (holders.size >= maxNamed) break;
    const who = `pid ${pid} (${attempt(() => readFileSync(`${proc}/${pid}/comm`, "utf8").trim()) ?? "?"})`;
    const namespace = attempt(() => readlinkSync(`${proc}/${pid}/ns/mnt`));
    if (namespace !== undefined && !namespaces.has(namespace)) {
      namespaces.add(namespace);
      const table = attempt(() => readFileSync(`${proc}/${pid}/mountinfo`, "utf8")) ?? "";
      for (const line of table.split("\n")) {
        const fields = line.split(" ");
        if (fields[2] === dev) holders.add(`mounted at ${fields[4]} in the mount namespace of ${who}`);
      }
    }
    for (const fd of attempt(() => readdirSync(`${proc}/${pid}/fd`)) ?? [])
      if (attempt(() => readlinkSync(`${proc}/${pid}/fd/${fd}`)) === device) holders.add(`open in ${who}`);
  }
  return [...holders].slice(0, maxNamed);
}

/** Processes end while they are looked at. */
function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
