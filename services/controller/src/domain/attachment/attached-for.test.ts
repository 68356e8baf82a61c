import { describe, expect, it } from "vitest";
import type { Claim } from "../claim/claim.ts";
import { grant, inTheWay } from "../claim/grant.ts";
import { attachmentRecord, claimRecord, goodFacts, momentAt, volumeRecord } from "../testing/record-fixtures.ts";

const mode = { accessMode: "MULTI_NODE_SINGLE_WRITER" } as const;
const at = momentAt(5_000);
const facts = { ...goodFacts, publishesReadOnly: "yes" } as const;
const active = (uid: string, node: string, readOnly: boolean, changes: Partial<Claim> = {}) =>
  claimRecord(uid, { ...mode, state: "ACTIVE", epoch: { gen: 1, ctr: 3 }, node, readOnly, ...changes });
const writer = claimRecord("z-writer", { ...mode, node: "n1" });

describe("of the nodes of MULTI_NODE_SINGLE_WRITER one writes, at the backend too", () => {
  it("attaches for a reader read-only, so that two of them on two nodes are no two writers there", () => {
    const two = volumeRecord([
      claimRecord("a", { ...mode, readOnly: true }),
      claimRecord("b", { ...mode, node: "n2", readOnly: true }),
    ]);
    const first = grant(two, "a", facts, at).volume;
    expect(first?.attachments["n1"]).toMatchObject({ readOnly: true });
    expect(first?.attachments["n1"]?.forWriter).toBeUndefined();
  });

  it("knows the node of the writer after its writer is gone", () => {
    const granted = grant(volumeRecord([writer]), writer.uid, facts, at).volume;
    expect(granted?.attachments["n1"]).toMatchObject({ readOnly: false, forWriter: true });
  });

  it.each([
    ["readers of the node that was attached for them", "n1", { readOnly: true }, ["reader"]],
    ["a reader that keeps the attachment of another writer", "n2", { readOnly: false, forWriter: true }, ["reader"]],
    ["not a reader of another node", "n2", { readOnly: true }, []],
    ["not a reader of the node of a writer", "n1", { readOnly: false, forWriter: true }, []],
    ["nobody who reads, where the plugin knows no read-only attachments", "n2", { readOnly: false }, []],
  ] as const)("in the way of a writer is %s", (_, node, attachment, expected) => {
    const volume = volumeRecord(
      [active("reader", node, true), writer],
      [attachmentRecord(node, { ...mode, ...attachment })],
    );
    expect(inTheWay(volume, writer).map(({ claim }) => claim.uid)).toEqual(expected);
    expect(inTheWay(volume, { ...writer, readOnly: true })).toEqual([]);
  });
});
