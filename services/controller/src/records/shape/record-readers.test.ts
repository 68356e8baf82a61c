import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { describe, expect, it } from "vitest";
import type { StoredRecord } from "../../domain/store-types.ts";
import { claimRecord, volumeRecord } from "../../domain/testing/record-fixtures.ts";
import { createDamagedRecords, damagedByKind } from "../damaged-records.ts";
import { soundRecords as sound, stored } from "../testing/sound-records.ts";
import { decodeVolume } from "../volume/volume-codec.ts";
import { judgeRecord } from "./record-readers.ts";

const reasonOf = (record: StoredRecord): string => {
  try {
    judgeRecord(record);
    return "sound";
  } catch (error) {
    return isHoldfastError(error) ? error.reason : String(error);
  }
};

describe("a record of every kind", () => {
  it.each(sound.map((record) => [`${record.ref.kind} ${record.ref.key}`, record] as const))(
    "%s is read as long as it is whole, and named when it is not",
    (_name, record) => {
      expect(reasonOf(record)).toBe("sound");
      for (const body of ["", "{", "null", "[]", "5", '"x"', body0(record).slice(0, -1)])
        expect(`${body}: ${reasonOf({ ...record, body })}`).toBe(
          `${body}: ${record.ref.kind === "meta" && body !== "" && isJson(body) ? "sound" : "RECORD_DAMAGED"}`,
        );
      expect(reasonOf({ ...record, damage: "its lines are missing" })).toBe("RECORD_DAMAGED");
    },
  );

  it("is damaged when a number that decides is none, when it is of another kind, and under another key", () => {
    const [volume, node] = sound as [StoredRecord, StoredRecord];
    const changed = (of: StoredRecord, change: object): StoredRecord => ({
      ...of,
      body: JSON.stringify({ ...JSON.parse(of.body), ...change }),
    });
    for (const epoch of [
      null,
      {},
      { gen: "1", ctr: 1 },
      { gen: 1, ctr: 1.5 },
      { gen: 1, ctr: 2 ** 60 },
      { gen: -1, ctr: 1 },
    ])
      expect(reasonOf(changed(volume, { epoch }))).toBe("RECORD_DAMAGED");
    expect(reasonOf(changed(node, { nodeEpoch: null }))).toBe("RECORD_DAMAGED");
    // No message can be made of these, so that one such record would take whole lists with it.
    for (const required of [0.5, -1, 1e300])
      expect(reasonOf(changed(volume, { capacity: { required, limit: 0, actual: 0 } }))).toBe("RECORD_DAMAGED");
    for (const broken of [
      { createdAt: 1e300 },
      { stateSince: "x" },
      { capacity: { required: 1, limit: 0, actual: 0.5 } },
    ])
      expect(reasonOf(changed(volume, broken))).toBe("RECORD_DAMAGED");
    expect(reasonOf({ ...volume, body: node.body })).toBe("RECORD_DAMAGED");
    expect(() => decodeVolume({ ...volume, ref: { kind: "volume", key: "default/other" } })).toThrow(
      "it is the record of ns/data",
    );
  });
});

describe("what was found damaged", () => {
  it("is noted once, takes nothing from the others, and is thrown where the answer has to be whole", () => {
    const told: object[] = [];
    const damages = createDamagedRecords({
      log: { error: (_m, fields) => void told.push(fields ?? {}) },
      now: () => 7,
    });
    const [volume] = sound as [StoredRecord];
    const broken = { ...volume, ref: { ...volume.ref, key: "default/broken" }, body: "{" };
    for (let n = 0; n < 3; n += 1)
      expect(damages.readEach([broken, volume], decodeVolume).map(({ id }) => id)).toEqual(["data"]);
    expect(told).toHaveLength(1);
    expect(damages.list().map(({ ref, since }) => [ref.key, since])).toEqual([["default/broken", 7]]);
    expect(damages.of(broken.ref)?.metadata).toMatchObject({ kind: "volume", key: "default/broken" });
    expect([...damagedByKind(damages.list())]).toEqual([["volume", 1]]);
    expect(() => damages.readEach([broken, volume], decodeVolume, true)).toThrow("is damaged");
  });
});

function body0(record: StoredRecord): string {
  return record.body;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

it("a mark that bars a volume or a node is never read as none", () => {
  const volume = volumeRecord([claimRecord("c1")]);
  const [, node] = sound;
  for (const broken of [null, {}, "x", [{ node: "n1" }]])
    expect(reasonOf(stored("volume", "ns/data", { ...volume, foreign: broken }))).toBe("RECORD_DAMAGED");
  for (const broken of [
    { pending: {} },
    { speaksFrom: "2" },
    { admitted: 1 },
    { linkLost: 1 },
    { linkDoubt: { by: "a" } },
  ])
    expect(reasonOf(stored("node", "n1", { ...JSON.parse(node?.body ?? ""), ...broken }))).toBe("RECORD_DAMAGED");
});
