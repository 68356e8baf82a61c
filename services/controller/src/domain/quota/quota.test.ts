import { describe, expect, it } from "vitest";
import { noAttempts } from "../outcome.ts";
import type { Expansion } from "../size/expansion.ts";
import { volumeRecord } from "../testing/record-fixtures.ts";
import type { VolumeRecord } from "../volume/volume.ts";
import { addedBy, bytesOf, changeOfCut, changeOfVolume, excessOf, noUsage } from "./quota.ts";

const volume = (more: Partial<VolumeRecord> = {}): VolumeRecord => ({
  ...volumeRecord(),
  namespace: "ns",
  capacity: { required: 100, limit: 0, actual: 100 },
  ...more,
});
const wish = (required: number, more: Partial<Expansion> = {}): Expansion => ({
  state: "WANTED",
  target: { required, limit: 0 },
  onlyUnused: false,
  attempts: noAttempts,
  since: 1,
  ...more,
});
const added = (before: VolumeRecord | undefined, after: VolumeRecord | null) =>
  addedBy([changeOfVolume(before, after)].flatMap((change) => change ?? [])).get("ns");

describe("bytes of a volume", () => {
  it("are the largest of what was asked for, what the backend says, and what an expansion asks for", () => {
    expect(bytesOf(volume())).toBe(100);
    expect(bytesOf(volume({ capacity: { required: 100, limit: 0, actual: 128 } }))).toBe(128);
    expect(bytesOf(volume({ expansion: wish(300, { next: { required: 400, limit: 0 } }) }))).toBe(400);
    expect(bytesOf(volume({ expansion: wish(300, { state: "REFUSED" }) }))).toBe(100);
    expect(bytesOf(volume({ capacity: { required: 0, limit: 0, actual: 0 } }))).toBe(0);
    const source = { uid: "u", externalId: "e", sizeBytes: 70 };
    expect(bytesOf(volume({ capacity: { required: 0, limit: 0, actual: 0 }, source }))).toBe(70);
  });
});

describe("what a change counts", () => {
  it("is nothing for a change that touches no size: no quota is looked up for a claim", () => {
    expect(changeOfVolume(volume(), volume({ labels: { a: "b" }, state: "DELETING" }))).toBeUndefined();
  });

  it("is asked for when a volume is made or grown, and not when a backend answers more, or when it goes", () => {
    expect(added(undefined, volume())).toMatchObject({ asked: { volumes: 1, bytes: 100 } });
    expect(added(volume(), volume({ expansion: wish(300) }))).toMatchObject({ asked: { volumes: 0, bytes: 200 } });
    const answered = volume({ capacity: { required: 100, limit: 0, actual: 128 } });
    expect(added(volume(), answered)).toMatchObject({ all: { bytes: 28 }, asked: noUsage });
    expect(added(answered, null)).toMatchObject({ all: { volumes: -1, bytes: -128 }, asked: noUsage });
  });

  it("stays the same when an expansion is answered with what it asked for, and goes back when it is refused", () => {
    const asked = volume({ expansion: wish(300) });
    expect(added(asked, volume({ capacity: { required: 300, limit: 0, actual: 300 } }))).toBeUndefined();
    expect(added(asked, volume({ expansion: wish(300, { state: "REFUSED" }) }))).toMatchObject({
      all: { bytes: -200 },
    });
  });

  it("of a group is each of its snapshots, when it is made and when it goes", () => {
    const group = { kind: "group", namespace: "ns", members: [{}, {}] } as unknown as Parameters<typeof changeOfCut>[1];
    expect(changeOfCut(undefined, group)).toMatchObject({ after: { snapshots: 2 }, asked: true });
    expect(changeOfCut(group ?? undefined, null)).toMatchObject({ before: { snapshots: 2 }, asked: false });
    expect(changeOfCut(group ?? undefined, group)).toBeUndefined();
  });
});

describe("excess", () => {
  const by = (asked: Partial<typeof noUsage>, all = asked) => ({
    all: { ...noUsage, ...all },
    asked: { ...noUsage, ...asked },
    sizeless: false,
  });
  const used = { volumes: 2, bytes: 90, snapshots: 0 };

  it("names what is asked for beyond its limit, with the numbers; up to it is none", () => {
    expect(excessOf({ volumes: 3 }, used, by({ volumes: 1 }))).toBeUndefined();
    expect(excessOf({ volumes: 2 }, used, by({ volumes: 1 }))).toEqual({
      item: "volumes",
      limit: 2,
      used: 2,
      asked: 1,
    });
    expect(excessOf({ bytes: 99 }, used, by({ bytes: 10 }))).toEqual({ item: "bytes", limit: 99, used: 90, asked: 10 });
  });

  it("is none of what nobody asks for, of what has no limit, and of what goes where more is used than there may be", () => {
    expect(excessOf({ bytes: 80 }, used, by({}, { bytes: 10 }))).toBeUndefined();
    expect(excessOf({ snapshots: 9 }, used, by({ bytes: 1_000 }))).toBeUndefined();
    expect(excessOf({ volumes: 1 }, used, by({}, { volumes: -1 }))).toBeUndefined();
  });
});
