/**
 * Decisions of operators about nodes, stored before anybody sees them. Each is made over the record in the store: one that would change
 * nothing of what is remembered may change what another controller has written since.
 */
import type { KeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import type { Logger } from "@holdfast/shared/log/logger";
import type { NodeDecisions, NodeView } from "../ports.ts";
import { type NodeChanges, ofKnown, type StoredNode } from "./node-store.ts";

export interface NodeDecisionsDeps {
  readonly changes: NodeChanges;
  /** Reads the record of the node. */
  readonly recall: (node: string) => Promise<void>;
  readonly lanes: KeyedLanes;
  readonly signal: AbortSignal;
  readonly log: Logger;
  /** A life that speaks here takes back what was decided against it. */
  readonly contradict: (node: string) => Promise<void>;
  readonly tell: (node: string) => void;
  readonly drop: (node: string) => void;
  readonly viewOf: (node: StoredNode) => NodeView;
}

export const createNodeDecisions = (deps: NodeDecisionsDeps): NodeDecisions => {
  const { changes, recall, lanes, signal, log, tell, drop } = deps;
  return {
    change: (name, decide, audit) =>
      lanes.run(name, signal, async () => {
        await recall(name);
        const { now, changed } = await changes(name, ofKnown(decide), { audit });
        if (now === undefined || now.record.forgottenAt !== undefined) return undefined;
        await deps.contradict(name);
        if (changed) tell(name);
        return deps.viewOf(now);
      }),
    forget: (name, decide, unless) =>
      lanes.run(name, signal, async () => {
        await recall(name);
        const { now, changed, crowded } = await changes(name, ofKnown(decide), { alone: unless });
        if (crowded) return "in use";
        if (changed) log.info("a node was forgotten", { node: name, who: now?.record.changedBy?.who });
        else drop(name);
        tell(name);
        return changed ? "forgotten" : "unknown";
      }),
  };
};
