import { fenceCommand, releaseCommand } from "@holdfast/model/operator-command";
import { traceIdOf } from "@holdfast/model/trace-id";
import { foreignBlock } from "../../domain/attachment/foreign-block.ts";
import { barBlock } from "../../domain/bar-block.ts";
import { blockOfClaim, type Claim, type ClaimState } from "../../domain/claim/claim.ts";
import { shortDevice, shortWords } from "../../domain/claim/device-size.ts";
import { isUnbound } from "../../domain/claim/early-claims.ts";
import { type GrantFacts, inTheWay, obstacleTo } from "../../domain/claim/grant.ts";
import { isFenced } from "../../domain/node/fence.ts";
import { pendingBlock } from "../../domain/node/pending-life.ts";
import { volumeCommand } from "../../domain/operator-command.ts";
import { callOfClaim } from "../../domain/volume/long-calls.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import { healthActions, healthFindings } from "../../domain/volume/volume-health.ts";
import { createGrantFacts, type GrantFactsOf, isSilent } from "../../records/grant-facts.ts";
import { besideIn, waitingFor } from "../claim/waiting-for.ts";
import type { CommandDeps } from "../command-deps.ts";
import { volumeNotFound } from "../errors.ts";
import type { ClaimExplanation, Commands } from "../model.ts";
import { validateRef } from "../volume/validate-volume.ts";
import { attemptsFinding, blockedFinding, callFinding } from "./blocked-finding.ts";
import { attachmentActions, attachmentCallsOwed, attachmentFindings, explainAttachment } from "./explain-attachment.ts";
import { changeActions, changeFindings, changeOwed } from "./explain-change.ts";
import { explainCuts } from "./explain-cuts.ts";
import { placeActions } from "./explain-place.ts";

/** The step that each state is in. Total: a new state does not compile until somebody said what happens in it. */
const stepIn: Record<ClaimState, (claim: Claim) => string> = {
  QUEUED: () => "waits to be granted",
  ATTACHING: (c) => `ControllerPublishVolume for ${c.node}`,
  OFFERED: (c) => `NodeStageVolume and NodePublishVolume on ${c.node}`,
  ACTIVE: (c) => {
    if (c.degradedSince !== undefined) return `publication is made again on ${c.node}`;
    if (c.ailing === undefined) return "mounted";
    const why = /^MOUNT_/.test(c.ailing.reason) ? "the mount does not answer" : "NodePublishVolume cannot be repeated";
    return `mounted on ${c.node}, and ${why}`;
  },
  RELEASING: (c) => `NodeUnpublishVolume and NodeUnstageVolume on ${c.node}`,
  DETACHING: (c) => `ControllerUnpublishVolume for ${c.node}`,
  RELEASED: () => "over",
  FAILED: () => "over",
  FENCED: () => "over",
};

const explainClaim = (volume: VolumeRecord, claim: Claim, facts: GrantFacts): ClaimExplanation => {
  const first = claim.state === "QUEUED" ? inTheWay(volume, claim)[0]?.claim : undefined;
  const { count, nextTry, lastError } = claim.attempts;
  return {
    claim,
    step: stepIn[claim.state](claim),
    waitingFor: waitingFor(volume, claim, () => facts),
    holder: first === undefined ? "" : `workload ${first.workload} on node ${first.node}, ${first.state}`,
    obstacle: claim.state === "QUEUED" ? obstacleTo(volume, claim, facts, besideIn(claim, facts))?.reason : undefined,
    attempts: count,
    nextTry: nextTry === 0 ? undefined : nextTry,
    lastError,
    blocked: blockOfClaim(claim),
    call: callOfClaim(volume, claim),
    traceId: lastError?.traceId ?? traceIdOf(claim.trace?.parent) ?? "",
  };
};

const callsOwed = (volume: VolumeRecord): boolean =>
  changeOwed(volume) ||
  attachmentCallsOwed(volume) ||
  volume.state === "CREATING" ||
  volume.state === "DELETING" ||
  Object.values(volume.claims).some((c) => c.state === "ATTACHING" || c.state === "DETACHING");

