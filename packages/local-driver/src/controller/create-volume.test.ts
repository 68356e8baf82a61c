import { describe, expect, test } from "vitest";
import type { CreateVolumeInput } from "../operations.ts";
import { bytes, createControllerFixture, gib, mib, mounting, raw, refusalOf } from "../testing/controller-fixture.ts";

const here = { "local.holdfast.dev/node": "node-a" };
const elsewhere = { "local.holdfast.dev/node": "node-b" };

describe("a new volume", () => {
  test("is an empty image of the usual size, and its record says all of it", async () => {
    const at = createControllerFixture();
    const volume = await at.volume("v");
    expect(volume).toEqual({
      kind: "volume",
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      name: "v",
      type: "image",
      capacityBytes: 64n * mib,
      createdAt: expect.stringMatching(/^2026-01-01T00:00:00\.\d{3}Z$/),
      parameters: {},
      source: undefined,
      mutable: {},
      format: undefined,
      attachments: [],
      staging: undefined,
      publications: [],
    });
    expect(at.record(volume.id)).toEqual(volume);
    expect(at.memory.imageOf("volumes", volume.id)).toMatchObject({ bytes: 64n * mib, signature: undefined });
    expect(at.memory.leftovers()).toEqual([]);
  });

  test.each<[string, Partial<CreateVolumeInput>, { type: string; capacityBytes: bigint }]>([
    ["directory", { parameters: { type: "directory" } }, { type: "directory", capacityBytes: 0n }],
    [
      "directory that notes what was asked",
      { parameters: { type: "directory" }, capacity: bytes(5n * gib) },
      { type: "directory", capacityBytes: 5n * gib },
    ],
    ["xfs is larger", { parameters: { fsType: "xfs" } }, { type: "image", capacityBytes: 300n * mib }],
    [
      "the same by its capability",
      { capabilities: [{ ...mounting, fsType: "xfs" }] },
      { type: "image", capacityBytes: 300n * mib },
    ],
    ["a raw one may be small", { capabilities: [raw], capacity: bytes(1n) }, { type: "image", capacityBytes: mib }],
    [
      "for both uses",
      { capabilities: [raw, mounting], capacity: bytes(1n) },
      { type: "image", capacityBytes: 16n * mib },
    ],
    ["an odd size", { capacity: bytes(100n * mib + 1n) }, { type: "image", capacityBytes: 100n * mib + 4096n }],
    ["on this node", { requisite: [elsewhere, here], preferred: [here] }, { type: "image", capacityBytes: 64n * mib }],
    ["rather elsewhere", { preferred: [elsewhere] }, { type: "image", capacityBytes: 64n * mib }],
  ])("%s", async (_, input, expected) => {
    const at = createControllerFixture();
    const volume = await at.volume("v", input);
    expect(volume).toMatchObject(expected);
    const { data, image } = at.memory.host.state.volumes.paths(volume.id);
    expect([...at.memory.world.files.keys()]).toEqual([expected.type === "directory" ? data : image]);
  });

  test("block or a filesystem by name need an image, whatever the driver's default is", async () => {
    const at = createControllerFixture({ settings: { defaultType: "directory" } });
    expect((await at.volume("plain")).type).toBe("directory");
    expect((await at.volume("raw", { capabilities: [raw] })).type).toBe("image");
    expect((await at.volume("xfs", { capabilities: [{ ...mounting, fsType: "xfs" }] })).type).toBe("image");
  });

  test("keeps its mutable parameters apart, wherever they were given", async () => {
    const at = createControllerFixture();
    const volume = await at.volume("v", {
      parameters: { type: "image", mountOptions: "noatime", "csi.storage.k8s.io/pvc/name": "p" },
      mutableParameters: { mountOptions: "discard", "label.a": "1" },
    });
    expect(volume.parameters).toEqual({ type: "image" });
    expect(volume.mutable).toEqual({ mountOptions: "discard", "label.a": "1" });
  });
});

