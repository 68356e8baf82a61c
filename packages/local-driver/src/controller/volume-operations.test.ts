import { describe, expect, test } from "vitest";
import type { Capability } from "../domain/records.ts";
import { bytes, createControllerFixture, gib, mib, mounting, raw, refusalOf } from "../testing/controller-fixture.ts";

const attaching = { nodeId: "node-a", capability: mounting, readonly: false };

describe("deleteVolume", () => {
  test("takes record and contents, and a volume that is gone is no error", async () => {
    const at = createControllerFixture();
    const { id } = await at.volume("v");
    await at.volumes.deleteVolume(id, at.signal);
    expect([at.memory.records.volumes.size, at.memory.world.files.size]).toEqual([0, 0]);
    at.memory.calls.length = 0;
    await at.volumes.deleteVolume(id, at.signal);
    await at.volumes.deleteVolume("no such one", at.signal);
    expect(at.memory.calls).toEqual([]);
    expect((await at.volume("v")).id).not.toBe(id);
  });

  test("its snapshots stay", async () => {
    const at = createControllerFixture();
    const { id } = await at.volume("v");
    const snapshot = await at.snapshot("s", id);
    await at.volumes.deleteVolume(id, at.signal);
    expect(await at.snapshots.getSnapshot(snapshot.id)).toEqual(snapshot);
    expect((await at.volume("w", { source: { kind: "snapshot", id: snapshot.id } })).capacityBytes).toBe(64n * mib);
  });

  type Fixture = ReturnType<typeof createControllerFixture>;
  type Volume = Awaited<ReturnType<Fixture["volume"]>>;
  test.each<[string, (at: Fixture, volume: Volume) => unknown, RegExp]>([
    [
      "mounted",
      (at, v) => at.mounted(v),
      /mounted at \/stage\/v; call NodeUnpublishVolume and NodeUnstageVolume first/,
    ],
    ["published raw", (at, v) => at.published(v), /mounted at \/target\/v/],
    ["published raw for reading", (at, v) => at.published(v, { readonly: true }), /mounted at \/target\/v/],
    [
      "attached",
      (at, v) => at.volumes.attach(v.id, attaching),
      /attached to node node-a; call ControllerUnpublishVolume/,
    ],
    [
      "staged as a device",
      (at, v) => {
        at.mounted(v);
        at.memory.world.mounts.length = 0;
      },
      /\/dev\/loop0 has its image, for \/stage\/v; call/,
    ],
  ])("while it is %s it is refused, and nothing is done", async (_, use, message) => {
    const at = createControllerFixture();
    const volume = await at.volume("v");
    await use(at, volume);
    const before = { ...at.record(volume.id) };
    const refusal = await refusalOf(at.volumes.deleteVolume(volume.id, at.signal));
    expect(refusal.code).toBe("FAILED_PRECONDITION");
    expect(refusal.message).toMatch(/^DeleteVolume of volume [0-9a-f-]+ \("v"\) on node node-a: /);
    expect(refusal.message).toMatch(message);
    expect(at.record(volume.id)).toEqual(before);
    at.released(volume);
    await at.volumes.detach(volume.id, "");
    await at.volumes.deleteVolume(volume.id, at.signal);
    expect(at.memory.leftovers()).toEqual([]);
  });

  test("while a directory is bound somewhere, also by a bind of something inside of it", async () => {
    const at = createControllerFixture();
    const volume = await at.volume("v", { parameters: { type: "directory" } });
    at.bound(volume, { readonly: true });
    const [mount] = at.memory.world.mounts;
    if (mount === undefined) throw new Error("not bound");
    at.memory.world.mounts[0] = { ...mount, root: `${mount.root}/inside`, mountPoint: "/elsewhere" };
    expect(await refusalOf(at.volumes.deleteVolume(volume.id, at.signal))).toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringContaining("mounted at /elsewhere"),
    });
    at.memory.world.mounts[0] = { ...mount, root: `${mount.root}-of-another`, mountPoint: "/elsewhere" };
    await at.volumes.deleteVolume(volume.id, at.signal);
    expect(at.memory.records.volumes.size).toBe(0);
  });

  test("while something is mounted at its place that is of no device of its image", async () => {
    const at = createControllerFixture();
    const volume = await at.volume("v");
    at.mounted(volume);
    at.memory.world.loops.clear();
    expect(await refusalOf(at.volumes.deleteVolume(volume.id, at.signal))).toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(/mounted at \/stage\/v/),
    });
  });

  test("lets go of a device that a killed life left, unless somebody has it open", async () => {
    const at = createControllerFixture();
    const volume = await at.volume("v");
    at.mounted(volume);
    at.memory.world.mounts.length = 0;
    at.memory.records.volumes.set(volume.id, volume);
    at.memory.world.busy.add("/dev/loop0");
    expect((await refusalOf(at.volumes.deleteVolume(volume.id, at.signal))).message).toContain("/dev/loop0 is in use");
    expect(at.memory.records.volumes.size).toBe(1);
    at.memory.world.busy.clear();
    await at.volumes.deleteVolume(volume.id, at.signal);
    expect(at.memory.leftovers()).toEqual([]);
  });

  test("after a restart of the machine the record of a staging holds nothing", async () => {
    const at = createControllerFixture();
    const volume = await at.volume("v");
    at.mounted(volume);
    at.memory.reboot();
    at.restart();
    await at.volumes.deleteVolume(volume.id, at.signal);
    expect(at.memory.records.volumes.size).toBe(0);
  });

  test("an attachment of a time when attaching was on holds nothing, as nobody could take it off", async () => {
    const at = createControllerFixture({ settings: { attach: false } });
    const volume = await at.volume("v");
    await at.volumes.attach(volume.id, attaching);
    await at.volumes.deleteVolume(volume.id, at.signal);
    expect(at.memory.records.volumes.size).toBe(0);
  });

  test("a record that cannot be read is left alone", async () => {
    const at = createControllerFixture();
    const { id } = await at.volume("v");
    at.memory.breakRecord("volume", id);
    expect((await refusalOf(at.volumes.deleteVolume(id, at.signal))).code).toBe("FAILED_PRECONDITION");
    expect(at.memory.world.files.size).toBe(1);
  });
});

