/** The record of one volume, made anew from what agents hold of it and what its backend lists. */
import { accessConflict } from "@holdfast/model/access";
import { type Epoch, newerEpoch, showEpoch, zeroEpoch } from "@holdfast/model/epoch";
import type { Tri } from "@holdfast/model/tri";
import { foreignNoted, type Held, living } from "../attachment/foreign-hold.ts";
import { blockedFor } from "../blocked.ts";
import type { Claim } from "../claim/claim.ts";
import { attachmentFor } from "../claim/grant.ts";
import type { Inventory, JournalledPermit } from "../claim/permit.ts";
import type { ListedVolume } from "../listing.ts";
import type { NodeRecord } from "../node/node.ts";
import { noAttempts } from "../outcome.ts";
import { type VolumeCapability, type VolumeRecord, volumeKey } from "../volume/volume.ts";

/** A node that the person has named, and what its agent told. */
export interface HeardNode {
  readonly record: NodeRecord;
  readonly inventory: Inventory;
}

/** What can be known of a plugin without a record. */
export interface PluginTold {
  readonly attaches: Tri;
  readonly publishesReadOnly: Tri;
  /** By external id; otherwise why it lists none. */
  readonly listed: ReadonlyMap<string, ListedVolume> | string;
}

export interface RebuildFacts {
  readonly nodes: readonly HeardNode[];
  readonly plugin: (name: string) => PluginTold;
  readonly who: string;
  readonly now: number;
}

/** One line of the report. */
export interface RebuiltRow {
  /** `default/data`, or storage without a name: `plugin/external id`. */
  readonly subject: string;
  readonly outcome: "known again" | "not proven" | "no record";
  /** What runs on, or what is missing; for people. */
  readonly words: readonly string[];
}

/** One volume as one agent knows it. */
export type Sighting = Inventory["volumes"][number] & { readonly node: NodeRecord };

/** A hold whose claim can run on: published, with all that its record said. */
interface Running {
  readonly node: NodeRecord;
  readonly held: Held;
  readonly permit: JournalledPermit;
  readonly nodeId: string;
  readonly pluginVersion: string;
}

const runningOf = ({ node, plugin }: Sighting, held: Held, { attaches }: PluginTold): Running | string => {
  const where = `claim ${held.claimUid} of workload ${held.workload} on node ${node.name}`;
  const own = node.plugins.find(({ name, role }) => name === plugin && role !== "CONTROLLER");
  if (held.permit === undefined) return `${where}: its agent does not tell how it is used`;
  if (held.state !== "PUBLISHED") return `${where}: it is ${held.state}, and what was wanted of it is lost`;
  if (attaches === "unknown") return `${where}: plugin ${plugin} does not answer whether it attaches; start it`;
  if (own === undefined || own.nodeId === "") return `${where}: plugin ${plugin} is not there; start it`;
  return { node, held, permit: held.permit, nodeId: own.nodeId, pluginVersion: own.version };
};

const claimOf = (
  { namespace, volume }: Sighting,
  { node, held: { claimUid: uid, workload, alias, epoch }, permit }: Running,
  now: number,
): Claim => ({
  uid,
  workload,
  alias,
  node: node.name,
  accessMode: permit.accessMode,
  attachmentMode: permit.attachmentMode,
  fsType: permit.fsType,
  mountFlags: [],
  volumeMountGroup: "",
  readOnly: permit.readOnly,
  state: permit.releasing ? "RELEASING" : "ACTIVE",
  goal: permit.releasing ? "released" : "active",
  epoch,
  nodeEpoch: permit.nodeEpoch,
  ticket: uid,
  queueDeadline: now,
  requestId: "",
  set: [{ namespace, volume, uid }],
  publication: {
    hostPath: permit.target,
    mountId: permit.mountId,
    bootId: node.bootId,
    journalUid: node.journalUid,
  },
  attempts: noAttempts,
  createdAt: now,
  updatedAt: now,
  stateSince: now,
  activeAt: now,
});

export const highest = (sightings: readonly Sighting[]): Epoch =>
  sightings
    .flatMap(({ floor, held }) => [floor ?? zeroEpoch, ...held.map(({ epoch }) => epoch)])
    .reduce(newerEpoch, zeroEpoch);

/** What was permitted was a capability of the volume, also where its hold is half made: who comes back for it is not told otherwise. */
const capabilitiesOf = (holds: readonly Held[]): readonly VolumeCapability[] => {
  const permits = holds.flatMap(({ permit }) => (permit === undefined ? [] : [permit]));
  const all = permits.map(({ accessMode, attachmentMode, fsType }) => ({ accessMode, attachmentMode, fsType }));
  return [...new Map(all.map((one) => [JSON.stringify(one), one])).values()].map((one) => ({
    ...one,
    mountFlags: [],
    volumeMountGroup: "",
  }));
};

const emptyVolume = (seen: Sighting, { who, now }: RebuildFacts): VolumeRecord => ({
  namespace: seen.namespace,
  id: seen.volume,
  uid: seen.volumeUid,
  name: "",
  externalId: seen.externalId,
  plugin: seen.plugin,
  pluginVersion: seen.node.plugins.find(({ name }) => name === seen.plugin)?.version ?? "",
  parameters: {},
  mutableParameters: {},
  capabilities: [],
  capacity: { required: 0, limit: 0, actual: 0 },
  topology: { required: [], preferred: [], accessible: [] },
  contentSource: { kind: "none" },
  context: {},
  secretRefs: {},
  labels: {},
  // Nobody has said that its data may go.
  policy: { reclaim: "retain", nodeLoss: "wait", requiresRepublish: false, identityTokens: [] },
  state: "AVAILABLE",
  goal: "present",
  epoch: zeroEpoch,
  claims: {},
  attachments: {},
  bars: [],
  attempts: noAttempts,
  requestId: "",
  createdAt: now,
  updatedAt: now,
  stateSince: now,
  changedBy: { who, why: "rebuilt from what the agents hold" },
});

