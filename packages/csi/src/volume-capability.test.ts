import { type AccessMode, accessModes } from "@holdfast/model/access";
import type { Tri } from "@holdfast/model/tri";
import type { VolumeUse } from "@holdfast/model/volume-use";
import { describe, expect, test } from "vitest";
import { capabilityIn } from "./volume-capability.ts";

const files: VolumeUse = {
  accessMode: "SINGLE_NODE_WRITER",
  attachmentMode: "FILE_SYSTEM",
  fsType: "ext4",
  mountFlags: ["noatime"],
  volumeMountGroup: "1000",
};

const modeFor = (accessMode: AccessMode, fineModes: Tri) => {
  const said = capabilityIn({ ...files, accessMode }, fineModes);
  return "because" in said ? said.because : said.accessMode?.mode;
};

describe("access modes", () => {
  test("are CSI's own, to a plugin with the fine ones", () => {
    expect(Object.fromEntries(accessModes.map((mode) => [mode, modeFor(mode, "yes")]))).toEqual({
      UNKNOWN: 0,
      SINGLE_NODE_WRITER: 1,
      SINGLE_NODE_READER_ONLY: 2,
      MULTI_NODE_READER_ONLY: 3,
      MULTI_NODE_SINGLE_WRITER: 4,
      MULTI_NODE_MULTI_WRITER: 5,
      SINGLE_NODE_SINGLE_WRITER: 6,
      SINGLE_NODE_MULTI_WRITER: 7,
    });
  });

  test("without them one writer is said the old way, and many cannot be said", () => {
    expect(modeFor("SINGLE_NODE_SINGLE_WRITER", "no")).toBe(1);
    expect(modeFor("SINGLE_NODE_MULTI_WRITER", "no")).toBe("refused");
    expect(modeFor("SINGLE_NODE_WRITER", "no")).toBe(1);
  });

  test("wait while nobody knows", () => {
    expect(modeFor("SINGLE_NODE_SINGLE_WRITER", "unknown")).toBe("unknown");
    expect(modeFor("SINGLE_NODE_MULTI_WRITER", "unknown")).toBe("unknown");
    expect(modeFor("MULTI_NODE_READER_ONLY", "unknown")).toBe(3);
  });
});

test("a file system has all fields of its use, and a block device none", () => {
  expect(capabilityIn(files, "no")).toEqual({
    accessMode: { mode: 1 },
    mount: { fsType: "ext4", mountFlags: ["noatime"], volumeMountGroup: "1000" },
  });
  expect(capabilityIn({ ...files, attachmentMode: "BLOCK_DEVICE" }, "no")).toEqual({
    accessMode: { mode: 1 },
    block: {},
  });
});
