import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { codecOf, type RequestInput } from "./messages.ts";
import { type CsiMethod, methodNames } from "./methods.ts";
import { requestViolations, validateRequest } from "./validate-request.ts";

const capability = { mount: { fsType: "ext4", mountFlags: ["noatime"] }, accessMode: { mode: 1 as const } };

/** One good request for every RPC. */
const good: { readonly [M in CsiMethod]: RequestInput<M> } = {
  Probe: {},
  GetPluginInfo: {},
  GetPluginCapabilities: {},
  ControllerGetCapabilities: {},
  GroupControllerGetCapabilities: {},
  NodeGetCapabilities: {},
  NodeGetInfo: {},
  CreateVolume: { name: "pvc-1", capacityRange: { requiredBytes: 1n }, volumeCapabilities: [capability] },
  DeleteVolume: { volumeId: "v" },
  ControllerPublishVolume: { volumeId: "v", nodeId: "n", volumeCapability: capability },
  ControllerUnpublishVolume: { volumeId: "v", nodeId: "n" },
  ValidateVolumeCapabilities: { volumeId: "v", volumeCapabilities: [capability] },
  ListVolumes: { maxEntries: 100 },
  GetCapacity: { volumeCapabilities: [capability] },
  CreateSnapshot: { sourceVolumeId: "v", name: "s" },
  DeleteSnapshot: { snapshotId: "s" },
  ListSnapshots: { maxEntries: 100 },
  GetSnapshot: { snapshotId: "s" },
  ControllerExpandVolume: { volumeId: "v", capacityRange: { requiredBytes: 2n } },
  ControllerGetVolume: { volumeId: "v" },
  ControllerModifyVolume: { volumeId: "v", mutableParameters: { iops: "3000" } },
  CreateVolumeGroupSnapshot: { name: "g", sourceVolumeIds: ["a", "b"] },
  DeleteVolumeGroupSnapshot: { groupSnapshotId: "g", snapshotIds: ["a"] },
  GetVolumeGroupSnapshot: { groupSnapshotId: "g", snapshotIds: ["a"] },
  GetMetadataAllocated: { snapshotId: "s" },
  GetMetadataDelta: { baseSnapshotId: "a", targetSnapshotId: "b" },
  NodeStageVolume: { volumeId: "v", stagingTargetPath: "/s", volumeCapability: capability },
  NodeUnstageVolume: { volumeId: "v", stagingTargetPath: "/s" },
  NodePublishVolume: { volumeId: "v", targetPath: "/t", volumeCapability: capability },
  NodeUnpublishVolume: { volumeId: "v", targetPath: "/t" },
  NodeGetVolumeStats: { volumeId: "v", volumePath: "/t" },
  ControllerListVolumeHealth: { maxEntries: 100 },
  ControllerGetVolumeHealth: { volumeId: "v" },
  NodeGetVolumeHealth: { volumeId: "v" },
  NodeGetStorageHealth: {},
  NodeExpandVolume: { volumeId: "v", volumePath: "/t" },
};

const violations = <M extends CsiMethod>(method: M, change: RequestInput<M>): string[] =>
  requestViolations(
    method,
    codecOf(method).complete({ ...(good[method] as object), ...(change as object) } as RequestInput<M>),
  ).map(({ field, description }) => `${field} ${description}`);

const mapFields = new Set(["parameters", "secrets", "mutableParameters", "volumeContext", "publishContext"]);
const isMap = (field: string): boolean => mapFields.has(field);

const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

