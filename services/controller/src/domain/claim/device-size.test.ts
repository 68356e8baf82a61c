import { describe, expect, it } from "vitest";
import { noChange } from "../change.ts";
import { growthTo } from "../size/growth.ts";
import { growthAnswered } from "../size/growth-change.ts";
import { attachmentRecord, claimRecord, momentAt, volumeRecord } from "../testing/record-fixtures.ts";
import type { DeviceSize } from "./claim.ts";
import { shortDevice, tellingShortDevices, wantedOn } from "./device-size.ts";

const at = momentAt(5_000);
const capacity = { required: 100, limit: 0, actual: 100 };

const holding = (size?: DeviceSize) => {
  const device = { major: 7, minor: 3, ...(size === undefined ? {} : { size }) };
  const publication = { hostPath: "/m", mountId: 1, device };
  const claim = claimRecord("a", { state: "ACTIVE", attachmentMode: "BLOCK_DEVICE", publication });
  return { ...volumeRecord([claim], [attachmentRecord("n1")]), capacity };
};

const told = (before: ReturnType<typeof holding>, after: ReturnType<typeof holding>) =>
  tellingShortDevices(before, noChange(after)).notes.map(({ body }) => [body["device"], body["said"]]);

describe("what a device has to have", () => {
  const grows = (byNodes: boolean, done: readonly string[] = []) => {
    const { growth: _none, ...rest } = holding();
    return { ...rest, growth: { ...growthTo(holding(), 300, 0, byNodes, 1), done } };
  };

  it("is what was asked for, and nothing while the node has still to grow it", () => {
    expect(wantedOn(holding(), "n1", false)).toBe(100);
    expect(wantedOn(grows(false), "n1", false)).toBeUndefined();
    expect(wantedOn(grows(false, ["n2"]), "n1", false)).toBeUndefined();
    expect(wantedOn(grows(false, ["n1"]), "n1", false)).toBe(100);
  });

  it("once it was grown: what the nodes were to make, or what was asked for where the backend rounded it up", () => {
    expect(wantedOn(grows(true), "n1", true)).toBe(300);
    expect(wantedOn(grows(false), "n1", true)).toBe(100);
  });
});

describe("a device that is smaller", () => {
  const short = { bytes: 99, wanted: 100 };

  it("is one; a bigger one, and one of which nobody knows the size, are not", () => {
    const found = [short, { bytes: 100, wanted: 100 }, { bytes: 128, wanted: 100 }, undefined].map((size) =>
      shortDevice(holding(size).claims["a"] ?? {}),
    );
    expect(found).toEqual([short, undefined, undefined, undefined]);
  });

  it("is told once, and again only when it is another size", () => {
    const words = (bytes: number) => [["SMALLER", `its device has ${bytes} bytes, and 100 were asked for`]];
    expect(told(holding(), holding(short))).toEqual(words(99));
    expect(told(holding(short), holding(short))).toEqual([]);
    expect(told(holding(short), holding({ ...short, bytes: 50 }))).toEqual(words(50));
    expect(told(holding(short), holding())).toEqual([]);
  });

  it("is known from its growth too, and is not short any more once it has grown", () => {
    const grown = (deviceBytes: number) => {
      const before = { ...holding(short), growth: growthTo(holding(short), 300, 0, true, 1) };
      return growthAnswered(before, "n1", 300, { kind: "grown", capacity: 300, deviceBytes }, at);
    };
    const sizes = [300, 299].map((bytes) => {
      const { volume, notes } = grown(bytes);
      return [volume?.claims["a"]?.publication?.device?.size, notes.map(({ body }) => body["device"] ?? body["state"])];
    });
    expect(sizes).toEqual([
      [{ bytes: 300, wanted: 300 }, ["AVAILABLE"]],
      [{ bytes: 299, wanted: 300 }, ["AVAILABLE", "SMALLER"]],
    ]);
  });
});
