import type { Nodes } from "../ports.ts";
import type { Expects } from "./volume/change-options.ts";

export interface NodeJudgement {
  /** To be called where the decision is made: it is tied to the node as it is known then. */
  look(): void;
  readonly expects: Expects;
}

/**
 * Ties a grant to the very record of the node that it was judged by. Another controller may have drained the node, or forgotten it,
 * without this one having heard of it yet: the commit compares, so that "closed at once" holds for all of them.
 */
export const nodeJudgement = (nodes: Pick<Nodes, "get" | "refresh">, name: string): NodeJudgement => {
  let rev: number | undefined;
  let asked = 0;
  return {
    look() {
      rev = nodes.get(name)?.rev;
    },
    async expects() {
      asked += 1;
      const expectedRev = rev;
      // The commit before this one was refused, perhaps because of what is not known here: the next decision knows it.
      if (asked > 1) await nodes.refresh?.(name);
      return expectedRev === undefined ? [] : [{ ref: { kind: "node", key: name }, expectedRev }];
    },
  };
};
