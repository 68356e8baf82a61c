import { describe, expect, it } from "vitest";
import { attachmentRecord, momentAt, volumeRecord } from "../testing/record-fixtures.ts";
import { answers, certainties, followOf, followTable, obligations, type Want } from "./obligation.ts";

/**
 * Written by hand, so that the table is checked against something that is not itself: by row of `answers`, what follows when nothing is
 * in doubt, when an attempt is, and when a call may be open. One word stands for all three.
 */
const untilDone = {
  done: "done",
  refused: "slowly",
  "held off": "slowly",
  full: "again",
  unsent: "again",
  stuck: "again",
  unknown: "again",
};

const untilSettled = {
  ...untilDone,
  refused: "failed paused paused",
  "held off": "paused",
  unsent: "returned",
  stuck: "paused",
};

const either = (owed: string, rows: Record<string, string>) => ({
  [`${owed} wanted`]: rows,
  [`${owed} unwanted`]: rows,
});

const expected: Record<string, Record<string, string>> = {
  "create wanted": {
    ...untilDone,
    refused: "failed uncertain again",
    "held off": "again",
    full: "elsewhere elsewhere again",
  },
  "create unwanted": {
    ...untilDone,
    refused: "gone uncertain again",
    "held off": "gone uncertain again",
    unsent: "gone again again",
  },
  ...either("validate", { ...untilDone, refused: "failed", "held off": "again" }),
  ...either("delete", untilDone),
  ...either("attach", {
    ...untilDone,
    refused: "failed undo again",
    "held off": "paused paused again",
    full: "shaken shaken again",
  }),
  ...either("finish", {
    done: "done",
    refused: "done done again",
    "held off": "done done again",
    full: "done done again",
    unsent: "done done again",
    stuck: "done done again",
    unknown: "done done again",
  }),
  ...either("detach", untilDone),
  ...either("reattach", { ...untilDone, refused: "paused", "held off": "paused", unsent: "returned" }),
  ...either("expand", untilSettled),
  ...either("modify", untilSettled),
};

const wants: readonly Want[] = ["wanted", "unwanted"];
const rows = obligations.flatMap((owed) => wants.flatMap((want) => answers.map((answer) => ({ owed, want, answer }))));

describe("what follows an attempt", () => {
  it("has a row for every obligation", () => {
    expect(Object.keys(expected)).toEqual(obligations.flatMap((owed) => wants.map((want) => `${owed} ${want}`)));
  });

  it.each(rows)("[I5] $owed, $want, $answer", ({ owed, want, answer }) => {
    const cells = (expected[`${owed} ${want}`]?.[answer] ?? "missing").split(" ");
    const row = followTable[owed][want][answer];
    expect(certainties.map((certainty) => row[certainty])).toEqual(
      cells.length === 1 ? Array(3).fill(cells[0]) : cells,
    );
  });

  it("[Y1] is nothing when the record does not owe the call that was answered", () => {
    const at = momentAt(5_000);
    const done = { kind: "done", value: undefined } as const;
    const intent = { op: "detach", node: "n1", epoch: { gen: 1, ctr: 1 }, issuer: at.issuer, opId: "op-1" } as const;
    const leaving = volumeRecord([], [attachmentRecord("n1", { state: "DETACHING" })], { intent });
    for (const owed of obligations) {
      expect(followOf(owed, volumeRecord(), done, at)).toBe("nothing");
      expect(followOf(owed, leaving, done, at, { node: "n1" })).toBe(owed === "detach" ? "done" : "nothing");
      expect(followOf(owed, leaving, done, at, { node: "n2" })).toBe("nothing");
    }
  });

  it("[Y2] ends nothing while a call may be open, whatever the answer is", () => {
    for (const { owed, want, answer } of rows)
      if (answer !== "done" && owed !== "validate")
        expect(["again", "slowly", "paused", "returned"], `${owed} ${want} ${answer}`).toContain(
          followTable[owed][want][answer].open,
        );
  });

  it("[Y3] no answer but done ends a removal", () => {
    for (const owed of ["delete", "detach"] as const)
      for (const answer of answers)
        for (const certainty of certainties)
          expect(followTable[owed].unwanted[answer][certainty] === "done").toBe(answer === "done");
  });
});
