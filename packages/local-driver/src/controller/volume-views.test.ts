import { describe, expect, test } from "vitest";
import { maximumBytes } from "../domain/image-size.ts";
import type { Capability } from "../domain/records.ts";
import { bytes, createControllerFixture, gib, mib, mounting, raw, refusalOf } from "../testing/controller-fixture.ts";

const fine = { abnormal: false, message: "its contents are there and as large as they should be" };

describe("getVolume and its condition", () => {
  test("a sound image, a sound directory, and none", async () => {
    const at = createControllerFixture();
    const image = await at.volume("i");
    const directory = await at.volume("d", { parameters: { type: "directory" } });
    expect(await at.volumes.getVolume(image.id)).toEqual({ volume: image, condition: fine });
    expect(await at.volumes.getVolume(directory.id)).toEqual({ volume: directory, condition: fine });
    expect(await refusalOf(at.volumes.getVolume("x"))).toEqual({
      code: "NOT_FOUND",
      message: "ControllerGetVolume of volume x on node node-a: there is no volume x; it was deleted, or never made",
    });
  });

  test("an image that is gone, was cut, or cannot be looked at; a directory that is gone", async () => {
    const at = createControllerFixture();
    const [cut, gone, odd] = [await at.volume("cut"), await at.volume("gone"), await at.volume("odd")];
    const directory = await at.volume("d", { parameters: { type: "directory" } });
    at.memory.imageOf("volumes", cut.id).bytes = mib;
    at.memory.world.files.delete(at.memory.host.state.volumes.paths(gone.id).image);
    at.memory.world.files.delete(at.memory.host.state.volumes.paths(directory.id).data);
    const conditionOf = async (id: string) => (await at.volumes.getVolume(id)).condition;
    expect(await conditionOf(cut.id)).toEqual({
      abnormal: true,
      message: `its image /state/volumes/${cut.id}/image has 1048576 bytes instead of 67108864: it was cut; put it back from a backup, or delete the volume`,
    });
    expect(await conditionOf(gone.id)).toMatchObject({ abnormal: true, message: expect.stringContaining("is gone") });
    expect(await conditionOf(directory.id)).toMatchObject({
      abnormal: true,
      message: expect.stringContaining("its directory"),
    });
    at.memory.inject({ on: "images.sizeOf", kind: "fail", code: "INTERNAL", message: "EIO: i/o error" });
    expect(await conditionOf(odd.id)).toEqual({
      abnormal: true,
      message: "its contents cannot be looked at: EIO: i/o error",
    });
    expect(await conditionOf(odd.id)).toEqual(fine);
  });

  test("a format that was begun is told, and is nothing abnormal", async () => {
    const at = createControllerFixture();
    const volume = await at.volume("v");
    at.memory.records.volumes.set(volume.id, { ...volume, format: { fsType: "xfs", finished: false } });
    expect((await at.volumes.getVolume(volume.id)).condition).toEqual({
      abnormal: false,
      message: "mkfs.xfs was begun; the next NodeStageVolume ends it",
    });
  });
});

describe("listVolumes", () => {
  test("pages through all of them, each with its condition", async () => {
    const at = createControllerFixture();
    const made = [];
    for (let n = 0; n < 7; n += 1) made.push(await at.volume(`v${n}`));
    const third = made[2];
    if (third === undefined) throw new Error("not made");
    at.memory.imageOf("volumes", third.id).bytes = mib;
    const first = await at.volumes.listVolumes({ maxEntries: 3, startingToken: "" });
    expect(first.entries.map(({ volume, condition }) => [volume.name, condition.abnormal])).toEqual([
      ["v0", false],
      ["v1", false],
      ["v2", true],
    ]);
    await at.volumes.deleteVolume(third.id, at.signal);
    const rest = await at.volumes.listVolumes({ maxEntries: 0, startingToken: first.nextToken });
    expect(rest.entries.map(({ volume }) => volume)).toEqual(made.slice(3));
    expect(rest.nextToken).toBe("");
    expect((await refusalOf(at.volumes.listVolumes({ maxEntries: 0, startingToken: "3" }))).code).toBe("ABORTED");
  });

  test("one whose record cannot be read is left out, and named when it is asked for", async () => {
    const at = createControllerFixture();
    const [good, bad] = [await at.volume("good"), await at.volume("bad")];
    at.memory.breakRecord("volume", bad.id);
    const page = await at.volumes.listVolumes({ maxEntries: 0, startingToken: "" });
    expect(page.entries.map(({ volume }) => volume)).toEqual([good]);
    expect((await refusalOf(at.volumes.getVolume(bad.id))).code).toBe("FAILED_PRECONDITION");
  });
});

