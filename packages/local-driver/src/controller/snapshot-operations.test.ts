import { describe, expect, test } from "vitest";
import { bytes, createControllerFixture, gib, mib, raw, refusalOf } from "../testing/controller-fixture.ts";

const everything = { volumeId: "", snapshotId: "" };
const whole = { maxEntries: 0, startingToken: "" };

describe("createSnapshot", () => {
  test("is a copy that outlives what happens to the volume, and its record says all of it", async () => {
    const at = createControllerFixture();
    const volume = await at.volume("v", { capacity: bytes(100n * mib) });
    at.mounted(volume);
    at.memory.write(volume.id, mib, 3, 1);
    const snapshot = await at.snapshot("s", volume.id);
    expect(snapshot).toEqual({
      kind: "snapshot",
      id: expect.any(String),
      name: "s",
      volumeId: volume.id,
      type: "image",
      sizeBytes: 100n * mib,
      format: { fsType: "ext4", finished: true },
      createdAt: expect.stringMatching(/^2026-/),
      parameters: {},
      groupId: undefined,
    });
    expect(at.memory.records.snapshots.get(snapshot.id)).toEqual(snapshot);
    at.memory.write(volume.id, mib, 3, 2);
    expect(at.memory.imageOf("snapshots", snapshot.id).blocks.get(256n)).toBe(1);
    expect(at.memory.world.frozen.size).toBe(0);
  });

  test("by the same name: the same snapshot, also when the volume is gone or cannot be held still", async () => {
    const at = createControllerFixture();
    const volume = await at.volume("v");
    const snapshot = await at.snapshot("s", volume.id, { live: "allow" });
    at.memory.calls.length = 0;
    expect(await at.snapshot("s", volume.id, { live: "allow", "csi.storage.k8s.io/x": "y" })).toEqual(snapshot);
    expect(at.memory.calls).toEqual([]);
    await at.volumes.deleteVolume(volume.id, at.signal);
    expect(await at.snapshot("s", volume.id, { live: "allow" })).toEqual(snapshot);
  });

  test("by the same name of another volume, or with other parameters, is ALREADY_EXISTS", async () => {
    const at = createControllerFixture();
    const [a, b] = [await at.volume("a"), await at.volume("b")];
    const snapshot = await at.snapshot("s", a.id);
    const refusal = await refusalOf(at.snapshot("s", b.id, { live: "allow" }));
    expect(refusal.code).toBe("ALREADY_EXISTS");
    expect(refusal.message).toContain(
      `snapshot ${snapshot.id} ("s") has this name and differs: volume: it is of ${a.id}, and not of ${b.id}; parameter live: first none, now "allow"`,
    );
  });

  test("no such volume, unknown parameters, no room, an image that was cut", async () => {
    const at = createControllerFixture({ diskBytes: gib });
    expect((await refusalOf(at.snapshot("s", "x"))).code).toBe("NOT_FOUND");
    const volume = await at.volume("v", { capacity: bytes(700n * mib) });
    expect(await refusalOf(at.snapshot("s", volume.id, { live: "maybe", x: "y" }))).toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringMatching(/live: is "maybe".*"x" is unknown/),
    });
    at.memory.write(volume.id, 0n, 100_000, 1);
    // 390 MiB are allocated and may all be overwritten; 634 MiB are left, of which 310 are owed to the volume.
    expect(await refusalOf(at.snapshot("s", volume.id))).toMatchObject({
      code: "RESOURCE_EXHAUSTED",
      message: expect.stringContaining("409600000 bytes are needed, and 339738624 are free"),
    });
    at.memory.imageOf("volumes", volume.id).bytes = mib;
    expect((await refusalOf(at.snapshot("s", volume.id))).message).toContain("it was cut");
    expect(at.memory.records.snapshots.size).toBe(0);
  });

  test("of a raw device in use, or of a directory that is written, as the rules of copies have it", async () => {
    const at = createControllerFixture({ reflinks: false });
    const volume = await at.volume("v", { capabilities: [raw] });
    at.published(volume);
    expect((await refusalOf(at.snapshot("s", volume.id))).message).toContain("a raw device cannot be frozen");
    expect((await at.snapshot("s", volume.id, { live: "allow" })).parameters).toEqual({ live: "allow" });
    const directory = await at.volume("d", { parameters: { type: "directory" } });
    at.bound(directory);
    expect((await refusalOf(at.snapshot("t", directory.id))).message).toContain("a directory cannot be frozen");
    at.released(directory);
    expect((await at.snapshot("t", directory.id)).type).toBe("directory");
  });

  test("gives up when the caller does, thaws, and leaves nothing", async () => {
    const at = createControllerFixture();
    const volume = await at.volume("v");
    at.mounted(volume);
    at.memory.inject({ on: "copier.image", kind: "hang" });
    const caller = new AbortController();
    const taken = at.snapshots.createSnapshot({ name: "s", volumeId: volume.id, parameters: {} }, caller.signal);
    await expect.poll(() => at.memory.calls).toContain("copier.image");
    expect(at.memory.world.frozen.size).toBe(1);
    caller.abort(new DOMException("the caller left", "AbortError"));
    await expect(taken).rejects.toThrow("the caller left");
    expect(at.memory.world.frozen.size).toBe(0);
    expect(at.memory.records.snapshots.size).toBe(0);
    expect((await at.snapshot("s", volume.id)).name).toBe("s");
  });
});

