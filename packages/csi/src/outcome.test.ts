// biome-ignore-all lint/suspicious/noThenProperty: a verdict says what then; its value is a word, and nothing awaits a verdict.

import { describe, expect, it } from "vitest";
import { everyRow } from "../../../test/support/every-row.ts";
import type { CallKind } from "./call-kind.ts";
import { methodNames, methods } from "./methods.ts";
import { type Code, codeOf, codes, type Verdict, verdictOf } from "./outcome.ts";

/** One letter group a cell, written by hand from protocol §2.5, not derived from the table under test. */
const letters: Record<string, Verdict> = {
  ok: { outcome: "done", then: "continue" },
  ag: { outcome: "unknown", then: "again" },
  ap: { outcome: "unknown", then: "again", tellPlacement: true },
  wa: { outcome: "unknown", then: "wait" },
  fx: { outcome: "refused", then: "fail", needs: "change" },
  fs: { outcome: "refused", then: "fail", needs: "credentials" },
  fc: { outcome: "refused", then: "fail", needs: "capabilities" },
  bx: { outcome: "refused", then: "block", needs: "change" },
  bn: { outcome: "refused", then: "block", needs: "change", afterTries: 5 },
  bs: { outcome: "refused", then: "block", needs: "credentials" },
  bc: { outcome: "refused", then: "block", needs: "capabilities" },
  bo: { outcome: "refused", then: "block", needs: "other-node-detached" },
  cm: { outcome: "unknown", then: "check-mounts" },
  ca: { outcome: "unknown", then: "check-absence" },
};

//                        OK CANC UNKN INVA DEAD NOTF EXIS PERM EXHA PREC ABOR RANG UNIM INTE UNAV LOSS AUTH
const cells: Record<CallKind, string> = {
  create: "              ok  ag   ag   fx   ag   fx   bx   fs   ag   bx   wa   fx   fc   ag   ag   ag   fs",
  controllerPublish: "   ok  ag   ag   fx   ag   bn   bx   fs   ap   bo   wa   fx   fc   ag   ag   ag   fs",
  stage: "               ok  ag   ag   fx   ag   bx   bx   fs   ag   bx   wa   fx   fc   ag   ag   ag   fs",
  publish: "             ok  ag   ag   fx   ag   bx   bx   fs   ag   bx   wa   fx   fc   ag   ag   ag   fs",
  expand: "              ok  ag   ag   fx   ag   bx   bx   fs   ag   bx   wa   fx   fc   ag   ag   ag   fs",
  modify: "              ok  ag   ag   fx   ag   bx   bx   fs   ag   bx   wa   fx   fc   ag   ag   ag   fs",
  snapshotCreate: "      ok  ag   ag   fx   ag   fx   bx   fs   ag   bx   wa   fx   fc   ag   ag   ag   fs",
  delete: "              ok  ag   ag   bx   ag   ok   ag   bs   ag   bx   wa   bx   bc   ag   ag   ag   bs",
  controllerUnpublish: " ok  ag   ag   bx   ag   ca   ag   bs   ag   bx   wa   bx   bc   ag   ag   ag   bs",
  unpublish: "           ok  ag   ag   bx   ag   cm   ag   bs   ag   bx   wa   bx   bc   ag   ag   ag   bs",
  unstage: "             ok  ag   ag   bx   ag   cm   ag   bs   ag   bx   wa   bx   bc   ag   ag   ag   bs",
  snapshotDelete: "      ok  ag   ag   bx   ag   ok   ag   bs   ag   bx   wa   bx   bc   ag   ag   ag   bs",
  read: "                ok  ag   ag   fx   ag   fx   fx   fs   ag   fx   wa   fx   fc   ag   ag   ag   fs",
};

const kinds = Object.keys(cells) as CallKind[];
const cellsOf = (kind: CallKind): string[] => cells[kind].trim().split(/ +/);

describe("the outcome table", () => {
  const every = kinds.flatMap((kind) =>
    codes.map((code, column) => ({ kind, code, want: cellsOf(kind)[column] ?? "" })),
  );

  const check = ({ kind, code, want }: (typeof every)[number]) => {
    expect(letters).toHaveProperty(want);
    expect(verdictOf(kind, code)).toEqual(letters[want]);
  };
  it("has the verdict of every kind × code", () => everyRow(every, ({ kind, code }) => `${kind} × ${code}`, check));

  it("has a hand-written cell for each of the 17 codes of every kind", () => {
    expect(every).toHaveLength(13 * 17);
    for (const kind of kinds) expect(cellsOf(kind)).toHaveLength(codes.length);
  });

  it("never takes a code for done but OK, and NOT_FOUND of a delete", () => {
    const done = every.filter(({ kind, code }) => code !== "OK" && verdictOf(kind, code).outcome === "done");
    expect(done.map(({ kind, code }) => `${kind} ${code}`)).toEqual(["delete NOT_FOUND", "snapshotDelete NOT_FOUND"]);
  });

  it("never calls a broken, late or unclear answer certain", () => {
    const unclear: Code[] = ["CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE", "UNKNOWN", "INTERNAL", "DATA_LOSS"];
    for (const kind of kinds) for (const code of unclear) expect(verdictOf(kind, code).outcome).toBe("unknown");
  });

  it("never ends a removal: what is not proved gone is still owed", () => {
    const removals = methodNames.filter((name) => methods[name].kind === "unpublish-like");
    expect(removals).toHaveLength(6);
    for (const name of removals)
      for (const code of codes) expect(verdictOf(methods[name].callKind, code).then).not.toBe("fail");
  });
});

describe("codeOf", () => {
  it("names the gRPC numbers 0 to 16 in their order", () => {
    expect(codeOf(0)).toBe("OK");
    expect(codeOf(1)).toBe("CANCELLED");
    expect(codeOf(2)).toBe("UNKNOWN");
    expect(codeOf(4)).toBe("DEADLINE_EXCEEDED");
    expect(codeOf(9)).toBe("FAILED_PRECONDITION");
    expect(codeOf(12)).toBe("UNIMPLEMENTED");
    expect(codeOf(14)).toBe("UNAVAILABLE");
    expect(codeOf(16)).toBe("UNAUTHENTICATED");
  });

  it("takes a number nobody knows for UNKNOWN", () => {
    expect(codeOf(17)).toBe("UNKNOWN");
    expect(codeOf(-1)).toBe("UNKNOWN");
  });
});
