import { expect, it } from "vitest";
import type { CutRecord } from "../domain/snapshot/snapshot.ts";
import { cutBarRecord, cutRecord } from "../domain/testing/record-fixtures.ts";
import { decodeCut, encodeCut } from "./snapshot-codec.ts";

const read = (record: CutRecord): CutRecord => {
  const { ref, body } = encodeCut(record, 0, 1).write;
  return decodeCut({ ref, rev: 1, body: body ?? "" });
};
const indexesOf = (record: CutRecord) => encodeCut(record, 0, 1).write.indexes.map(({ index }) => index);

it("a record without bars has the text of earlier formats, and is read with none", () => {
  const record = cutRecord();
  expect(encodeCut(record, 0, 1).write.body).not.toContain("bars");
  expect(read(record)).toEqual(record);
});

it("BR1 bars are kept field by field; one that lacks what decisions need is damage", () => {
  const bar = cutBarRecord("create", { beyondGate: true, asked: { issuer: "c1/1", opId: "o" } });
  const record = cutRecord({ bars: [bar] });
  expect(read(record)).toEqual(record);
  expect(() => read(cutRecord({ bars: [{ ...bar, via: "" }] }))).toThrow(/bars/);
});

it("BR2 a record with a bar is looked at, is found among what is blocked, and keeps its source", () => {
  const plain = cutRecord();
  const barred = cutRecord({ bars: [cutBarRecord("create")] });
  const added = ["snapshot-source", "snapshot-unsettled", "snapshot-blocked"];
  expect(encodeCut(plain, 0, 1).due).toBeUndefined();
  expect(encodeCut(barred, 0, 1).due).toBeGreaterThan(1);
  for (const index of added)
    expect([indexesOf(plain), indexesOf(barred)].map((all) => all.includes(index as never))).toEqual([false, true]);
  const group = { ...barred, kind: "group", members: [], answeredIds: [] } as unknown as CutRecord;
  expect(indexesOf(group)).toEqual(expect.arrayContaining(["group-unsettled", "group-blocked"]));
});