describe("getSnapshot, deleteSnapshot, listSnapshots", () => {
  test("one that is gone is NOT_FOUND, and may be deleted again", async () => {
    const at = createControllerFixture();
    const volume = await at.volume("v");
    const snapshot = await at.snapshot("s", volume.id);
    expect(await at.snapshots.getSnapshot(snapshot.id)).toEqual(snapshot);
    await at.snapshots.deleteSnapshot(snapshot.id);
    await at.snapshots.deleteSnapshot(snapshot.id);
    expect((await refusalOf(at.snapshots.getSnapshot(snapshot.id))).code).toBe("NOT_FOUND");
    expect(at.memory.leftovers()).toEqual([]);
  });

  test("filters, alone and together, and pages", async () => {
    const at = createControllerFixture();
    const [a, b] = [await at.volume("a"), await at.volume("b")];
    const made = [];
    for (let n = 0; n < 5; n += 1) made.push(await at.snapshot(`s${n}`, n % 2 === 0 ? a.id : b.id));
    const [first, second] = made;
    if (first === undefined || second === undefined) throw new Error("not made");
    const names = async (filter: typeof everything, page = whole) =>
      (await at.snapshots.listSnapshots(page, filter)).entries.map(({ name }) => name);
    expect(await names(everything)).toEqual(["s0", "s1", "s2", "s3", "s4"]);
    expect(await names({ ...everything, volumeId: a.id })).toEqual(["s0", "s2", "s4"]);
    expect(await names({ ...everything, volumeId: "x" })).toEqual([]);
    expect(await names({ ...everything, snapshotId: second.id })).toEqual(["s1"]);
    expect(await names({ ...everything, snapshotId: "x" })).toEqual([]);
    expect(await names({ volumeId: a.id, snapshotId: second.id })).toEqual([]);
    const page = await at.snapshots.listSnapshots(
      { maxEntries: 2, startingToken: "" },
      { ...everything, volumeId: a.id },
    );
    expect(page.entries.map(({ name }) => name)).toEqual(["s0", "s2"]);
    const rest = { maxEntries: 2, startingToken: page.nextToken };
    expect(await names({ ...everything, volumeId: a.id }, rest)).toEqual(["s4"]);
    expect((await refusalOf(at.volumes.listVolumes(rest))).code).toBe("ABORTED");
  });

  test("one that cannot be read is never said to be gone", async () => {
    const at = createControllerFixture();
    const volume = await at.volume("v");
    const { id } = await at.snapshot("s", volume.id);
    at.memory.breakRecord("snapshot", id);
    const refused = { code: "FAILED_PRECONDITION" };
    expect(await refusalOf(at.snapshots.getSnapshot(id))).toMatchObject(refused);
    expect(await refusalOf(at.snapshots.listSnapshots(whole, { ...everything, snapshotId: id }))).toMatchObject(
      refused,
    );
    expect(await refusalOf(at.snapshots.deleteSnapshot(id))).toMatchObject(refused);
    expect(await refusalOf(at.snapshot("s", volume.id))).toMatchObject(refused);
    expect(await at.snapshots.listSnapshots(whole, everything)).toEqual({ entries: [], nextToken: "" });
  });
});
