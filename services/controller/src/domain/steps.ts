import { attachTriesAt } from "./attachment/attach-pause.ts";
import { callBar, type LiftStep, liftSteps } from "./bar.ts";
import type { Claim } from "./claim/claim.ts";
import { isUnbound } from "./claim/early-claims.ts";
import { endsAt } from "./claim/ephemeral.ts";
import { queueOf } from "./claim/grant.ts";
import { type Attempts, noAttempts } from "./outcome.ts";
import { triesAt } from "./retry.ts";
import { isPending } from "./size/expansion.ts";
import { expandsBeforeGrants, isGrownEverywhere, isUnused, mustNotRepeat, owingNodes } from "./size/growth.ts";
import { owesRestoreEnd } from "./volume/group-restore.ts";
import { isModifying } from "./volume/modification.ts";
import type { VolumeRecord } from "./volume/volume.ts";
import { isRegistered } from "./volume/volume-registration.ts";

/** One thing that is owed for a volume. Two steps of one lane never run at once; different lanes run side by side. */
export type Step =
  | { readonly do: "create"; readonly lane: "controller" }
  | { readonly do: "validate"; readonly lane: "controller" }
  | { readonly do: "bind"; readonly lane: "controller" }
  | { readonly do: "delete"; readonly lane: "controller" }
  | { readonly do: "attach"; readonly lane: "controller"; readonly node: string; readonly uid: string }
  | { readonly do: "abandon"; readonly lane: "controller"; readonly node: string; readonly uid: string }
  | { readonly do: "finish"; readonly lane: "controller"; readonly node: string; readonly uid: string }
  | { readonly do: "detach"; readonly lane: "controller"; readonly node: string; readonly uid: string }
  | { readonly do: "reattach"; readonly lane: "controller"; readonly node: string; readonly uid: string }
  | { readonly do: "offer"; readonly lane: `node ${string}`; readonly node: string; readonly uid: string }
  | { readonly do: "release"; readonly lane: `node ${string}`; readonly node: string; readonly uid: string }
  | { readonly do: "expand"; readonly lane: "controller" }
  | { readonly do: "modify"; readonly lane: "controller" }
  | { readonly do: "grow"; readonly lane: `node ${string}`; readonly node: string }
  | LiftStep
  | { readonly do: "end growth"; readonly lane: "grant" }
  | { readonly do: "end ephemeral"; readonly lane: "grant" }
  | { readonly do: "end restore"; readonly lane: "grant" }
  | { readonly do: "grant"; readonly lane: "grant"; readonly uid: string }
  | { readonly do: "expire"; readonly lane: "grant"; readonly uid: string };

export interface StepPlan {
  readonly ready: readonly Step[];
  /** When to look again, if nothing else wakes the volume before. */
  readonly next: number | undefined;
}

interface Owed {
  readonly step: Step;
  readonly at: number;
}

const claimSteps = (volume: VolumeRecord, claim: Claim, now: number, hurry: boolean): readonly Owed[] => {
  const { uid, node } = claim;
  const lane = `node ${node}` as const;
  const at = hurry ? 0 : triesAt(claim.attempts, now);
  switch (claim.state) {
    case "QUEUED":
      return [{ step: { do: "expire", lane: "grant", uid }, at: claim.queueDeadline }];
    case "ATTACHING": {
      if (claim.goal === "released") return [{ step: { do: "abandon", lane: "controller", node, uid }, at: 0 }];
      const tries = attachTriesAt(volume, node, at);
      return tries === undefined ? [] : [{ step: { do: "attach", lane: "controller", node, uid }, at: tries }];
    }
    case "OFFERED":
      return [{ step: { do: "offer", lane, node, uid }, at }];
    // A lost publication is offered again under the same permit.
    case "ACTIVE":
      return claim.degradedSince === undefined ? [] : [{ step: { do: "offer", lane, node, uid }, at }];
    case "RELEASING":
      return [{ step: { do: "release", lane, node, uid }, at }];
    // One detach per node, whoever waits for it; another call of the volume in progress goes first.
    case "DETACHING":
      return volume.intent === undefined || volume.intent.node === node
        ? [{ step: { do: undoOf(volume), lane: "controller", node, uid }, at }]
        : [];
    case "RELEASED":
    case "FAILED":
    case "FENCED":
      return [];
  }
};

