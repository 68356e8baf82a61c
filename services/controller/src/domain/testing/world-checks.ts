import type { AccessMode, AttachmentMode } from "@holdfast/model/access";
import { compareEpochs } from "@holdfast/model/epoch";
import type { ClaimState } from "../claim/claim.ts";
import { mayBeAhead } from "../claim/permit-ahead.ts";
import type { Attachment, VolumeRecord } from "../volume/volume.ts";
import type { BackendCall, ModelBackend } from "./model-backend.ts";
import type { ModelNode } from "./model-node.ts";

/** What there is, seen from outside: the record, the backend and the hosts. */
export interface WorldView {
  readonly volume: VolumeRecord | undefined;
  readonly backend: ModelBackend;
  readonly nodes: readonly ModelNode[];
  /** Names of storage that was kept on purpose when its record went. */
  readonly retained: ReadonlySet<string>;
}

interface Use {
  readonly node: string;
  readonly accessMode: AccessMode;
  readonly attachmentMode: AttachmentMode;
  readonly readOnly: boolean;
}

const many = Number.POSITIVE_INFINITY;

/** How many of each a mode allows, read off CSI's names and its table for NodePublishVolume; not from the rules under test. */
const allowed: Record<AccessMode, { readonly nodes: number; readonly users: number; readonly writers: number }> = {
  // Refused wherever a mode is asked for; should one ever get this far, it is the strictest.
  UNKNOWN: { nodes: 1, users: 1, writers: 0 },
  SINGLE_NODE_WRITER: { nodes: 1, users: 1, writers: 1 },
  SINGLE_NODE_READER_ONLY: { nodes: 1, users: 1, writers: 0 },
  SINGLE_NODE_SINGLE_WRITER: { nodes: 1, users: 1, writers: 1 },
  SINGLE_NODE_MULTI_WRITER: { nodes: 1, users: many, writers: many },
  MULTI_NODE_READER_ONLY: { nodes: many, users: many, writers: 0 },
  MULTI_NODE_SINGLE_WRITER: { nodes: many, users: many, writers: 1 },
  MULTI_NODE_MULTI_WRITER: { nodes: many, users: many, writers: many },
};

/** What of an attachment each state of a claim on its node has to find there. */
const attachmentFor: Record<ClaimState, readonly Attachment["state"][]> = {
  QUEUED: [],
  ATTACHING: ["ATTACHING"],
  OFFERED: ["ATTACHED"],
  ACTIVE: ["ATTACHED"],
  // A permit that may have left ahead is recalled before the attach has ended.
  RELEASING: ["ATTACHED", "ATTACHING"],
  DETACHING: ["DETACHING"],
  RELEASED: [],
  FAILED: [],
  FENCED: [],
};

export const violated = (id: string, what: string): Error => new Error(`[${id}] ${what}`);

const compatible = (what: string, uses: readonly Use[]): void => {
  const [first] = uses;
  if (first === undefined) return;
  if (uses.some((u) => u.accessMode !== first.accessMode || u.attachmentMode !== first.attachmentMode))
    throw violated("I1", `${what} in different modes`);
  const rule = allowed[first.accessMode];
  const counts = {
    nodes: new Set(uses.map((u) => u.node)).size,
    users: uses.length,
    writers: uses.filter((u) => !u.readOnly).length,
  };
  for (const of of ["nodes", "users", "writers"] as const)
    if (counts[of] > rule[of]) throw violated("I1", `${what}: ${counts[of]} ${of} in mode ${first.accessMode}`);
};

const checkUses = ({ volume, backend, nodes }: WorldView): void => {
  const claims = Object.values(volume?.claims ?? {}).filter((c) => attachmentFor[c.state].length > 0);
  compatible("claims hold", claims);
  const mounts = nodes.flatMap((node) => node.mounts().map((mount) => ({ ...mount, node: node.name })));
  compatible("mounts", mounts);
  const mode = claims[0]?.accessMode;
  if (volume === undefined || mode === undefined) return;
  if (backend.attachedTo(volume.externalId).length > allowed[mode].nodes)
    throw violated("I1", `attached to more nodes than ${mode} allows`);
};

