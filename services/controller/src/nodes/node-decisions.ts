/** Decisions of operators about nodes, stored before anybody sees them. */
import type { KeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import type { Logger } from "@holdfast/shared/log/logger";
import type { NodeDecisions, NodeView } from "../ports.ts";
import { type NodeChanges, ofKnown } from "./node-changes.ts";
import type { StoredNode } from "./node-store.ts";

export interface NodeDecisionsDeps {
  readonly changes: NodeChanges;
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
  const { changes, lanes, signal, log, tell, drop } = deps;
  return {
    change: (name, decide, audit) =>
      lanes.run(name, signal, async () => {
        const stored = await changes.change(name, ofKnown(decide), audit && { audit });
        if (stored === undefined || stored === "crowded") return undefined;
        await deps.contradict(name);
        if (stored.changed) tell(name);
        return deps.viewOf(stored.after);
      }),
    forget: (name, decide, unless) =>
      lanes.run(name, signal, async () => {
        const stored = await changes.change(name, ofKnown(decide), { alone: unless });
        if (stored === "crowded") return "in use";
        if (stored === undefined) drop(name);
        if (stored !== undefined)
          log.info("a node was forgotten", { node: name, who: stored.after.record.changedBy?.who });
        tell(name);
        return stored === undefined ? "unknown" : "forgotten";
      }),
  };
};
