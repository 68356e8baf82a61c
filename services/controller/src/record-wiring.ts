/** A part of the composition root: the records of volumes, and how many of them a node takes. */
import type { Nodes, PluginProfiles, Store } from "./ports.ts";
import { createAttachLimits } from "./records/attach-limits.ts";
import { createLearnedLimits, type LearnedLimits } from "./records/learned-limits.ts";
import { createVolumeRecords, type VolumeRecords, type VolumeRecordsDeps } from "./records/volume-records.ts";

export interface RecordWiring extends Omit<VolumeRecordsDeps, "attachLimit"> {
  readonly store: Store;
  readonly nodes: Pick<Nodes, "get">;
  readonly profiles: Pick<PluginProfiles, "of">;
}

export const wireVolumeRecords = async (
  deps: RecordWiring,
): Promise<{ readonly records: VolumeRecords; readonly learnedLimits: LearnedLimits }> => {
  const { store, ids, clock, nodes, profiles } = deps;
  const learnedLimits = createLearnedLimits({ store, ids, now: clock.now });
  await learnedLimits.load();
  const attachLimit = createAttachLimits({ nodes, profileOf: profiles.of, learned: learnedLimits.of });
  return { learnedLimits, records: createVolumeRecords({ ...deps, attachLimit }) };
};
