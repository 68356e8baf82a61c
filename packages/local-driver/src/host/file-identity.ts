import { stat } from "node:fs/promises";
import { errnoOf, hostFailure } from "./host-failure.ts";

/** Which file it is, however it is called and wherever it is mounted: "major:minor inode". The number of a file that is open is no other's. */
export type FileIdentity = string;

export const identityFrom = (device: string, inode: string): FileIdentity => `${device} ${inode}`;

/** Undefined when there is no such file. */
export async function identityOfFile(file: string): Promise<FileIdentity | undefined> {
  try {
    return identityOf(await stat(file, { bigint: true }));
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === "ENOENT" || errno === "ENOTDIR") return undefined;
    throw hostFailure(`tell which file ${file} is`, error);
  }
}

/** Node tells an inode number above 2^63 (overlayfs has such) as a negative one. */
export const identityOf = ({ dev, ino }: { readonly dev: bigint; readonly ino: bigint }): FileIdentity =>
  identityFrom(deviceNumbers(dev), String(BigInt.asUintN(64, ino)));

/** makedev(3): twelve bits of the major and eight of the minor number stand low, the rest above them. */
export function deviceNumbers(dev: bigint): string {
  const bits = BigInt.asUintN(64, dev);
  const major = ((bits >> 8n) & 0xfffn) | ((bits >> 32n) & 0xfffff000n);
  const minor = (bits & 0xffn) | ((bits >> 12n) & 0xffffff00n);
  return `${major}:${minor}`;
}