describe("refused, with nothing left behind", () => {
  test.each<[string, Partial<CreateVolumeInput>, string, RegExp]>([
    [
      "everything that is wrong is said",
      {
        parameters: { type: "directory", fsType: "xfs", size: "1" },
        capabilities: [raw, { ...mounting, fsType: "ext4" }],
      },
      "INVALID_ARGUMENT",
      /"size" is unknown.*one filesystem, and xfs and ext4.*host; ask for type=image.*\[0\]: a directory has no device.*\[1\]: fs_type ext4/,
    ],
    [
      "mount flags of a directory",
      { parameters: { type: "directory" }, capabilities: [{ ...mounting, mountFlags: ["noatime"] }] },
      "INVALID_ARGUMENT",
      /mount_flags noatime: a directory is bound/,
    ],
    [
      "mount flags of another filesystem than the default",
      { capabilities: [{ ...mounting, mountFlags: ["swalloc"] }] },
      "INVALID_ARGUMENT",
      /"swalloc" is one of xfs, and not of ext4/,
    ],
    [
      "mutable mount options of a directory",
      { parameters: { type: "directory" }, mutableParameters: { mountOptions: "noatime" } },
      "INVALID_ARGUMENT",
      /mountOptions: a directory is bound/,
    ],
    ["a node that is another", { requisite: [elsewhere] }, "RESOURCE_EXHAUSTED", /from node node-a alone/],
    [
      "a place that is more than this node",
      { requisite: [{ ...here, zone: "z" }] },
      "RESOURCE_EXHAUSTED",
      /from node node-a alone/,
    ],
    ["no such snapshot", { source: { kind: "snapshot", id: "s" } }, "NOT_FOUND", /no snapshot s/],
    ["no such volume", { source: { kind: "volume", id: "x" } }, "NOT_FOUND", /no volume x/],
    [
      "more than there is",
      { capacity: bytes(2n * gib) },
      "RESOURCE_EXHAUSTED",
      /2147483648 bytes are needed, and 1073741824 are free/,
    ],
    [
      "a directory beyond what there is",
      { parameters: { type: "directory" }, capacity: bytes(2n * gib) },
      "RESOURCE_EXHAUSTED",
      /are needed/,
    ],
    ["an impossible limit", { capacity: bytes(0n, mib) }, "OUT_OF_RANGE", /limit_bytes 1048576 is below 16777216/],
  ])("%s", async (_, input, code, message) => {
    const at = createControllerFixture({ diskBytes: gib });
    const refusal = await refusalOf(at.volume("v", input));
    expect(refusal.code).toBe(code);
    expect(refusal.message).toMatch(/^CreateVolume of volume "v" on node node-a: /);
    expect(refusal.message).toMatch(message);
    expect(at.memory.records.volumes.size).toBe(0);
    expect(at.memory.world.files.size).toBe(0);
  });

  test("a type that this node does not offer", async () => {
    const at = createControllerFixture({ settings: { types: ["directory"], defaultType: "directory" } });
    const refusal = await refusalOf(at.volume("v", { capabilities: [raw] }));
    expect(refusal).toEqual({
      code: "INVALID_ARGUMENT",
      message: expect.stringMatching(/type image are not offered on node node-a; HOLDFAST_LOCAL_TYPES has directory$/),
    });
  });

  test("while a record that cannot be read may bear the name", async () => {
    const at = createControllerFixture();
    const { id } = await at.volume("v");
    at.memory.breakRecord("volume", id);
    const refusal = await refusalOf(at.volume("v"));
    expect(refusal.code).toBe("FAILED_PRECONDITION");
    expect(refusal.message).toContain(`/state/volumes/${id}/record.json`);
    expect((await at.volume("other")).name).toBe("other");
  });
});

