import { type Change, noChange, volumeNote } from "../change.ts";
import type { Moment } from "../moment.ts";
import { noAttempts } from "../outcome.ts";
import type { VolumeRecord } from "../volume/volume.ts";

/** Its creation was refused after an attempt of which nobody knows what it left: the name may stand at the backend. */
export const lacksItsStorage = (volume: VolumeRecord): boolean =>
  volume.state === "FAILED" && volume.externalId === "" && volume.intent?.op === "create";

/**
 * A person has found what that attempt left, and the volume gets it. It is asked about like any other storage that exists; from now
 * on nothing is made under its name.
 */
export const storageAdopted = (
  volume: VolumeRecord,
  storage: { readonly externalId: string; readonly context: Readonly<Record<string, string>> },
  at: Moment,
): Change => {
  if (!lacksItsStorage(volume)) return noChange(volume);
  const { blocked: _b, failure: _f, ...rest } = volume;
  const adopted: VolumeRecord = {
    ...rest,
    name: "",
    externalId: storage.externalId,
    context: storage.context,
    state: "CREATING",
    goal: "present",
    intent: { op: "validate", epoch: volume.epoch, issuer: at.issuer, opId: at.opId },
    attempts: noAttempts,
    updatedAt: at.now,
    stateSince: at.now,
  };
  return { volume: adopted, ended: [], notes: [volumeNote(adopted)] };
};
