import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  byteLength,
  checkCapability,
  checkCapacity,
  checkId,
  checkMap,
  checkSecretRef,
  checkSegments,
  checkString,
} from "./limits.ts";
import type { VolumeCapability } from "./volume/volume.ts";

describe("limits", () => {
  it("take exactly the ids of the specification", () => {
    const good = ["a", "0", "a.b", "a-b_c.d", "x".repeat(64)];
    const bad = ["", "-a", "a-", ".a", "a.", "A", "a..b", "a/b", "x".repeat(65), "ä", "a b", "a\n"];
    expect(good.filter((id) => checkId("id", id).length > 0)).toEqual([]);
    expect(bad.filter((id) => checkId("id", id).length === 0)).toEqual([]);
  });

  it("let no id be more than one harmless path segment", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 70 }), (id) => {
        if (checkId("id", id).length > 0) return;
        expect(id).toMatch(/^[a-z0-9]/);
        expect(id).not.toMatch(/\.\.|[/\\\0\s]/);
        expect(id.length).toBeLessThanOrEqual(64);
      }),
      { numRuns: 2_000 },
    );
  });

  it("count bytes as the wire does", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 40 }), (text) => {
        expect(byteLength(text)).toBe(Buffer.byteLength(text));
      }),
      { numRuns: 2_000 },
    );
  });

  it("bound strings and maps by bytes and refuse control characters", () => {
    expect(checkString("f", "x".repeat(128))).toEqual([]);
    expect(checkString("f", "ä".repeat(65))).toHaveLength(1);
    expect(checkString("f", `${"x".repeat(128)}\u0000`)).toHaveLength(2);
    for (const unfit of ["\u0085", "\u009f", "\ud800"]) expect(checkString("f", `a${unfit}`)).toHaveLength(1);
    expect(checkMap("m", { a: "x".repeat(4095) })).toEqual([]);
    expect(checkMap("m", { a: "x".repeat(4096) })).toHaveLength(1);
    expect(checkMap("m", { "": "x".repeat(4097) })).toHaveLength(2);
    expect(checkSegments("t", {})).toHaveLength(1);
    expect(checkSegments("t", { zone: "" })).toHaveLength(1);
    expect(checkSegments("t", { zone: "a", region: "b" })).toEqual([]);
  });

  it("of secrets take what is granted alone, and tell nothing else about it", () => {
    expect(checkSecretRef("s", "file:run/a.json", "ns", () => false)).toEqual([
      { field: "s", description: "names no secret that this controller's settings grant to namespace ns" },
    ]);
  });

  it("take references to secrets, not secrets", () => {
    const good = ["file:run/a.json", "file:run/array-1/key", "env:NAME", "env:_x1"];
    const bad = [
      "",
      "hunter2",
      "file:a.json",
      "file:/run/secrets/a.json",
      "file:run//a",
      "file:run/../etc/shadow",
      "file:run/a/..",
      "file:run/..data/a",
      "file:run/",
      "env:",
      "env:a-b",
      "file:run/a\nb",
    ];
    expect(good.filter((ref) => checkSecretRef("s", ref, "ns", () => true).length > 0)).toEqual([]);
    expect(bad.filter((ref) => checkSecretRef("s", ref, "ns", () => true).length === 0)).toEqual([]);
  });

  it("take capacities that can be met", () => {
    expect(checkCapacity("c", { required: 0, limit: 0 })).toEqual([]);
    expect(checkCapacity("c", { required: 5, limit: 5 })).toEqual([]);
    expect(checkCapacity("c", { required: 5, limit: 4 }).map((v) => v.field)).toEqual(["c.limit_bytes"]);
    expect(checkCapacity("c", { required: -1, limit: 1.5 })).toHaveLength(2);
    expect(checkCapacity("c", { required: Number.MAX_SAFE_INTEGER + 1, limit: 0 })).toHaveLength(1);
  });

  it("name every fault of a capability", () => {
    const block: VolumeCapability = {
      attachmentMode: "BLOCK_DEVICE",
      accessMode: "UNKNOWN",
      fsType: "ext4",
      mountFlags: ["ro"],
      volumeMountGroup: "g",
    };
    expect(checkCapability("c", block).map((v) => v.field)).toEqual([
      "c.access_mode",
      "c.fs_type",
      "c.mount_flags",
      "c.volume_mount_group",
    ]);
    const mount: VolumeCapability = {
      attachmentMode: "FILE_SYSTEM",
      accessMode: "SINGLE_NODE_WRITER",
      fsType: "EXT4",
      mountFlags: ["", "x".repeat(4097)],
      volumeMountGroup: "g".repeat(129),
    };
    expect(checkCapability("c", mount).map((v) => v.field)).toEqual([
      "c.fs_type",
      "c.mount_flags",
      "c.mount_flags",
      "c.volume_mount_group",
    ]);
    expect(checkCapability("c", { ...mount, fsType: "", mountFlags: ["noatime"], volumeMountGroup: "" })).toEqual([]);
  });
});
