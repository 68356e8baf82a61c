/**
 * How far one order may raise a number that never falls. Without a bound a single order with the highest number there is would
 * make every later one stale, for good. Every true number rises by one at a time, so that these steps are never reached.
 */
import type { Epoch } from "@holdfast/model/epoch";
import { maxGenerationStep } from "@holdfast/model/vetting";
import type { VolumeState } from "./types.ts";

/** Of a volume's counter of grants: a node may see a volume for the first time after all of its grants elsewhere. */
export const maxGrantStep = 2 ** 32;

/** Undefined: `asked` is a number that may be promised. */
export const leapOfGeneration = (known: number, asked: number): string | undefined =>
  asked - known <= maxGenerationStep
    ? undefined
    : `generation ${asked} is more than ${maxGenerationStep} above ${known}, the highest that was promised here; generations rise by one`;

/** Undefined: an epoch that may be held, and that the floor may rise to. */
export const leapOfEpoch = (
  promisedGen: number,
  volume: Pick<VolumeState, "floor" | "claims"> | undefined,
  asked: Epoch,
): string | undefined => {
  const tooHigh = leapOfGeneration(promisedGen, asked.gen);
  if (tooHigh !== undefined) return tooHigh;
  const seen = [volume?.floor, ...Object.values(volume?.claims ?? {}).map(({ facts }) => facts.epoch)];
  const known = Math.max(0, ...seen.flatMap((one) => (one?.gen === asked.gen ? [one.ctr] : [])));
  return asked.ctr - known <= maxGrantStep
    ? undefined
    : `grant ${asked.ctr} is more than ${maxGrantStep} above ${known}, the highest of the volume that was seen here; grants rise by one`;
};
