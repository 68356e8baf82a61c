/**
 * What lies at the path of a plugin's socket. Only a real socket of root or of our own user is ever dialled: whoever could
 * put another one there would be handed the volumes' secrets. A file that exists proves nothing about who listens.
 */
import { lstat, stat } from "node:fs/promises";
import { userInfo } from "node:os";
import path from "node:path";
import { maxSocketPathBytes } from "@holdfast/shared/grpc/listen-address";

export type SocketState =
  | { readonly kind: "absent" }
  /** Something is there that must not be dialled. */
  | { readonly kind: "unfit"; readonly reason: string }
  /** `incarnation` changes when the file was replaced, also under the same path. */
  | { readonly kind: "present"; readonly incarnation: string; readonly owner: SocketOwner };

export interface SocketOwner {
  readonly uid: number;
  readonly gid: number;
  readonly directoryUid: number;
  readonly directoryGid: number;
}

export async function readSocketState(socketPath: string, ownUid: number): Promise<SocketState> {
  const size = Buffer.byteLength(socketPath);
  // The kernel's address holds no more, and Node cuts longer ones off in silence: another socket would be dialled.
  if (size > maxSocketPathBytes)
    return unfit(`the path has ${size} bytes, sockets hold at most ${maxSocketPathBytes}: move the directory`);
  try {
    const found = await lstat(socketPath, { bigint: true });
    if (found.isSymbolicLink()) return unfit("is a symbolic link: put the socket itself there");
    if (!found.isSocket()) return unfit("is no socket");
    if (found.uid !== 0n && found.uid !== BigInt(ownUid))
      return unfit(`belongs to user ${found.uid}: it must belong to root or to user ${ownUid}`);
    const { mode, uid: directoryUid, gid: directoryGid } = await stat(path.dirname(socketPath));
    // Where anybody may rename, anybody may put their own socket in its place; a sticky directory forbids just that.
    if ((mode & 0o1002) === 0o002)
      return unfit("lies in a directory that everybody may write to: take that right away");
    // Inode numbers are used again at once; the moment of birth tells the two files apart.
    const owner = { uid: Number(found.uid), gid: Number(found.gid), directoryUid, directoryGid };
    return { kind: "present", incarnation: `${found.dev}:${found.ino}:${found.birthtimeNs}`, owner };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return { kind: "absent" };
    return unfit(`cannot be looked at: ${code ?? String(error)}`);
  }
}

/** Who we are. A container may run as a user that no passwd file knows; then the kernel is asked by way of /proc. */
export async function readOwnUid(): Promise<number> {
  try {
    return userInfo().uid;
  } catch {
    return (await stat("/proc/self")).uid;
  }
}

function unfit(reason: string): SocketState {
  return { kind: "unfit", reason };
}

export function sameSocket(a: SocketState, b: SocketState): boolean {
  if (a.kind === "present" && b.kind === "present") return a.incarnation === b.incarnation;
  if (a.kind === "unfit" && b.kind === "unfit") return a.reason === b.reason;
  return a.kind === b.kind;
}
