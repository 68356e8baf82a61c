import type { VolumeRecord, VolumeRef } from "../../domain/volume/volume.ts";
import type { Decide } from "../../records/volume/volume-decisions.ts";
import type { CommandDeps } from "../command-deps.ts";
import { volumeNotAvailable, volumeNotFound } from "../errors.ts";
import type { Caller, VolumeView } from "../model.ts";

export const traceOf = ({ clock }: Pick<CommandDeps, "clock">, { traceparent }: Caller): VolumeRecord["trace"] =>
  traceparent === undefined ? undefined : { parent: traceparent, at: clock.now() };

/** A change of a volume that is there to stay; who asked for it is stored with it. */
export const changeVolume = async (
  { records }: Pick<CommandDeps, "records">,
  ref: VolumeRef,
  caller: Caller,
  decide: Decide,
): Promise<VolumeView> => {
  const { volume, rev } = await records.change(
    ref,
    (found, at) => {
      if (found.state !== "AVAILABLE" || found.goal !== "present") throw volumeNotAvailable(found);
      const change = decide(found, at);
      if (change.volume === null || change.volume === found) return change;
      return { ...change, volume: { ...change.volume, changedBy: { who: caller.who, why: caller.why } } };
    },
    { by: caller },
  );
  if (volume === null) throw volumeNotFound(ref);
  return { volume, rev };
};
