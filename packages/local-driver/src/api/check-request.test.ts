import {
  CreateVolumeRequest,
  ListVolumesRequest,
  VolumeCapability_AccessMode_Mode as Mode,
  NodePublishVolumeRequest,
  NodeStageVolumeRequest,
  VolumeCapability,
} from "@holdfast/shared/gen/csi/v1/csi";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { checkRequest, requestViolations } from "./check-request.ts";

const mount = (mode: Mode = Mode.SINGLE_NODE_WRITER, more: object = {}): VolumeCapability =>
  VolumeCapability.fromPartial({ mount: more, accessMode: { mode } });

const create = (more: Parameters<typeof CreateVolumeRequest.fromPartial>[0] = {}): CreateVolumeRequest =>
  CreateVolumeRequest.fromPartial({ name: "v", volumeCapabilities: [mount()], ...more });

const fieldsOf = (request: CreateVolumeRequest): readonly string[] =>
  requestViolations("CreateVolume", request).map(({ field }) => field);

describe("a request", () => {
  test("as callers send it is taken", () => {
    expect(requestViolations("CreateVolume", create())).toEqual([]);
    expect(requestViolations("ListVolumes", ListVolumesRequest.fromPartial({ startingToken: "\u0000…" }))).toEqual([]);
  });

  test("is told everything that is wrong with it at once, in the message and as details", () => {
    const request = create({
      name: "",
      capacityRange: { requiredBytes: 2n, limitBytes: 1n },
      volumeCapabilities: [
        mount(Mode.MULTI_NODE_MULTI_WRITER, { fsType: "btrfs", volumeMountGroup: "staff" }),
        VolumeCapability.fromPartial({ accessMode: {} }),
      ],
      parameters: { key: "x".repeat(5000) },
      volumeContentSource: { snapshot: { snapshotId: "../etc" } },
      accessibilityRequirements: { requisite: [{ segments: { Zone: "a", zone: "b" } }] },
      mutableParameters: { "": "x" },
    });
    let thrown: unknown;
    try {
      checkRequest("CreateVolume", request);
    } catch (error) {
      thrown = error;
    }
    const expected = [
      ["name", "is required"],
      ["capacity_range", "has a limit_bytes below its required_bytes"],
      ["volume_capabilities[0].access_mode.mode", "MULTI_NODE_MULTI_WRITER is not offered: a volume is on one node"],
      ["volume_capabilities[0].mount.fs_type", "is neither ext4 nor xfs"],
      ["volume_capabilities[0].mount.volume_mount_group", "is no numeric group id"],
      ["volume_capabilities[1]", "needs exactly one of block and mount"],
      ["volume_capabilities[1].access_mode.mode", "is required, and may not be UNKNOWN"],
      ["parameters", "has 5003 bytes in all, 4096 are allowed"],
      ["volume_content_source.snapshot.snapshot_id", "is no id of this driver"],
      ["accessibility_requirements.requisite[0].segments", "has keys that differ by case only"],
      ["mutable_parameters", "has an empty key"],
    ];
    expect(thrown).toMatchObject({
      kind: "invalid",
      violations: expected.map(([field, description]) => ({ field, description })),
    });
    for (const [field, description] of expected) expect(String(thrown)).toContain(`${field} ${description}`);
  });

  test("does not repeat a mount flag, which may be a credential", () => {
    const flags = { mountFlags: ["noatime", "password=hunter2", ""] };
    const found = requestViolations(
      "CreateVolume",
      create({ volumeCapabilities: [mount(Mode.SINGLE_NODE_WRITER, flags)] }),
    );
    expect(found.map(({ field }) => field)).toEqual([
      "volume_capabilities[0].mount.mount_flags[2]",
      "volume_capabilities[0].mount.mount_flags[1]",
    ]);
    expect(JSON.stringify(found)).toContain("is not offered; there are noatime, ");
    expect(JSON.stringify(found)).not.toContain("hunter2");
  });

  test("does not repeat what was in it", () => {
    const request = create({ secrets: { password: "hunter2".repeat(1000) }, parameters: { a: "hunter2".repeat(700) } });
    expect(() => checkRequest("CreateVolume", request)).toThrow(/secrets has 7008 bytes in all/);
    expect(() => checkRequest("CreateVolume", request)).not.toThrow(/hunter2/);
  });

  test("keeps to the size limits of CSI, in bytes and not in letters", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 400 }), fc.constantFrom("a", "é", "𝄞"), (count, letter) => {
        const name = letter.repeat(count);
        expect(fieldsOf(create({ name }))).toEqual(Buffer.byteLength(name) > 128 ? ["name"] : []);
      }),
    );
  });

  test("has a map of 4 KiB in all, keys counted", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ minLength: 1, unit: "grapheme-ascii" }), fc.nat(3000)), (sizes) => {
        const parameters = Object.fromEntries(Object.entries(sizes).map(([key, size]) => [key, "x".repeat(size)]));
        const total = Object.entries(sizes).reduce((sum, [key, size]) => sum + Buffer.byteLength(key) + size, 0);
        expect(fieldsOf(create({ parameters }))).toEqual(total > 4096 ? ["parameters"] : []);
      }),
    );
  });

  test("may have line breaks in a name and no other control characters", () => {
    expect(fieldsOf(create({ name: "a\tb\nc\rd" }))).toEqual([]);
    for (const odd of ["\u0000", "\u001b", "\u007f", "\u0085"])
      expect(fieldsOf(create({ name: `a${odd}` }))).toEqual(["name"]);
  });
});