const checkMounts = ({ volume, backend, nodes }: WorldView): void => {
  for (const node of nodes)
    for (const { claimUid, epoch, volumeUid } of node.mounts()) {
      const claim = volume?.uid === volumeUid ? volume.claims[claimUid] : undefined;
      if (volume === undefined || claim === undefined || claim.node !== node.name)
        throw violated("I5", `${claimUid} is mounted on ${node.name} and no claim owns the mount`);
      if (!attachmentFor[claim.state].includes("ATTACHED") && !mayBeAhead(claim))
        throw violated("I5", `${claimUid} is mounted on ${node.name} while its claim is ${claim.state}`);
      if (claim.epoch === undefined || compareEpochs(claim.epoch, epoch) !== 0)
        throw violated("I3", `${claimUid} is mounted under another epoch than its record's`);
      for (const held of node.held(volumeUid))
        if (held.claimUid === claimUid && compareEpochs(held.epoch, epoch) !== 0)
          throw violated("I3", `${claimUid} is mounted under another epoch than the held one`);
      if (volume.attachments[node.name]?.needsCalls && !backend.attachedTo(volume.externalId).includes(node.name))
        throw violated("I2", `${claimUid} is mounted on ${node.name}, which is not attached any more`);
    }
};

/** The intent that speaks for an operation of the backend that nobody has heard the end of. */
const explains = (volume: VolumeRecord, call: BackendCall): boolean => {
  if (volume.intent === undefined) return false;
  switch (call.op) {
    case "create":
      return volume.intent.op === "create" && volume.name === call.name;
    case "delete":
      return volume.intent.op === "delete" && volume.externalId === call.externalId;
    case "attach":
      return (
        volume.externalId === call.externalId &&
        volume.intent.node === call.node &&
        (volume.intent.op === "attach" || volume.intent.op === "detach")
      );
    case "detach":
      return volume.externalId === call.externalId && volume.intent.node === call.node && volume.intent.op === "detach";
  }
};

const checkOwners = ({ volume, backend, retained }: WorldView): void => {
  for (const { externalId, node } of backend.attachments())
    if (volume?.externalId !== externalId || volume.attachments[node] === undefined)
      throw violated("I5", `${externalId} is attached to ${node} and no record says so`);
  for (const name of backend.stored().keys())
    if (volume?.name !== name && !retained.has(name)) throw violated("I5", `${name} is stored and no record says so`);
  const running = backend.running();
  if (running !== undefined && (volume === undefined || !explains(volume, running)))
    throw violated("I5", `a ${running.op} may still run and no intent says so`);
};

const checkRecord = (volume: VolumeRecord): void => {
  const { intent } = volume;
  const claims = Object.values(volume.claims);
  for (const claim of claims) {
    const wanted = attachmentFor[claim.state];
    const has = volume.attachments[claim.node]?.state;
    if (claim.state !== "QUEUED" && claim.epoch === undefined)
      throw violated("I3", `${claim.uid} is ${claim.state} without an epoch`);
    if (claim.epoch !== undefined && compareEpochs(claim.epoch, volume.epoch) > 0)
      throw violated("I3", `${claim.uid} has an epoch that the volume never gave`);
    if (wanted.length > 0 && (has === undefined || !wanted.includes(has)))
      throw violated("I6", `${claim.uid} is ${claim.state} on ${claim.node}, whose attachment is ${has}`);
  }
  const epochs = claims.flatMap((c) => (c.epoch === undefined ? [] : [`${c.epoch.gen}.${c.epoch.ctr}`]));
  if (new Set(epochs).size !== epochs.length) throw violated("I3", "two grants have one epoch");
  for (const { node, state, paused } of Object.values(volume.attachments)) {
    if (!claims.some((c) => c.node === node && attachmentFor[c.state].length > 0))
      throw violated("I5", `the attachment to ${node} has no claim`);
    if (paused !== undefined && (state !== "ATTACHING" || intent?.node === node))
      throw violated("I4", `the attach of ${node} is paused while it is ${state}, or has its intent`);
    if (state === "ATTACHING" && paused === undefined && (intent?.op !== "attach" || intent.node !== node))
      throw violated("I4", `${node} is being attached without an intent`);
  }
  if (intent?.op === "attach" || intent?.op === "detach") {
    const state = volume.attachments[intent.node ?? ""]?.state;
    const wanted = intent.op === "attach" ? "ATTACHING" : "DETACHING";
    if (state !== wanted) throw violated("I4", `the intent is to ${intent.op} ${intent.node}, which is ${state}`);
  }
};

/** Throws, by the name of the invariant, when the world is in a state in which it must never be. */
export const checkWorld = (view: WorldView): void => {
  checkUses(view);
  checkMounts(view);
  checkOwners(view);
  if (view.volume !== undefined) checkRecord(view.volume);
};
