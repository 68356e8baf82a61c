import { sizeWords } from "@holdfast/model/size";
import { type Snapshot, type SnapshotGroup, SnapshotState } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import type { OptionSpec } from "../../frame/command.ts";
import type { Column, Detail } from "../../frame/tables.ts";
import { enumWords } from "../../words/enum-words.ts";
import { ago, ahead, moment } from "../../words/moment.ts";
import { blockedDetails, callText, lastErrorText, mapWords } from "../resource-words.ts";

export const snapshotStates = enumWords<SnapshotState>(SnapshotState, "SNAPSHOT_STATE_");

export const forgetOption: OptionSpec = {
  flags: "--forget",
  help: "of one that is blocked with CREATE_UNCERTAIN or BACKEND_GROUP: end its record, whatever the backend still has",
};

const stateWords = ({ state, blocked }: Snapshot | SnapshotGroup): string =>
  `${snapshotStates.of(state)}${blocked === undefined ? "" : " BLOCKED"}`;

export const snapshotColumns = (now: number, anyNamespace: boolean): readonly Column<Snapshot>[] => [
  { title: "NAMESPACE", wide: !anyNamespace, of: ({ namespace }) => namespace },
  { title: "ID", of: ({ id }) => id },
  { title: "STATE", of: stateWords },
  { title: "VOLUME", of: ({ volume }) => volume },
  { title: "GROUP", of: ({ group }) => group || "-" },
  { title: "SIZE", of: ({ sizeBytes }) => sizeWords(sizeBytes) },
  { title: "CUT", of: ({ cutAt }) => ago(cutAt, now) },
];

export const groupColumns = (now: number, anyNamespace: boolean): readonly Column<SnapshotGroup>[] => [
  { title: "NAMESPACE", wide: !anyNamespace, of: ({ namespace }) => namespace },
  { title: "ID", of: ({ id }) => id },
  { title: "STATE", of: stateWords },
  { title: "VOLUMES", of: ({ volumes }) => volumes.join(",") },
  { title: "CUT", of: ({ cutAt }) => ago(cutAt, now) },
];

/** Of `-o wide`: more than fits a narrow terminal. */
export const callColumn = (now: number): Column<Snapshot | SnapshotGroup> => ({
  title: "CALL",
  wide: true,
  of: ({ call }) => callText(call, now) || "-",
});

const commonDetails = (record: Snapshot | SnapshotGroup, now: number): readonly Detail[] => [
  ["State", snapshotStates.of(record.state)],
  ["Since", ago(record.stateSince, now)],
  ...blockedDetails(record.blocked, now),
  ["Call", callText(record.call, now)],
  ["Last error", lastErrorText(record.lastError)],
  ["Attempts", record.attempts === 0 ? "" : String(record.attempts)],
  ["Next try", ahead(record.nextTry, now)],
  ["Plugin", record.plugin],
  ["External id", record.externalId],
  ["Cut", moment(record.cutAt)],
  ["Labels", mapWords(record.labels)],
  ["Created", moment(record.createdAt)],
];

export const snapshotDetails = (snapshot: Snapshot, now: number): readonly Detail[] => [
  ["Snapshot", `${snapshot.namespace}/${snapshot.id}`],
  ["Volume", snapshot.volume],
  ["Group", snapshot.group],
  ["Size", sizeWords(snapshot.sizeBytes)],
  ["Usable from", snapshot.usableFrom.map(({ segments }) => mapWords(segments)).join("; ")],
  ...commonDetails(snapshot, now),
];

export const groupDetails = (group: SnapshotGroup, now: number): readonly Detail[] => [
  ["Group", `${group.namespace}/${group.id}`],
  ["Volumes", group.volumes.join(", ")],
  ["Snapshots", group.snapshots.join(", ")],
  ...commonDetails(group, now),
];
