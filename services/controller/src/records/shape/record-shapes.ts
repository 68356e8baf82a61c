/** The fields of each kind of record that decisions are made from. */
import { accessModes } from "@holdfast/model/access";
import { claimStates } from "../../domain/claim/claim.ts";
import { orphanKinds } from "../../domain/repair/orphan.ts";
import { cutStates } from "../../domain/snapshot/snapshot.ts";
import { volumeStates } from "../../domain/volume/volume.ts";
import {
  amount,
  count,
  filled,
  flag,
  listOf,
  mapOf,
  oneOf,
  optional,
  type Shape,
  shaped,
  text,
} from "./record-shape.ts";

const epoch = shaped({ gen: count, ctr: count });
const attempts = shaped({ count, nextTry: amount });
const blocked = optional(shaped({ since: amount, reason: filled, message: text, clearWith: text }));
const accessMode = oneOf(...accessModes);
const attachmentMode = oneOf("FILE_SYSTEM", "BLOCK_DEVICE");
const texts = mapOf(text);
const times = { createdAt: amount, updatedAt: amount };

const claim = shaped({
  uid: filled,
  workload: text,
  alias: text,
  node: text,
  accessMode,
  attachmentMode,
  readOnly: flag,
  state: oneOf(...claimStates),
  goal: oneOf("active", "released"),
  epoch: optional(epoch),
  nodeEpoch: optional(count),
  ticket: text,
  queueDeadline: amount,
  set: listOf(shaped({ namespace: text, volume: text, uid: filled })),
  attempts,
  blocked,
});

const attachment = shaped({
  node: text,
  state: oneOf("ATTACHING", "ATTACHED", "DETACHING"),
  nodeId: text,
  needsCalls: flag,
  accessMode,
  attachmentMode,
  publishContext: texts,
  nodeEpoch: count,
  owed: optional(shaped({ why: text, since: amount, attempts, blocked })),
  paused: optional(shaped({ behind: listOf(text) })),
});

const nodeLife = {
  machineId: text,
  bootId: text,
  journalUid: text,
  lockId: optional(text),
  hostIdentity: optional(filled),
};

const callSite = {
  issuer: text,
  opId: filled,
  via: optional(filled),
  gate: optional(filled),
  gateEpoch: optional(count),
  openSince: optional(amount),
  beyondGate: optional(flag),
};

const callBar = { ...callSite, op: filled, issuer: filled, via: filled, since: amount, attempts };

export const volumeShape: Shape = shaped({
  namespace: filled,
  id: filled,
  uid: filled,
  name: text,
  externalId: text,
  plugin: filled,
  parameters: texts,
  context: texts,
  capabilities: listOf(shaped({ accessMode, attachmentMode })),
  capacity: shaped({ required: amount, limit: amount, actual: amount }),
  state: oneOf(...volumeStates),
  goal: oneOf("present", "absent"),
  epoch,
  claims: mapOf(claim),
  attachments: mapOf(attachment),
  bars: listOf(
    shaped({
      ...callBar,
      node: text,
      attachment: optional(attachment),
      size: optional(shaped({ required: amount, limit: amount })),
      onlyUnused: optional(flag),
      parameters: optional(texts),
    }),
  ),
  foreign: optional(
    listOf(
      shaped({
        ...{ node: filled, claimUid: filled, workload: text, alias: text, epoch, since: amount },
        toldBy: optional(shaped(nodeLife)),
      }),
    ),
  ),
  intent: optional(shaped({ ...callSite, op: filled, epoch })),
  attempts,
  blocked,
  expansion: optional(shaped({ attempts, blocked })),
  growth: optional(shaped({ nodes: mapOf(shaped({ attempts, blocked })) })),
  modification: optional(shaped({ attempts, blocked })),
  ephemeral: optional(shaped({ workload: filled, alias: filled, claimed: optional(flag) })),
  restore: optional(
    shaped({
      ...{ uid: filled, group: filled, members: listOf(shaped({ source: filled, id: filled })) },
      ...{ claimed: optional(flag), end: optional(oneOf("undone", "kept")) },
    }),
  ),
  ...times,
});

