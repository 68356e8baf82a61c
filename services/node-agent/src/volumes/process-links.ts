/** What the kernel says of processes below /proc, from memory. Processes end while they are looked at. */
import { readFileSync, readlinkSync } from "node:fs";

/** About a millisecond of links. */
export const linksATurn = 256;

/** No other name in there begins with a digit. */
export const isPid = (name: string): boolean => name.charCodeAt(0) >= 0x30 && name.charCodeAt(0) <= 0x39;

export function linkOf(link: string): string | undefined {
  try {
    return readlinkSync(link);
  } catch {
    return undefined;
  }
}

/** Only of a process that holds something: it is for people to read. */
export function commandOf(proc: string, pid: string): string {
  try {
    return readFileSync(`${proc}/${pid}/comm`, "utf8").trim();
  } catch {
    return "?";
  }
}