const restoreEnds = {
  undone: "As it failed, the others were deleted.",
  kept: "It failed, and the others stay, as there was a claim of one of them.",
} as const;

const restoreFindings = ({ restore, state }: VolumeRecord, name: string): readonly string[] => {
  if (restore === undefined) return [];
  const { members, group, end } = restore;
  const set = `${name} was restored from snapshot group ${group} together with ${members.length - 1} others.`;
  if (end !== undefined) return [`${set} ${restoreEnds[end]}`];
  return [
    state === "FAILED" ? `${set} Whether they are deleted is decided once nothing is cut or made from them.` : set,
  ];
};

const volumeFindings = (volume: VolumeRecord, trouble: string): readonly string[] => {
  const name = `volume ${volumeKey(volume)}`;
  return [
    ...blockedFinding(name, volume.blocked),
    ...(volume.failure === undefined ? [] : [`${name} failed (${volume.failure.reason}): ${volume.failure.message}.`]),
    `${name} is ${volume.state}${volume.goal === "absent" ? ", and its deletion is wanted" : ""}.`,
    ...(volume.condition === undefined
      ? []
      : [`${name} is abnormal, as its backend or a node says: ${volume.condition.message}.`]),
    ...healthFindings(volume, name),
    ...(isUnbound(volume)
      ? [`${name} is made once a claim says for which node; nothing was asked of its plugin yet.`]
      : []),
    ...(volume.ephemeral === undefined
      ? []
      : [
          `${name} came with claim ${volume.ephemeral.alias} of workload ${volume.ephemeral.workload}, and is deleted with its data once its claims are over.`,
        ]),
    ...restoreFindings(volume, name),
    ...(trouble === "" ? [] : [`${name} waits for its plugin: ${trouble}.`]),
    ...(volume.state === "AVAILABLE" ? [] : attemptsFinding(name, volume.attempts, volume.blocked)),
    ...(volume.intent?.node === undefined ? callFinding(name, volume.intent?.call) : []),
    ...changeFindings(volume),
    ...attachmentFindings(volume),
    ...(volume.foreign ?? []).flatMap((hold) => blockedFinding(`Node ${hold.node}`, foreignBlock(volume, hold))),
    ...volume.bars.flatMap((bar) => blockedFinding(`What ${bar.op} needs`, barBlock(volume, bar))),
  ];
};

const deviceFinding = (name: string, claim: Claim): readonly string[] => {
  const size = shortDevice(claim);
  return size === undefined
    ? []
    : [
        `${name}: ${shortWords(size)}. Nothing is held up for it: look at the volume at its backend, and grow it or make another one.`,
      ];
};

const claimFindings = ({
  claim,
  waitingFor: waits,
  step,
  lastError,
  attempts,
  blocked,
  call,
}: ClaimExplanation): readonly string[] => {
  const name = `Claim ${claim.alias} of workload ${claim.workload} on node ${claim.node}`;
  const tail = waits === "" ? step : `${step}; waits for: ${waits}`;
  return [
    ...blockedFinding(name, blocked),
    `${name} is ${claim.state}: ${tail}.`,
    ...deviceFinding(name, claim),
    ...callFinding(name, call),
    ...attemptsFinding(name, { count: attempts, lastError }, blocked),
  ];
};

const actionsFor = (volume: VolumeRecord, claims: readonly ClaimExplanation[], trouble: string): readonly string[] => {
  const release = (c: ClaimExplanation) => {
    const holder = inTheWay(volume, c.claim)[0]?.claim;
    return holder === undefined || holder.goal === "released" || holder.state === "QUEUED"
      ? []
      : [releaseCommand(volume.namespace, holder)];
  };
  const all = [
    ...(volume.blocked === undefined ? [] : [volume.blocked.clearWith]),
    ...(volume.foreign ?? []).map((hold) => foreignBlock(volume, hold).clearWith),
    ...volume.bars.map((bar) => barBlock(volume, bar).clearWith),
    ...claims.flatMap((c) => (c.blocked === undefined ? [] : [c.blocked.clearWith])),
    ...healthActions(volume),
    ...changeActions(volume),
    ...attachmentActions(volume),
    ...(volume.state === "FAILED" && volume.blocked === undefined ? [volumeCommand("volume delete", volume)] : []),
    ...claims.filter((c) => c.obstacle === "CLAIM_CONFLICT").flatMap(release),
    ...(claims.some((c) => c.obstacle === "STORE_UNVETTED") ? ["holdfast repair vet"] : []),
    ...claims.flatMap((c) => (c.obstacle === "NODE_NOT_READY" ? [`holdfast node status ${c.claim.node}`] : [])),
    ...(trouble !== "" || claims.some((c) => c.obstacle === "PLUGIN_NOT_READY")
      ? [`holdfast plugin status ${volume.plugin}`]
      : []),
  ];
  return [...new Set(all)];
};

