import { commandWord } from "@holdfast/model/command-word";
import type { VolumeRef } from "./volume/volume.ts";

/** Whose call it is; without a kind a volume's. */
export interface Called extends VolumeRef {
  readonly kind?: "snapshot" | "group";
}

/** A line of the command line (docs/cli.md) about a volume, for people to run as it is. */
export const volumeCommand = (words: string, ref: VolumeRef, ...args: readonly string[]): string =>
  ["holdfast", words, ref.id, ...args.map(commandWord), "--namespace", ref.namespace].join(" ");

/** Says which life of a node is the node. */
export const admitCommand = (node: string, life: string): string => `holdfast node admit ${node} ${life}`;

export const explainCommand = (ref: VolumeRef): string => volumeCommand("volume explain", ref);

const kindOption = ({ kind }: Called): readonly string[] => (kind === undefined ? [] : ["--kind", kind]);

/** Says that the call which may be open for the record has ended. */
export const takeOverCommand = (record: Called): string =>
  volumeCommand("repair take-over", record, ...kindOption(record));

/** Says that the overtaken call of the bar has ended. */
export const clearBarCommand = (record: Called, bar: string): string =>
  volumeCommand("repair clear-bar", record, bar, ...kindOption(record));
