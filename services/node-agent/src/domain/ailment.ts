/** What a small look at a mounted file system says of it. Pure. */
import type { MountLine } from "@holdfast/model/mountinfo";

/**
 * - `dead`: whoever served it is gone for good; nothing can be read or written any more, and nothing can be lost by letting go.
 * - `hung`: it does not answer; it may come back, with what was written to it.
 */
export type Ailment = "dead" | "hung";

/** How a look ended, as far as it matters. */
export type LookEnd =
  | { readonly kind: "ended"; readonly code: number; readonly said: string }
  | { readonly kind: "hung" };

/** File systems that a process or another host serves: all others are the kernel's own, and neither die nor hang by themselves. */
const served = /^(fuse|nfs|cifs|smb|ceph|9p|gluster|lustre|beegfs|afs|gfs|ocfs|gpfs|virtiofs|orangefs|pvfs)/;
const byProcess = /^fuse(\.|blk|$)/;

export const mayAil = ({ fsType }: MountLine): boolean => served.test(fsType);

/** ENOTCONN and ECONNABORTED, as the C locale has them: a FUSE connection without its other end. */
const gone = /Transport endpoint is not connected|Software caused connection abort/;

/** Undefined: it answered. An error that it answered with is an answer. */
export const ailmentOf = (line: MountLine, end: LookEnd): Ailment | undefined => {
  if (end.kind === "hung") return "hung";
  return end.code !== 0 && byProcess.test(line.fsType) && gone.test(end.said) ? "dead" : undefined;
};
