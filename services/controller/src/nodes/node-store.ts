/**
 * Node records in the store, and the decisions about them.
 *
 * NS1 Only changes are stored. NS2 What is proved by the absence of records is proved only by a vetted store (I8).
 */
import type { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { type NodeRecord, storageWord, storageWords } from "../domain/node/node.ts";
import { standingOn } from "../domain/node/standing.ts";
import type { AuditedAs } from "../domain/repair/audit.ts";
import type { AggregateRef, IndexEntry, StoredRecord } from "../domain/store-types.ts";
import type { Store } from "../ports.ts";
import { changedAllTheTime } from "../records/commit-rounds.ts";
import { createDamagedRecords, isDamage } from "../records/damaged-records.ts";
import { encodeNode, readNode } from "../records/node-codec.ts";
import { pagesOf } from "../records/pages-of.ts";
import {
  createRecordTable,
  type RecordMemory,
  type RecordResult,
  type RecordTableDeps,
  type Versioned,
} from "../records/record-table.ts";
import { decodeVolume } from "../records/volume/volume-codec.ts";
import { sameNode } from "./admit-node.ts";

export type StoredNode = Versioned<NodeRecord>;

export interface NodeStore {
  all(): Promise<readonly StoredNode[]>;
  read(name: string): Promise<StoredNode | undefined>;
  /** Decisions that `memory` takes part in. */
  changes(memory: RecordMemory<string, NodeRecord>): NodeChanges;
  clusterUid(): Promise<string>;
  /** Why the record of the node cannot be read, if it was found so. */
  damage(name: string): HoldfastError | undefined;
  /** Claims of which the node may hold a permit, as the store has them now; undefined = the store is not vetted, and may have lost some. */
  standing(name: string): Promise<number | undefined>;
}

/** `decide` may throw; undefined leaves everything as it is. */
export type NodeChanges = (
  name: string,
  decide: (before: StoredNode | undefined) => NodeRecord | undefined | Promise<NodeRecord | undefined>,
  /** What a change depends on, and what is stored with it. */
  beside?: { readonly alone?: IndexEntry; readonly audit?: AuditedAs | undefined },
) => Promise<RecordResult<NodeRecord>>;

/** A forgotten node is none: nothing is decided about it. */
export const ofKnown =
  (decide: (record: NodeRecord) => NodeRecord | undefined) =>
  (before: StoredNode | undefined): NodeRecord | undefined =>
    before === undefined || before.record.forgottenAt !== undefined ? undefined : decide(before.record);

const index = { index: "node-all", value: "all" } as const;
const pageSize = 500;

const refOf = (name: string): AggregateRef => ({ kind: "node", key: name });

/** A note of the storage is about that alone: what stays as it was is not told again. */
const storageNote = (before: NodeRecord | undefined, record: NodeRecord) => {
  const words = storageWords(record);
  if (before === undefined ? words === "" : words === storageWords(before)) return {};
  return {
    storage: storageWord(record) || "STORAGE_GOOD",
    said: words || "its plugins know of nothing adverse any more",
  };
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

/** A record that cannot be read may have a claim or a hold. */
const standingIn = (stored: StoredRecord, name: string): number => {
  try {
    return standingOn(decodeVolume(stored), name);
  } catch (error) {
    if (isDamage(error)) return 1;
    throw error;
  }
};

export interface NodeStoreDeps extends RecordTableDeps {
  readonly store: Store;
}

export const createNodeStore = (deps: NodeStoreDeps): NodeStore => {
  const { store, damages = createDamagedRecords() } = deps;
  const tableWith = (memory?: RecordMemory<string, NodeRecord>) =>
    createRecordTable<string, NodeRecord>(
      { ...deps, damages },
      {
        refOf,
        read: readNode,
        encode: (record) => ({
          body: encodeNode(record, store.format()),
          indexes: record.forgottenAt === undefined ? [index] : [],
          due: [],
        }),
        busy: (node) => changedAllTheTime(`the record of node ${node}`, { node }),
        memory,
      },
    );
  const table = tableWith();

  return {
    async all() {
      const found: StoredNode[] = [];
      for await (const page of table.pages(index)) found.push(...page);
      return found;
    },
    read: table.get,

    changes(memory) {
      const { change } = tableWith(memory);
      return (name, decide, { alone, audit } = {}) =>
        change(name, async (before) => {
          const record = await decide(before);
          if (record === undefined) return undefined;
          if (before !== undefined && sameNode(before.record, record)) {
            memory.saw(name, before, false);
            return undefined; // NS1
          }
          const terms = alone === undefined ? {} : { alone, requiresVetted: true }; // NS2
          return {
            record,
            note: JSON.stringify({ ...noteOf(record), ...storageNote(before?.record, record) }),
            audit,
            ...terms,
          };
        });
    },

    async standing(name) {
      const { runId, vettedRunId } = await store.identity();
      if (runId === "" || runId !== vettedRunId) return undefined; // NS2
      let count = 0;
      const pages = pagesOf((after) => store.list({ index: "claim-node", value: name, limit: pageSize, after }));
      for await (const { records } of pages) for (const stored of records) count += standingIn(stored, name);
      return count;
    },

    clusterUid: async () => (await store.identity()).clusterUid,

    damage: (name) => damages.of(refOf(name)),
  };
};
