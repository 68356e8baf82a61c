/** The parts of a state: one volume in a store that forgets, two controllers, the hosts of two nodes, and what is remembered of the past. */
import type { Epoch } from "@holdfast/model/epoch";
import type { Vetting } from "@holdfast/model/vetting";
import type { NodeRecord } from "../../../services/controller/src/domain/node/node.ts";
import type { Step } from "../../../services/controller/src/domain/steps.ts";
import type { VolumeState } from "../../../services/node-agent/src/domain/types.ts";
import type { PlainRecord } from "../volume/plain-record.ts";

/** A record of a node without what is the same in all, and without what no decision reads. */
export type PlainNode = Pick<NodeRecord, "name" | "nodeEpoch" | "state" | "instance"> &
  Partial<Omit<NodeRecord, "name" | "nodeEpoch" | "state" | "instance" | "plugins">>;

/** Of a store: which process it is, and what that process was vetted as. */
export interface Meta extends Vetting {
  readonly run: number;
  /** The generation was begun for this process in this history of its data. */
  readonly begun: boolean;
  readonly vetted: boolean;
}

export interface StoredVolume {
  readonly record: PlainRecord;
  /** Tombstones of claims: the node that each was on. */
  readonly ended: Readonly<Record<string, string>>;
}

export type StoredNodes = Readonly<Record<string, PlainNode>>;

/** What a store holds; there is none where the process is gone. */
export interface Site {
  readonly meta: Meta;
  readonly volume: StoredVolume;
  readonly nodes: StoredNodes;
}

/** An order that left: it is on the stream of one process of an agent. */
export interface Order {
  readonly kind: "permit" | "release";
  readonly node: string;
  readonly instance: string;
  readonly claim: string;
  readonly epoch: Epoch;
  readonly oldest: Epoch;
  readonly forEpoch: number;
  readonly vetting: Vetting;
}

export const replies = ["published", "not-mounted", "refused", "uncertain", "released", "pending"] as const;
export type OrderReply = (typeof replies)[number];

/** A step of a volume that has asked an agent, and its answer once that has come. */
export interface OrderTask {
  readonly step: Step;
  readonly record: PlainRecord;
  /** As the node was recorded when it was asked. */
  readonly node: PlainNode;
  readonly order: Order;
  readonly answer?: OrderReply;
}

/** What the controller has learned in one piece of its work so far, by the question. */
export type Trace = Readonly<Record<string, unknown>>;

export interface CompareTask {
  readonly node: string;
  readonly trace: Trace;
  readonly vetting: Vetting;
}

export interface Controller {
  readonly up: boolean;
  /** The store that it reaches. */
  readonly at: "store" | "old";
  /** The process that it is connected to. */
  readonly run: number;
  readonly open: boolean;
  readonly vetting: Vetting;
  /** The highest generation that it has seen. */
  readonly high: number;
  /** Names of vettings in its state directory. */
  readonly knows: readonly string[];
  /** The highest generation that was seen, and the names of nodes, in its state directory. */
  readonly generation: number;
  readonly names: readonly string[];
  /** By node, the process of its agent that has a stream here. */
  readonly links: Readonly<Record<string, string>>;
  /** Processes that were replaced while it looked on. */
  readonly replaced: readonly string[];
  /** Records of nodes that it remembers, and that its store has lost. */
  readonly kept: StoredNodes;
  /** It has committed since the copy of the store was made. */
  readonly since?: true;
  /** It has seen commits that its store has lost under the same process: not noticed yet, or noticed. */
  readonly ahead?: "unnoticed" | "noticed";
  readonly check?: Trace;
  readonly task?: OrderTask;
  readonly compare?: CompareTask;
  /** What an agent is told to let go of that no record owes. */
  readonly letGo?: readonly Order[];
}

/** A host with its agent. Its state directory may be a copy of another one's. */
export interface Host {
  readonly name: string;
  readonly up: boolean;
  /** It reaches no controller, and none reaches it. */
  readonly cut?: true;
  readonly machine: string;
  readonly identity?: string;
  readonly boot: string;
  readonly journal: string;
  readonly lock: string;
  readonly instance: string;
  readonly nodeEpoch: number;
  readonly promised: Vetting;
  readonly quarantined?: true;
  readonly volume?: VolumeState;
  readonly mounted: readonly string[];
  /** An order that its sender does not wait for any more. */
  readonly late?: Order;
}

/** What may still happen, so that the space ends. */
export interface Left {
  readonly claims: number;
  readonly copies?: number;
  /** To a copy that lacks commits: the old master is gone. */
  readonly losses?: number;
  /** The same, and the old master stays reachable for a controller. */
  readonly splits?: number;
  readonly restarts?: number;
  readonly reloads?: number;
  readonly kills?: number;
  readonly emptied?: number;
  readonly lateOrders?: number;
  readonly cuts?: number;
  readonly reboots?: number;
  readonly images?: number;
  readonly clones?: number;
  readonly offs?: number;
  readonly agentRestarts?: number;
  /** Inventories that are asked for although nothing differs. */
  readonly looks?: number;
  readonly fences?: number;
}

/** What happened, for the invariants alone: no process reads it. */
export interface Past {
  readonly left: Left;
  /** Claims that somebody wants no more. */
  readonly unwanted: readonly string[];
  /** Which claim each epoch was followed for. */
  readonly used: Readonly<Record<string, string>>;
  readonly vettings: number;
  readonly wrong?: string;
}