/** Claims that contradict each other run on none of them as the one that the record names. */
const conflictOf = (running: readonly Running[]): string | undefined => {
  for (const [nth, one] of running.entries())
    for (const other of running.slice(nth + 1)) {
      const use = ({ permit, node }: Running) => ({ ...permit, node: node.name });
      const why = accessConflict(use(one), use(other));
      if (why !== undefined)
        return `claims ${one.held.claimUid} on node ${one.node.name} and ${other.held.claimUid} on node ${other.node.name} contradict each other: ${why}`;
    }
  return undefined;
};

/** What the backend itself must say before the volume may be granted again. */
const missingAtBackend = (seen: Sighting, { listed }: PluginTold, facts: RebuildFacts): string | undefined => {
  if (typeof listed === "string") return `its context at plugin ${seen.plugin} is not known: ${listed}`;
  const found = listed.get(seen.externalId);
  if (found === undefined) return `plugin ${seen.plugin} does not list it as ${seen.externalId}`;
  // A plugin may leave it out of its list.
  if (Object.keys(found.context).length === 0)
    return `plugin ${seen.plugin} lists it without a context, and whether it has one is not known`;
  const heard = new Set(facts.nodes.flatMap(({ record }) => record.plugins.map(({ nodeId }) => nodeId)));
  const strange = found.publishedNodes?.find((nodeId) => !heard.has(nodeId));
  return strange === undefined ? undefined : `it is attached to ${strange}, a node that was not heard`;
};

const withListing = (volume: VolumeRecord, { listed }: PluginTold): VolumeRecord => {
  const found = typeof listed === "string" ? undefined : listed.get(volume.externalId);
  if (found === undefined) return volume;
  const { capacity, context, accessible } = found;
  return {
    ...volume,
    context,
    capacity: { required: capacity, limit: 0, actual: capacity },
    topology: { ...volume.topology, accessible },
  };
};

/** Its claims run on and are released; nothing more is granted. */
export const notGranted = (volume: VolumeRecord, message: string, now: number): VolumeRecord => ({
  ...volume,
  state: "FAILED",
  failure: {
    reason: "NOT_PROVEN",
    message: "its record was made anew from what agents hold, and that is not all of it",
  },
  blocked: blockedFor("NOT_PROVEN", volume, message, undefined, now),
});

/** All sightings are of one volume, and one of them at least holds it. */
export const rebuiltVolume = (
  sightings: readonly Sighting[],
  facts: RebuildFacts,
): { volume: VolumeRecord; row: RebuiltRow } => {
  const { now } = facts;
  const [seen] = sightings;
  if (seen === undefined) throw new Error("a volume that nobody has seen");
  const told = facts.plugin(seen.plugin);
  const judged = sightings.flatMap((one) =>
    living(one.held).map((held) => ({ one, held, verdict: runningOf(one, held, told) })),
  );
  const candidates = judged.flatMap(({ verdict }) => (typeof verdict === "string" ? [] : [verdict]));
  const conflict = conflictOf(candidates);
  const running = conflict === undefined ? candidates : [];
  const foreign = judged.filter(({ held }) => !running.some((one) => one.held === held));
  const claims = running.map((one) => claimOf(seen, one, now));
  const base = withListing({ ...emptyVolume(seen, facts), epoch: highest(sightings) }, told);
  let volume: VolumeRecord = {
    ...base,
    claims: Object.fromEntries(claims.map((claim) => [claim.uid, claim])),
    capabilities: capabilitiesOf(judged.map(({ held }) => held)),
  };
  for (const [nth, { node, nodeId, pluginVersion, permit }] of running.entries()) {
    const claim = claims[nth];
    if (claim === undefined || volume.attachments[node.name] !== undefined) continue;
    const { attaches, publishesReadOnly } = told;
    const { machineId } = node;
    const grant = { attaches, publishesReadOnly, nodeId, pluginVersion, nodeEpoch: permit.nodeEpoch, machineId };
    const attachment = { ...attachmentFor(volume, claim, grant), state: "ATTACHED" as const };
    volume = { ...volume, attachments: { ...volume.attachments, [node.name]: attachment } };
  }
  for (const node of new Set(foreign.map(({ one }) => one.node))) {
    const here = foreign.filter(({ one }) => one.node === node).map(({ held }) => held);
    volume = foreignNoted(volume, node, here, now).volume ?? volume;
  }
  const missing = missingAtBackend(seen, told, facts);
  if (missing !== undefined) volume = notGranted(volume, missing, now);
  const unproven = [
    ...(conflict === undefined ? [] : [conflict]),
    ...judged.flatMap(({ verdict }) => (typeof verdict === "string" ? [verdict] : [])),
    ...(missing === undefined ? [] : [missing]),
  ];
  const runs = claims.map(
    ({ workload, node, epoch }) => `${workload} on ${node} under ${showEpoch(epoch ?? zeroEpoch)}`,
  );
  const outcome = unproven.length === 0 ? "known again" : "not proven";
  return { volume, row: { subject: volumeKey(volume), outcome, words: [...runs, ...unproven] } };
};
