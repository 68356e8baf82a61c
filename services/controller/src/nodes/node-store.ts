import { type HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { AuditedAs } from "../domain/audit.ts";
import { permitLives } from "../domain/claim-machine.ts";
import type { NodeRecord } from "../domain/node.ts";
import type { AggregateRef, IndexEntry, StoredRecord } from "../domain/store-types.ts";
import type { Ids, Store } from "../ports.ts";
import { auditOf } from "../records/audit-records.ts";
import { createDamagedRecords, type DamagedRecords, isDamage } from "../records/damaged-records.ts";
import { encodeNode, readNode } from "../records/node-codec.ts";
import { decodeVolume } from "../records/volume-codec.ts";

export interface StoredNode {
  readonly record: NodeRecord;
  readonly rev: number;
}

/** What a write depends on, and what is stored with it. */
export interface WriteWith {
  readonly alone?: IndexEntry;
  readonly audit?: AuditedAs;
}

/** Node records in the store. */
export interface NodeStore {
  all(): Promise<readonly StoredNode[]>;
  read(name: string): Promise<StoredNode | undefined>;
  /**
   * undefined: somebody else was faster, or nobody knows whether it was stored; read and decide again. "crowded": something carries
   * the entry of `alone`, and nothing was written.
   */
  write(record: NodeRecord, expectedRev: number, beside?: WriteWith): Promise<StoredNode | "crowded" | undefined>;
  clusterUid(): Promise<string>;
  /** Why the record of the node cannot be read, if it was found so. */
  damage(name: string): HoldfastError | undefined;
  /** Claims of which the node may hold a permit, as the store has them now; undefined = the store is not vetted, and may have lost some. */
  standing(name: string): Promise<number | undefined>;
}

const index = { index: "node-all", value: "all" } as const;
const pageSize = 500;

const refOf = (name: string): AggregateRef => ({ kind: "node", key: name });

const noteOf = (record: NodeRecord) => ({
  node: record.name,
  at: record.updatedAt,
  state: record.state,
  epoch: record.nodeEpoch,
  instance: record.instance,
  ...(record.drain === undefined ? {} : { drained: true }),
  ...(record.forgottenAt === undefined ? {} : { forgotten: true }),
});

const versioned = (stored: StoredRecord): StoredNode => ({ record: readNode(stored), rev: stored.rev });

/** A hold that the store does not know stands like a claim; a record that cannot be read may have either. */
const standingIn = (stored: StoredRecord, name: string): number => {
  try {
    const { claims, foreign = [] } = decodeVolume(stored);
    const permitted = Object.values(claims).filter(({ node, state }) => node === name && permitLives[state]);
    return permitted.length + foreign.filter(({ node }) => node === name).length;
  } catch (error) {
    if (isDamage(error)) return 1;
    throw error;
  }
};

export interface NodeStoreDeps {
  readonly store: Store;
  readonly ids: Ids;
  readonly damages?: DamagedRecords;
}

export const createNodeStore = ({ store, ids, damages = createDamagedRecords() }: NodeStoreDeps): NodeStore => ({
  async all() {
    const found: StoredNode[] = [];
    let after: string | undefined;
    do {
      const page = await store.list({ ...index, limit: pageSize, ...(after === undefined ? {} : { after }) });
      found.push(...damages.readEach(page.records, versioned));
      after = page.next;
    } while (after !== undefined);
    return found;
  },

  async read(name) {
    const stored = await store.get(refOf(name));
    return stored === undefined ? undefined : damages.read(stored, versioned);
  },

  async write(record, expectedRev, { alone, audit } = {}) {
    const ref = refOf(record.name);
    const at = { now: record.updatedAt, revisionBefore: expectedRev };
    const audited = auditOf(audit, at, ref, expectedRev + 1);
    const indexes = record.forgottenAt === undefined ? [index] : [];
    try {
      const result = await store.commit({
        opId: ids.uuid(),
        writes: [{ ref, expectedRev, body: encodeNode(record, store.format()), indexes, due: [] }, ...audited.writes],
        events: [{ type: "node", ref, body: JSON.stringify(noteOf(record)) }, ...audited.events],
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

  async standing(name) {
    const { runId, vettedRunId } = await store.identity();
    if (runId === "" || runId !== vettedRunId) return undefined; // I8
    let count = 0;
    let after: string | undefined;
    do {
      const page = await store.list({
        index: "claim-node",
        value: name,
        limit: pageSize,
        ...(after === undefined ? {} : { after }),
      });
      for (const stored of page.records) count += standingIn(stored, name);
      after = page.next;
    } while (after !== undefined);
    return count;
  },

  clusterUid: async () => (await store.identity()).clusterUid,

  damage: (name) => damages.of({ kind: "node", key: name }),
});
