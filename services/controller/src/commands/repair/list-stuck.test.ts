import { expect, test } from "vitest";
import type { Dispute } from "../../domain/node/dispute.ts";
import type { CutRecord } from "../../domain/snapshot/snapshot.ts";
import { nodeRecord, volumeRecord } from "../../domain/testing/record-fixtures.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import { type ListStuckDeps, listStuckQuery } from "./list-stuck.ts";

const blocked = (reason: string) => ({ since: 5, reason, message: "m", missingProof: "p", clearWith: "c" });
const attempts = { count: 1, nextTry: 9 };

const volumes: readonly VolumeRecord[] = ["a", "b", "c"].map((id) =>
  volumeRecord([], [], { id, blocked: blocked("PLUGIN_REFUSED") }),
);
const cut = (kind: CutRecord["kind"], id: string): CutRecord =>
  ({
    kind,
    namespace: "ns",
    id,
    plugin: "model",
    state: "DELETING",
    blocked: blocked("CUT_REFUSED"),
    attempts,
    bars: [],
  }) as unknown as CutRecord;

/** Pages as the store gives them: by key, with a `next` as long as there may be more. */
const paged = <T extends { readonly id: string }>(
  all: readonly T[],
  { after, limit }: { after?: string; limit: number },
) => {
  const left = all.filter(({ id }) => after === undefined || id > after);
  const taken = left.slice(0, limit);
  return { taken, next: left.length > taken.length ? taken.at(-1)?.id : undefined };
};

const waiting = (name: string) => {
  const pending = { life: "4f1c", machineId: "m", bootId: "b", journalUid: "j", address: "n:1", since: 0 };
  return { record: nodeRecord(name, { pending }), live: "suspect", rev: 1 };
};

const fenced = (name: string) => {
  const fence = { kind: "power-off", who: "ops", evidence: "off", since: 7 } as const;
  return { record: nodeRecord(name, { state: "QUARANTINED", fence }), live: "suspect", rev: 1 };
};

const refused = (node: string, reason: Dispute["reason"]): Dispute => ({
  ...{ node, reason, since: 9, machineId: "m", bootId: "b", why: "it is another one" },
});

const deps = {
  records: {
    list: async (_index: string, _value: string, page: { after?: string; limit: number }) => {
      const { taken, next } = paged(volumes, page);
      return { volumes: taken.map((volume) => ({ volume, rev: 1 })), next };
    },
  },
  cuts: {
    list: async (index: string, _value: string, page: { after?: string; limit: number }) => {
      const all = index === "snapshot-blocked" ? [cut("snapshot", "s1"), cut("snapshot", "s2")] : [cut("group", "g1")];
      const { taken, next } = paged(all, page);
      return { cuts: taken.map((record) => ({ record, rev: 1 })), next };
    },
  },
  nodes: {
    list: () => [waiting("n2"), waiting("n1"), { record: nodeRecord("n3"), live: "alive", rev: 1 }, fenced("n4")],
    disputes: () => [
      refused("n3", "NODE_CONFLICT"),
      refused("n4", "NODE_CONFLICT"),
      refused("stranger", "CLUSTER_MISMATCH"),
    ],
  },
} as unknown as ListStuckDeps;

const list = listStuckQuery(deps);
const none = { namespace: "", plugin: "", node: "", reasons: [] };

test.each([1, 2, 3, 4, 100])("by pages of %d everything is told once: volumes, snapshots, groups", async (size) => {
  const seen: string[] = [];
  let after: string | undefined;
  do {
    const page = await list(none, { size, after });
    expect(page.items.length).toBeLessThanOrEqual(size);
    seen.push(...page.items.map(({ of, volume, node }) => `${of} ${of === "node" ? node : volume.id}`));
    after = page.next;
  } while (after !== undefined);
  expect(seen).toEqual([
    "node n1",
    "node n2",
    "node n3",
    "node n4",
    "node stranger",
    "volume a",
    "volume b",
    "volume c",
    "snapshot s1",
    "snapshot s2",
    "group g1",
  ]);
});

test("filters leave out what they do not name", async () => {
  const page = await list({ ...none, reasons: ["CUT_REFUSED"] }, { size: 100, after: undefined });
  expect(page.items.map(({ of }) => of)).toEqual(["snapshot", "snapshot", "group"]);
  // A node belongs to no namespace, and every claim on it waits.
  const elsewhere = await list({ ...none, namespace: "other" }, { size: 100, after: undefined });
  expect(elsewhere.items.map(({ node }) => node)).toEqual(["n1", "n2", "n3", "n4", "stranger"]);
  expect(elsewhere.items[2]).toMatchObject({
    ...{ state: "REFUSED", node: "n3" },
    blocked: { reason: "NODE_CONFLICT", clearWith: expect.stringContaining("systemctl stop holdfast-node-agent") },
  });
  expect(elsewhere.items[4]).toMatchObject({
    ...{ state: "REFUSED", node: "stranger" },
    blocked: { reason: "CLUSTER_MISMATCH", clearWith: expect.stringContaining("HOLDFAST_CONTROLLERS") },
  });
  expect(elsewhere.items[3]).toMatchObject({
    ...{ state: "QUARANTINED", node: "n4" },
    blocked: { since: 7, reason: "NODE_FENCED", clearWith: expect.stringContaining("holdfast node forget n4") },
  });
  expect((await list({ ...none, plugin: "other" }, { size: 100, after: undefined })).items).toEqual([]);
});

test("who sees some namespaces only is told of no node", async () => {
  const page = await list({ ...none, namespace: "other", inNamespace: true }, { size: 100, after: undefined });
  expect(page).toEqual({ items: [], next: undefined });
});
