/**
 * One volume of a question about placement: what speaks for and against it whatever the node is like. Nearly all nodes are alike to a
 * volume; those that are not are those that its record names.
 */

import { accessConflict } from "@holdfast/model/access";
import { nodeThatWaits } from "../attachment/attach-pause.ts";
import { grantBar } from "../bar.ts";
import { barWords } from "../bar-block.ts";
import type { Claim } from "../claim/claim.ts";
import { holds } from "../claim/claim-machine.ts";
import { isUnbound } from "../claim/early-claims.ts";
import { attachGoesFirst, foreignBarred, inTheWay } from "../claim/grant.ts";
import { noAttempts } from "../outcome.ts";
import type { CapacityQuery } from "../plugin/backend-capacity.ts";
import { expandsBeforeGrants } from "../size/growth.ts";
import { chooseCapability } from "../volume/capability-match.ts";
import { wantedPlaces } from "../volume/source-topology.ts";
import { type VolumeCapability, type VolumeRecord, type VolumeRef, volumeKey } from "../volume/volume.ts";
import { inaccessibleOn, nodesWithViews } from "../volume/volume-health.ts";
import { foldKeys } from "./node-class.ts";
import { type PlacementReason, placementReason } from "./placement-reason.ts";

export interface AskedClaim {
  readonly ref: VolumeRef;
  readonly alias: string;
  readonly capability: VolumeCapability | undefined;
  readonly readOnly: boolean;
}

/** What the volume's record says of one node. */
export interface PairVerdict {
  readonly reasons: readonly PlacementReason[];
  readonly attached: boolean;
  /** It has a slot there that it would have given back by then. */
  readonly freed: boolean;
  /** The machine that has it there; another one of the same name cannot. */
  readonly machineId?: string;
}

export interface VolumeAsk {
  readonly key: string;
  readonly id: string;
  readonly plugin: string;
  /** On every node. */
  readonly always: readonly PlacementReason[];
  /** On the nodes that the record does not name. */
  readonly elsewhere: PairVerdict;
  readonly named: ReadonlyMap<string, PairVerdict>;
  readonly accessible: readonly ReadonlyMap<string, string>[];
  readonly preferred: readonly ReadonlyMap<string, string>[];
  /** undefined: nothing is known that could be granted. */
  readonly claim: Claim | undefined;
  /** It is to be made for the node that is chosen: what there has to be room for. */
  readonly unmade?: { readonly bytes: number; readonly like: Omit<CapacityQuery, "topology"> };
}

const clear: PairVerdict = { reasons: [], attached: false, freed: false };

/** Later than every ticket. */
export const lastTicket = "~";

const hypothetical = (asked: AskedClaim, workload: string, capability: VolumeCapability, after?: string): Claim => ({
  uid: "",
  workload,
  alias: asked.alias,
  node: "",
  ...capability,
  readOnly: asked.readOnly,
  state: "QUEUED",
  goal: "active",
  ticket: lastTicket,
  queueDeadline: 0,
  ...(after === undefined ? {} : { after }),
  requestId: "",
  set: [],
  attempts: noAttempts,
  createdAt: 0,
  updatedAt: 0,
  stateSince: 0,
});

/** The record as it would be once these workloads have released it, and the nodes that it would have left. */
const without = (volume: VolumeRecord, gone: ReadonlySet<string>) => {
  const all = Object.values(volume.claims);
  const left = all.filter((c) => !gone.has(c.workload));
  if (left.length === all.length) return { volume, freed: new Set<string>() };
  const stays = (node: string): boolean =>
    !all.some((c) => c.node === node && gone.has(c.workload)) || left.some((c) => c.node === node && holds[c.state]);
  const attachments = Object.entries(volume.attachments).filter(([node]) => stays(node));
  const freed = new Set(Object.keys(volume.attachments).filter((node) => !stays(node)));
  const { intent, ...rest } = volume;
  return {
    freed,
    volume: {
      ...rest,
      ...(intent === undefined || freed.has(intent.node ?? "") ? {} : { intent }),
      claims: Object.fromEntries(left.map((c) => [c.uid, c])),
      attachments: Object.fromEntries(attachments),
    },
  };
};

