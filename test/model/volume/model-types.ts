/** The parts of a state: one volume, its store, two controllers, two gates with a plugin behind each, two nodes, one backend. */
import type { Step } from "../../../services/controller/src/domain/steps.ts";
import type { VolumeState } from "../../../services/node-agent/src/domain/types.ts";
import type { PlainRecord } from "./plain-record.ts";

/** Numbers of commits are marks: only their order counts. */
export interface ModelOrder {
  readonly sequence: string;
  readonly opId: string;
}

export interface PluginCall {
  readonly method:
    | "ControllerPublishVolume"
    | "ControllerUnpublishVolume"
    | "CreateVolume"
    | "DeleteVolume"
    | "ControllerExpandVolume"
    | "ControllerModifyVolume";
  /** Empty for calls that concern no node. */
  readonly node: string;
  /** The name that is made, the id that is deleted, the size or the value that is asked for. */
  readonly what?: string;
}

export interface SentCall extends PluginCall {
  readonly via: string;
  /** The life of the gate that the call is for; absent before intents name it. */
  readonly gate?: string;
  readonly order: ModelOrder;
}

/** What comes back for a call: a status of the plugin, or what was made up on the way, by the code of the same name. */
export const replies = {
  OK: { answered: true, sent: true },
  INTERNAL: { answered: true, sent: true },
  INVALID_ARGUMENT: { answered: true, sent: true },
  FAILED_PRECONDITION: { answered: true, sent: true },
  NOT_FOUND: { answered: true, sent: true },
  RESOURCE_EXHAUSTED: { answered: true, sent: true },
  /** Done, and not as it was asked for. */
  WRONG: { answered: true, sent: true },
  /** No answer in time, or none any more. */
  DEADLINE_EXCEEDED: { answered: false, sent: true },
  /** The gate holds another call of the subject open. */
  BUSY: { answered: false, sent: false, code: "ABORTED" },
  STALE: { answered: false, sent: false, code: "ABORTED" },
  /** The secret was refused before, or the request is found unfit: known before it is sent. */
  KNOWN: { answered: false, sent: false, code: "PERMISSION_DENIED" },
  UNFIT: { answered: false, sent: false, code: "INVALID_ARGUMENT" },
  /** Said on the way, and not by the plugin. */
  CROWDED: { answered: false, sent: true, code: "RESOURCE_EXHAUSTED" },
  BROKEN: { answered: false, sent: true, code: "UNAVAILABLE" },
} as const;

export type Reply = keyof typeof replies;

export interface StoreFile {
  readonly record: PlainRecord;
}

export interface Memory {
  readonly life: number;
  readonly up: boolean;
  /** Of the intent that this life stored last. */
  readonly order?: ModelOrder;
  /** The intent of a call that left and whose answer is not stored. */
  readonly unstored?: string;
}

/** A step that waits: for its call to leave, or for an answer. */
export type CallTask =
  | { readonly phase?: undefined }
  | {
      readonly phase: "leaving";
      readonly step: Step;
      readonly record: PlainRecord;
      readonly past?: Past;
      readonly found?: string;
    }
  | {
      readonly phase: "called";
      readonly step: Step;
      /** Under which the call left. */
      readonly record: PlainRecord;
      /** An earlier attempt had left, and its answer was not stored. */
      readonly before: boolean;
      readonly past?: Past;
      /** The life of the gate that a step about a bar had found. */
      readonly found?: string;
      /** Absent: a gate was asked to let go. */
      readonly call?: SentCall;
      readonly answer?: Reply | GateWord;
    };

/** A commit of the step itself, which is not made again. */
export interface Past {
  readonly record: PlainRecord;
  readonly order: ModelOrder;
}

export const gateWords = ["idle", "open", "away"] as const;
export type GateWord = (typeof gateWords)[number];

export interface EpochPair {
  readonly gen: number;
  readonly ctr: number;
}

export interface AgentOrder {
  readonly kind: "permit" | "release";
  readonly node: string;
  readonly claim: string;
  readonly epoch: EpochPair;
  readonly oldest: EpochPair;
}

export const agentReplies = ["published", "not-mounted", "refused", "uncertain", "released", "pending"] as const;
export type AgentReply = (typeof agentReplies)[number];

export type AgentTask =
  | { readonly phase?: undefined }
  | { readonly phase: "asked"; readonly step: Step; readonly record: PlainRecord; readonly answer: AgentReply };

export interface Waiter {
  readonly issuer: string;
  readonly subject: string;
  readonly order: ModelOrder;
}

/** A call that went to the plugin; without an answer it is open. */
export interface PassedCall extends PluginCall {
  readonly order: ModelOrder;
  readonly answer?: Reply;
}

export interface Raised extends ModelOrder {
  readonly subject: string;
}

export interface Gate {
  readonly life: number;
  /** The call of each subject that passed the gate last, the latest one last. */
  readonly calls: readonly PassedCall[];
  /** Subjects that the gate was asked to let go of since. */
  readonly raised: readonly Raised[];
  readonly waiting: readonly Waiter[];
  /** On the way to the gate. */
  readonly inbox: readonly (SentCall & { readonly issuer: string })[];
  /** Calls of former lives of the gate, which the plugin still has. */
  readonly orphans: readonly PluginCall[];
}

export interface Host {
  readonly volume?: VolumeState;
  /** Claims with a mount. */
  readonly mounted: readonly string[];
  /** An order that was given up by its sender and is still on its way. */
  readonly late?: AgentOrder;
}

export interface Backend {
  readonly attached: readonly string[];
  /** Ids of what was made. */
  readonly made?: readonly string[];
  readonly size?: number;
  readonly speed?: string;
}

/** What may still happen so that the space ends. */
export interface Budget {
  readonly claims: number;
  readonly kills: number;
  readonly gateDeaths: number;
  readonly lateOrders: number;
  /** Calls that arrive and are on their way once more. */
  readonly copies: number;
  /** Calls that are given to another gate, behind a bar. */
  readonly overtakings: number;
  /** Answers besides OK; absent: any number. */
  readonly mishaps?: number;
  /** Wishes to be larger, or other. */
  readonly wishes?: number;
  /** Orders to agents whose answer is lost. */
  readonly unheard?: number;
  /** Mounts that a node is found without. */
  readonly lostMounts?: number;
  /** The backend does not show an attachment that is there. */
  readonly unseen?: number;
}