describe("a name that is taken", () => {
  const asked: Partial<CreateVolumeInput> = {
    capacity: bytes(100n * mib, 200n * mib),
    parameters: { type: "image" },
    mutableParameters: { "label.a": "1" },
    requisite: [here],
  };

  test.each<[string, Partial<CreateVolumeInput>]>([
    ["the same", {}],
    ["less, and no limit", { capacity: bytes(1n) }],
    ["no size", { capacity: bytes(0n) }],
    ["for raw use", { capabilities: [raw] }],
    ["no labels", { mutableParameters: {} }],
    ["keys that are for others", { parameters: { type: "image", "csi.storage.k8s.io/pv/name": "n" } }],
  ])("%s: the same volume, and nothing is done", async (_, over) => {
    const at = createControllerFixture();
    const first = await at.volume("v", asked);
    at.memory.calls.length = 0;
    expect(await at.volume("v", { ...asked, ...over })).toEqual(first);
    expect(at.memory.calls).toEqual([]);
  });

  test("by a repeat after ModifyVolume: what was added since does not count, what was changed does", async () => {
    const at = createControllerFixture();
    const { id } = await at.volume("v", asked);
    await at.volumes.modifyVolume(id, { "label.b": "2" });
    expect((await at.volume("v", asked)).id).toBe(id);
    await at.volumes.modifyVolume(id, { "label.a": "9" });
    expect((await refusalOf(at.volume("v", asked))).message).toContain(`label.a: it has "9", asked is "1"`);
  });

  test.each<[string, Partial<CreateVolumeInput>, RegExp]>([
    ["more", { capacity: bytes(101n * mib) }, /capacity: it has 104857600 bytes, and 105906176 are required/],
    [
      "a lower limit",
      { capacity: bytes(0n, 99n * mib) },
      /capacity: it has 104857600 bytes, and the limit is 103809024/,
    ],
    ["another type", { parameters: { type: "directory" } }, /parameter type: first "image", now "directory"/],
    ["a parameter less", { parameters: {} }, /parameter type: first "image", now none/],
    ["a source", { source: { kind: "volume", id: "x" } }, /source: it was made from nothing, and not from volume x/],
    ["another label", { mutableParameters: { "label.a": "2" } }, /label.a: it has "1", asked is "2"/],
    ["another place", { requisite: [elsewhere] }, /topology: it is on node node-a alone/],
    [
      "several at once",
      { capacity: bytes(101n * mib), parameters: {}, requisite: [elsewhere] },
      /capacity: .*parameter type: .*topology: /,
    ],
  ])("%s is ALREADY_EXISTS and says what differs", async (_, over, message) => {
    const at = createControllerFixture();
    const first = await at.volume("v", asked);
    const refusal = await refusalOf(at.volume("v", { ...asked, ...over }));
    expect(refusal.code).toBe("ALREADY_EXISTS");
    expect(refusal.message).toMatch(message);
    expect(refusal.message).toContain(first.id);
    expect([...at.memory.records.volumes.values()]).toEqual([first]);
  });

  test("a filesystem that it does not carry is ALREADY_EXISTS, an unknown parameter INVALID_ARGUMENT", async () => {
    const at = createControllerFixture();
    const volume = await at.volume("v");
    at.mounted(volume, "ext4");
    expect(await refusalOf(at.volume("v", { capabilities: [{ ...mounting, fsType: "xfs" }] }))).toMatchObject({
      code: "ALREADY_EXISTS",
      message: expect.stringMatching(/capability: fs_type xfs: the volume is for ext4/),
    });
    expect((await refusalOf(at.volume("v", { parameters: { x: "" } }))).code).toBe("INVALID_ARGUMENT");
  });
});

