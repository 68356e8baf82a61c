import { VolumeCapability_AccessMode_Mode as Mode } from "@holdfast/shared/gen/csi/v1/csi";
import { describe, expect, test } from "vitest";
import { confirmedDifference } from "./confirmed.ts";

type Confirmed = Parameters<typeof confirmedDifference>[1];
type Capability = Confirmed["volumeCapabilities"][number];

const mounted = (
  mount: Partial<NonNullable<Capability["mount"]>> = {},
  mode: Mode = Mode.SINGLE_NODE_WRITER,
): Capability => ({
  block: undefined,
  mount: { fsType: "ext4", mountFlags: ["noatime", "token=secret-value"], volumeMountGroup: "7", ...mount },
  accessMode: { mode },
});
const block = (mode: Mode = Mode.SINGLE_NODE_WRITER): Capability => ({
  block: {},
  mount: undefined,
  accessMode: { mode },
});

const confirmed = (change: Partial<Confirmed> = {}): Confirmed => ({
  volumeContext: {},
  volumeCapabilities: [mounted()],
  parameters: {},
  mutableParameters: {},
  ...change,
});
const asked = (change: Partial<Confirmed> = {}) => ({ volumeId: "v", ...confirmed(change) });

describe("C67: what a plugin confirmed, against what it was asked", () => {
  test("is the same whatever the order, also with more than was asked for", () => {
    const request = asked({ volumeCapabilities: [mounted(), block()], volumeContext: { a: "1", b: "2" } });
    const answer = confirmed({
      volumeCapabilities: [block(), mounted({ mountFlags: ["token=secret-value", "noatime", "ro"] })],
      volumeContext: { b: "2", a: "1" },
    });
    expect(confirmedDifference(request, answer)).toBeUndefined();
  });

  test("what was not asked for may be filled in by the plugin", () => {
    const request = asked({ volumeCapabilities: [mounted({ fsType: "", mountFlags: [], volumeMountGroup: "" })] });
    expect(confirmedDifference(request, confirmed())).toBeUndefined();
  });

  const differing: readonly (readonly [string, Capability, string, string])[] = [
    ["attachment_mode", block(), "mount", "block"],
    [
      "attachment_mode",
      { block: undefined, mount: undefined, accessMode: { mode: Mode.SINGLE_NODE_WRITER } },
      "mount",
      "none",
    ],
    ["access_mode", mounted({}, Mode.MULTI_NODE_READER_ONLY), "SINGLE_NODE_WRITER", "MULTI_NODE_READER_ONLY"],
    ["access_mode", { ...mounted(), accessMode: undefined }, "SINGLE_NODE_WRITER", "UNKNOWN"],
    ["fs_type", mounted({ fsType: "xfs" }), "ext4", "xfs"],
    ["volume_mount_group", mounted({ volumeMountGroup: "" }), "7", "nothing"],
    ["mount_flags", mounted({ mountFlags: ["noatime"] }), "2 flags", "1 flags"],
  ];

  test.each(differing)(
    "X49: %s that differs is named, and incomplete replies do not pass",
    (field, has, wanted, shown) => {
      const found = confirmedDifference(asked(), confirmed({ volumeCapabilities: [has] }));
      expect(found).toEqual({ field: `capabilities[0].${field}`, wanted, has: shown });
    },
  );

  test("each of several capabilities has to be confirmed", () => {
    const request = asked({ volumeCapabilities: [mounted(), block()] });
    expect(confirmedDifference(request, confirmed())).toMatchObject({ field: "capabilities[1].attachment_mode" });
    expect(confirmedDifference(request, confirmed({ volumeCapabilities: [] }))).toMatchObject({
      field: "capabilities[0].attachment_mode",
      has: "nothing",
    });
  });

  test.each(["volumeContext", "parameters"] as const)("%s: by content, and only if it was named at all", (map) => {
    const request = asked({ [map]: { share: "hunter2", size: "1" } });
    expect(confirmedDifference(request, confirmed({ [map]: {} }))).toBeUndefined();
    const found = confirmedDifference(request, confirmed({ [map]: { share: "hunter3", size: "1" } }));
    expect(found?.field).toBe(`${map === "volumeContext" ? "context" : map}[share]`);
    expect(JSON.stringify(found)).not.toContain("hunter");
    expect(confirmedDifference(request, confirmed({ [map]: { share: "hunter2" } }))?.field).toContain("[size]");
  });

  test("a plugin that is older than mutable_parameters is found out", () => {
    const request = asked({ mutableParameters: { iops: "100" } });
    expect(confirmedDifference(request, confirmed())).toMatchObject({
      field: "mutable_parameters[iops]",
      has: "not there",
    });
    expect(confirmedDifference(request, confirmed({ mutableParameters: { iops: "100" } }))).toBeUndefined();
  });

  test("[I10] no mount flag is shown", () => {
    const found = confirmedDifference(asked(), confirmed({ volumeCapabilities: [mounted({ mountFlags: [] })] }));
    expect(JSON.stringify(found)).not.toContain("secret-value");
  });
});
