import type { Change } from "../../domain/change.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import type { Store } from "../../ports.ts";
import { deleteMarkRef, volumeTombstoneRef } from "./volume-codec.ts";
import { leavesMark, type Remains } from "./volume-commit.ts";

/** What stands already where a record that goes leaves its tombstone, and storage that goes its mark. */
export const remainsOf = async (
  store: Pick<Store, "get">,
  before: VolumeRecord | undefined,
  change: Change | undefined,
): Promise<Remains | undefined> => {
  if (before === undefined || change === undefined) return undefined;
  const mark = leavesMark(before, change) ? await store.get(deleteMarkRef(before)) : undefined;
  const tombstone = change.volume === null ? await store.get(volumeTombstoneRef(before)) : undefined;
  return { tombstone, mark };
};
