/** Which lives of a node's name are the same life. */
import type { NodeLife, NodeRecord } from "./node.ts";

/** The life that is recorded, and the boots that were over before it. */
type Recorded = NodeLife & Pick<NodeRecord, "bootsBefore" | "machinesBefore">;

/** The journal and the machine are the ones that are known: the agent has its memory. */
export const hasTheMemory = (known: NodeLife, now: NodeLife): boolean =>
  known.journalUid === now.journalUid && known.machineId === now.machineId;

/**
 * The same journal, locked again on the same boot: the kernel proves that the process before is dead. A copy of the state directory is
 * another inode. A record of an older version does not name the lock.
 */
export const isSameLife = (known: NodeLife, now: NodeLife): boolean =>
  hasTheMemory(known, now) && known.bootId === now.bootId && (known.lockId ?? now.lockId) === now.lockId;

/**
 * Another boot of the very host, and no earlier one: the boot that is known is over, and with it every process and mount of it. A copy of
 * the host, its disks and all, has another identity. Where it has the same all the same, the boot that was taken for over comes back.
 */
export const provesReboot = (known: Recorded, now: NodeLife): boolean =>
  known.hostIdentity !== undefined &&
  known.hostIdentity === now.hostIdentity &&
  known.bootId !== now.bootId &&
  known.bootsBefore?.includes(now.bootId) !== true;

const rememberedBoots = 32;
const rememberedMachines = 32;

export const bootsBefore = (known: Recorded, now: NodeLife): readonly string[] => {
  const before = known.bootsBefore ?? [];
  if (known.bootId === now.bootId) return before;
  return [...before.filter((boot) => boot !== known.bootId), known.bootId].slice(-rememberedBoots);
};

/** Only of a host that proves that it is the same one: a machine id alone may be another machine's. */
export const machinesBefore = (known: Recorded, now: NodeLife): readonly string[] => {
  const before = known.machinesBefore ?? [];
  if (isSameLife(known, now)) return before;
  if (!provesReboot(known, now)) return [];
  return [...new Set([...before, known.machineId])].filter((id) => id !== now.machineId).slice(-rememberedMachines);
};
