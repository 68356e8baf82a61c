import { fenceCommand, releaseCommand } from "@holdfast/model/operator-command";
import type { Claim } from "./claim/claim.ts";
import {
  admitCommand,
  type Called,
  clearBarCommand,
  explainCommand,
  takeOverCommand,
  volumeCommand,
} from "./operator-command.ts";
import type { Blocked, Failure } from "./outcome.ts";
import { type VolumeRecord, volumeKey } from "./volume/volume.ts";

export type BlockedReason =
  | "INCOMPATIBLE"
  | "NOT_AT_BACKEND"
  | "FOREIGN_ATTACHMENT"
  | "ATTACHED_ELSEWHERE"
  | "STORAGE_TAKEN"
  | "DETACH_UNPROVEN"
  | "CREDENTIALS_REFUSED"
  | "PLUGIN_REFUSED"
  | "PERMIT_REFUSED"
  | "NODE_REPLACED"
  | "NODE_SILENT"
  | "NODE_PENDING"
  | "FOREIGN_HOLD"
  | "PLUGIN_HANGS"
  | "CALL_MAY_BE_OPEN"
  | "CALL_BARRED"
  | "EXPAND_IN_USE"
  | "EXPAND_UNCERTAIN"
  | "MODIFY_UNCERTAIN"
  | "PLUGIN_AMBIGUOUS"
  | "PLACE_UNKNOWN"
  | "TOKENS_UNSIGNED"
  | "NOT_PROVEN";

export interface Subject extends Called {
  readonly uid?: string;
  readonly plugin: string;
  readonly node?: string;
  readonly machineId?: string;
  /** The short name of the life of the node that a person has to choose. */
  readonly life?: string;
  readonly workload?: string;
  readonly alias?: string;
  readonly claimUid?: string;
  /** The claims that stand, of a volume that is told as a whole. */
  readonly claims?: Readonly<Record<string, Pick<Claim, "workload" | "alias">>>;
  /** The name of the bar that a person may lift. */
  readonly bar?: string;
  /** The plugin instance of a bar whose gate has answered: its host runs. */
  readonly answering?: string;
}

type Remedy = Readonly<Record<"missingProof" | "clearWith", (subject: Subject) => string>>;

const explain = explainCommand;
/** Nobody wakes it: its pause is a minute at most, and Explain only shows what became of it. */
const goesOn = (s: Subject): string => `and it goes on by itself within a minute; how it stands: ${explain(s)}`;
const forget = (s: Subject): string => volumeCommand("repair forget-volume", s, s.uid ?? "<uid>");

const abandon = (s: Subject): string => {
  const alias = s.alias === undefined || s.alias === s.id ? [] : [s.alias];
  return volumeCommand("repair abandon-claim", s, s.workload ?? "<workload>", s.claimUid ?? "<uid>", ...alias);
};

/** A volume with a claim cannot be forgotten: more lines than these are Explain's to show. */
const mostReleases = 3;

const releases = (s: Subject): readonly string[] => {
  const standing =
    s.workload === undefined ? Object.values(s.claims ?? {}) : [{ workload: s.workload, alias: s.alias ?? s.id }];
  return standing.slice(0, mostReleases).map((claim) => releaseCommand(s.namespace, claim));
};

