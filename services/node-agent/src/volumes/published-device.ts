import type { MountLine } from "@holdfast/model/mountinfo";
import type { HostDirs } from "../ports.ts";

/** The device node that is bound at a target, as the host names it; undefined: what is mounted there is no device. */
export async function publishedDevice(line: MountLine, dirs: Pick<HostDirs, "deviceNumber">) {
  if (line.fsType !== "devtmpfs") return undefined;
  const path = `/dev${line.root}`;
  const number = await dirs.deviceNumber(path);
  return number === undefined ? undefined : { path, ...number };
}