describe("requests", () => {
  it.each(methodNames)("a good %s passes", (method) => {
    expect(requestViolations(method, codecOf(method).complete(good[method] as never))).toEqual([]);
  });

  it.each(methodNames.filter((name) => Object.keys(good[name]).length > 0 && name !== "GetCapacity"))(
    "%s without its fields is refused",
    (method) => {
      const request = codecOf(method).complete({} as never);
      expect(() => validateRequest(method, request as never)).toThrow(`/${method} was not sent: `);
    },
  );

  it("of every RPC hold their text fields to the size of the specification, to the byte", () => {
    const nodeIds = new Set(["nodeId"]);
    for (const method of methodNames) {
      const whole = codecOf(method).complete(good[method] as never) as Record<string, unknown>;
      for (const [field, value] of Object.entries(whole)) {
        if (typeof value !== "string" || field === "startingToken") continue;
        const limit = nodeIds.has(field) ? 256 : 128;
        const start = field.endsWith("Path") ? "/" : "";
        const text = (size: number): string =>
          start + "ä".repeat((size - start.length) >> 1) + "x".repeat((size - start.length) % 2);
        const found = (size: number) => violations(method, { [field]: text(size) } as never).join();
        expect(Buffer.byteLength(text(limit)), `${method}.${field}`).toBe(limit);
        expect(found(limit), `${method}.${field}`).toBe("");
        expect(found(limit + 1), `${method}.${field}`).toContain(`${snake(field)} has ${limit + 1} bytes`);
      }
    }
  });

  it("of every RPC hold their maps to 4 KiB in all, keys and values", () => {
    for (const method of methodNames) {
      const whole = codecOf(method).complete(good[method] as never) as Record<string, unknown>;
      for (const [field, value] of Object.entries(whole)) {
        if (typeof value !== "object" || value === null || Array.isArray(value) || !isMap(field)) continue;
        const found = (size: number) => violations(method, { [field]: { key: "v".repeat(size - 3) } } as never).join();
        expect(found(4096), `${method}.${field}`).toBe("");
        expect(found(4097), `${method}.${field}`).toContain(`${snake(field)} has 4097 bytes`);
      }
    }
  });

  it("of every RPC that carries secrets check their keys, and never repeat their values", () => {
    const carriers = methodNames.filter(
      (method) => "secrets" in (codecOf(method).complete(good[method] as never) as object),
    );
    expect(carriers).toHaveLength(22);
    for (const method of carriers) {
      const found = violations(method, { secrets: { "sp ace": "canary-value" } } as never);
      expect(found, method).toEqual(["secrets has a key outside [A-Za-z0-9-_.]"]);
    }
  });

  it("never need a backend to read a path in two ways", () => {
    const target = (targetPath: string): string => violations("NodePublishVolume", { targetPath }).join();
    expect(target("relative/path")).toContain("must be an absolute path");
    expect(target("/a/../b")).toContain('must not have "." or ".."');
    expect(target("/a\nb")).toContain("control characters");
    expect(target("")).toContain("is required");
    expect(target("/var/lib/holdfast/..data")).toBe("");
  });

  it("of a capacity need a bound, none negative, and a limit not below the requirement", () => {
    const range = (requiredBytes: bigint, limitBytes: bigint): string =>
      violations("CreateVolume", { capacityRange: { requiredBytes, limitBytes } }).join();
    expect(range(0n, 0n)).toBe("capacity_range needs required_bytes or limit_bytes");
    expect(range(5n, 4n)).toBe("capacity_range has a limit_bytes below required_bytes");
    expect(range(-1n, 4n)).toBe("capacity_range.required_bytes must not be negative");
    expect(range(5n, 5n)).toBe("");
    expect(range(0n, 5n)).toBe("");
  });

  it("of a capability choose one kind and a known mode, and keep flags within 4 KiB without showing them", () => {
    const one = (volumeCapability: RequestInput<"NodePublishVolume">["volumeCapability"]): string[] =>
      violations("NodePublishVolume", { volumeCapability });
    expect(one({ block: {}, mount: {}, accessMode: { mode: 1 } })).toEqual([
      "volume_capability needs exactly one of block and mount",
    ]);
    expect(one({ accessMode: { mode: 1 } })).toEqual(["volume_capability needs exactly one of block and mount"]);
    expect(one({ block: {} })).toEqual(["volume_capability.access_mode is required, and not UNKNOWN"]);
    expect(one({ block: {}, accessMode: { mode: 99 as 1 } })).toEqual([
      "volume_capability.access_mode is required, and not UNKNOWN",
    ]);
    for (const mode of [1, 2, 3, 4, 5, 6, 7] as const) expect(one({ block: {}, accessMode: { mode } })).toEqual([]);
    const flags = (...mountFlags: string[]) => one({ mount: { mountFlags }, accessMode: { mode: 1 } });
    expect(flags("x".repeat(4096))).toEqual([]);
    expect(flags("x".repeat(4000), "y".repeat(97))).toEqual([
      "volume_capability.mount.mount_flags has 4097 bytes in all, at most 4096 are allowed",
    ]);
    expect(flags("ro", "pass\u0000word=canary", "")).toEqual([
      "volume_capability.mount.mount_flags[1] has control characters",
      "volume_capability.mount.mount_flags[2] is empty",
    ]);
  });

  it("of a topology ask for something, and prefer only what they ask for", () => {
    const want = (accessibilityRequirements: RequestInput<"CreateVolume">["accessibilityRequirements"]): string[] =>
      violations("CreateVolume", { accessibilityRequirements });
    const zone = (name: string) => ({ segments: { zone: name } });
    expect(want({})).toEqual(["accessibility_requirements needs a requisite or a preferred topology"]);
    expect(want({ requisite: [zone("a")], preferred: [zone("b")] })).toEqual([
      "accessibility_requirements.preferred[0] is not among the requisite ones",
    ]);
    expect(want({ requisite: [zone("a")], preferred: [{ segments: { ZONE: "a" } }] })).toEqual([]);
    expect(want({ requisite: [{ segments: {} }] })).toEqual([
      "accessibility_requirements.requisite[0].segments needs at least one entry",
    ]);
    expect(want({ requisite: [{ segments: { zone: "a", Zone: "b" } }] })).toEqual([
      "accessibility_requirements.requisite[0].segments has keys that differ by case only",
    ]);
  });

  it("of a source name exactly one", () => {
    expect(violations("CreateVolume", { volumeContentSource: {} })).toEqual([
      "volume_content_source needs exactly one of snapshot and volume",
    ]);
    expect(violations("CreateVolume", { volumeContentSource: { snapshot: { snapshotId: "" } } })).toEqual([
      "volume_content_source.snapshot.snapshot_id is required",
    ]);
  });

  it("never detach from every node at once, and never list without a bound", () => {
    expect(violations("ControllerUnpublishVolume", { nodeId: "" })).toEqual(["node_id is required"]);
    expect(violations("ListVolumes", { maxEntries: 0 })).toEqual(["max_entries must be greater than zero"]);
    expect(violations("ListSnapshots", { maxEntries: -1 })).toEqual(["max_entries must be greater than zero"]);
    expect(violations("ControllerListVolumeHealth", { maxEntries: -1 })).toEqual([
      "max_entries must be greater than zero",
    ]);
  });

  it("of a group name its snapshots, each once", () => {
    expect(violations("DeleteVolumeGroupSnapshot", { snapshotIds: ["a", "", "a"] })).toEqual([
      "snapshot_ids names the same thing twice",
      "snapshot_ids[1] is required",
    ]);
    expect(violations("CreateVolumeGroupSnapshot", { sourceVolumeIds: [] })).toEqual([
      "source_volume_ids needs at least one entry",
    ]);
  });

  it("take names with any characters but the banned ones", () => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the specification's own list
    const banned = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/u;
    const name = fc.string({ unit: "binary", minLength: 1, maxLength: 30 });
    fc.assert(
      fc.property(name, (text) => {
        const bad = banned.test(text);
        expect(violations("CreateVolume", { name: text }).length > 0).toBe(bad);
      }),
      { numRuns: 500 },
    );
  });
});
