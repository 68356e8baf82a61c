/** What requests do to an expansion, and how it begins. */
import { callBar } from "../bar.ts";
import { type Change, noChange } from "../change.ts";
import type { Moment } from "../moment.ts";
import { type Blocked, type Failure, noAttempts } from "../outcome.ts";
import type { Intent, VolumeRecord } from "../volume/volume.ts";
import { cellOf, heldOff, refusedWith, told, waiting, without, withoutBlock } from "./expand-parts.ts";
import { type ExpandPlan, type Expansion, isPending, type SizeRange } from "./expansion.ts";
import { growthTo, isUnused } from "./growth.ts";

const expandIntent = (volume: VolumeRecord, at: Moment): Intent => ({
  op: "expand",
  epoch: volume.epoch,
  issuer: at.issuer,
  opId: at.opId,
});

/** A caller wants this range; `judgeWish` has said that it is one. */
export const expansionWanted = (
  volume: VolumeRecord,
  range: SizeRange,
  trace: Expansion["trace"],
  at: Moment,
): Change => {
  const traced = trace === undefined ? {} : { trace };
  switch (cellOf(volume, "wanted")) {
    case "WANTED":
      return told(
        {
          ...volume,
          expansion: {
            state: "WANTED",
            target: range,
            onlyUnused: false,
            attempts: noAttempts,
            since: at.now,
            ...traced,
          },
        },
        at,
      );
    case "merge": {
      const { expansion } = volume;
      if (expansion === undefined) return noChange(volume);
      const standing = { ...withoutBlock(expansion), attempts: noAttempts, ...traced };
      // While a call is out only what follows it can change.
      const merged =
        volume.intent?.op === "expand" ? { ...expansion, ...traced, next: range } : { ...standing, target: range };
      return told({ ...volume, expansion: waiting(volume, merged, at.now) }, at);
    }
    default:
      return noChange(volume);
  }
};

/** Nobody wants the larger size any more, and nothing was called for it. */
export const expansionDropped = (volume: VolumeRecord): VolumeRecord =>
  cellOf(volume, "dropped") === "NONE" ? without(volume) : volume;

/** Begins as the plugin can: takes the volume's one call (I4), waits for the last node to let go, or leaves it to the nodes. */
export const expansionStarted = (volume: VolumeRecord, plan: ExpandPlan, at: Moment): Change => {
  const { expansion } = volume;
  if (expansion === undefined || volume.intent !== undefined || plan === "unknown") return noChange(volume);
  if (plan === "by-nodes" && expansion.state === "WANTED") {
    const { required, limit } = expansion.target;
    return told({ ...without(volume), growth: growthTo(volume, required, limit, true, at.now) }, at);
  }
  if (plan === "cannot" || plan === "by-nodes") return notPossible(volume, expansion, at);
  if (callBar(volume, "expand") !== undefined || cellOf(volume, "started") !== "CALLING") return noChange(volume);
  const assumed = plan === "assumed-unused";
  const planned = {
    ...expansion,
    onlyUnused: expansion.onlyUnused || assumed || plan === "only-unused",
    ...(assumed && !expansion.onlyUnused ? { assumed } : {}),
  };
  if (planned.onlyUnused && !isUnused(volume)) {
    const next = waiting(volume, planned, at.now);
    return next.blocked?.message === expansion.blocked?.message && planned.onlyUnused === expansion.onlyUnused
      ? noChange(volume)
      : told({ ...volume, expansion: next }, at);
  }
  const free = planned.blocked?.reason === "EXPAND_IN_USE" ? withoutBlock(planned) : planned;
  return told({ ...volume, expansion: { ...free, state: "CALLING" }, intent: expandIntent(volume, at) }, at);
};

const notPossible = (volume: VolumeRecord, expansion: Expansion, at: Moment): Change => {
  const message = `plugin ${volume.plugin} cannot expand volumes: neither its controller half nor its node half has EXPAND_VOLUME`;
  const failure: Failure = { reason: "PLUGIN_REFUSED", message, advice: "fail" };
  switch (cellOf(volume, "not_possible")) {
    case "REFUSED":
      return refusedWith(volume, expansion, failure, at);
    case "UNCERTAIN":
      return heldOff(volume, expansion, failure, true, at);
    default:
      return noChange(volume);
  }
};

/** Somebody asks again for what is blocked: it is tried now, and not when its pause is over. */
export const expansionNudged = (volume: VolumeRecord, at: Moment): Change => {
  const { expansion, growth } = volume;
  const soon = (attempts: Expansion["attempts"]) => ({ ...attempts, nextTry: at.now });
  const waits = (part: { readonly attempts: Expansion["attempts"]; readonly blocked?: Blocked }): boolean =>
    part.blocked !== undefined && part.attempts.nextTry > at.now;
  const nodes = Object.entries(growth?.nodes ?? {});
  const slow = isPending(expansion) && waits(expansion);
  if (!slow && !nodes.some(([, node]) => waits(node))) return noChange(volume);
  return {
    volume: {
      ...volume,
      ...(slow ? { expansion: { ...expansion, attempts: soon(expansion.attempts) } } : {}),
      ...(growth === undefined
        ? {}
        : {
            growth: {
              ...growth,
              nodes: Object.fromEntries(
                nodes.map(([name, node]) => [name, waits(node) ? { ...node, attempts: soon(node.attempts) } : node]),
              ),
            },
          }),
      updatedAt: at.now,
    },
    ended: [],
    notes: [],
  };
};