/** Total: a new reason does not compile until somebody said what clears it. */
const remedies: Record<BlockedReason, Remedy> = {
  INCOMPATIBLE: {
    missingProof: (s) => `that nothing else of plugin ${s.plugin} stands under the name or path of ${volumeKey(s)}`,
    clearWith: (s) => `remove or rename it at the backend, ${goesOn(s)}`,
  },
  NOT_AT_BACKEND: {
    missingProof: (s) => `that plugin ${s.plugin} knows the storage of ${volumeKey(s)}`,
    clearWith: (s) =>
      releases(s).length === 0
        ? forget(s)
        : `bring it back at the backend, and it goes on by itself; when it is gone for good: ${[...releases(s), forget(s)].join("; then: ")}`,
  },
  FOREIGN_ATTACHMENT: {
    missingProof: (s) => `that ${volumeKey(s)} is not attached to a node that no record explains`,
    clearWith: (s) =>
      `holdfast repair scan --kind attachment --plugin ${s.plugin}, and remove what is nobody's; it is tried again by itself`,
  },
  ATTACHED_ELSEWHERE: {
    missingProof: (s) => `that ${volumeKey(s)} is detached from node ${s.node ?? "?"}`,
    clearWith: (s) =>
      releaseCommand(s.namespace, { workload: s.workload ?? "<workload>", alias: s.alias ?? "<alias>" }),
  },
  STORAGE_TAKEN: {
    missingProof: (s) => `that plugin ${s.plugin} keeps storage of its own for ${volumeKey(s)}`,
    clearWith: (s) => `mend the plugin, which named the storage of another volume, ${goesOn(s)}`,
  },
  DETACH_UNPROVEN: {
    missingProof: (s) => `that the backend no longer has ${volumeKey(s)} attached to node ${s.node ?? "?"}`,
    clearWith: (s) => volumeCommand("repair assert-detached", s, s.node ?? "<node>"),
  },
  CREDENTIALS_REFUSED: {
    missingProof: (s) => `that plugin ${s.plugin} accepts the secrets of this call`,
    clearWith: (s) => `correct the secret that the volume refers to, ${goesOn(s)}`,
  },
  PLUGIN_REFUSED: {
    missingProof: (s) => `that plugin ${s.plugin} can do this for ${volumeKey(s)}`,
    clearWith: (s) => `do what the plugin's message asks for, ${goesOn(s)}`,
  },
  PERMIT_REFUSED: {
    missingProof: (s) => `that the agent of node ${s.node ?? "?"} honours the grant of ${volumeKey(s)}`,
    clearWith: (s) =>
      `give it back and ask for it again: ${releaseCommand(s.namespace, { workload: s.workload ?? "<workload>", alias: s.alias ?? "<alias>" })}`,
  },
  NODE_REPLACED: {
    missingProof: (s) =>
      `that machine ${s.machineId ?? "?"}, which was node ${s.node ?? "?"}, no longer mounts ${volumeKey(s)}`,
    clearWith: (s) => `start that machine's agent again under its name; when it is off: ${abandon(s)}`,
  },
  NODE_SILENT: {
    missingProof: (s) => `that node ${s.node ?? "?"}, whose agent is silent, no longer mounts ${volumeKey(s)}`,
    clearWith: (s) =>
      `start the agent of node ${s.node ?? "?"} again, and it goes on by itself; when that machine is off: ${fenceCommand(s.node ?? "<node>")}; for this claim alone: ${abandon(s)}`,
  },
  NODE_PENDING: {
    missingProof: (s) => `which life of node ${s.node ?? "?"} has ${volumeKey(s)}`,
    clearWith: (s) =>
      `when every other life of the node is over: ${admitCommand(s.node ?? "<node>", s.life ?? "<life>")}`,
  },
  FOREIGN_HOLD: {
    missingProof: (s) => `that node ${s.node ?? "?"} no longer mounts ${volumeKey(s)}`,
    clearWith: (s) => `end what uses it on node ${s.node ?? "?"}; then: ${abandon(s)}`,
  },
  PLUGIN_HANGS: {
    missingProof: (s) => `that plugin ${s.plugin} has ended the call for ${volumeKey(s)} that it was given`,
    clearWith: (s) =>
      `restart the plugin instance that the message names; its answer then ends the call: ${explain(s)}`,
  },
  CALL_MAY_BE_OPEN: {
    missingProof: (s) => `that the call for ${volumeKey(s)} has ended at the plugin instance that was given it`,
    clearWith: (s) =>
      `start that instance, or that controller, again, and it goes on by itself; when it is off for good: ${takeOverCommand(s)}`,
  },
  CALL_BARRED: {
    missingProof: (s) =>
      `that the overtaken call for ${volumeKey(s)} has ended at the plugin instance that was given it`,
    clearWith: (s) =>
      `${s.answering === undefined ? "start the host or controller of that instance again" : `restart plugin instance "${s.answering}", which may still be at work on the call`}, and the bar goes by itself; when its host is off for good, or has booted anew since: ${clearBarCommand(s, s.bar ?? "<bar>")}`,
  },
  EXPAND_IN_USE: {
    missingProof: (s) =>
      `that ${s.node === undefined ? "no node has" : `no claim of node ${s.node} uses`} ${volumeKey(s)}`,
    clearWith: (s) => `release its claims; who has it: ${explain(s)}`,
  },
  EXPAND_UNCERTAIN: {
    missingProof: (s) => `how many bytes plugin ${s.plugin} has made of ${volumeKey(s)}`,
    clearWith: (s) =>
      `do what the plugin's message asks for, or ask for the size that it has: ${volumeCommand("volume expand", s, "<size>")}`,
  },
  PLUGIN_AMBIGUOUS: {
    missingProof: (s) => `which instance of plugin ${s.plugin} has the storage of ${volumeKey(s)}`,
    clearWith: (s) =>
      `let plugin ${s.plugin} report a topology; or, if every instance reaches every volume, write "reach: all" into its profile: holdfast plugin profile ${s.plugin} <file>`,
  },
  PLACE_UNKNOWN: {
    missingProof: (s) => `which instance of plugin ${s.plugin} has the storage of ${volumeKey(s)}`,
    clearWith: (s) =>
      `start plugin ${s.plugin} on every node that may have it, and it goes on by itself; which of them run: holdfast plugin status ${s.plugin}`,
  },
  TOKENS_UNSIGNED: {
    missingProof: (s) =>
      `that controllers can sign the identity tokens that plugin ${s.plugin} is told for ${volumeKey(s)}`,
    clearWith: (s) => `give every controller HOLDFAST_TOKEN_KEYS and HOLDFAST_TOKEN_ISSUER, ${goesOn(s)}`,
  },
  NOT_PROVEN: {
    missingProof: (s) => `what the lost record of ${volumeKey(s)} said, and that no other node uses it`,
    clearWith: (s) =>
      `release its claims, then make its record anew, with what it said: ${volumeCommand("volume deregister", s)}; then: holdfast volume register <file>`,
  },
  MODIFY_UNCERTAIN: {
    missingProof: (s) => `which parameters plugin ${s.plugin} has set for ${volumeKey(s)}`,
    clearWith: (s) =>
      `give every parameter in doubt a value that the plugin takes: ${volumeCommand("volume modify", s, "<key>=<value>")}`,
  },
};