/** Nodes of its claims whose name another life asks for. */
const pendingNodes = (volume: VolumeRecord, { nodes }: Pick<CommandDeps, "nodes">) =>
  [
    ...new Set(
      Object.values(volume.claims).flatMap(({ node, blocked }) => (blocked?.reason === "NODE_PENDING" ? [] : [node])),
    ),
  ].flatMap((node) => {
    const record = nodes.get(node)?.record;
    const block = record && pendingBlock(record);
    return block === undefined ? [] : [{ name: `Node ${node}`, block }];
  });

/** Nodes of its claims that are silent, so that nothing is taken from them without evidence, or fenced. */
const silentNodes = (volume: VolumeRecord, { nodes }: Pick<CommandDeps, "nodes">) =>
  [...new Set(Object.values(volume.claims).map(({ node }) => node))].flatMap((name) => {
    const view = nodes.get(name);
    if (view === undefined || (!isFenced(view.record) && !isSilent(view))) return [];
    const { state, fence } = view.record;
    if (isFenced(view.record)) {
      const why = fence === undefined ? "" : `, on the word of ${fence.who}: ${fence.evidence}`;
      return [{ finding: `Node ${name} is ${state}${why}.`, action: `holdfast node status ${name}` }];
    }
    const finding = `Node ${name} is silent: its claims keep the volume until its agent speaks, or evidence shows that it is off.`;
    return [{ finding, action: fenceCommand(name) }];
  });

/** Says how a volume stands, what it waits for and what to do. Reads one record and what this controller knows; changes nothing. */
export const explainVolumeQuery =
  (deps: CommandDeps): Commands["explainVolume"] =>
  async (ref) => {
    validateRef(ref);
    const found = await deps.records.get(ref);
    if (found === undefined) throw volumeNotFound(ref);
    const { volume, rev } = found;
    const factsOf: GrantFactsOf = createGrantFacts(deps);
    const plugin = deps.plugins.facts(volume.plugin);
    const trouble = callsOwed(volume) ? plugin.reason || (plugin.callsHeld ?? "") : "";
    const waiting = pendingNodes(volume, deps);
    const silent = silentNodes(volume, deps);
    const claims = Object.values(volume.claims)
      .sort((a, b) => a.createdAt - b.createdAt || (a.uid < b.uid ? -1 : 1))
      .map((claim) => explainClaim(volume, claim, factsOf(volume.plugin, claim.node)));
    const attachments = Object.values(volume.attachments).map((a) =>
      explainAttachment(volume, a, deps.nodes.get(a.node)?.record.verificationScope),
    );
    const cuts = await explainCuts(deps.cuts, volume);
    const blockedFirst = [...claims].sort((a, b) => Number(b.blocked !== undefined) - Number(a.blocked !== undefined));
    return {
      volume,
      rev,
      claims,
      attachments,
      findings: [
        ...volumeFindings(volume, trouble),
        ...waiting.flatMap(({ name, block }) => blockedFinding(name, block)),
        ...silent.map(({ finding }) => finding),
        ...cuts.findings,
        ...blockedFirst.flatMap(claimFindings),
      ],
      nextActions: [
        ...new Set([
          ...waiting.map(({ block }) => block.clearWith),
          ...silent.map(({ action }) => action),
          ...placeActions(volume, deps),
          ...actionsFor(volume, claims, trouble),
          ...cuts.actions,
        ]),
      ],
    };
  };
