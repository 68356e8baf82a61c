import { type CutRecord, membersOf } from "../../domain/snapshot/snapshot.ts";
import { cutDeleteWanted, cutGivenUp, mayBeGivenUp } from "../../domain/snapshot/snapshot-change.ts";
import { volumeKey } from "../../domain/volume/volume.ts";
import { sourcePin } from "../../records/volume/volume-codec.ts";
import type { CommandDeps } from "../command-deps.ts";
import { restoresFrom, whyRestoring } from "../pins.ts";
import { cutNotFound, notGivenUp, snapshotInUse } from "./snapshot-errors.ts";
import type { SnapshotCommands } from "./snapshot-types.ts";
import { validateDeleteCut } from "./validate-snapshot.ts";

const snapshotsIn = (record: CutRecord) => (record.kind === "group" ? membersOf(record) : [record]);

/** "Never for one that was made with a group": the group would be left with a hole, or the backend refuse it for ever. */
const guardMember = (record: CutRecord): void => {
  if (record.kind === "group" || record.group === "") return;
  throw snapshotInUse(
    record,
    { kind: "group", id: record.group },
    `snapshot ${volumeKey(record)} belongs to group ${record.namespace}/${record.group} and goes with it; delete the group`,
  );
};

/** Names a volume that needs it to be made, as well as can be: whoever let go since then leaves the caller a repeat. */
const restoring = async (deps: CommandDeps, record: CutRecord): Promise<Error> => {
  for (const snapshot of snapshotsIn(record)) {
    const [volume] = await restoresFrom(deps, snapshot.uid);
    if (volume !== undefined)
      return snapshotInUse(
        snapshot,
        { kind: "volume", id: volume.id },
        `snapshot ${volumeKey(snapshot)} is held by ${whyRestoring(volume)}; delete the snapshot when that is over`,
      );
  }
  return snapshotInUse(
    record,
    { kind: "volume", id: "" },
    `a volume was being made from ${record.kind} ${volumeKey(record)} a moment ago; repeat the request`,
  );
};

export const deleteCutCommand =
  (deps: CommandDeps): SnapshotCommands["deleteCut"] =>
  async (input, caller) => {
    validateDeleteCut(input);
    const { cuts, clock } = deps;
    const trace = caller.traceparent === undefined ? undefined : { parent: caller.traceparent, at: clock.now() };
    let otherLife = false;
    const result = await cuts.change(
      input,
      (record, at) => {
        otherLife = input.uid !== "" && input.uid !== record.uid;
        if (otherLife) return record;
        guardMember(record);
        if (input.forget && !mayBeGivenUp(record)) throw notGivenUp(record);
        const after = input.forget ? cutGivenUp(record) : cutDeleteWanted(record, trace, at);
        return after === null || after === record
          ? after
          : { ...after, changedBy: { who: caller.who, why: caller.why } };
      },
      // No volume may be being made from it at this moment, and who comes later finds it leaving.
      { by: caller, alone: (record) => snapshotsIn(record).map(({ uid }) => sourcePin(uid)) },
    );
    if (result.crowded && result.now !== undefined) throw await restoring(deps, result.now.record);
    if (result.now !== undefined && !otherLife) return false;
    if (result.changed) return true;
    // Gone before: asked again, or never known.
    const tombstone = await cuts.deleted(input);
    if (tombstone !== undefined && (input.uid === "" || input.uid === tombstone.uid)) return true;
    throw cutNotFound(input);
  };
