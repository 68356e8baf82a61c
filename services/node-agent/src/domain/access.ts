/** CSI's eight access modes. */
export type AccessMode =
  | "UNKNOWN"
  | "SINGLE_NODE_WRITER"
  | "SINGLE_NODE_READER_ONLY"
  | "MULTI_NODE_READER_ONLY"
  | "MULTI_NODE_SINGLE_WRITER"
  | "MULTI_NODE_MULTI_WRITER"
  | "SINGLE_NODE_SINGLE_WRITER"
  | "SINGLE_NODE_MULTI_WRITER";

export type AttachmentMode = "FILE_SYSTEM" | "BLOCK_DEVICE";

export interface AccessUse {
  readonly accessMode: AccessMode;
  readonly attachmentMode: AttachmentMode;
  readonly readOnly: boolean;
}

interface HostRule {
  /** May a second workload of this host have it? CSI, second NodePublishVolume with another target path. */
  readonly manyWorkloads: boolean;
  readonly writers: "none" | "one" | "many";
  /** The volume belongs to one host: its file system must be in use nowhere else on it before it is let go. */
  readonly singleNode: boolean;
}

/**
 * The controller has checked all this; the agent checks it again, because it is the last who can (I1). "A second
 * NodePublishVolume with another target path MUST fail for SINGLE_NODE_SINGLE_WRITER"; the older single-node modes
 * leave it to the plugin, so the orchestrator allows one.
 */
export const hostRules: Record<AccessMode, HostRule> = {
  UNKNOWN: { manyWorkloads: false, writers: "none", singleNode: true },
  SINGLE_NODE_WRITER: { manyWorkloads: false, writers: "one", singleNode: true },
  SINGLE_NODE_READER_ONLY: { manyWorkloads: false, writers: "none", singleNode: true },
  MULTI_NODE_READER_ONLY: { manyWorkloads: true, writers: "none", singleNode: false },
  MULTI_NODE_SINGLE_WRITER: { manyWorkloads: true, writers: "one", singleNode: false },
  MULTI_NODE_MULTI_WRITER: { manyWorkloads: true, writers: "many", singleNode: false },
  SINGLE_NODE_SINGLE_WRITER: { manyWorkloads: false, writers: "one", singleNode: true },
  SINGLE_NODE_MULTI_WRITER: { manyWorkloads: true, writers: "many", singleNode: true },
};

export const accessModes = Object.keys(hostRules) as readonly AccessMode[];

/** A claim in a reader mode reads, whatever it says. */
const writes = (use: AccessUse): boolean => !use.readOnly && hostRules[use.accessMode].writers !== "none";

/** Why the two may not be on this host together, or undefined when they may (I1). */
export const accessConflict = (wanted: AccessUse, held: AccessUse): string | undefined => {
  if (wanted.attachmentMode !== held.attachmentMode) {
    return `it is held as ${held.attachmentMode} and asked for as ${wanted.attachmentMode}`;
  }
  if (wanted.accessMode !== held.accessMode) {
    return `it is held in mode ${held.accessMode} and asked for in mode ${wanted.accessMode}`;
  }
  const rule = hostRules[wanted.accessMode];
  if (!rule.manyWorkloads) return `mode ${wanted.accessMode} allows one workload`;
  if (rule.writers === "one" && writes(wanted) && writes(held)) return `mode ${wanted.accessMode} allows one writer`;
  return undefined;
};