const cutOp = oneOf("create", "delete");

const cut = {
  namespace: filled,
  id: filled,
  uid: filled,
  name: text,
  externalId: text,
  plugin: filled,
  cutAt: amount,
  state: oneOf(...cutStates),
  goal: oneOf("present", "absent"),
  intent: optional(shaped({ ...callSite, op: cutOp })),
  attempts,
  bars: listOf(shaped({ ...callBar, op: cutOp })),
  polls: count,
  blocked,
  ...times,
};

const snapshotShape = shaped({
  kind: oneOf("snapshot"),
  ...cut,
  // Empty for one that was found at a backend and belonged to nobody.
  volume: text,
  volumeUid: text,
  externalVolumeId: text,
  group: text,
  sizeBytes: amount,
});

const member = shaped({
  snapshot: filled,
  uid: filled,
  volume: filled,
  volumeUid: filled,
  externalId: text,
  ready: flag,
});
const groupShape = shaped({ kind: oneOf("group"), ...cut, members: listOf(member), answeredIds: listOf(text) });

export const cutShape = (kind: string): Shape => (kind === "group" ? groupShape : snapshotShape);

export const claimTombstoneShape: Shape = shaped({
  namespace: filled,
  volume: filled,
  workload: filled,
  alias: text,
  uid: filled,
  node: text,
  state: oneOf("RELEASED", "FAILED", "FENCED"),
  createdAt: amount,
  endedAt: amount,
});

export const volumeTombstoneShape: Shape = shaped({
  namespace: filled,
  id: filled,
  uid: filled,
  plugin: text,
  externalId: text,
  deletedAt: amount,
});

export const cutTombstoneShape: Shape = shaped({
  kind: oneOf("snapshot", "group"),
  namespace: filled,
  id: filled,
  uid: filled,
  deletedAt: amount,
});

export const deleteMarkShape: Shape = shaped({
  plugin: filled,
  externalId: filled,
  namespace: filled,
  id: filled,
  uid: filled,
  since: amount,
});

export const nodeShape: Shape = shaped({
  name: filled,
  ...nodeLife,
  instance: text,
  nodeEpoch: count,
  state: oneOf("READY", "FENCING", "QUARANTINED"),
  address: text,
  plugins: listOf(shaped({ name: filled, instance: text, nodeId: text, maxVolumes: amount, topology: texts })),
  drain: optional(shaped({ since: amount, mode: oneOf("wait", "release") })),
  pending: optional(shaped({ ...nodeLife, life: filled, address: text, since: amount })),
  admitted: optional(text),
  speaksFrom: optional(count),
  outlived: optional(shaped(nodeLife)),
  ...{ bootsBefore: optional(listOf(filled)), machinesBefore: optional(listOf(filled)) },
  linkDoubt: optional(shaped({ by: filled, at: amount })),
  linkLost: optional(shaped({ at: amount })),
  forgottenAt: optional(amount),
  fence: optional(
    shaped({
      ...{ kind: oneOf("power-off", "on-detach"), who: text, evidence: text, since: amount },
      spoke: optional(flag),
    }),
  ),
  registeredAt: amount,
  updatedAt: amount,
});

const version = shaped({
  version: count,
  keys: listOf(text),
  sealed: shaped({ key: filled, wrapped: filled, body: filled }),
});

export const secretShape: Shape = shaped({
  namespace: filled,
  name: filled,
  versions: listOf(version),
  last: optional(count),
  inline: flag,
  ...times,
});

export const auditShape: Shape = shaped({
  id: filled,
  at: amount,
  verb: filled,
  who: text,
  reason: text,
  subject: texts,
  revisionBefore: count,
});

export const orphanShape: Shape = shaped({
  id: filled,
  kind: oneOf(...orphanKinds),
  plugin: text,
  externalId: text,
  foundAt: amount,
  seenAt: amount,
});

export const learnedLimitShape: Shape = shaped({
  slots: filled,
  limit: count,
  until: amount,
  instance: text,
  maxVolumes: amount,
});
