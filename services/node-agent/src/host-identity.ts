/** Which host this is, and which boot of it. */
import { readFile } from "node:fs/promises";

export interface HostIdentity {
  readonly machineId: string;
  readonly bootId: string;
}

export async function readHostIdentity(node: string, knownBootId: string | undefined): Promise<HostIdentity> {
  return {
    machineId: await firstLine("/etc/machine-id", `node:${node}`),
    bootId: knownBootId ?? (await firstLine("/proc/sys/kernel/random/boot_id", "unknown")),
  };
}

/** A file that may be missing in a container. */
async function firstLine(file: string, fallback: string): Promise<string> {
  const text = await readFile(file, "utf8").catch(() => "");
  const [line = ""] = text.split("\n");
  return line.trim() === "" ? fallback : line.trim();
}
