/**
 * What has to be in a record of the journal before it is believed. A number that is none compares as it likes, so that a floor would be lost or a
 * late order let through; a list of other things would be walked as if it were ours. A journal with such a record is damaged.
 */
import {
  accessMode,
  attachmentMode,
  count,
  epoch,
  flag,
  listOf,
  mapOf,
  oneOf,
  optional,
  type Shape,
  shaped,
  text,
  time,
} from "@holdfast/model/record-shape";
import type { DockerRecord, MountId } from "./docker-book.ts";
import type { AgentRecord, VolumeRecord } from "./events.ts";
import type { HostedInstance, InstanceKey, PluginRegistry, RegistryChange, RegistryEntry } from "./plugin-registry.ts";
import {
  type AgentFacts,
  claimPhases,
  type DeadEpoch,
  type HeldClaim,
  type MountFailure,
  type MountMark,
  type PermitFacts,
  type StageState,
  stagePhases,
  type VolumeRef,
  type VolumeState,
} from "./types.ts";
import {
  type ContainerPlace,
  type WorkloadFailure,
  type WorkloadRecord,
  type WorkloadState,
  type WorkloadVolume,
  workloadPhases,
} from "./workload-machine.ts";

/** A field that is added to the type and not here does not compile. */
type Fields<T> = { readonly [K in keyof T]-?: Shape };
type ByType<R extends { readonly type: string }> = {
  readonly [T in R["type"]]: Fields<Omit<Extract<R, { readonly type: T }>, "type">>;
};
const of = <T>(fields: Fields<T>): Shape => shaped(fields);

const ids = listOf(count);
const ref = of<VolumeRef>({ namespace: text, volume: text, volumeUid: text, externalId: text, plugin: text });
const facts = of<PermitFacts>({
  claimUid: text,
  workload: text,
  alias: text,
  epoch,
  nodeEpoch: count,
  accessMode,
  attachmentMode,
  readOnly: flag,
  fsType: text,
  digest: text,
  target: text,
});
const failure = optional(of<MountFailure>({ reason: text, method: text, code: text }));
const sight = { marks: listOf(of<MountMark>({ device: text, root: text })), before: ids };
const stagePlan = { stageNeeded: flag, stagePath: text };
const ofClaim = { claimUid: text };
const ended = { ...ofClaim, epoch, late: flag };

const volumeRecords: ByType<VolumeRecord> = {
  permit: { ref, facts, floor: epoch, ...stagePlan, found: shaped({ stage: flag, target: flag }) },
  adopted: { ref, facts, ...stagePlan, ...sight },
  "stage-intent": {},
  staged: { shown: ids, ...sight },
  "stage-refused": {},
  "publish-intent": ofClaim,
  published: { ...ofClaim, mountId: count, shown: optional(ids), ...sight },
  "publish-refused": ofClaim,
  "release-intent": { ...ofClaim, failure },
  "unpublish-intent": ofClaim,
  unpublished: ofClaim,
  "unstage-intent": {},
  unstaged: {},
  released: ended,
  dead: { ref, ...ended },
  forgotten: ofClaim,
};

const volumeState = of<VolumeState>({
  ref,
  floor: epoch,
  dead: listOf(of<DeadEpoch>({ ...ended, failure })),
  stage: of<StageState>({ phase: oneOf(...stagePhases), needed: flag, path: text, shown: ids, ...sight }),
  claims: mapOf(
    of<HeldClaim>({
      facts,
      phase: oneOf(...claimPhases),
      goal: oneOf("mounted", "released"),
      failure,
      mountId: count,
    }),
  ),
});

const place = of<ContainerPlace>({
  container: text,
  path: text,
  readOnly: flag,
  propagation: oneOf("private", "host-to-container", "bidirectional"),
});
const wanted = {
  digest: text,
  volumes: listOf(of<WorkloadVolume>({ alias: text, volume: text, readOnly: flag, places: listOf(place) })),
  ticketed: optional(flag),
};
const named = { namespace: text, workload: text };
const undone = of<WorkloadFailure>({ reason: text, alias: text, volume: text });
const restart = { since: time, reason: text };

const workloadRecords: ByType<WorkloadRecord> = {
  wanted: { ...named, ...wanted },
  claimed: { ...named, claimUids: mapOf(text) },
  failed: { ...named, failure: undone },
  "release-wanted": named,
  "restart-wanted": { ...named, ...restart },
  restarted: named,
  gone: named,
};

const workloadState = of<WorkloadState>({
  ...named,
  ...wanted,
  phase: oneOf(...workloadPhases),
  claimUids: mapOf(text),
  restart: optional(shaped(restart)),
  failure: optional(undone),
});

const instance = of<HostedInstance>({
  plugin: text,
  allocation: text,
  role: oneOf("controller", "node", "monolith"),
  socketDir: text,
  publishDir: text,
  healthTimeoutMs: time,
  hostFilesystem: flag,
  restartInUse: flag,
});
/** One of the two is there. */
const atPlace = { allocation: optional(text), beside: optional(of<InstanceKey>({ plugin: text, allocation: text })) };

const registryChanges: ByType<RegistryChange> = {
  prepared: { instance, ownPlace: optional(flag) },
  registered: { at: time, nodeId: text, ...atPlace },
  removed: atPlace,
};

const dockerRecords: ByType<DockerRecord> = {
  wanted: { volume: text, id: text, daemon: text },
  answered: { volume: text, id: text },
  dropped: { volume: text, ids: listOf(text) },
  settled: { volume: text },
};

/** A record of a later version is a fault as well: to leave it out would be to forget it. */
const typed = (shapes: Readonly<Record<string, Readonly<Record<string, Shape>>>>): Shape => {
  const known = shaped({ type: oneOf(...Object.keys(shapes)) });
  const byType = new Map(Object.entries(shapes).map(([type, fields]) => [type, shaped(fields)]));
  return (value, path) => known(value, path) ?? byType.get((value as { readonly type: string }).type)?.(value, path);
};

const agentRecords: ByType<AgentRecord> = {
  "node-epoch": { nodeEpoch: count, clusterUid: text },
  "promised-gen": { gen: count, uid: optional(text) },
  boot: { bootId: text },
  plugin: { change: typed(registryChanges) },
  workload: { record: typed(workloadRecords) },
  docker: { record: typed(dockerRecords) },
};

const agentFacts = of<AgentFacts>({
  nodeEpoch: count,
  clusterUid: text,
  promisedGen: count,
  promisedTo: text,
  bootId: text,
  plugins: of<PluginRegistry>({
    entries: listOf(
      of<RegistryEntry>({ instance, order: count, registeredAt: time, nodeId: text, ownPlace: optional(flag) }),
    ),
    lastOrder: count,
  }),
  workloads: mapOf(workloadState),
  docker: mapOf(listOf(of<MountId>({ id: text, daemon: text, answered: flag }))),
});

/** The kinds of entries of a frame, by the field that says which one it is; the first that is there counts, as in the fold. */
const kinds: Readonly<Record<string, Shape>> = {
  f: shaped({ f: agentFacts }),
  s: shaped({ s: volumeState }),
  a: shaped({ a: typed(agentRecords) }),
  v: shaped({ v: text, r: typed(volumeRecords) }),
};

export const journalFault = (entry: unknown): string | undefined => {
  const kind = Object.keys(kinds).find((field) => Object.hasOwn(Object(entry), field));
  return kind === undefined ? "an entry of no kind that is known" : kinds[kind]?.(entry, "");
};
