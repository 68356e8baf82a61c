/** Which lives of a node's name are the same life. */

/** What tells one life of a node from another. A process with all of these is the same life: the kernel lets one process alone lock the journal. */
export interface NodeLife {
  readonly machineId: string;
  readonly bootId: string;
  readonly journalUid: string;
  /** Device and inode of the directory that the agent locks; a copy of the directory has others. Absent in older records. */
  readonly lockId?: string;
  /** A digest of what the host has and no copy of it. Absent where nothing proves a boot, and in older records. */
  readonly hostIdentity?: string;
}

/** The life that is recorded, and the boots that were over before it. */
interface Recorded extends NodeLife {
  readonly bootsBefore?: readonly string[];
  readonly machinesBefore?: readonly string[];
}

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

/** The parts that tell a life from others, of whatever has them. */
export const lifeOf = ({ machineId, bootId, journalUid, lockId, hostIdentity }: NodeLife): NodeLife => ({
  machineId,
  bootId,
  journalUid,
  ...(lockId === undefined || lockId === "" ? {} : { lockId }),
  ...(hostIdentity === undefined || hostIdentity === "" ? {} : { hostIdentity }),
});

/**
 * Whether that life is this one, or is over, as the host proves or a person has said. Anything else is a life that may go on beside this
 * one, such as a copy that had the name in a history which the store has lost: this one knows nothing of what it holds.
 */
export const hasOutlived = (now: NodeLife & { readonly outlived?: NodeLife }, other: NodeLife): boolean =>
  isSameLife(other, now) || provesReboot(other, now) || (now.outlived !== undefined && isSameLife(other, now.outlived));

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
