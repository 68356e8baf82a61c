import { healthText } from "@holdfast/model/health";
import { sizeWords } from "@holdfast/model/size";
import {
  AccessMode,
  AttachmentMode,
  UsageUnit,
  type VolumeCapability,
  type VolumeUsage,
} from "@holdfast/shared/gen/holdfast/v1/common";
import { AttachmentState, ReclaimPolicy, type Volume, VolumeState } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { Column, Detail } from "../../frame/tables.ts";
import { enumWords } from "../../words/enum-words.ts";
import { ago, moment } from "../../words/moment.ts";
import { blockedDetails, callText, lastErrorText, mapWords } from "../resource-words.ts";

export const volumeStates = enumWords<VolumeState>(VolumeState, "VOLUME_STATE_");
const reclaimPolicies = enumWords<ReclaimPolicy>(ReclaimPolicy, "RECLAIM_POLICY_");
const attachmentStates = enumWords<AttachmentState>(AttachmentState, "ATTACHMENT_STATE_");
export const accessModes = enumWords<AccessMode>(AccessMode, "ACCESS_MODE_");
export const attachmentModes = enumWords<AttachmentMode>(AttachmentMode, "ATTACHMENT_MODE_");

export const volumeName = ({ namespace, id }: { readonly namespace: string; readonly id: string }): string =>
  `${namespace}/${id}`;

/** As other commands take it. */
export const volumeNames = (volume: Volume | undefined): readonly string[] => (volume === undefined ? [] : [volume.id]);

export const capabilityWords = (capability: VolumeCapability): string =>
  [
    attachmentModes.of(capability.attachmentMode),
    accessModes.of(capability.accessMode),
    capability.fsType,
    capability.mountFlags.length > 0 ? `(${capability.mountFlags.join(",")})` : "",
  ]
    .filter((word) => word !== "")
    .join(" ");

/** Access modes, as `--mode` takes them. */
const modeWords = ({ capabilities }: Volume): string =>
  [
    ...new Set(capabilities.map(({ accessMode }) => accessModes.of(accessMode).toLowerCase().replaceAll("_", "-"))),
  ].join(",") || "-";

const fileSystemWords = ({ capabilities }: Volume): string =>
  [
    ...new Set(
      capabilities.map(({ attachmentMode, fsType }) =>
        attachmentMode === AttachmentMode.ATTACHMENT_MODE_BLOCK_DEVICE ? "block" : fsType,
      ),
    ),
  ]
    .filter((word) => word !== "")
    .join(",") || "-";

/** `web-1 on node-a`, `3 claims on 2 nodes`, `attached to node-a`, or `-`. */
const useWords = ({ holders, holderCount, attachments }: Volume): string => {
  const [first] = holders;
  if (first === undefined) return attachments[0] === undefined ? "-" : `attached to ${attachments[0].node}`;
  if (holderCount <= 1n) return `${first.workload} on ${first.node}`;
  const nodes = new Set(holders.map(({ node }) => node)).size;
  const more = holderCount > BigInt(holders.length) ? " or more" : "";
  return `${holderCount} claims on ${nodes === 1 && more === "" ? first.node : `${nodes}${more} nodes`}`;
};

const nodesWords = ({ attachments, attachmentCount }: Volume): string =>
  attachments.length === 0
    ? "-"
    : attachments
        .slice(0, 3)
        .map(({ node }) => node)
        .concat(attachmentCount > 3n ? [`and ${attachmentCount - 3n} more`] : [])
        .join(",");

const stateWords = ({ state, blocked, condition, health }: Volume): string =>
  [
    volumeStates.of(state),
    ...(blocked === undefined ? [] : ["BLOCKED"]),
    ...(condition?.abnormal === true ? ["ABNORMAL"] : []),
    ...new Set(health.flatMap(({ entries }) => entries.map(({ status }) => status))),
  ].join(" ");

