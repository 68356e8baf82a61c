import type { CutRecord, CutState } from "../../domain/snapshot/snapshot.ts";
import { cutBlocks } from "../../domain/snapshot/snapshot-bar.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import type { CutRecords } from "../../records/snapshot-records.ts";
import { attemptsFinding, blockedFinding, callFinding } from "./blocked-finding.ts";

/** How the snapshots stand that still need the volume, for people. */
export interface CutsExplained {
  readonly findings: readonly string[];
  readonly actions: readonly string[];
}

const shown = 20;

/** Total: what happens in each state in which the volume may still be needed. */
const stepIn: Record<CutState, (record: CutRecord) => string> = {
  CREATING: ({ kind }) => (kind === "group" ? "CreateVolumeGroupSnapshot" : "CreateSnapshot"),
  CUT: () => "is cut; the plugin is asked until it is ready",
  READY: () => "is ready",
  DELETING: ({ kind }) => (kind === "group" ? "DeleteVolumeGroupSnapshot" : "DeleteSnapshot"),
  FAILED: () => "has failed",
};

const findingsOf = (record: CutRecord): readonly string[] => {
  const name = `${record.kind === "group" ? "Snapshot group" : "Snapshot"} ${volumeKey(record)}`;
  const { blocked, attempts, intent } = record;
  return [
    ...cutBlocks(record).flatMap((block) => blockedFinding(name, block)),
    `${name} is ${record.state} and holds on to the volume: ${stepIn[record.state](record)}.`,
    ...callFinding(name, intent?.call),
    ...attemptsFinding(name, attempts, blocked),
  ];
};

/** Read from the index of what pins the volume: those that are ready are none of its business. */
export const explainCuts = async (cuts: Pick<CutRecords, "list">, volume: VolumeRecord): Promise<CutsExplained> => {
  const pages = await Promise.all(
    (["snapshot-source", "group-source"] as const).map((index) =>
      cuts.list(index, volume.uid, { limit: shown, whole: true }),
    ),
  );
  const records = pages.flatMap((page) => page.cuts.map(({ record }) => record));
  const more = pages.some(({ next }) => next !== undefined) ? ["More snapshots hold on to the volume."] : [];
  return {
    findings: [...records.flatMap(findingsOf), ...more],
    actions: records.flatMap((record) => cutBlocks(record).map(({ clearWith }) => clearWith)),
  };
};
