import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { NodeRecord } from "../domain/node.ts";
import type { AggregateRef, StoredRecord } from "../domain/store-types.ts";
import type { Ids, Store } from "../ports.ts";

export interface StoredNode {
  readonly record: NodeRecord;
  readonly rev: number;
}

/** Node records in the store. */
export interface NodeStore {
  all(): Promise<readonly StoredNode[]>;
  read(name: string): Promise<StoredNode | undefined>;
  /** undefined: somebody else was faster; read and decide again. */
  write(record: NodeRecord, expectedRev: number): Promise<StoredNode | undefined>;
  clusterUid(): Promise<string>;
}

const index = { index: "node-all", value: "all" } as const;
const pageSize = 500;

const refOf = (name: string): AggregateRef => ({ kind: "node", key: name });

// Only this file writes these records, so that what parses has the type that was written.
const decode = ({ ref, rev, body }: StoredRecord): StoredNode => {
  try {
    return { record: JSON.parse(body) as NodeRecord, rev };
  } catch (cause) {
    throw new HoldfastError({
      kind: "data_loss",
      reason: "INTERNAL",
      message: `the record of node ${ref.key} in the store is not readable; restore it from a backup`,
      metadata: { node: ref.key },
      cause,
    });
  }
};

export const createNodeStore = ({ store, ids }: { readonly store: Store; readonly ids: Ids }): NodeStore => ({
  async all() {
    const found: StoredNode[] = [];
    let after: string | undefined;
    do {
      const page = await store.list({ ...index, limit: pageSize, ...(after === undefined ? {} : { after }) });
      found.push(...page.records.map(decode));
      after = page.next;
    } while (after !== undefined);
    return found;
  },

  async read(name) {
    const stored = await store.get(refOf(name));
    return stored === undefined ? undefined : decode(stored);
  },

  async write(record, expectedRev) {
    const ref = refOf(record.name);
    const note = { node: record.name, state: record.state, epoch: record.nodeEpoch, instance: record.instance };
    const result = await store.commit({
      opId: ids.uuid(),
      writes: [{ ref, expectedRev, body: JSON.stringify(record), indexes: [index], due: [] }],
      events: [{ type: "node", ref, body: JSON.stringify(note) }],
      requiresVetted: false,
    });
    return result.ok ? { record, rev: result.revs[0] ?? expectedRev + 1 } : undefined;
  },

  clusterUid: async () => (await store.identity()).clusterUid,
});
