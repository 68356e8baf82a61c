import type { Claim } from "../claim/claim.ts";
import type { GrantFacts } from "../claim/grant.ts";
import type { Moment } from "../moment.ts";
import type { NodeRecord } from "../node/node.ts";
import { type Advice, type Failure, noAttempts } from "../outcome.ts";
import { defaultRetry } from "../retry.ts";
import type { CutBar, SnapshotRecord } from "../snapshot/snapshot.ts";
import type { Attachment, Bar, VolumeRecord } from "../volume/volume.ts";

/** Records as they are after nothing special happened; each test says what is different. */

export const momentAt = (now: number, changes: Partial<Moment> = {}): Moment => ({
  now,
  issuer: "controller/1",
  opId: "op-9",
  random: 0.5,
  retry: defaultRetry,
  ...changes,
});

export const failureWith = (advice: Advice, changes: Partial<Failure> = {}): Failure => ({
  reason: "BROKEN",
  message: "it broke",
  advice,
  ...changes,
});

export const claimRecord = (uid: string, changes: Partial<Claim> = {}): Claim => ({
  uid,
  workload: `workload-${uid}`,
  alias: "data",
  node: "n1",
  accessMode: "MULTI_NODE_MULTI_WRITER",
  attachmentMode: "FILE_SYSTEM",
  fsType: "",
  mountFlags: [],
  volumeMountGroup: "",
  readOnly: false,
  state: "QUEUED",
  goal: "active",
  ticket: uid,
  queueDeadline: 100_000,
  requestId: `request-${uid}`,
  set: [{ namespace: "ns", volume: "data", uid }],
  attempts: noAttempts,
  createdAt: 0,
  updatedAt: 0,
  stateSince: 0,
  ...changes,
});

export const attachmentRecord = (node: string, changes: Partial<Attachment> = {}): Attachment => ({
  node,
  state: "ATTACHED",
  nodeId: `id-${node}`,
  needsCalls: true,
  readOnly: false,
  accessMode: "MULTI_NODE_MULTI_WRITER",
  attachmentMode: "FILE_SYSTEM",
  fsType: "",
  mountFlags: [],
  volumeMountGroup: "",
  publishContext: {},
  pluginVersion: "1",
  nodeEpoch: 1,
  ...changes,
});

export const barRecord = (node: string, changes: Partial<Bar> = {}): Bar => ({
  op: "detach",
  node,
  attachment: attachmentRecord(node, { state: "DETACHING" }),
  issuer: "c9/1",
  via: "node g1: model",
  gate: "life-1",
  opId: `late-${node}`,
  since: 1,
  attempts: noAttempts,
  ...changes,
});

export const volumeRecord = (
  claims: readonly Claim[] = [],
  attachments: readonly Attachment[] = [],
  changes: Partial<VolumeRecord> = {},
): VolumeRecord => ({
  namespace: "ns",
  id: "data",
  uid: "volume-1",
  name: "name-1",
  externalId: "ext-1",
  plugin: "model",
  pluginVersion: "1",
  parameters: {},
  mutableParameters: {},
  capabilities: [],
  capacity: { required: 1, limit: 0, actual: 1 },
  topology: { required: [], preferred: [], accessible: [] },
  contentSource: { kind: "none" },
  context: {},
  secretRefs: {},
  labels: {},
  policy: { reclaim: "delete", nodeLoss: "wait", requiresRepublish: false, identityTokens: [] },
  state: "AVAILABLE",
  goal: "present",
  epoch: { gen: 1, ctr: 9 },
  claims: Object.fromEntries(claims.map((claim) => [claim.uid, claim])),
  attachments: Object.fromEntries(attachments.map((attachment) => [attachment.node, attachment])),
  bars: [],
  attempts: noAttempts,
  requestId: "request",
  createdAt: 0,
  updatedAt: 0,
  stateSince: 0,
  changedBy: { who: "tester", why: "" },
  ...changes,
});

export const nodeRecord = (name: string, changes: Partial<NodeRecord> = {}): NodeRecord => ({
  name,
  machineId: "machine-1",
  bootId: "boot-1",
  journalUid: "journal-1",
  instance: "i1",
  nodeEpoch: 1,
  state: "READY",
  address: "10.0.0.1:7610",
  version: "0.1.0",
  verificationScope: "host",
  plugins: [],
  registeredAt: 0,
  updatedAt: 0,
  ...changes,
});

export const goodFacts: GrantFacts = {
  nodeReady: true,
  nodeEpoch: 1,
  nodeId: "id-n1",
  topology: {},
  pluginVersion: "1",
  attaches: "yes",
  publishesReadOnly: "no",
  storeGen: 1,
};

/** A snapshot that is READY, or what its state owes. */
export const cutRecord = (changes: Partial<SnapshotRecord> = {}): SnapshotRecord => {
  const op = ({ CREATING: "create", DELETING: "delete" } as const)[changes.state as "CREATING" | "DELETING"];
  return {
    kind: "snapshot",
    namespace: "ns",
    id: "x",
    uid: "uid-x",
    name: "name-x",
    externalId: "ext-x",
    plugin: "csi.example",
    pluginVersion: "",
    parameters: {},
    secretRefs: {},
    labels: {},
    cutAt: 0,
    state: "READY",
    goal: "present",
    ...(op === undefined ? {} : { intent: { op, issuer: "controller/1", opId: "op-1" } }),
    bars: [],
    attempts: noAttempts,
    polls: 0,
    requestId: "",
    createdAt: 1,
    updatedAt: 1,
    stateSince: 1,
    changedBy: { who: "t", why: "t" },
    volume: "v",
    volumeUid: "uid-v",
    externalVolumeId: "ext-v",
    group: "",
    externalGroupId: "",
    sizeBytes: 0,
    ...changes,
  };
};

export const cutBarRecord = (op: CutBar["op"], changes: Partial<CutBar> = {}): CutBar => ({
  op,
  issuer: "c9/1",
  via: "node g1: csi.example",
  gate: "life-1",
  opId: `late-${op}`,
  since: 5,
  attempts: noAttempts,
  ...changes,
});