describe("expandVolume", () => {
  const expand = (
    at: ReturnType<typeof createControllerFixture>,
    id: string,
    range: ReturnType<typeof bytes>,
    capability?: Capability,
  ) => at.volumes.expandVolume(id, { capacity: range, capability }, at.signal);

  test("grows the image, then the record; a repeat and less than that are the same answer", async () => {
    const at = createControllerFixture();
    const { id } = await at.volume("v");
    at.memory.calls.length = 0;
    const answer = { capacityBytes: 100n * mib + 4096n, nodeExpansionRequired: true };
    expect(await expand(at, id, bytes(100n * mib + 1n), mounting)).toEqual(answer);
    expect(at.memory.calls.filter((call) => /images.grow|volumes/.test(call))).toEqual([
      "images.grow",
      "volumes.change",
    ]);
    expect([at.record(id).capacityBytes, at.memory.imageOf("volumes", id).bytes]).toEqual([
      answer.capacityBytes,
      answer.capacityBytes,
    ]);
    at.memory.calls.length = 0;
    expect(await expand(at, id, bytes(100n * mib + 1n), mounting)).toEqual(answer);
    expect(await expand(at, id, bytes(mib), mounting)).toEqual(answer);
    expect(await expand(at, id, bytes(0n, gib), mounting)).toEqual(answer);
    expect(at.memory.calls).toEqual([]);
  });

  test.each<[string, (at: ReturnType<typeof createControllerFixture>) => Promise<boolean>, boolean]>([
    [
      "raw, not in use",
      async (at) => (await expand(at, (await at.volume("v")).id, bytes(gib), raw)).nodeExpansionRequired,
      false,
    ],
    [
      "raw, published",
      async (at) => {
        const volume = await at.volume("v");
        at.published(volume);
        return (await expand(at, volume.id, bytes(gib), raw)).nodeExpansionRequired;
      },
      true,
    ],
    [
      "mount, not in use",
      async (at) => (await expand(at, (await at.volume("v")).id, bytes(gib), mounting)).nodeExpansionRequired,
      true,
    ],
    [
      "unsaid, never formatted",
      async (at) => (await expand(at, (await at.volume("v")).id, bytes(gib))).nodeExpansionRequired,
      false,
    ],
    [
      "unsaid, formatted",
      async (at) => {
        const volume = await at.volume("v");
        at.mounted(volume);
        at.released(volume);
        return (await expand(at, volume.id, bytes(gib))).nodeExpansionRequired;
      },
      true,
    ],
    [
      "directory",
      async (at) => {
        const volume = await at.volume("v", { parameters: { type: "directory" } });
        const answer = await expand(at, volume.id, bytes(gib + 1n), mounting);
        expect(answer.capacityBytes).toBe(gib + 1n);
        expect(at.record(volume.id).capacityBytes).toBe(gib + 1n);
        return answer.nodeExpansionRequired;
      },
      false,
    ],
  ])("whether the node has to follow: %s", async (_, act, expected) => {
    expect(await act(createControllerFixture())).toBe(expected);
  });

  test.each<[string, ReturnType<typeof bytes>, string, RegExp]>([
    ["a limit below what it has", bytes(0n, 63n * mib), "OUT_OF_RANGE", /67108864 bytes already.*do not shrink/],
    ["no whole block in the range", bytes(100n * mib + 1n, 100n * mib + 2n), "OUT_OF_RANGE", /whole blocks of 4096/],
    ["more than an image may have", bytes(1n << 50n), "OUT_OF_RANGE", /the most for an image/],
    [
      "more than there is",
      bytes(2n * gib),
      "RESOURCE_EXHAUSTED",
      /2080374784 bytes are needed, and 1006632960 are free/,
    ],
  ])("%s is refused, and nothing is changed", async (_, range, code, message) => {
    const at = createControllerFixture({ diskBytes: gib });
    const { id } = await at.volume("v");
    const refusal = await refusalOf(expand(at, id, range, mounting));
    expect(refusal.code).toBe(code);
    expect(refusal.message).toMatch(message);
    expect([at.record(id).capacityBytes, at.memory.imageOf("volumes", id).bytes]).toEqual([64n * mib, 64n * mib]);
  });

  test("no such volume, a way of using it that it has not, an image that was cut", async () => {
    const at = createControllerFixture();
    expect((await refusalOf(expand(at, "x", bytes(1n)))).code).toBe("NOT_FOUND");
    const directory = await at.volume("d", { parameters: { type: "directory" } });
    expect((await refusalOf(expand(at, directory.id, bytes(1n), raw))).code).toBe("INVALID_ARGUMENT");
    const { id } = await at.volume("v");
    at.memory.imageOf("volumes", id).bytes = mib;
    expect((await refusalOf(expand(at, id, bytes(gib)))).message).toContain("it was cut");
    expect(at.memory.imageOf("volumes", id).bytes).toBe(mib);
  });
});

