import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type AccessMode,
  accessConflict,
  accessConflictOnNode,
  accessModes,
  accessRules,
  type PlacedUse,
} from "./access.ts";

const use = (accessMode: AccessMode, changes: Partial<PlacedUse> = {}): PlacedUse => ({
  node: "n1",
  accessMode,
  attachmentMode: "FILE_SYSTEM",
  readOnly: false,
  ...changes,
});

/**
 * By hand, from the names of CSI's modes and its table for a second NodePublishVolume: may a second use live beside the first?
 * Columns: same node (writer beside writer, reader beside writer, reader beside reader), then the same on another node.
 */
const expected: Record<AccessMode, string> = {
  UNKNOWN: "no no no  no no no",
  SINGLE_NODE_WRITER: "no no no  no no no",
  SINGLE_NODE_READER_ONLY: "no no no  no no no",
  SINGLE_NODE_SINGLE_WRITER: "no no no  no no no",
  SINGLE_NODE_MULTI_WRITER: "yes yes yes  no no no",
  MULTI_NODE_READER_ONLY: "yes yes yes  yes yes yes",
  MULTI_NODE_SINGLE_WRITER: "no yes yes  no yes yes",
  MULTI_NODE_MULTI_WRITER: "yes yes yes  yes yes yes",
};

const columns = [
  ["n1", false, false],
  ["n1", true, false],
  ["n1", true, true],
  ["n2", false, false],
  ["n2", true, false],
  ["n2", true, true],
] as const;

const anyUse: fc.Arbitrary<PlacedUse> = fc.record({
  node: fc.constantFrom("n1", "n2"),
  accessMode: fc.constantFrom(...accessModes),
  attachmentMode: fc.constantFrom("FILE_SYSTEM", "BLOCK_DEVICE"),
  readOnly: fc.boolean(),
});

describe("access", () => {
  it("has a row for each mode", () => {
    expect([...accessModes].sort()).toEqual(Object.keys(expected).sort());
  });

  const cells = accessModes.flatMap((mode) =>
    columns.map(([node, firstReads, secondReads], column) => ({ mode, node, firstReads, secondReads, column })),
  );

  it.each(cells)("[I1] $mode, second on $node, first reads $firstReads, second reads $secondReads", (cell) => {
    const { mode, node, firstReads, secondReads, column } = cell;
    const allowed = expected[mode].split(/\s+/)[column] === "yes";
    const first = use(mode, { readOnly: firstReads });
    const second = use(mode, { node, readOnly: secondReads });
    expect(accessConflict(second, first) === undefined).toBe(allowed);
  });

  it.each([
    [
      "one node",
      use("SINGLE_NODE_MULTI_WRITER", { node: "n2" }),
      use("SINGLE_NODE_MULTI_WRITER"),
      "mode SINGLE_NODE_MULTI_WRITER allows one node",
    ],
    [
      "one workload",
      use("SINGLE_NODE_WRITER"),
      use("SINGLE_NODE_WRITER"),
      "mode SINGLE_NODE_WRITER allows one workload",
    ],
    [
      "one writer",
      use("MULTI_NODE_SINGLE_WRITER"),
      use("MULTI_NODE_SINGLE_WRITER"),
      "mode MULTI_NODE_SINGLE_WRITER allows one writer",
    ],
    [
      "another mode",
      use("MULTI_NODE_READER_ONLY"),
      use("MULTI_NODE_MULTI_WRITER"),
      "it is held in mode MULTI_NODE_MULTI_WRITER and asked for in mode MULTI_NODE_READER_ONLY",
    ],
    [
      "another kind of attachment",
      use("MULTI_NODE_MULTI_WRITER", { attachmentMode: "BLOCK_DEVICE" }),
      use("MULTI_NODE_MULTI_WRITER"),
      "it is held as FILE_SYSTEM and asked for as BLOCK_DEVICE",
    ],
  ])("says why: %s", (_, wanted, held, why) => {
    expect(accessConflict(wanted, held)).toBe(why);
  });

  it("[I1] a mode that only reads has no writers, whatever a claim says of itself", () => {
    const writer = use("MULTI_NODE_READER_ONLY", { readOnly: false });
    expect(accessConflict(writer, writer)).toBeUndefined();
    expect(accessRules.MULTI_NODE_READER_ONLY.writers).toBe("none");
  });

  it("[I1] on one node the answer is that of two with the same node", () => {
    fc.assert(
      fc.property(anyUse, anyUse, (a, b) => accessConflictOnNode(a, b) === accessConflict(a, { ...b, node: a.node })),
      { seed: 9, numRuns: 2_000 },
    );
  });

  it("[I1] the order of two does not matter", () => {
    fc.assert(
      fc.property(
        anyUse,
        anyUse,
        (a, b) => (accessConflict(a, b) === undefined) === (accessConflict(b, a) === undefined),
      ),
      { seed: 7, numRuns: 2_000 },
    );
  });

  it("[I1] uses that differ in mode or kind never live together", () => {
    fc.assert(
      fc.property(anyUse, anyUse, (a, b) => {
        fc.pre(a.accessMode !== b.accessMode || a.attachmentMode !== b.attachmentMode);
        return accessConflict(a, b) !== undefined;
      }),
      { seed: 8, numRuns: 2_000 },
    );
  });
});