describe("from a source", () => {
  test("a snapshot: contents, format and type come along, with an identity of its own", async () => {
    const at = createControllerFixture();
    const origin = await at.volume("origin", { capacity: bytes(400n * mib) });
    at.mounted(origin, "xfs");
    at.memory.write(origin.id, 8n * mib, 2, 7);
    const snapshot = await at.snapshot("s", origin.id);
    at.memory.write(origin.id, 8n * mib, 2, 8);

    const source = { kind: "snapshot", id: snapshot.id } as const;
    const same = await at.volume("same", { source });
    expect(same).toMatchObject({
      capacityBytes: 400n * mib,
      type: "image",
      source,
      format: { fsType: "xfs", finished: true },
    });
    const larger = await at.volume("larger", { source, capacity: bytes(500n * mib) });
    const [a, b, c] = [origin, same, larger].map(({ id }) => at.memory.imageOf("volumes", id));
    expect([b?.bytes, c?.bytes]).toEqual([400n * mib, 500n * mib]);
    expect(b?.blocks.get(2048n)).toBe(7);
    expect(c?.blocks.get(2048n)).toBe(7);
    expect(new Set([a?.identity, b?.identity, c?.identity]).size).toBe(3);

    at.released(origin);
    await at.volumes.deleteVolume(origin.id, at.signal);
    await at.snapshots.deleteSnapshot(snapshot.id);
    // The source is gone; the volume is still the one that was asked for.
    expect((await at.volume("same", { source })).id).toBe(same.id);
  });

  test("raw contents get no new identity", async () => {
    const at = createControllerFixture();
    const origin = await at.volume("origin", { capabilities: [raw] });
    at.memory.write(origin.id, 0n, 1, 5);
    const clone = await at.volume("clone", { capabilities: [raw], source: { kind: "volume", id: origin.id } });
    expect(clone.format).toBeUndefined();
    expect(at.memory.imageOf("volumes", clone.id).blocks).toEqual(new Map([[0n, 5]]));
    expect(at.memory.calls).not.toContain("images.newIdentity");
  });

  test("a directory", async () => {
    const at = createControllerFixture();
    const origin = await at.volume("origin", { parameters: { type: "directory" }, capacity: bytes(5n * mib) });
    const tree = at.memory.world.files.get(at.memory.host.state.volumes.paths(origin.id).data);
    if (tree?.kind !== "tree") throw new Error("no tree");
    tree.entries.set("file", "x");
    const clone = await at.volume("clone", { source: { kind: "volume", id: origin.id } });
    expect(clone).toMatchObject({ type: "directory", capacityBytes: 5n * mib });
    expect(at.memory.world.files.get(at.memory.host.state.volumes.paths(clone.id).data)).toEqual(tree);
  });

  test.each<[string, Partial<CreateVolumeInput>, string, RegExp]>([
    ["another type", { parameters: { type: "directory" } }, "INVALID_ARGUMENT", /the source is of type image/],
    ["another filesystem", { parameters: { fsType: "xfs" } }, "INVALID_ARGUMENT", /xfs, but the source carries ext4/],
    [
      "another filesystem by capability",
      { capabilities: [{ ...mounting, fsType: "xfs" }] },
      "INVALID_ARGUMENT",
      /fs_type xfs: the volume is for ext4/,
    ],
    ["a limit below it", { capacity: bytes(0n, 32n * mib) }, "OUT_OF_RANGE", /below 67108864, the size of the source/],
  ])("%s is refused", async (_, over, code, message) => {
    const at = createControllerFixture();
    const origin = await at.volume("origin");
    at.mounted(origin);
    const refusal = await refusalOf(at.volume("v", { ...over, source: { kind: "volume", id: origin.id } }));
    expect(refusal.code).toBe(code);
    expect(refusal.message).toMatch(message);
  });

  test("an image that is gone or was cut is not copied", async () => {
    const at = createControllerFixture();
    const origin = await at.volume("origin");
    const source = { kind: "volume", id: origin.id } as const;
    at.memory.imageOf("volumes", origin.id).bytes -= 4096n;
    expect(await refusalOf(at.volume("v", { source }))).toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringContaining("has 67104768 bytes instead of 67108864: it was cut"),
    });
    at.memory.world.files.clear();
    expect(await refusalOf(at.volume("v", { source }))).toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringContaining("is gone; put it back from a backup"),
    });
  });
});