describe("modifyVolume", () => {
  test("changes what is given and keeps the rest; a repeat writes nothing", async () => {
    const at = createControllerFixture();
    const { id } = await at.volume("v", { mutableParameters: { "label.a": "1", "label.b": "2" } });
    await at.volumes.modifyVolume(id, { "label.a": "", "label.b": "3", mountOptions: "noatime" });
    expect(at.record(id).mutable).toEqual({ "label.b": "3", mountOptions: "noatime" });
    at.memory.calls.length = 0;
    await at.volumes.modifyVolume(id, { "label.b": "3" });
    expect(at.memory.calls).toEqual([]);
  });

  test("one bad key and nothing is changed", async () => {
    const at = createControllerFixture();
    const { id } = await at.volume("v");
    const refusal = await refusalOf(
      at.volumes.modifyVolume(id, { "label.a": "1", XXX_FakeKey: "x", mountOptions: "nobarrier" }),
    );
    expect(refusal.code).toBe("INVALID_ARGUMENT");
    expect(refusal.message).toMatch(/"XXX_FakeKey" is unknown; .*"nobarrier" is not offered/);
    expect(at.record(id).mutable).toEqual({});
    expect((await refusalOf(at.volumes.modifyVolume("x", { "label.a": "1" }))).code).toBe("NOT_FOUND");
  });

  test("options of another filesystem than the one it carries", async () => {
    const at = createControllerFixture();
    const volume = await at.volume("v");
    at.mounted(volume, "ext4");
    expect((await refusalOf(at.volumes.modifyVolume(volume.id, { mountOptions: "swalloc" }))).message).toContain(
      `mountOptions: mount option "swalloc" is one of xfs, and not of ext4`,
    );
  });
});

