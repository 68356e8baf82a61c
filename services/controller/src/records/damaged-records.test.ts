import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { expect, test } from "vitest";
import type { StoredRecord } from "../domain/store-types.ts";
import { recordDamaged } from "../store/store-errors.ts";
import { createDamagedRecords } from "./damaged-records.ts";

const stored = (key: string): StoredRecord => ({ ref: { kind: "volume", key }, rev: 1, body: "" }) as StoredRecord;

test("a record that is read as sound again is told of no more, and the others are", () => {
  const log = createMemoryLogger();
  const damages = createDamagedRecords({ log, now: () => 7 });
  const damaged = ({ ref }: StoredRecord): string => {
    throw recordDamaged(ref, "its text cannot be read");
  };
  for (const key of ["ns/a", "ns/b"]) expect(() => damages.read(stored(key), damaged)).toThrow("cannot be read");
  expect(damages.list().map(({ ref, since }) => [ref.key, since])).toEqual([
    ["ns/a", 7],
    ["ns/b", 7],
  ]);
  expect(damages.read(stored("ns/a"), () => "sound")).toBe("sound");
  expect(damages.list().map(({ ref }) => ref.key)).toEqual(["ns/b"]);
  expect(damages.of({ kind: "volume", key: "ns/a" })).toBeUndefined();
  // Damaged once more: said once more.
  expect(() => damages.read(stored("ns/a"), damaged)).toThrow("cannot be read");
  expect(log.lines.filter(({ level }) => level === "error")).toHaveLength(3);
});
