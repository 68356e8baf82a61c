import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Change } from "../../domain/change.ts";
import type { Moment } from "../../domain/moment.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import { callBeforeDelete, deleteWanted, usersOf } from "../../domain/volume/volume-change.ts";
import { volumePins } from "../../records/volume-pins.ts";
import type { CommandDeps } from "../command-deps.ts";
import { volumeInUse, volumeNotFound } from "../errors.ts";
import type { Commands } from "../model.ts";
import { volumePinned } from "../pins.ts";
import { validateDeleteVolume } from "./validate-volume.ts";

/** The guard of the volume machine: whoever still uses it is named. */
const guard = (volume: VolumeRecord): void => {
  const users = usersOf(volume);
  if (users.length > 0) {
    const claim = Object.values(volume.claims)[0];
    const node = claim?.node ?? Object.keys(volume.attachments)[0] ?? volume.bars[0]?.node ?? "";
    throw volumeInUse(volume, users, { workload: claim?.workload ?? "", node });
  }
  const call = callBeforeDelete(volume);
  if (call !== undefined)
    throw new HoldfastError({
      kind: "aborted",
      reason: "VOLUME_BUSY",
      message: `volume ${volumeKey(volume)} has a call in progress (${call.op}); repeat after a pause`,
      metadata: {
        namespace: volume.namespace,
        volume: volume.id,
        operation: call.op,
        node: call.node ?? "",
      },
    });
};

export const deleteVolumeCommand =
  (deps: CommandDeps): Commands["deleteVolume"] =>
  async (input, caller) => {
    const { records, clock } = deps;
    validateDeleteVolume(input);
    const trace = caller.traceparent === undefined ? undefined : { parent: caller.traceparent, at: clock.now() };
    let otherLife = false;
    const decide = (volume: VolumeRecord, at: Moment): Change => {
      otherLife = input.uid !== "" && input.uid !== volume.uid;
      if (otherLife) return { volume, ended: [], notes: [] };
      guard(volume);
      const change = deleteWanted(volume, trace, at);
      if (change.volume === null || change.volume === volume) return change;
      return { ...change, volume: { ...change.volume, changedBy: { who: caller.who, why: caller.why } } };
    };
    // Nothing may be cut or made from it at this moment, and what comes later finds it leaving.
    const result = await records.change(input, decide, { by: caller, alone: volumePins });
    if (result.crowded) throw await volumePinned(deps, input);
    if (result.volume !== null && !otherLife) {
      if (!result.changed) records.remind(result.volume);
      return { volume: result.volume, rev: result.rev };
    }
    if (result.changed) return undefined;
    // Gone before: asked again, or never known.
    const tombstone = await records.deleted(input);
    if (tombstone !== undefined && (input.uid === "" || input.uid === tombstone.uid)) return undefined;
    throw volumeNotFound(input);
  };