describe("a path", () => {
  const stage = (stagingTargetPath: string) =>
    requestViolations(
      "NodeStageVolume",
      NodeStageVolumeRequest.fromPartial({ volumeId: "v", stagingTargetPath, volumeCapability: mount() }),
    ).map(({ description }) => description);

  test.each([
    ["/a/b", []],
    [`/${"d/".repeat(500)}`, []],
    ["", ["is required"]],
    ["a/b", ["has to be an absolute path"]],
    ["/", ["may not be the root directory"]],
    ["//", ["may not be the root directory"]],
    ["/a/../b", ['may not have "." or ".." in it']],
    ["/a/./b", ['may not have "." or ".." in it']],
    ["/a/..", ['may not have "." or ".." in it']],
    ["/a..b/c", []],
    ["/a\u0000b", ["has control characters"]],
    [`/${"x".repeat(4095)}`, ["has 4096 bytes, 4095 are allowed"]],
  ])("%j", (path, wrong) => {
    expect(stage(path)).toEqual(wrong);
  });

  test("of the staging directory may be left out of a publication, which is refused in another way", () => {
    const request = NodePublishVolumeRequest.fromPartial({
      volumeId: "v",
      targetPath: "/t",
      volumeCapability: mount(),
    });
    expect(requestViolations("NodePublishVolume", request)).toEqual([]);
  });
});

describe("a group id", () => {
  test.each([
    ["", []],
    ["0", []],
    ["1000", []],
    ["4294967294", []],
    ["4294967295", ["is no numeric group id"]],
    ["01", ["is no numeric group id"]],
    ["-1", ["is no numeric group id"]],
    ["wheel", ["is no numeric group id"]],
  ])("%j", (volumeMountGroup, wrong) => {
    const request = create({ volumeCapabilities: [mount(Mode.SINGLE_NODE_WRITER, { volumeMountGroup })] });
    expect(requestViolations("CreateVolume", request).map(({ description }) => description)).toEqual(wrong);
  });
});

test("a mode of a newer CSI is refused by number, not taken for another", () => {
  const request = create({ volumeCapabilities: [mount(42 as Mode)] });
  expect(requestViolations("CreateVolume", request)).toEqual([
    { field: "volume_capabilities[0].access_mode.mode", description: "is no access mode of CSI 1.12" },
  ]);
});
