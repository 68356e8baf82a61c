/** What holds on to a volume because something is being made from it, as entries in the store. */
import type { IndexEntry } from "../domain/store-types.ts";
import type { VolumeRecord } from "../domain/volume/volume.ts";
import { cutPins } from "./snapshot-codec.ts";
import { sourcePin } from "./volume/volume-codec.ts";

/** Entries that a commit which takes volumes away has to be alone with. */
export const volumePins = (volumes: readonly Pick<VolumeRecord, "uid">[]): readonly IndexEntry[] =>
  volumes.flatMap(({ uid }) => [...cutPins(uid), sourcePin(uid)]);
