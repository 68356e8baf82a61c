import { takeOverCommand, volumeCommand } from "../operator-command.ts";
import type { Blocked, Failure } from "../outcome.ts";
import { volumeKey } from "../volume/volume.ts";
import type { CutRecord } from "./snapshot.ts";

export type CutBlockedReason =
  | "INCOMPATIBLE"
  | "CREDENTIALS_REFUSED"
  | "PLUGIN_REFUSED"
  | "CREATE_UNCERTAIN"
  | "BACKEND_GROUP"
  | "PLUGIN_AMBIGUOUS"
  | "PLACE_UNKNOWN"
  | "PLUGIN_HANGS"
  | "CALL_MAY_BE_OPEN";

interface Remedy {
  readonly missingProof: (record: CutRecord) => string;
  readonly clearWith: (record: CutRecord) => string;
}

const command = (record: CutRecord, verb: "status" | "delete", ...options: readonly string[]): string => {
  const words = record.kind === "group" ? { status: "group-status", delete: "delete-group" } : undefined;
  return volumeCommand(`snapshot ${words?.[verb] ?? verb}`, record, ...options);
};

/** Nobody wakes it: its pause is a minute at most. */
const goesOn = (r: CutRecord): string =>
  `and it goes on by itself within a minute; how it stands: ${command(r, "status")}`;

/** Total: a new reason does not compile until somebody said what clears it. */
const remedies: Readonly<Record<CutBlockedReason, Remedy>> = {
  INCOMPATIBLE: {
    missingProof: (r) =>
      `that what plugin ${r.plugin} has under the name ${r.name} is ${volumeKey(r)} and nothing else`,
    clearWith: (r) => `remove or rename the other one at the backend, ${goesOn(r)}`,
  },
  CREDENTIALS_REFUSED: {
    missingProof: (r) => `that plugin ${r.plugin} accepts the secrets of this call`,
    clearWith: (r) => `correct the secret that it refers to, ${goesOn(r)}`,
  },
  PLUGIN_REFUSED: {
    missingProof: (r) => `that plugin ${r.plugin} can do this for ${volumeKey(r)}`,
    clearWith: (r) =>
      r.state === "DELETING"
        ? `do what the plugin's message asks for, ${goesOn(r)}`
        : `do what the plugin's message asks for, or: ${command(r, "delete")}`,
  },
  BACKEND_GROUP: {
    missingProof: (r) =>
      `that the group at the backend of plugin ${r.plugin}, with which ${volumeKey(r)} goes, is gone`,
    clearWith: (r) => `delete that group at the backend; then: ${command(r, "delete", "--forget")}`,
  },
  PLUGIN_AMBIGUOUS: {
    missingProof: (r) => `which instance of plugin ${r.plugin} has ${volumeKey(r)}`,
    clearWith: (r) =>
      `let plugin ${r.plugin} report a topology; or, if every instance reaches every volume, write "reach: all" into its profile: holdfast plugin profile ${r.plugin} <file>`,
  },
  PLACE_UNKNOWN: {
    missingProof: (r) => `which instance of plugin ${r.plugin} has ${volumeKey(r)}`,
    clearWith: (r) =>
      `start plugin ${r.plugin} on every node that may have it, and it goes on by itself; which of them run: holdfast plugin status ${r.plugin}`,
  },
  PLUGIN_HANGS: {
    missingProof: (r) => `that plugin ${r.plugin} has ended the call for ${volumeKey(r)} that it was given`,
    clearWith: (r) =>
      `restart the plugin instance that the message names; its answer then ends the call: ${command(r, "status")}`,
  },
  CALL_MAY_BE_OPEN: {
    missingProof: (r) => `that the call for ${volumeKey(r)} has ended at the plugin instance that was given it`,
    clearWith: (r) =>
      `start that instance, or that controller, again, and it goes on by itself; when it is off for good: ${takeOverCommand(r)}`,
  },
  CREATE_UNCERTAIN: {
    missingProof: (r) => `that the backend of plugin ${r.plugin} has nothing under the name ${r.name}`,
    clearWith: (r) =>
      `look with: holdfast repair scan --kind snapshot --plugin ${r.plugin}; then: ${command(r, "delete", "--forget")}`,
  },
};

const byCode: Readonly<Record<string, CutBlockedReason>> = {
  UNAUTHENTICATED: "CREDENTIALS_REFUSED",
  PERMISSION_DENIED: "CREDENTIALS_REFUSED",
  ALREADY_EXISTS: "INCOMPATIBLE",
};

const byReason: Readonly<Record<string, CutBlockedReason>> = {
  INCOMPATIBLE: "INCOMPATIBLE",
  BACKEND_GROUP: "BACKEND_GROUP",
  SECRET_NOT_FOUND: "CREDENTIALS_REFUSED",
  PLUGIN_AMBIGUOUS: "PLUGIN_AMBIGUOUS",
  PLACE_UNKNOWN: "PLACE_UNKNOWN",
  PLUGIN_HANGS: "PLUGIN_HANGS",
  CALL_MAY_BE_OPEN: "CALL_MAY_BE_OPEN",
};

/** Why it cannot go on by itself, what nobody has shown yet, and the command for this very case. */
export const cutBlocked = (record: CutRecord, failure: Failure, now: number, inDoubt = false): Blocked => {
  const reason = inDoubt
    ? "CREATE_UNCERTAIN"
    : (byReason[failure.reason] ?? byCode[failure.code ?? ""] ?? "PLUGIN_REFUSED");
  const remedy = remedies[reason];
  return {
    since: record.blocked?.reason === reason ? record.blocked.since : now,
    reason,
    message: failure.message,
    missingProof: remedy.missingProof(record),
    clearWith: remedy.clearWith(record),
  };
};
