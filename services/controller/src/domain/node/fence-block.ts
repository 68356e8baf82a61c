/** What a fenced node waits for, as everything that is blocked says it. */
import type { Blocked } from "../outcome.ts";
import { isFenced } from "./fence.ts";
import type { NodeRecord } from "./node.ts";

export const fenceBlock = (record: NodeRecord): Blocked | undefined => {
  const { name, state, fence, updatedAt } = record;
  if (!isFenced(record)) return undefined;
  const why = fence === undefined ? "" : ` by ${fence.who} (${fence.kind}: ${fence.evidence})`;
  const common = { since: fence?.since ?? updatedAt, reason: "NODE_FENCED" };
  return state === "FENCING"
    ? {
        ...common,
        message: `node ${name} was fenced${why}, and not all that it has is taken from it yet`,
        missingProof: `that nothing is claimed, attached or barred on node ${name} any more`,
        clearWith: `holdfast node status ${name} says what it waits for, and it goes on by itself`,
      }
    : {
        ...common,
        message: `node ${name} was fenced${why}, and takes nothing before its agent has shown that it is empty`,
        missingProof: `an inventory of node ${name} without a mount`,
        clearWith: `start its agent; when it never comes back: holdfast node forget ${name}`,
      };
};
