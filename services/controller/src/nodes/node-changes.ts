/**
 * Decisions about node records: made from what is stored, and again whenever somebody else was faster.
 *
 * N1 Only changes are stored. N2 A record is stored before anybody here sees it.
 */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { NodeRecord } from "../domain/node.ts";
import { sameNode } from "./admit-node.ts";
import type { NodeStore, StoredNode, WriteWith } from "./node-store.ts";

export interface ChangeOutcome {
  readonly after: StoredNode;
  readonly changed: boolean;
}

export interface NodeChanges {
  /** `decide` may throw; undefined leaves everything as it is. */
  change(
    name: string,
    decide: (before: StoredNode | undefined) => NodeRecord | undefined | Promise<NodeRecord | undefined>,
    beside?: WriteWith,
  ): Promise<ChangeOutcome | "crowded" | undefined>;
}

export interface NodeChangesDeps {
  readonly nodes: Pick<NodeStore, "read" | "write">;
  readonly known: ReadonlyMap<string, StoredNode>;
  /** What is stored now; `own`: this controller wrote it. */
  readonly keep: (node: StoredNode, own: boolean) => void;
}

const rounds = 8;

/** A forgotten node is none: nothing is decided about it. */
export const ofKnown =
  (decide: (record: NodeRecord) => NodeRecord | undefined) =>
  (before: StoredNode | undefined): NodeRecord | undefined =>
    before === undefined || before.record.forgottenAt !== undefined ? undefined : decide(before.record);

export const createNodeChanges = ({ nodes, known, keep }: NodeChangesDeps): NodeChanges => ({
  async change(name, decide, beside) {
    for (let round = 0; round < rounds; round += 1) {
      const before = round === 0 ? (known.get(name) ?? (await nodes.read(name))) : await nodes.read(name);
      // Whatever is decided beside the record is decided by the same revision.
      if (round > 0 && before !== undefined) keep(before, false);
      const next = await decide(before);
      if (next === undefined) return undefined;
      if (before !== undefined && sameNode(before.record, next)) {
        keep(before, false);
        return { after: before, changed: false }; // N1
      }
      const stored = await nodes.write(next, before?.rev ?? 0, beside);
      if (stored === "crowded") return stored;
      if (stored === undefined) continue;
      keep(stored, true); // N2
      return { after: stored, changed: true };
    }
    throw new HoldfastError({
      kind: "aborted",
      reason: "REVISION_CONFLICT",
      message: `the record of node ${name} is being changed by others all the time; repeat the request`,
      metadata: { node: name },
    });
  },
});