describe("a clone of a volume in use", () => {
  test("of a mounted image is copied while it is frozen, and only then", async () => {
    const at = createControllerFixture();
    const origin = await at.volume("origin");
    at.mounted(origin);
    at.memory.calls.length = 0;
    await at.volume("clone", { source: { kind: "volume", id: origin.id } });
    // The memory host refuses a copy of what is mounted for writing and not frozen.
    expect(at.memory.calls.filter((call) => /freezer|copier.image|newIdentity/.test(call))).toEqual([
      "freezer.during",
      "copier.image",
      "images.newIdentity",
    ]);
    expect(at.memory.world.frozen.size).toBe(0);
  });

  test.each<[string, boolean, { readonly?: boolean; live?: boolean }, string]>([
    ["raw, with reflinks", true, {}, "OK"],
    ["raw, without reflinks", false, {}, "FAILED_PRECONDITION"],
    ["raw, without reflinks, live", false, { live: true }, "OK"],
    ["raw and read-only, without reflinks", false, { readonly: true }, "OK"],
  ])("%s: %s", async (_, reflinks, { readonly = false, live = false }, expected) => {
    const at = createControllerFixture({ reflinks });
    const origin = await at.volume("origin", { capabilities: [raw] });
    at.published(origin, { readonly });
    const source = { kind: "volume", id: origin.id } as const;
    const parameters: Record<string, string> = live ? { live: "allow" } : {};
    const made = at.volume("clone", { capabilities: [raw], source, parameters });
    if (expected === "OK") expect((await made).source).toEqual(source);
    else
      expect(await refusalOf(made)).toMatchObject({
        code: expected,
        message: expect.stringMatching(
          /in use for writing at \/target\/origin, and a raw device cannot be frozen.*live=allow/,
        ),
      });
    expect(at.memory.leftovers().filter((line) => line.includes("belongs to no record"))).toEqual([]);
  });

  test("through a raw device of which nobody can be seen to use it is refused too", async () => {
    const at = createControllerFixture({ reflinks: false });
    const origin = await at.volume("origin", { capabilities: [raw] });
    at.published(origin);
    at.memory.world.mounts.length = 0;
    const source = { kind: "volume", id: origin.id } as const;
    const refusal = await refusalOf(at.volume("clone", { capabilities: [raw], source }));
    expect(refusal.code).toBe("FAILED_PRECONDITION");
    expect(refusal.message).toContain("in use for writing at /dev/loop0, and a raw device cannot be frozen");
  });

  test.each([true, false])(
    "of which no mount can be seen is refused, with reflinks (%s) and live too",
    async (reflinks) => {
      const at = createControllerFixture({ reflinks });
      const origin = await at.volume("origin");
      at.mounted(origin);
      at.memory.world.mounts.length = 0;
      at.memory.calls.length = 0;
      const source = { kind: "volume", id: origin.id } as const;
      expect(await refusalOf(at.volume("clone", { source, parameters: { live: "allow" } }))).toMatchObject({
        code: "FAILED_PRECONDITION",
        message: expect.stringMatching(
          new RegExp(
            `${origin.id} \\("origin"\\): its image .*/${origin.id}/image is bound to /dev/loop0, and the driver does not see .* ' 7:0 ' .*unpublish and unstage`,
          ),
        ),
      });
      expect(at.memory.calls.filter((call) => call.startsWith("copier.image"))).toEqual([]);
    },
  );

  test("at whose place something is mounted that is of no device of its image is refused", async () => {
    const at = createControllerFixture();
    const origin = await at.volume("origin");
    at.mounted(origin);
    at.memory.world.loops.clear();
    const source = { kind: "volume", id: origin.id } as const;
    const refusal = {
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(
        /is in use at \/stage\/origin \(\/dev\/loop0, device 7:0\), and no loop device of its image .*\/image is mounted there/,
      ),
    };
    expect(await refusalOf(at.volume("clone", { source, parameters: { live: "allow" } }))).toMatchObject(refusal);
    expect(await refusalOf(at.snapshot("s", origin.id))).toMatchObject(refusal);
  });

  test("mounted twice, of which one is hidden: the other is frozen; hidden all: refused", async () => {
    const at = createControllerFixture();
    const origin = await at.volume("origin");
    at.mounted(origin);
    const [staged] = at.memory.world.mounts;
    if (staged === undefined) throw new Error("it is not mounted");
    // At a place that no record names.
    at.memory.world.places.set("/elsewhere", "directory");
    at.memory.world.mounts.push({ ...staged, mountPoint: "/elsewhere" });
    const over = { ...staged, dev: "7:9", source: "/dev/loop9" };
    at.memory.world.mounts.splice(0, 1);
    at.memory.world.mounts.push({ ...over, mountPoint: "/elsewhere" });
    expect(await refusalOf(at.snapshot("s", origin.id))).toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(/is mounted at \/elsewhere, and another mount hides it there/),
    });
    at.memory.world.mounts.push(staged);
    await at.snapshot("s", origin.id);
    expect(at.memory.world.frozen.size).toBe(0);
  });

  test("seen through a read-only mount alone is frozen there: it may be written elsewhere", async () => {
    const at = createControllerFixture();
    const origin = await at.volume("origin");
    at.mounted(origin);
    const [staged] = at.memory.world.mounts;
    if (staged === undefined) throw new Error("it is not mounted");
    at.memory.world.mounts.splice(0, 1, { ...staged, options: ["ro"] });
    at.memory.calls.length = 0;
    await at.snapshot("s", origin.id);
    expect(at.memory.calls).toContain("freezer.during");
  });

  test.each([
    ["writable", false, false, "FAILED_PRECONDITION"],
    ["writable, live", false, true, "OK"],
    ["read-only", true, false, "OK"],
  ])("a directory published %s", async (_, readonly, live, expected) => {
    const at = createControllerFixture();
    const origin = await at.volume("origin", { parameters: { type: "directory" } });
    at.bound(origin, { readonly });
    const source = { kind: "volume", id: origin.id } as const;
    const parameters: Record<string, string> = live ? { live: "allow" } : {};
    const made = at.volume("clone", { source, parameters });
    if (expected === "OK") expect((await made).source).toEqual(source);
    else
      expect(await refusalOf(made)).toMatchObject({
        code: expected,
        message: expect.stringMatching(/at \/target\/origin, and a directory cannot be frozen; unpublish it there/),
      });
  });
});
