import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { NodeRecord } from "../domain/node.ts";
import type { AggregateRef, IndexEntry, StoredRecord } from "../domain/store-types.ts";
import type { Ids, Store } from "../ports.ts";

export interface StoredNode {
  readonly record: NodeRecord;
  readonly rev: number;
}

/** Node records in the store. */
export interface NodeStore {
  all(): Promise<readonly StoredNode[]>;
  read(name: string): Promise<StoredNode | undefined>;
  /**
   * undefined: somebody else was faster, or nobody knows whether it was stored; read and decide again. "crowded": something carries
   * the entry of `alone`, and nothing was written.
   */
  write(record: NodeRecord, expectedRev: number, alone?: IndexEntry): Promise<StoredNode | "crowded" | undefined>;
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

const noteOf = (record: NodeRecord) => ({
  node: record.name,
  at: record.updatedAt,
  state: record.state,
  epoch: record.nodeEpoch,
  instance: record.instance,
  ...(record.drain === undefined ? {} : { drained: true }),
  ...(record.forgottenAt === undefined ? {} : { forgotten: true }),
});

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

  async write(record, expectedRev, alone) {
    const ref = refOf(record.name);
    const indexes = record.forgottenAt === undefined ? [index] : [];
    try {
      const result = await store.commit({
        opId: ids.uuid(),
        writes: [{ ref, expectedRev, body: JSON.stringify(record), indexes, due: [] }],
        events: [{ type: "node", ref, body: JSON.stringify(noteOf(record)) }],
        // What is proved by the absence of records is proved only by records that are all there (I8).
        requiresVetted: alone !== undefined,
        ...(alone === undefined ? {} : { alone }),
      });
      if (!result.ok) return result.crowded === true ? "crowded" : undefined;
      return { record, rev: result.revs[0] ?? expectedRev + 1 };
    } catch (error) {
      if (isHoldfastError(error) && error.reason === "STORE_OUTCOME_UNKNOWN") return undefined;
      throw error;
    }
  },

  clusterUid: async () => (await store.identity()).clusterUid,
});
