/** The floor of the bench changes by a decision: ratios against two floors cannot be compared. */
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { floorDir, floorHash } from "../bench/floor-hash.ts";
import { frozenFloor } from "../bench/verdicts.ts";

test("bench/floor is the one that its ADRs decide on", () => {
  const found = floorHash();
  const cure =
    "bench/floor is frozen: take the change back, or write an ADR as docs/adr/0025-the-floor-speaks-tls-too.md is one, with the ratios of " +
    "one run of `npm run bench` against the floor before and one against the floor after; " +
    `then set frozenFloor in bench/verdicts.ts to ${found}`;
  expect(found, cure).toBe(frozenFloor);
});

test("its hash is another one after any change of a file, of a name and of what is there", () => {
  const copy = mkdtempSync(path.join(tmpdir(), "hfb-"));
  onTestFinished(() => rmSync(copy, { recursive: true }));
  const changed = (change: () => void): string => {
    rmSync(copy, { recursive: true });
    cpSync(floorDir, copy, { recursive: true });
    change();
    return floorHash(copy);
  };
  const hashes = [
    changed(() => undefined),
    changed(() => writeFileSync(path.join(copy, "stub.ts"), "\n", { flag: "a" })),
    changed(() => writeFileSync(path.join(copy, "more.ts"), "")),
    changed(() => rmSync(path.join(copy, "stub.ts"))),
    changed(() => cpSync(path.join(copy, "stub.ts"), path.join(copy, "in", "stub.ts"), { recursive: true })),
  ];
  expect(hashes[0]).toBe(floorHash());
  expect(new Set(hashes).size).toBe(hashes.length);
});
