import { healthText, type StorageHealthEntry } from "@holdfast/model/health";
import type { Tri } from "@holdfast/model/tri";
import type { Blocked } from "../outcome.ts";
import type { Segments } from "../volume/volume.ts";
import type { LinkMarks } from "./link-state.ts";
import type { NodeLife } from "./node-life.ts";

export const nodeStates = ["READY", "SUSPECT", "FENCING", "QUARANTINED"] as const;
export type NodeState = (typeof nodeStates)[number];

export type PluginHealth = "HEALTHY" | "UNHEALTHY" | "INITIALISING";

/** One plugin as it runs on one node, from the agent's fingerprint. */
export interface NodePlugin {
  readonly name: string;
  readonly version: string;
  readonly instance: string;
  readonly role: "CONTROLLER" | "NODE" | "MONOLITH";
  readonly health: PluginHealth;
  readonly healthMessage: string;
  /** It came back as somebody else, or has the name of another, and gets no call. */
  readonly blocked?: Blocked;
  /** It goes only when its runner says so: one that is gone was stopped. */
  readonly hosted?: true;
  /** The plugin's own name for the node; what ControllerPublish is called with. */
  readonly nodeId: string;
  /** 0 = the plugin names no limit. */
  readonly maxVolumes: number;
  readonly topology: Segments;
  readonly capabilities: Readonly<Record<string, Tri>>;
  /** What it says is wrong with the way from the node to the storage; absent: nothing, or it does not tell. */
  readonly storageHealth?: readonly StorageHealthEntry[];
}

/** The worst of what is known that a plugin of the node says of its storage; "" = nothing adverse is said. */
export const storageWord = ({ plugins }: Pick<NodeRecord, "plugins">): string => {
  const said = plugins.flatMap(({ storageHealth = [] }) => storageHealth.map(({ status }) => status));
  const worst = (["STORAGE_UNREACHABLE", "STORAGE_DEGRADED"] as const).find((status) => said.includes(status));
  return worst ?? (said.length === 0 ? "" : "STORAGE_UNRECOGNISED");
};

/** For people: each plugin in its own words. */
export const storageWords = ({ plugins }: Pick<NodeRecord, "plugins">): string =>
  plugins
    .flatMap(({ name, storageHealth = [] }) =>
      storageHealth.length === 0 ? [] : [`plugin ${name} says ${healthText(storageHealth)}`],
    )
    .join("; ");

/** Taken out of use by an operator: no new claims, and what is there goes in its own time. Nothing is ever taken by force. */
export interface NodeDrain {
  readonly since: number;
  readonly reason: string;
  /** `release`: its workloads have stopped, and the controller releases what they had. `wait`: the scheduler does. */
  readonly mode: "wait" | "release";
  /** When it should be over; later it is only told louder. */
  readonly deadline?: number;
  /** How long it was given: the same again does not put the deadline off. */
  readonly within?: number;
}

/** Why the volumes of a node may be taken from it although it did not let go of them. */
export interface NodeFence {
  /** `power-off`: a person has seen that the machine is off. `on-detach`: the backends cut off the node that they detach from. */
  readonly kind: "power-off" | "on-detach";
  /** Whose word it is, and the word itself. */
  readonly who: string;
  readonly evidence: string;
  readonly since: number;
  /** Its agent was heard since, so that `power-off` is no evidence any more: what is left ends by its word, or by new evidence. */
  readonly spoke?: true;
}

/** Another life that asks for the name while the recorded life may still hold claims. It gets nothing until a person admits it. */
export interface PendingLife extends NodeLife {
  /** A short name of the life, for the command that admits it. */
  readonly life: string;
  /** Empty: see NodeRecord. */
  readonly address: string;
  readonly since: number;
}

export interface NodeRecord extends NodeLife, LinkMarks {
  readonly name: string;
  /** The short name of its life. Absent in older records. */
  readonly life?: string;
  /** One per life of the agent process. */
  readonly instance: string;
  /** Rises when the agent comes back without its journal, or after a fence; permits of older ones are refused. */
  readonly nodeEpoch: number;
  /** SUSPECT is never stored: a record says at most that no controller has the node's link (`linkLost`). */
  readonly state: Exclude<NodeState, "SUSPECT">;
  /** Empty: agents listen nowhere. It is written all the same, since the release before reads no record without it. */
  readonly address: string;
  readonly version: string;
  readonly verificationScope: "host" | "own-namespace";
  readonly plugins: readonly NodePlugin[];
  readonly drain?: NodeDrain;
  readonly pending?: PendingLife;
  /** Boots that were over when a later one registered, the newest last: one of them that speaks again is no later boot. */
  readonly bootsBefore?: readonly string[];
  /** Machine ids that this very host had, as its identity shows: an image gives it another one. What was given to them was given to it. */
  readonly machinesBefore?: readonly string[];
  /** A person's word: the life of this short name is the node from its next registration on. */
  readonly admitted?: string;
  /** The life that a person has said to be over, when this one, or a boot of its host before it, was admitted in its place. */
  readonly outlived?: NodeLife;
  /** A claim that was granted to a lower node epoch was granted to another life, which this life does not speak for. */
  readonly speaksFrom?: number;
  /**
   * Forgotten: it is in no list and gets nothing. The record stays for its incarnation, which must not be given twice to one name:
   * an old permit for it would be honoured.
   */
  readonly forgottenAt?: number;
  /** While it is FENCING or QUARANTINED. Absent, too, where an older release has written the record since. */
  readonly fence?: NodeFence;
  readonly changedBy?: { readonly who: string; readonly why: string; readonly at: number };
  readonly registeredAt: number;
  readonly updatedAt: number;
}
