/** What holds on to a volume or a snapshot because something is being made from it. */
import type { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { callBar } from "../domain/bar.ts";
import { barBlock, barWords } from "../domain/bar-block.ts";
import { volumeCommand } from "../domain/operator-command.ts";
import { type CutBar, type CutRecord, pinsSource } from "../domain/snapshot/snapshot.ts";
import { type Bar, type VolumeRecord, type VolumeRef, volumeKey } from "../domain/volume/volume.ts";
import { type CutIndex, cutPins } from "../records/snapshot-codec.ts";
import { sourcePin, type VolumeIndex } from "../records/volume/volume-codec.ts";
import type { CommandDeps } from "./command-deps.ts";
import { volumeInUse } from "./errors.ts";

type Deps = Pick<CommandDeps, "records" | "cuts">;

const most = 20;

/** Volumes that are being made from it, or whose create from it is in doubt. */
export const restoresFrom = async (
  { records }: Pick<Deps, "records">,
  uid: string,
): Promise<readonly VolumeRecord[]> => {
  const { index, value } = sourcePin(uid);
  const { volumes } = await records.list(index as VolumeIndex, value, { limit: most, whole: true });
  return volumes.map(({ volume }) => volume);
};

const whyLate = (record: VolumeRecord | CutRecord): string | undefined => {
  const bar = callBar<Bar | CutBar>(record, "delete");
  return bar && `which may be made from it once more (${barWords(record, bar)}; ${barBlock(record, bar).clearWith})`;
};

/** Why it holds on to its source, and what ends that. */
export const whyRestoring = (volume: VolumeRecord): string =>
  `volume ${volumeKey(volume)}, ${
    volume.state === "CREATING"
      ? "which is being made from it"
      : (whyLate(volume) ??
        `whose create from it is in doubt and is repeated with it when that volume is deleted: ${volumeCommand("volume delete", volume)}`)
  }`;

/** Why a snapshot or a group holds on to the volume, and what ends that. */
const whyCut = (record: CutRecord): string =>
  (pinsSource[record.state] ? undefined : whyLate(record)) ?? `which is being cut from it (${record.state})`;

const holdersOf = async (deps: Deps, uid: string): Promise<readonly string[]> => {
  const cuts = await Promise.all(
    cutPins(uid).map(({ index, value }) => deps.cuts.list(index as CutIndex, value, { limit: most, whole: true })),
  );
  return [
    ...cuts.flatMap((page) => page.cuts.map(({ record }) => `${record.kind} ${volumeKey(record)}, ${whyCut(record)}`)),
    ...(await restoresFrom(deps, uid)).map(whyRestoring),
  ];
};

/** Who holds on to it, named as well as can be: whoever let go since then leaves the caller a repeat. */
export const volumePinned = async (deps: Deps, ref: VolumeRef): Promise<HoldfastError> => {
  const found = await deps.records.get(ref);
  const holders = found === undefined ? [] : await holdersOf(deps, found.volume.uid);
  return volumeInUse(ref, holders.length === 0 ? ["what was being made from it a moment ago"] : holders, {
    workload: "",
    node: "",
  });
};