describe("validateCapabilities", () => {
  const none = { capabilities: [], parameters: {}, mutableParameters: {} };

  test("confirms what the volume is", async () => {
    const at = createControllerFixture();
    const parameters = { type: "image", fsType: "xfs" };
    const { id } = await at.volume("v", { parameters, mutableParameters: { "label.a": "1" } });
    const capabilities: readonly Capability[] = [
      raw,
      mounting,
      { ...mounting, fsType: "xfs", mountFlags: ["noatime"] },
    ];
    expect(await at.volumes.validateCapabilities(id, { ...none, capabilities })).toBeUndefined();
    const mutableParameters = { "label.a": "1", "label.b": "" };
    expect(await at.volumes.validateCapabilities(id, { capabilities, parameters, mutableParameters })).toBeUndefined();
  });

  test("and otherwise says all that it is not", async () => {
    const at = createControllerFixture();
    const { id } = await at.volume("v", { parameters: { type: "directory" }, mutableParameters: { "label.a": "1" } });
    const why = await at.volumes.validateCapabilities(id, {
      capabilities: [raw, { ...mounting, fsType: "xfs" }],
      parameters: { type: "image", speed: "high" },
      mutableParameters: { "label.a": "2", mountOptions: "noatime" },
    });
    for (const part of [
      `"speed" is unknown`,
      "a directory has no device",
      "fs_type xfs",
      `parameter type: first "directory", now "image"`,
      "mountOptions: a directory is bound",
      `mutable parameter label.a: first "1", now "2"`,
    ])
      expect(why).toContain(part);
    expect((await refusalOf(at.volumes.validateCapabilities("x", none))).code).toBe("NOT_FOUND");
  });
});

describe("capacity", () => {
  const ask = (
    at: ReturnType<typeof createControllerFixture>,
    over: Partial<Parameters<typeof at.volumes.capacity>[0]>,
  ) => at.volumes.capacity({ capabilities: [], parameters: {}, segments: {}, ...over });

  test("is what is free and owed to nobody, with the limits of the kind", async () => {
    const at = createControllerFixture({ diskBytes: 10n * gib });
    expect(await ask(at, {})).toEqual({
      availableBytes: 10n * gib,
      maximumVolumeBytes: maximumBytes,
      minimumVolumeBytes: 16n * mib,
    });
    expect((await ask(at, { parameters: { fsType: "xfs" } })).minimumVolumeBytes).toBe(300n * mib);
    expect((await ask(at, { capabilities: [raw] })).minimumVolumeBytes).toBe(mib);
    expect(await ask(at, { parameters: { type: "directory" } })).toEqual({
      availableBytes: 10n * gib,
      maximumVolumeBytes: (1n << 63n) - 1n,
      minimumVolumeBytes: 0n,
    });
    await at.volume("v", { capacity: bytes(3n * gib) });
    expect((await ask(at, {})).availableBytes).toBe(7n * gib);
  });

  test("CreateVolume takes what it names, and refuses one block more", async () => {
    const at = createControllerFixture({ diskBytes: 10n * gib });
    await at.volume("first", { capacity: bytes(3n * gib) });
    const { availableBytes, minimumVolumeBytes } = await ask(at, {});
    expect((await refusalOf(at.volume("more", { capacity: bytes(availableBytes + 4096n) }))).code).toBe(
      "RESOURCE_EXHAUSTED",
    );
    await at.volume("all", { capacity: bytes(availableBytes) });
    expect((await ask(at, {})).availableBytes).toBe(0n);
    expect((await refusalOf(at.volume("least", { capacity: bytes(0n, minimumVolumeBytes - 1n) }))).code).toBe(
      "OUT_OF_RANGE",
    );
  });

  test("what cannot be made has no room: another place, another kind", async () => {
    const at = createControllerFixture();
    const zero = { availableBytes: 0n, maximumVolumeBytes: 0n, minimumVolumeBytes: 0n };
    expect(await ask(at, { segments: { "local.holdfast.dev/node": "node-b" } })).toEqual(zero);
    expect((await ask(at, { segments: { "local.holdfast.dev/node": "node-a" } })).availableBytes).toBeGreaterThan(0n);
    expect(await ask(at, { parameters: { type: "tape" } })).toEqual(zero);
    expect(await ask(at, { parameters: { type: "directory" }, capabilities: [raw] })).toEqual(zero);
  });
});
