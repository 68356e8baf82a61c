import {
  type DeepPartial,
  NodeGetStorageHealthResponse,
  VolumeHealth,
  type VolumeHealth_VolumeHealthEntry,
} from "@holdfast/shared/gen/csi/v1/csi";
import { describe, expect, test } from "vitest";
import { storageHealthEntries, volumeHealthEntries } from "./health.ts";

/** As it comes off the wire: a number that is new must survive that too. */
const volume = (healthStatuses: DeepPartial<VolumeHealth_VolumeHealthEntry>[]) =>
  VolumeHealth.decode(VolumeHealth.encode(VolumeHealth.fromPartial({ volumeId: "v", healthStatuses })).finish());

const numbers = (...of: number[]) =>
  of.map((status) => ({ status, reason: "R", message: "" }) as VolumeHealth_VolumeHealthEntry);

describe("what is wrong with a volume", () => {
  test("has a word for every status, and keeps a number that is new", () => {
    expect(volumeHealthEntries(volume(numbers(1, 2, 3, 4, 99))).map(({ status }) => status)).toEqual([
      "DEGRADED",
      "INACCESSIBLE",
      "DATA_LOSS",
      "UNRECOGNISED(4)",
      "UNRECOGNISED(99)",
    ]);
  });

  test("is told once for each status and reason, in the words that came first", () => {
    const said = [
      { status: 1, reason: "PathLost", message: "one" },
      { status: 1, reason: "PathLost", message: "two" },
      { status: 2, reason: "PathLost", message: "three" },
      { status: 1, reason: "Slow", message: "four" },
    ] as const;
    expect(volumeHealthEntries(volume([...said])).map(({ message }) => message)).toEqual(["one", "three", "four"]);
  });

  test("is told without secrets, control characters, and pages of text", () => {
    const said = { status: 1, reason: "Portal", message: `login with s3cr3t-pw\nfailed ${"x".repeat(5000)}` } as const;
    const [entry] = volumeHealthEntries(volume([said]), { password: "s3cr3t-pw" });
    expect(entry?.message).toMatch(/^login with \S+ failed x+/);
    expect(entry?.message).not.toContain("s3cr3t-pw");
    expect(entry?.message.length).toBeLessThan(2000);
  });
});

describe("what is wrong with the way to the storage", () => {
  test("names the uses that it affects, and each of them once", () => {
    const block = { block: {}, accessMode: { mode: 1 as const } };
    const said = { status: 2 as const, reason: "PortalsDown", message: "no portal answers" };
    const reply = NodeGetStorageHealthResponse.fromPartial({
      backendHealth: [
        said,
        { ...said, volumeCapability: block },
        { ...said, volumeCapability: { mount: { fsType: "xfs" } } },
        { ...said, volumeCapability: block, message: "again" },
        { ...said, status: 9 as never },
      ],
    });
    const words = { status: "STORAGE_UNREACHABLE", reason: "PortalsDown", message: "no portal answers" };
    expect(storageHealthEntries(reply)).toEqual([
      words,
      { ...words, attachmentMode: "BLOCK_DEVICE", accessMode: "SINGLE_NODE_WRITER" },
      { ...words, attachmentMode: "FILE_SYSTEM", fsType: "xfs" },
      { ...words, status: "UNRECOGNISED(9)" },
    ]);
  });
});
