/** What stands where a claim is to be mounted, before anything was called for it. */
import type { Halt } from "../domain/answer-types.ts";
import { type MountView, strays } from "../domain/mounts.ts";
import type { HostPaths } from "../domain/paths.ts";
import type { PermitFacts, VolumeRef, VolumeState } from "../domain/types.ts";
import { isAtRest } from "../domain/volume-machine.ts";
import { orphanHalt } from "./halts.ts";
import { targetsOf } from "./order-facts.ts";

/** Asked once a run, before its first call. */
export interface PlaceCheck {
  owed(): boolean;
  /** A mount that nothing explains is in the way; or what is free, or our own. */
  judge(view: MountView): Halt | Found;
}

/** Own mounts that are there already, from a journal that was lost: whatever is refused from now on, they have to go. */
export interface Found {
  readonly stage: boolean;
  readonly target: boolean;
}

export const nothingFound: Found = { stage: false, target: false };

export const isFound = (judged: Halt | Found): judged is Found => "target" in judged;

export interface PlaceCheckOptions {
  readonly ref: VolumeRef;
  readonly facts: Pick<PermitFacts, "claimUid" | "target">;
  /** As it was before the order. */
  readonly volume: VolumeState | undefined;
  readonly paths: HostPaths;
  /** By volume: what is mounted before anything of it is. */
  readonly firstViews: Map<string, MountView>;
}

export function createPlaceCheck({ ref, facts, volume, paths, firstViews }: PlaceCheckOptions): PlaceCheck {
  const at = paths.of(ref.plugin, ref.externalId);
  // The intents are written before the look: an earlier life may have ended between them.
  let owed = volume?.claims[facts.claimUid]?.phase !== "published";
  return {
    owed: () => owed,
    judge(view) {
      const [stray] = strays(view, at, [facts.target, ...targetsOf(volume)]);
      if (stray !== undefined) return orphanHalt(ref, stray.path);
      owed = false;
      if (volume === undefined || isAtRest(volume)) firstViews.set(ref.volumeUid, view);
      return { stage: view.under(at.staging).length > 0, target: view.under(facts.target).length > 0 };
    },
  };
}
