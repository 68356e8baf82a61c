import type { VolumeRef } from "./volume.ts";

/** A line of the command line (docs/cli.md) about a volume, for people to run as it is. */
export const volumeCommand = (words: string, ref: VolumeRef, ...args: readonly string[]): string =>
  ["holdfast", words, ref.id, ...args, "--namespace", ref.namespace].join(" ");

export const explainCommand = (ref: VolumeRef): string => volumeCommand("volume explain", ref);

/** Gives one claim's volume back. */
export const releaseCommand = (
  namespace: string,
  claim: { readonly workload: string; readonly alias: string },
): string => ["holdfast claim release", claim.workload, claim.alias, "--namespace", namespace].join(" ");