export const blockedFor = (
  reason: BlockedReason,
  subject: Subject,
  message: string,
  previous: Blocked | undefined,
  now: number,
): Blocked => ({
  since: previous?.reason === reason ? previous.since : now,
  reason,
  message,
  missingProof: remedies[reason].missingProof(subject),
  clearWith: remedies[reason].clearWith(subject),
});

/** What an agent says of a block: it has looked at its host. */
export type AgentBlock = Pick<Blocked, "reason" | "missingProof" | "clearWith">;

/** The reason and the cure come from the agent, unchanged; one of an earlier version names only the reason. */
export const blockOfAgent = (
  { reason, message, block }: { readonly reason: string; readonly message: string; readonly block?: AgentBlock },
  subject: Subject,
  previous: Blocked | undefined,
  now: number,
): Blocked => {
  const told = block ?? {
    reason,
    missingProof: `that nothing on node ${subject.node ?? "?"} still uses ${volumeKey(subject)}`,
    clearWith: `do what the message says on node ${subject.node ?? "?"}, ${goesOn(subject)}`,
  };
  return { ...told, message, since: previous?.reason === told.reason ? previous.since : now };
};

/** The backend shows a volume that is being registered at a node already. */
export const foreignAttachment = (
  subject: Subject,
  message: string,
  previous: Blocked | undefined,
  now: number,
): Blocked => ({
  ...blockedFor("FOREIGN_ATTACHMENT", subject, message, previous, now),
  clearWith: `detach it there, and it goes on by itself; or give it up: ${volumeCommand("volume deregister", subject)}`,
});

/** The backend takes no second node, and the first is in use. */
export const heldElsewhere = (
  subject: Subject,
  holder: Claim,
  message: string,
  previous: Blocked | undefined,
  now: number,
): Blocked => {
  const { node, workload, alias, state } = holder;
  const why = `plugin ${subject.plugin} does not attach ${volumeKey(subject)} to node ${subject.node ?? "?"} while node ${node} has it, for workload ${workload} (${state}); it is tried again once that one is released and detached: ${message}`;
  return blockedFor("ATTACHED_ELSEWHERE", { ...subject, node, workload, alias }, why, previous, now);
};

/** Only the backend knows whether an attempt without answer has made it; it is asked again, slowly, all the same. */
export const createUncertain = (volume: VolumeRecord, failure: Failure, now: number): Blocked => ({
  since: volume.blocked?.reason === "CREATE_UNCERTAIN" ? volume.blocked.since : now,
  reason: "CREATE_UNCERTAIN",
  message: `plugin ${volume.plugin} refused a repeat of CreateVolume after an attempt with no answer: ${failure.message}`,
  missingProof: `no volume named ${volume.name} exists at the backend`,
  clearWith: volumeCommand("repair forget-volume", volume, volume.uid),
});
