/** The fields of each kind of record that decisions are made from. */
import {
  accessMode,
  attachmentMode,
  count,
  epoch,
  filled,
  flag,
  listOf,
  mapOf,
  oneOf,
  optional,
  type Shape,
  shaped,
  size,
  text,
  time,
} from "@holdfast/model/record-shape";
import { claimStates } from "../../domain/claim/claim.ts";
import { orphanKinds } from "../../domain/repair/orphan.ts";
import { cutStates } from "../../domain/snapshot/snapshot.ts";
import { volumeStates } from "../../domain/volume/volume.ts";

const attempts = shaped({ count, nextTry: time });
const blocked = optional(shaped({ since: time, reason: filled, message: text, clearWith: text }));
const texts = mapOf(text);
const times = { createdAt: time, updatedAt: time };
/** Told and never decided from: what is absent is told as none. */
const toldTimes = { createdAt: optional(time), updatedAt: optional(time), stateSince: optional(time) };

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
  ahead: optional(filled),
  ticket: text,
  queueDeadline: time,
  set: listOf(shaped({ namespace: text, volume: text, uid: filled })),
  attempts,
  blocked,
  ...toldTimes,
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
  owed: optional(shaped({ why: text, since: time, attempts, blocked })),
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
  openSince: optional(time),
  beyondGate: optional(flag),
};

const callBar = { ...callSite, op: filled, issuer: filled, via: filled, since: time, attempts };

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
  capacity: shaped({ required: count, limit: count, actual: size }),
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
      size: optional(shaped({ required: count, limit: count })),
      onlyUnused: optional(flag),
      parameters: optional(texts),
    }),
  ),
  foreign: optional(
    listOf(
      shaped({
        ...{ node: filled, claimUid: filled, workload: text, alias: text, epoch, since: time },
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
  stateSince: optional(time),
});

const cutOp = oneOf("create", "delete");

const cut = {
  namespace: filled,
  id: filled,
  uid: filled,
  name: text,
  externalId: text,
  plugin: filled,
  cutAt: time,
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
  sizeBytes: size,
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

export const nodeShape: Shape = shaped({
  name: filled,
  ...nodeLife,
  instance: text,
  nodeEpoch: count,
  state: oneOf("READY", "FENCING", "QUARANTINED"),
  address: text,
  plugins: listOf(shaped({ name: filled, instance: text, nodeId: text, maxVolumes: size, topology: texts })),
  drain: optional(shaped({ since: time, mode: oneOf("wait", "release") })),
  pending: optional(shaped({ ...nodeLife, life: filled, address: text, since: time })),
  admitted: optional(text),
  speaksFrom: optional(count),
  outlived: optional(shaped(nodeLife)),
  ...{ bootsBefore: optional(listOf(filled)), machinesBefore: optional(listOf(filled)) },
  linkDoubt: optional(shaped({ by: filled, at: time })),
  linkLost: optional(shaped({ at: time })),
  forgottenAt: optional(time),
  fence: optional(
    shaped({
      ...{ kind: oneOf("power-off", "on-detach"), who: text, evidence: text, since: time },
      spoke: optional(flag),
    }),
  ),
  registeredAt: time,
  updatedAt: time,
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
  at: time,
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
  sizeBytes: size,
  foundAt: time,
  seenAt: time,
});

export const learnedLimitShape: Shape = shaped({
  slots: filled,
  limit: count,
  until: time,
  instance: text,
  maxVolumes: size,
});
