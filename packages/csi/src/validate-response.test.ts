import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { codecOf, definitions, type RequestInput, type ResponseOf } from "./messages.ts";
import { type CsiMethod, methodNames, methods } from "./methods.ts";
import { responseViolations } from "./validate-response.ts";

/** A reply as a plugin would send it, fields left out and all. */
const encoded = (method: CsiMethod, response: unknown): Uint8Array => {
  const type = definitions[method].responseType as unknown as {
    fromPartial(value: unknown): unknown;
    encode(value: unknown): { finish(): Uint8Array };
  };
  return type.encode(type.fromPartial(response)).finish();
};

describe("replies", () => {
  const wrong = <M extends CsiMethod>(method: M, response: unknown, request?: RequestInput<M>): string[] => {
    const codec = codecOf(method);
    const whole = codec.decode(encoded(method, response));
    const asked = request === undefined ? undefined : codec.complete(request);
    return responseViolations(method, asked, whole).map(({ field, description }) => `${field} ${description}`);
  };

  const volume = { volumeId: "v", capacityBytes: 0n };
  const snapshot = { snapshotId: "s", sourceVolumeId: "v", creationTime: new Date(0), sizeBytes: 0n };

  it("that are good pass, lax ones of real drivers among them", () => {
    expect(wrong("CreateVolume", { volume })).toEqual([]);
    expect(wrong("CreateVolume", { volume: { ...volume, accessibleTopology: [{ segments: {} }] } })).toEqual([]);
    expect(wrong("ListVolumes", { entries: [{ volume, status: { publishedNodeIds: [""] } }] })).toEqual([]);
    expect(wrong("ControllerGetVolume", { volume }, { volumeId: "v" })).toEqual([]);
    expect(wrong("CreateSnapshot", { snapshot }, { sourceVolumeId: "v" })).toEqual([]);
    expect(wrong("GetPluginInfo", { name: "hostpath.csi.k8s.io" })).toEqual([]);
    expect(wrong("GetPluginInfo", { name: "org_democratic-csi.local" })).toEqual([]);
    expect(wrong("NodeGetInfo", { nodeId: "n".repeat(256) })).toEqual([]);
    expect(wrong("NodeGetVolumeStats", {})).toEqual([]);
    expect(wrong("NodeExpandVolume", {})).toEqual([]);
  });

  it("that lack what they must have are malformed", () => {
    expect(wrong("CreateVolume", {})).toEqual(["volume is required"]);
    expect(wrong("CreateVolume", { volume: {} })).toEqual(["volume.volume_id is required"]);
    expect(wrong("CreateSnapshot", { snapshot: {} })).toEqual([
      "snapshot.snapshot_id is required",
      "snapshot.source_volume_id is required",
      "snapshot.creation_time is required",
    ]);
    expect(
      wrong("CreateVolumeGroupSnapshot", { groupSnapshot: { groupSnapshotId: "g", creationTime: new Date(0) } }),
    ).toEqual(["group_snapshot.snapshots needs at least one entry"]);
    expect(wrong("NodeGetInfo", {})).toEqual(["node_id is required"]);
    expect(wrong("ListVolumes", { entries: [{ volume }, {}] })).toEqual(["entries[1].volume is required"]);
    expect(wrong("ListSnapshots", { entries: [{}] })).toEqual(["entries[0].snapshot is required"]);
  });

  it("that are of a time that no calendar has are malformed", () => {
    // Seconds beyond the end of Date, as the wire has room for them: creation_time { seconds: 2^62 }.
    const seconds = Buffer.from([0x0a, 0x15, 0x12, 0x01, 0x73, 0x1a, 0x01, 0x76, 0x22, 0x0a, 0x08]);
    const bytes = Buffer.concat([seconds, Buffer.from("ffffffffffffffff3f", "hex")]);
    bytes[1] = bytes.length - 2;
    bytes[9] = bytes.length - 10;
    const whole = codecOf("CreateSnapshot").decode(bytes);
    expect(whole.snapshot?.snapshotId).toBe("s");
    expect(responseViolations("CreateSnapshot", undefined, whole)).toEqual([
      { field: "snapshot.creation_time", description: "is no time" },
    ]);
  });

  it("that outgrow their limits are malformed", () => {
    expect(wrong("CreateVolume", { volume: { ...volume, volumeId: "v".repeat(129) } })).toEqual([
      "volume.volume_id has 129 bytes, at most 128 are allowed",
    ]);
    expect(wrong("CreateVolume", { volume: { ...volume, volumeId: "a\nb" } })).toEqual([
      "volume.volume_id has control characters",
    ]);
    expect(wrong("CreateVolume", { volume: { ...volume, volumeContext: { k: "x".repeat(4096) } } })).toEqual([
      "volume.volume_context has 4097 bytes, at most 4096 are allowed",
    ]);
    expect(wrong("CreateVolume", { volume: { ...volume, capacityBytes: -1n } })).toEqual([
      "volume.capacity_bytes must not be negative",
    ]);
    expect(wrong("ControllerPublishVolume", { publishContext: { k: "x".repeat(4096) } })).toEqual([
      "publish_context has 4097 bytes, at most 4096 are allowed",
    ]);
    expect(wrong("NodeGetInfo", { nodeId: "n".repeat(257), maxVolumesPerNode: -1n })).toEqual([
      "node_id has 257 bytes, at most 256 are allowed",
      "max_volumes_per_node must not be negative",
    ]);
    expect(wrong("ListVolumes", { nextToken: "t".repeat(4097) })).toEqual([
      "next_token has 4097 bytes, at most 4096 are allowed",
    ]);
    expect(wrong("GetMetadataDelta", { blockMetadata: [{ byteOffset: -1n, sizeBytes: 1n }] })).toEqual([
      "block_metadata[0].byte_offset must not be negative",
    ]);
  });

  it("about health need a status and a reason in each entry; a number that is new is none of our business", () => {
    const health = (healthStatuses: object[]) => ({ volumeHealth: { volumeId: "v", healthStatuses } });
    for (const method of ["ControllerGetVolumeHealth", "NodeGetVolumeHealth"] as const) {
      expect(wrong(method, health([]), { volumeId: "v" })).toEqual([]);
      expect(wrong(method, health([{ status: 99, reason: "MultipathLoss" }]), { volumeId: "v" })).toEqual([]);
      expect(wrong(method, {}, { volumeId: "v" })).toEqual(["volume_health is required"]);
      expect(wrong(method, health([{}]))).toEqual([
        "volume_health.health_statuses[0].status is required",
        "volume_health.health_statuses[0].reason is required",
      ]);
      expect(wrong(method, health([]), { volumeId: "other" })).toHaveLength(1);
    }
    const entry = { volumeId: "v", healthStatuses: [{ status: 1, reason: "PathLost", message: "m".repeat(500) }] };
    expect(wrong("ControllerListVolumeHealth", { entries: [entry] })).toEqual([]);
    expect(wrong("ControllerListVolumeHealth", { entries: [entry, {}] })).toEqual(["entries[1].volume_id is required"]);
    expect(wrong("NodeGetStorageHealth", { backendHealth: [{ status: 2, reason: "PortalsDown" }] })).toEqual([]);
    expect(wrong("NodeGetStorageHealth", { backendHealth: [{ volumeCapability: {} }] })).toEqual([
      "backend_health[0].status is required",
      "backend_health[0].reason is required",
    ]);
  });

  it("that are about something else than what was asked for are malformed", () => {
    expect(wrong("ControllerGetVolume", { volume }, { volumeId: "other" })).toHaveLength(1);
    expect(wrong("GetSnapshot", { snapshot }, { snapshotId: "other" })).toHaveLength(1);
    expect(wrong("CreateSnapshot", { snapshot }, { sourceVolumeId: "other" })).toHaveLength(1);
    const group = { groupSnapshotId: "g", creationTime: new Date(0), snapshots: [snapshot] };
    expect(wrong("GetVolumeGroupSnapshot", { groupSnapshot: group }, { groupSnapshotId: "g" })).toEqual([]);
    expect(wrong("GetVolumeGroupSnapshot", { groupSnapshot: group }, { groupSnapshotId: "h" })).toHaveLength(1);
  });

  it("to a create with a source have to say that it was used", () => {
    const from = { volumeContentSource: { snapshot: { snapshotId: "s" } } };
    expect(wrong("CreateVolume", { volume }, from)).toContain(
      "volume.content_source is missing though the volume was to have a source",
    );
    const contentSource = (snapshotId: string) => ({ ...volume, contentSource: { snapshot: { snapshotId } } });
    expect(wrong("CreateVolume", { volume: contentSource("s") }, from)).toEqual([]);
    expect(wrong("CreateVolume", { volume: contentSource("t") }, from)).toHaveLength(1);
  });

  it("hold plugin names to the specification", () => {
    const name = (text: string): number => wrong("GetPluginInfo", { name: text }).length;
    for (const fine of ["a", "A1", "csi.example.com", "x".repeat(63), "7up.example"]) expect(name(fine), fine).toBe(0);
    for (const bad of ["", "x".repeat(64), "-a", "a-", ".a", "a b", "a/b", "a\nb", "ä"])
      expect(name(bad), JSON.stringify(bad)).toBeGreaterThan(0);
  });

  it("of any bytes are decoded or refused, never more", () => {
    const reads = methodNames.filter((name) => methods[name].kind !== "probe");
    fc.assert(
      fc.property(fc.constantFrom(...reads), fc.uint8Array({ maxLength: 200 }), (method, bytes) => {
        let value: ResponseOf<typeof method>;
        try {
          value = codecOf(method).decode(bytes);
        } catch (error) {
          expect(error).toBeInstanceOf(Error);
          return;
        }
        expect(Array.isArray(responseViolations(method, undefined, value))).toBe(true);
      }),
      { numRuns: 2_000 },
    );
  });
});