/** Of a pair that is DETACHING: an attach whose call may be open is brought to its end first. */
const undoOf = ({ intent }: VolumeRecord): "finish" | "detach" => (intent?.op === "attach" ? "finish" : "detach");

const volumeSteps = (volume: VolumeRecord, now: number, hurry: boolean): readonly Owed[] => {
  const at = hurry ? 0 : triesAt(volume.attempts, now);
  switch (volume.state) {
    case "CREATING":
      if (isUnbound(volume))
        return queueOf(volume).length === 0 ? [] : [{ step: { do: "bind", lane: "controller" }, at: 0 }];
      if (callBar(volume, "create") !== undefined) return [];
      return [{ step: { do: isRegistered(volume) ? "validate" : "create", lane: "controller" }, at }];
    case "DELETING":
      // Without an intent the storage is gone, and the record waits for its last bar.
      return callBar(volume, "delete") === undefined && (volume.intent !== undefined || volume.bars.length === 0)
        ? [{ step: { do: "delete", lane: "controller" }, at }]
        : [];
    case "AVAILABLE":
    case "FAILED":
      return [];
  }
};

/** What attachments are owed for their own sake. Like every call of the volume it waits for the one in progress. */
const attachmentSteps = (volume: VolumeRecord, now: number, hurry: boolean): readonly Owed[] =>
  Object.values(volume.attachments).flatMap(({ node, state, owed }): readonly Owed[] => {
    if (owed === undefined || (volume.intent !== undefined && volume.intent.node !== node)) return [];
    const at = hurry ? 0 : triesAt(owed.attempts, now);
    if (state === "ATTACHED" && owed.why === "missing")
      return [{ step: { do: "reattach", lane: "controller", node, uid: owedUid(node) }, at }];
    const claimed = Object.values(volume.claims).some((c) => c.node === node && c.state === "DETACHING");
    return state === "DETACHING" && !claimed
      ? [{ step: { do: undoOf(volume), lane: "controller", node, uid: owedUid(node) }, at }]
      : [];
  });

/** In the place of a claim's uid; no claim has such a one. */
export const owedUid = (node: string): string => `attachment ${node}`;
/** Another call of the volume goes first; one that waits for the volume to be unused is woken by the last detach. */
const sizeSteps = (volume: VolumeRecord, now: number, hurry: boolean): readonly Owed[] => {
  const { expansion, modification, intent } = volume;
  if (volume.state !== "AVAILABLE") return [];
  const time = (attempts: Attempts) => (hurry ? 0 : triesAt(attempts, now));
  const mayCall = (op: "expand" | "modify"): boolean =>
    intent === undefined ? callBar(volume, op) === undefined : intent.op === op;
  const owed: Owed[] = [];
  if (isPending(expansion) && mayCall("expand") && (!expansion.onlyUnused || isUnused(volume)))
    owed.push({ step: { do: "expand", lane: "controller" }, at: time(expansion.attempts) });
  if (isModifying(modification) && mayCall("modify"))
    owed.push({ step: { do: "modify", lane: "controller" }, at: time(modification.attempts) });
  return owed;
};

/** Only where the volume is published: an agent that is still to publish it grows it then, as its permit says. */
const growthSteps = (volume: VolumeRecord, now: number, hurry: boolean): readonly Owed[] => {
  if (volume.growth === undefined) return [];
  if (isGrownEverywhere(volume)) return [{ step: { do: "end growth", lane: "grant" }, at: 0 }];
  const published = new Set(
    Object.values(volume.claims).flatMap((c) =>
      c.state === "ACTIVE" && c.degradedSince === undefined ? [c.node] : [],
    ),
  );
  return owingNodes(volume)
    .filter((node) => published.has(node) && !mustNotRepeat(volume, node))
    .map((node) => {
      const attempts = volume.growth?.nodes[node]?.attempts ?? noAttempts;
      return { step: { do: "grow", lane: `node ${node}`, node }, at: hurry ? 0 : triesAt(attempts, now) };
    });
};

