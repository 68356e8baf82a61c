/** CSI's eight access modes; UNKNOWN is refused wherever a mode is asked for. */
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

interface AccessRule {
  /** May the volume be on more than one node? */
  readonly manyNodes: boolean;
  /** May more than one workload have it on one node? CSI, table of the second NodePublishVolume: T1 != T2. */
  readonly manyWorkloads: boolean;
  readonly writers: "none" | "one" | "many";
}

/**
 * Total on purpose: a new mode does not compile until its rule is written. "A second NodePublishVolume with another target path MUST
 * fail for SINGLE_NODE_SINGLE_WRITER"; the older single-node modes leave it to the plugin, so the orchestrator allows one.
 */
export const accessRules: Record<AccessMode, AccessRule> = {
  UNKNOWN: { manyNodes: false, manyWorkloads: false, writers: "none" },
  SINGLE_NODE_WRITER: { manyNodes: false, manyWorkloads: false, writers: "one" },
  SINGLE_NODE_READER_ONLY: { manyNodes: false, manyWorkloads: false, writers: "none" },
  MULTI_NODE_READER_ONLY: { manyNodes: true, manyWorkloads: true, writers: "none" },
  MULTI_NODE_SINGLE_WRITER: { manyNodes: true, manyWorkloads: true, writers: "one" },
  MULTI_NODE_MULTI_WRITER: { manyNodes: true, manyWorkloads: true, writers: "many" },
  SINGLE_NODE_SINGLE_WRITER: { manyNodes: false, manyWorkloads: false, writers: "one" },
  SINGLE_NODE_MULTI_WRITER: { manyNodes: false, manyWorkloads: true, writers: "many" },
};

export const accessModes = Object.keys(accessRules) as readonly AccessMode[];

/** What of a claim decides whether it may live beside others on its node. */
export interface AccessUse {
  readonly accessMode: AccessMode;
  readonly attachmentMode: AttachmentMode;
  readonly readOnly: boolean;
}

/** A claim in a reader mode reads, whatever it says. */
const writes = (use: AccessUse): boolean => !use.readOnly && accessRules[use.accessMode].writers !== "none";

const conflictOf = (wanted: AccessUse, held: AccessUse, sameNode: boolean): string | undefined => {
  if (wanted.attachmentMode !== held.attachmentMode)
    return `it is held as ${held.attachmentMode} and asked for as ${wanted.attachmentMode}`;
  if (wanted.accessMode !== held.accessMode)
    return `it is held in mode ${held.accessMode} and asked for in mode ${wanted.accessMode}`;
  const rule = accessRules[wanted.accessMode];
  if (!sameNode && !rule.manyNodes) return `mode ${wanted.accessMode} allows one node`;
  if (!rule.manyWorkloads) return `mode ${wanted.accessMode} allows one workload`;
  if (rule.writers === "one" && writes(wanted) && writes(held)) return `mode ${wanted.accessMode} allows one writer`;
  return undefined;
};

export interface PlacedUse extends AccessUse {
  readonly node: string;
}

/** Why `wanted` may not live beside `held`, or undefined when it may (I1). */
export const accessConflict = (wanted: PlacedUse, held: PlacedUse): string | undefined =>
  conflictOf(wanted, held, wanted.node === held.node);

/** The same for two on one node. The controller has asked all this; the agent asks again, because it is the last who can (I1). */
export const accessConflictOnNode = (wanted: AccessUse, held: AccessUse): string | undefined =>
  conflictOf(wanted, held, true);
