import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { type Change, noChange } from "../../domain/change.ts";
import type { Moment } from "../../domain/moment.ts";
import {
  expansionDropped,
  expansionNudged,
  expansionStarted,
  expansionWanted,
} from "../../domain/size/expand-change.ts";
import { judgeWish } from "../../domain/size/expand-wish.ts";
import type { ExpandPlan, SizeRange } from "../../domain/size/expansion.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import { expandPlanFor } from "../../records/volume/expand-facts.ts";
import type { CommandDeps } from "../command-deps.ts";
import { pluginCannot } from "../errors.ts";
import type { Commands } from "../model.ts";
import { changeVolume, traceOf } from "./change-volume.ts";
import { validateExpandVolume } from "./validate-volume.ts";

const shrinks = (volume: VolumeRecord, size: number, { limit }: SizeRange): HoldfastError =>
  new HoldfastError({
    kind: "out_of_range",
    reason: "CAPACITY_LIMIT",
    message: `volume ${volumeKey(volume)} has ${size} bytes, more than the limit of ${limit}, and volumes do not shrink; ask with a higher limit, or make a smaller volume and copy`,
    metadata: { namespace: volume.namespace, volume: volume.id, size: String(size), limit: String(limit) },
  });

const clashes = (volume: VolumeRecord, range: SizeRange, standing: SizeRange): HoldfastError =>
  new HoldfastError({
    kind: "aborted",
    reason: "VOLUME_BUSY",
    message: `volume ${volumeKey(volume)} is being expanded to ${standing.required} bytes with a limit of ${standing.limit}, below the ${range.required} of this request; repeat it when that has ended`,
    metadata: { namespace: volume.namespace, volume: volume.id, operation: "expand", node: "" },
  });

const givenUp = (volume: VolumeRecord, at: Moment): Change => ({
  volume: { ...expansionDropped(volume), updatedAt: at.now },
  ended: [],
  notes: [],
});

/** The wish, and the first step towards it in the same commit when nothing stands in its way: a call needs no second one then. */
const wish = (
  volume: VolumeRecord,
  range: SizeRange,
  plan: ExpandPlan,
  ready: boolean,
  trace: VolumeRecord["trace"],
  at: Moment,
) => {
  const wanted = expansionWanted(volume, range, trace, at);
  if (wanted.volume === null || wanted.volume.expansion?.state !== "WANTED" || !ready) return wanted;
  const started = expansionStarted(wanted.volume, plan, at);
  return started.volume === wanted.volume ? wanted : started;
};

/**
 * The same wish once more. One that waits for the volume to be unused is tried in use after all when the plugin's profile says by now
 * that it may be; what is blocked is tried now.
 */
const again = (volume: VolumeRecord, plan: ExpandPlan, at: Moment): Change => {
  const { expansion } = volume;
  if (expansion?.state !== "WANTED" || !expansion.onlyUnused || plan !== "any-time") return expansionNudged(volume, at);
  const attempts = { ...expansion.attempts, nextTry: at.now };
  const started = expansionStarted({ ...volume, expansion: { ...expansion, onlyUnused: false, attempts } }, plan, at);
  return started.volume?.expansion?.state === "CALLING" ? started : noChange(volume);
};

/** Writes down what size is wanted; the reconciler asks the plugin. */
export const expandVolumeCommand = (deps: CommandDeps): Commands["expandVolume"] => {
  const decide = (volume: VolumeRecord, range: SizeRange, trace: VolumeRecord["trace"], at: Moment): Change => {
    const verdict = judgeWish(volume, range);
    switch (verdict.kind) {
      case "shrinks":
        throw shrinks(volume, verdict.size, range);
      case "clashes":
        throw clashes(volume, range, verdict.standing);
      case "has":
        return again(volume, expandPlanFor(volume.plugin, deps), at);
      case "give-up":
        return givenUp(volume, at);
      case "wish": {
        const plan = expandPlanFor(volume.plugin, deps);
        if (plan === "cannot") throw pluginCannot(volume, volume.plugin, "plugin", "expand volumes");
        const ready = deps.plugins.facts(volume.plugin).ready || plan === "by-nodes";
        return wish(volume, verdict.range, plan, ready, trace, at);
      }
    }
  };
  return async (input, caller) => {
    validateExpandVolume(input);
    const trace = traceOf(deps, caller);
    return await changeVolume(deps, input, caller, (volume, at) => decide(volume, input.capacity, trace, at));
  };
};