/** Whether a grant could be tried at all; the full rule (G1) is asked by the step itself with fresh facts. */
const grantSteps = (volume: VolumeRecord): readonly Owed[] =>
  volume.state !== "AVAILABLE" ||
  (volume.intent !== undefined && volume.intent.op !== "attach") ||
  expandsBeforeGrants(volume)
    ? []
    : queueOf(volume).map((claim) => ({
        step: { do: "grant", lane: "grant", uid: claim.uid },
        at: claim.attempts.nextTry,
      }));

/**
 * I1, I2: what waits while an agent holds the volume by a grant that the store has lost. The record may be older than that grant: an attach or
 * a permit of it may bring a second writer, and a detach may take the volume from under the mount of that node.
 */
const waitsForForeign: Record<Step["do"], "no" | "on that node" | "yes"> = {
  create: "no",
  validate: "no",
  bind: "no",
  delete: "yes",
  attach: "yes",
  abandon: "no",
  finish: "yes",
  detach: "on that node",
  reattach: "yes",
  offer: "yes",
  // The agent compares the claim.
  release: "no",
  expand: "yes",
  modify: "no",
  grow: "no",
  lift: "yes",
  "end growth": "no",
  "end ephemeral": "yes",
  "end restore": "yes",
  grant: "no",
  expire: "no",
};

/** What leads to a permit of the claim that is held already: it ends in what the agent has. */
const leadsToPermit: ReadonlySet<Step["do"]> = new Set<Step["do"]>(["attach", "finish", "offer"]);

export const heldBack = (
  { foreign: all = [], claims }: VolumeRecord,
  step: Pick<Step, "do"> & { readonly node?: string },
): boolean => {
  const waits = waitsForForeign[step.do];
  if (all.length === 0 || waits === "no") return false;
  const foreign = leadsToPermit.has(step.do)
    ? all.filter(({ claimUid, node }) => node !== step.node || claims[claimUid]?.goal !== "active")
    : all;
  if (foreign.length === 0) return false;
  return waits === "yes" || foreign.some(({ node }) => step.node === node);
};

/**
 * What is owed for a volume now, and when to look again. Pure: whoever asks with the same record gets the same answer. In a hurry
 * the pause after a failed attempt is over: what it failed for (a node, a plugin, the store) has just come back.
 */
export const planSteps = (volume: VolumeRecord, now: number, hurry = false): StepPlan => {
  const ready: Step[] = [];
  let next: number | undefined;
  const take = (owed: readonly Owed[]): void => {
    for (const { step, at } of owed.filter((one) => !heldBack(volume, one.step)))
      if (at <= now) ready.push(step);
      else next = Math.min(next ?? at, at);
  };
  take(volumeSteps(volume, now, hurry));
  for (const claim of Object.values(volume.claims)) take(claimSteps(volume, claim, now, hurry));
  take(attachmentSteps(volume, now, hurry));
  take(sizeSteps(volume, now, hurry));
  take(growthSteps(volume, now, hurry));
  take(liftSteps(volume, now, hurry));
  take(grantSteps(volume));
  const ends = endsAt(volume);
  if (ends !== undefined) take([{ step: { do: "end ephemeral", lane: "grant" }, at: ends }]);
  if (owesRestoreEnd(volume)) take([{ step: { do: "end restore", lane: "grant" }, at: 0 }]);
  return { ready, next };
};

/** What the record asks of controllers that did not write it, now or later: each of them remembers by itself when that is. */
export interface Asks {
  /** It owes a call that no controller has taken: under an intent without an instance, or before there is an intent. */
  readonly untaken: boolean;
  /** It owes work at a node that its writer has no link to, or another controller may know how an overtaken call ended. */
  readonly anyone: boolean;
}

/** `linked`: the nodes that the writer can ask. */
export const asksOf = (volume: VolumeRecord, linked: (node: string) => boolean): Asks => {
  const { ready } = planSteps(volume, Number.POSITIVE_INFINITY);
  const atController = ({ lane }: Step): boolean => lane === "controller";
  return {
    untaken: volume.intent === undefined ? ready.some(atController) : volume.intent.via === undefined,
    anyone:
      volume.bars.length > 0 ||
      ready.some((step) => step.lane.startsWith("node ") && "node" in step && !linked(step.node)),
  };
};

/** Nothing is owed: the record needs no attention until somebody asks for something. */
export const settled = (volume: VolumeRecord): boolean => {
  const plan = planSteps(volume, Number.POSITIVE_INFINITY);
  return plan.ready.length === 0;
};