describe("attach and detach", () => {
  test("are kept in the record, and a repeat writes nothing", async () => {
    const at = createControllerFixture();
    const { id } = await at.volume("v");
    await at.volumes.attach(id, attaching);
    const kept = [{ nodeId: "node-a", readonly: false, access: "mount", mode: "SINGLE_NODE_WRITER" }];
    expect(at.record(id).attachments).toEqual(kept);
    at.memory.calls.length = 0;
    await at.volumes.attach(id, attaching);
    await at.volumes.detach(id, "node-b");
    expect(at.memory.calls).toEqual([]);
    await at.volumes.detach(id, "node-a");
    expect(at.record(id).attachments).toEqual([]);
    await at.volumes.attach(id, attaching);
    // "If the value is empty": from all nodes.
    await at.volumes.detach(id, "");
    expect(at.record(id).attachments).toEqual([]);
    await at.volumes.detach("gone", "node-a");
  });

  test.each([
    ["read-only", { ...attaching, readonly: true }, "mount SINGLE_NODE_WRITER read-only"],
    ["raw", { ...attaching, capability: raw }, "block SINGLE_NODE_WRITER"],
    [
      "another mode",
      { ...attaching, capability: { ...mounting, mode: "SINGLE_NODE_MULTI_WRITER" as const } },
      "MULTI_WRITER",
    ],
  ])("in another way (%s) is ALREADY_EXISTS", async (_, other, said) => {
    const at = createControllerFixture();
    const { id } = await at.volume("v");
    await at.volumes.attach(id, attaching);
    const refusal = await refusalOf(at.volumes.attach(id, other));
    expect(refusal.code).toBe("ALREADY_EXISTS");
    expect(refusal.message).toContain(said);
  });

  test("no such volume, no such node, no such way", async () => {
    const at = createControllerFixture();
    const { id } = await at.volume("v", { parameters: { type: "directory" } });
    expect((await refusalOf(at.volumes.attach("x", attaching))).code).toBe("NOT_FOUND");
    expect((await refusalOf(at.volumes.attach(id, { ...attaching, nodeId: "node-b" }))).code).toBe("NOT_FOUND");
    expect((await refusalOf(at.volumes.attach(id, { ...attaching, capability: raw }))).code).toBe("INVALID_ARGUMENT");
  });

  test("the limit of the node holds for calls at the same time too", async () => {
    const at = createControllerFixture({ settings: { maxVolumesPerNode: 3 } });
    const volumes = await Promise.all([1, 2, 3, 4, 5].map((n) => at.volume(`v${n}`)));
    // Stored as slowly as on a disk: all five have been looked at before the first is written.
    const stored = at.memory.host.state.volumes;
    const { change } = stored;
    Object.assign(stored, {
      change: async (...args: Parameters<typeof change>) => {
        await new Promise((resolve) => setImmediate(resolve));
        return await change(...args);
      },
    });
    const answers = await Promise.allSettled(volumes.map(({ id }) => at.volumes.attach(id, attaching)));
    expect(answers.filter(({ status }) => status === "fulfilled")).toHaveLength(3);
    const attached = volumes.filter(({ id }) => at.record(id).attachments.length > 0);
    expect(attached).toHaveLength(3);
    const [first] = attached;
    const left = volumes.find(({ id }) => at.record(id).attachments.length === 0);
    if (first === undefined || left === undefined) throw new Error("none attached, or all");
    // One that is attached may be asked for again on a full node.
    await at.volumes.attach(first.id, attaching);
    expect(await refusalOf(at.volumes.attach(left.id, attaching))).toMatchObject({
      code: "RESOURCE_EXHAUSTED",
      message: expect.stringContaining("node node-a has 3 volumes attached, and HOLDFAST_LOCAL_MAX_VOLUMES is 3"),
    });
    await at.volumes.detach(first.id, "node-a");
    await at.volumes.attach(left.id, attaching);
  });
});