/** What rule G1 asks of the pair alone; `node` may be one that the record does not name. */
const pairReasons = (volume: VolumeRecord, claim: Claim, node: string): readonly PlacementReason[] => {
  const of = { volume: volume.id, plugin: volume.plugin };
  const name = `volume ${volumeKey(volume)}`;
  const reasons: PlacementReason[] = [];
  const blocking = inTheWay(volume, { ...claim, node });
  const [first] = blocking;
  if (first !== undefined) {
    const { workload, node: at, state } = first.claim;
    const more = blocking.length > 1 ? `, and ${blocking.length - 1} more are in the way` : "";
    const held = `${name} is ${holds[state] ? "held" : "waited for"} by workload ${workload} on node ${at} (${state})`;
    const holder = { workload, node: at };
    reasons.push(placementReason("CLAIM_CONFLICT", `${held}: ${first.why}${more}`, { ...of, holder }));
  }
  const [foreign] = volume.foreign ?? [];
  if (foreign !== undefined) reasons.push(placementReason("CLAIM_CONFLICT", foreignBarred(volume, foreign), of));
  const bar = grantBar(volume, { node, nodeId: "" });
  if (bar !== undefined) reasons.push(placementReason("NODE_BARRED", barWords(volume, bar), of));
  const joins = volume.intent?.op === "attach" && volume.intent.node === node;
  if (volume.intent !== undefined && !joins)
    reasons.push(placementReason("VOLUME_BUSY", `${name} has a call in progress (${volume.intent.op})`, of));
  const waits = volume.attachments[node] === undefined ? nodeThatWaits(volume, node) : undefined;
  if (waits !== undefined) reasons.push(placementReason("VOLUME_BUSY", attachGoesFirst(volume, waits), of));
  if (expandsBeforeGrants(volume))
    reasons.push(placementReason("VOLUME_BUSY", `${name} is to be expanded first, while no node has it`, of));
  if (volume.attachments[node]?.state === "DETACHING")
    reasons.push(placementReason("VOLUME_BUSY", `${name} is being detached there`, of));
  const lost = inaccessibleOn(volume, node);
  if (lost !== undefined)
    reasons.push(placementReason("STORAGE_INACCESSIBLE", `${name} cannot be used there: ${lost}`, of));
  return reasons;
};

const named = (volume: VolumeRecord): ReadonlySet<string> => {
  const { claims, attachments, bars, intent } = volume;
  return new Set([
    ...Object.values(claims).map((c) => c.node),
    ...Object.keys(attachments),
    ...bars.flatMap((b) => (b.node === "" ? [] : [b.node])),
    ...(intent?.node === undefined ? [] : [intent.node]),
    ...nodesWithViews(volume),
  ]);
};

export const unusable = (asked: AskedClaim, plugin: string, reason: PlacementReason): VolumeAsk => ({
  key: volumeKey(asked.ref),
  id: asked.ref.id,
  plugin,
  always: [reason],
  elsewhere: clear,
  named: new Map(),
  accessible: [],
  preferred: [],
  claim: undefined,
});

const usable = ({ state, goal, externalId }: VolumeRecord): boolean =>
  state === "AVAILABLE" && goal === "present" && externalId !== "";

/** As the CreateVolume will ask for it. */
const unmadeOf = ({ plugin, capabilities, parameters, capacity }: VolumeRecord) => ({
  bytes: capacity.required,
  like: { plugin, capabilities, parameters },
});

/** Claims of `gone` do not count; `workload` is who asks, `after` whom its claims would follow. */
export const askOf = (
  asked: AskedClaim,
  stored: VolumeRecord | undefined,
  workload: string,
  gone: ReadonlySet<string>,
  after?: string,
): VolumeAsk => {
  const { id } = asked.ref;
  const name = `volume ${volumeKey(asked.ref)}`;
  if (stored === undefined)
    return unusable(asked, "", placementReason("VOLUME_NOT_FOUND", `there is no ${name}`, { volume: id }));
  const { plugin } = stored;
  const of = { volume: id, plugin };
  const unbound = isUnbound(stored);
  if (!unbound && !usable(stored)) {
    const how = stored.goal === "absent" ? "being deleted" : stored.state;
    const coming = stored.goal === "present" && stored.state === "CREATING";
    const reason = placementReason("VOLUME_NOT_AVAILABLE", `${name} is ${how}`, { ...of, transient: coming });
    return unusable(asked, plugin, reason);
  }
  const choice = chooseCapability(stored.capabilities, asked.capability, asked.readOnly);
  if (!choice.ok) {
    const { field, wanted, has } = choice.mismatch;
    const differs = `${name} cannot be used like that: ${field} is ${wanted}, the volume has ${has}`;
    return unusable(asked, plugin, placementReason("CAPABILITY_MISMATCH", differs, of));
  }
  const { volume, freed } = without(stored, gone);
  const claim = hypothetical(asked, workload, choice.capability, after);
  const verdict = (node: string): PairVerdict => {
    const standing = volume.attachments[node];
    return {
      reasons: pairReasons(volume, claim, node),
      attached: standing !== undefined,
      freed: freed.has(node),
      ...(standing?.machineId === undefined ? {} : { machineId: standing.machineId }),
    };
  };
  return {
    key: volumeKey(asked.ref),
    id,
    plugin,
    always: [],
    elsewhere: verdict(""),
    named: new Map([...named(volume), ...freed].map((node) => [node, verdict(node)])),
    accessible: (unbound ? wantedPlaces(volume).required : volume.topology.accessible).map(foldKeys),
    preferred: volume.topology.preferred.map(foldKeys),
    claim,
    ...(unbound ? { unmade: unmadeOf(stored) } : {}),
  };
};

/** Claims of one request that could never live beside each other. */
export const excluded = (asks: readonly VolumeAsk[]): readonly PlacementReason[] =>
  asks.flatMap(({ key, id, plugin, claim }, i) =>
    asks.slice(i + 1).flatMap((other) => {
      if (other.key !== key || claim === undefined || other.claim === undefined) return [];
      const why = accessConflict(claim, other.claim);
      if (why === undefined) return [];
      const message = `claims ${claim.alias} and ${other.claim.alias} exclude each other: ${why}`;
      const holder = { workload: claim.workload, node: "" };
      return [placementReason("CLAIM_CONFLICT", message, { volume: id, plugin, holder, transient: false })];
    }),
  );