/** `anyNamespace`: they may be of several. */
export const volumeColumns = (now: number, anyNamespace: boolean): readonly Column<Volume>[] => [
  { title: "NAMESPACE", wide: !anyNamespace, of: ({ namespace }) => namespace },
  { title: "ID", of: ({ id }) => id },
  { title: "STATE", of: stateWords },
  { title: "PLUGIN", of: ({ plugin }) => plugin },
  { title: "SIZE", of: ({ capacity }) => sizeWords(capacity?.actualBytes || capacity?.requiredBytes || 0n) },
  { title: "MODE", of: modeWords },
  { title: "FS", of: fileSystemWords },
  { title: "USE", of: useWords },
  { title: "NODES", wide: true, of: nodesWords },
  { title: "CREATED", wide: true, of: ({ createdAt }) => ago(createdAt, now) },
  { title: "CALL", wide: true, of: ({ calls }) => calls.map((call) => callText(call, now)).join("; ") || "-" },
];

const expansionWords = ({ wantedBytes, controllerDone, pendingNodes }: NonNullable<Volume["expansion"]>): string => {
  const owed = pendingNodes.length === 0 ? "with the next mount" : `owed by ${pendingNodes.join(", ")}`;
  return `to ${sizeWords(wantedBytes)}, ${controllerDone ? owed : "at the backend"}`;
};

export const volumeDetails = (volume: Volume, now: number): readonly Detail[] => [
  ["Volume", volumeName(volume)],
  ["State", `${volumeStates.of(volume.state)}${volume.deleteWanted ? ", deletion wanted" : ""}`],
  ["Since", ago(volume.stateSince, now)],
  ...blockedDetails(volume.blocked, now),
  ["Calls", volume.calls.map((call) => callText(call, now)).join("; ")],
  ["Last error", lastErrorText(volume.lastError)],
  [
    "Condition",
    volume.condition === undefined
      ? ""
      : `${volume.condition.abnormal ? "abnormal" : "normal"} ${volume.condition.message}`,
  ],
  ...volume.health.map(
    ({ node, since, entries }): Detail => [
      node === "" ? "Health at the backend" : `Health on ${node}`,
      `${healthText(entries)}, since ${ago(since, now)}`,
    ],
  ),
  ["Plugin", `${volume.plugin} ${volume.pluginVersion}`.trim()],
  ["External id", volume.externalId],
  ["Size", sizeWords(volume.capacity?.actualBytes ?? 0n)],
  ["Wanted size", sizeWords(volume.capacity?.requiredBytes ?? 0n)],
  ["Expansion", volume.expansion === undefined ? "" : expansionWords(volume.expansion)],
  ["Capabilities", volume.capabilities.map(capabilityWords).join("; ")],
  ["Reachable from", volume.topology?.accessible.map(({ segments }) => mapWords(segments)).join("; ") ?? ""],
  ["Source", volume.contentSource?.snapshot ?? volume.contentSource?.volume ?? ""],
  ["Labels", mapWords(volume.labels)],
  [
    "Ends with",
    volume.ephemeral === undefined ? "" : `claim ${volume.ephemeral.alias} of ${volume.ephemeral.workload}`,
  ],
  [
    "Restored",
    volume.restore === undefined
      ? ""
      : `from snapshot group ${volume.restore.group}, together with ${volume.restore.members
          .filter(({ id }) => id !== volume.id)
          .map(({ id }) => id)
          .join(", ")}`,
  ],
  ["Reclaim", reclaimPolicies.of(volume.policy?.reclaim ?? 0)],
  ["Claims", volume.holders.map((h) => `${h.workload}/${h.alias} on ${h.node}`).join("; ")],
  ["Attachments", volume.attachments.map((a) => `${a.node} ${attachmentStates.of(a.state)}`).join("; ")],
  ["Bars", volume.bars.map((b) => `${b.node}: ${b.reason}`).join("; ")],
  ["Created", moment(volume.createdAt)],
  [
    "Last change",
    volume.lastChange === undefined
      ? ""
      : `${volume.lastChange.who}: ${volume.lastChange.why}, ${ago(volume.lastChange.at, now)}`,
  ],
];

const usageUnits = { bytes: UsageUnit.USAGE_UNIT_BYTES, inodes: UsageUnit.USAGE_UNIT_INODES } as const;

/** `3 GiB of 10 GiB (30%)`. */
export const usageWords = (usage: readonly VolumeUsage[], unit: keyof typeof usageUnits): string => {
  const found = usage.find((each) => each.unit === usageUnits[unit]);
  if (found === undefined) return "-";
  const words = unit === "bytes" ? sizeWords : String;
  const share = found.total > 0n ? ` (${(found.used * 100n) / found.total}%)` : "";
  return `${words(found.used)} of ${words(found.total)}${share}`;
};
