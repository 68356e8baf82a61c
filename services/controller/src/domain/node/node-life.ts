/** Which lives of a node's name are the same life. */
import type { NodeLife } from "./node.ts";

/** The journal and the machine are the ones that are known: the agent has its memory. */
export const hasTheMemory = (known: NodeLife, now: NodeLife): boolean =>
  known.journalUid === now.journalUid && known.machineId === now.machineId;

/**
 * The same journal, locked again on the same boot: the kernel proves that the process before is dead. A copy of the state directory is
 * another inode. A record of an older version does not name the lock.
 */
export const isSameLife = (known: NodeLife, now: NodeLife): boolean =>
  hasTheMemory(known, now) && known.bootId === now.bootId && (known.lockId ?? now.lockId) === now.lockId;
