import { describe, expect, test } from "vitest";
import type { VolumeRecord } from "../domain/records.ts";
import type { Host } from "../ports.ts";
import { CallerFault } from "./caller-fault.ts";
import { mounting } from "./controller-fixture.ts";
import { Killed } from "./memory-faults.ts";
import { createMemoryHost, type MemoryHost } from "./memory-host.ts";

const mib = 1n << 20n;
const { signal } = new AbortController();
const staging = { path: "/stage", capability: mounting };

const record = (over: Partial<VolumeRecord> = {}): VolumeRecord => ({
  kind: "volume",
  id: "v",
  name: "volume",
  type: "image",
  capacityBytes: 16n * mib,
  createdAt: "2026-01-01T00:00:00.000Z",
  parameters: {},
  source: undefined,
  mutable: {},
  format: undefined,
  attachments: [],
  staging: undefined,
  publications: [],
  ...over,
});

const image = "/state/volumes/v/image";

const withVolume = async (over: Partial<VolumeRecord> = {}): Promise<MemoryHost> => {
  const memory = createMemoryHost();
  memory.world.places.set("/stage", "directory");
  await memory.host.state.volumes.add(record(), (paths) => memory.host.images.create(paths.image, 16n * mib, signal));
  if (Object.keys(over).length > 0) await memory.host.state.volumes.change("v", (volume) => ({ ...volume, ...over }));
  return memory;
};

/** In the order in which NodeStageVolume has to do it. */
const staged = async (): Promise<MemoryHost> => {
  const memory = await withVolume({ staging, format: { fsType: "ext4", finished: false } });
  const { images, loops, mounts, state } = memory.host;
  await images.format(image, "ext4", signal);
  await state.volumes.change("v", (volume) => ({ ...volume, format: { fsType: "ext4", finished: true } }));
  const loop = await loops.attach(image, { readonly: false }, signal);
  await mounts.mountDevice(loop.device, "/stage", { fsType: "ext4", options: ["noatime"] }, signal);
  return memory;
};

test("what is done in the right order is done, and seen", async () => {
  const memory = await staged();
  expect(await memory.host.mounts.table()).toEqual([
    {
      mountPoint: "/stage",
      root: "/",
      dev: "7:0",
      fsType: "ext4",
      source: "/dev/loop0",
      options: ["rw", "noatime"],
      superOptions: ["rw"],
    },
  ]);
  expect(memory.leftovers()).toEqual([`/dev/loop0 has ${image}`, "/dev/loop0 is mounted at /stage"]);
  expect(await memory.host.images.contents(image, signal)).toEqual({ kind: "filesystem", fsType: "ext4" });
  await memory.host.mounts.unmount("/stage", signal);
  await memory.host.mounts.unmount("/stage", signal);
  for (const loop of await memory.host.loops.of(image)) await memory.host.loops.detach(loop, image, signal);
  expect(memory.leftovers()).toEqual([]);
});

describe("a caller that breaks a rule is told so, loudly", () => {
  const loop0 = { device: "/dev/loop0", dev: "7:0", readonly: false };
  test.each<[string, () => Promise<MemoryHost>, (host: Host, memory: MemoryHost) => Promise<unknown>, RegExp]>([
    [
      "mkfs without an intent",
      withVolume,
      (host) => host.images.format(image, "ext4", signal),
      /without a stored intent/,
    ],
    [
      "mkfs of another filesystem than intended",
      () => withVolume({ format: { fsType: "xfs", finished: false } }),
      (host) => host.images.format(image, "ext4", signal),
      /without a stored intent/,
    ],
    [
      "mkfs over data",
      () => withVolume({ format: { fsType: "ext4", finished: false } }),
      (host, memory) => {
        memory.write("v", mib, 1, 9);
        return host.images.format(image, "ext4", signal);
      },
      /not blank/,
    ],
    [
      "an intent over data",
      withVolume,
      (host, memory) => {
        memory.write("v", mib, 1, 9);
        return host.state.volumes.change("v", (volume) => ({ ...volume, format: { fsType: "ext4", finished: false } }));
      },
      /intent to format contents that are not blank/,
    ],
    [
      "a format called finished that is not",
      () => withVolume({ format: { fsType: "ext4", finished: false } }),
      (host) => host.state.volumes.change("v", (volume) => ({ ...volume, format: { fsType: "ext4", finished: true } })),
      /called finished that is not there/,
    ],
    [
      "a device without a record of why",
      withVolume,
      (host) => host.loops.attach(image, { readonly: false }, signal),
      /no record announces/,
    ],
    [
      "a device before mkfs has ended",
      () => withVolume({ staging, format: { fsType: "ext4", finished: false } }),
      (host) => host.loops.attach(image, { readonly: false }, signal),
      /before mkfs has ended/,
    ],
    ["a second device", staged, (host) => host.loops.attach(image, { readonly: false }, signal), /second read-write/],
    [
      "a mount of what has no filesystem",
      () => withVolume({ staging }),
      async (host) => {
        await host.loops.attach(image, { readonly: false }, signal);
        return await host.mounts.mountDevice("/dev/loop0", "/stage", { fsType: "ext4", options: [] }, signal);
      },
      /not what its image carries/,
    ],
    [
      "a mount that the record does not name",
      staged,
      (host) => host.mounts.mountDevice("/dev/loop0", "/elsewhere", { fsType: "ext4", options: [] }, signal),
      /record of the volume does not announce/,
    ],
    [
      "a mount over a mount",
      staged,
      (host) => host.mounts.mountDevice("/dev/loop0", "/stage", { fsType: "ext4", options: [] }, signal),
      /a mount over a mount/,
    ],
    [
      "a bind that no record names",
      staged,
      (host) => host.mounts.bind("/stage", "/target", { readonly: false }, signal),
      /no record announces/,
    ],
    [
      "a device let go of under a mount",
      staged,
      (host) => host.loops.detach(loop0, image, signal),
      /while \/stage uses it/,
    ],
    [
      "a volume removed under a mount",
      staged,
      (host) => host.state.volumes.remove("v"),
      /while \/dev\/loop0 has its image/,
    ],
    [
      "a staging forgotten while mounted",
      staged,
      (host) => host.state.volumes.change("v", (volume) => ({ ...volume, staging: undefined })),
      /forgotten while it is mounted/,
    ],
    [
      "a copy of what is being written",
      staged,
      (host) => host.copier.image(image, "/copy", signal),
      /mounted and not frozen/,
    ],
    [
      "a check of what is mounted",
      staged,
      (host) => host.images.fitUnmounted(image, "ext4", signal),
      /fsck while it is mounted/,
    ],
    [
      "an unmount of what is frozen",
      staged,
      (host) => host.freezer.during(["/stage"], () => host.mounts.unmount("/stage", signal), signal),
      /a thaw is owed/,
    ],
    [
      "a second freeze",
      staged,
      (host) =>
        host.freezer.during(["/stage"], () => host.freezer.during(["/stage"], async () => undefined, signal), signal),
      /frozen twice/,
    ],
    ["a place removed under a mount", staged, (host) => host.places.remove("/stage"), /removed while mounted/],
    [
      "a capacity that the image has not",
      withVolume,
      (host) => host.state.volumes.change("v", (volume) => ({ ...volume, capacityBytes: 32n * mib })),
      /a capacity was stored that its image has not/,
    ],
    [
      "a name twice",
      withVolume,
      (host) => host.state.volumes.add(record({ id: "w" }), async () => undefined),
      /a second volume named/,
    ],
    [
      "a volume without contents",
      withVolume,
      (host) => host.state.volumes.add(record({ id: "w", name: "w" }), async () => undefined),
      /filled with other contents/,
    ],
    ["an image over a file", withVolume, (host) => host.images.create(image, mib, signal), /would be overwritten/],
    ["an odd size", withVolume, (host) => host.images.create("/x", mib + 1n, signal), /an image of 1048577 bytes/],
  ])("%s", async (_, prepare, act, message) => {
    const memory = await prepare();
    const failure = await act(memory.host, memory).then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(CallerFault);
    expect(String(failure)).toMatch(message);
    expect(memory.world.frozen.size).toBe(0);
  });
});

describe("records", () => {
  test("are copies: nobody changes what is stored by changing what he got", async () => {
    const memory = await withVolume();
    const got = memory.host.state.volumes.get("v");
    Object.assign(got ?? {}, { name: "another" });
    expect(memory.host.state.volumes.get("v")?.name).toBe("volume");
    expect(memory.host.state.volumes.byName("volume")?.id).toBe("v");
  });

  test("that cannot be read are refused by id and by name, and stay", async () => {
    const memory = await withVolume();
    memory.breakRecord("volume", "v");
    const { volumes } = memory.host.state;
    for (const read of [() => volumes.get("v"), () => volumes.byName("volume")])
      expect(read).toThrow(/\/state\/volumes\/v\/record\.json cannot be read/);
    await expect(volumes.remove("v")).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
    expect(volumes.byName("other")).toBeUndefined();
    expect(memory.host.state.broken).toHaveLength(1);
    expect(memory.leftovers()).toEqual([]);
  });

  test("with a name that is lost too, no name is free", async () => {
    const memory = await withVolume();
    memory.breakRecord("volume", "v", { hideName: true });
    await expect(
      memory.host.state.volumes.add(record({ id: "w", name: "w" }), async () => undefined),
    ).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
  });

  test("an addition that fails leaves nothing, one that is killed leaves nothing at the next start", async () => {
    const memory = createMemoryHost();
    const add = (host: Host, end: () => Promise<void>) =>
      host.state.volumes.add(record(), async (paths) => {
        await host.images.create(paths.image, 16n * mib, signal);
        await end();
      });
    await expect(add(memory.host, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
    expect(memory.world.files.size).toBe(0);
    memory.inject({ on: "images.create", kind: "die", when: "after" });
    const killed = memory.host;
    await expect(add(killed, async () => undefined)).rejects.toBeInstanceOf(Killed);
    expect([...memory.world.files.keys()]).toEqual(["/state/making/v/image"]);
    const reborn = memory.restart();
    expect(memory.world.files.size).toBe(0);
    await add(reborn, async () => undefined);
    await expect(killed.state.volumes.remove("v")).rejects.toBeInstanceOf(Killed);
    expect(memory.records.volumes.size).toBe(1);
  });
});

describe("faults", () => {
  test("fail so many times, after so many calls, and are used up", async () => {
    const memory = await withVolume();
    memory.inject({ on: "images.sizeOf", skip: 1, times: 2, kind: "fail", code: "UNAVAILABLE", message: "busy" });
    const ask = () => memory.host.images.sizeOf(image).catch((error: Error) => error.message);
    expect([await ask(), await ask(), await ask(), await ask()]).toEqual([16n * mib, "busy", "busy", 16n * mib]);
    expect(memory.pendingFaults()).toEqual([]);
    expect(memory.calls.filter((call) => call === "images.sizeOf")).toHaveLength(4);
  });

  test("lose the answer of what was done", async () => {
    const memory = await withVolume();
    memory.inject({ on: "images.grow", kind: "lost", code: "INTERNAL" });
    await expect(memory.host.images.grow(image, 32n * mib, signal)).rejects.toMatchObject({ code: "INTERNAL" });
    expect(memory.imageOf("volumes", "v").bytes).toBe(32n * mib);
  });

  test("hang until the signal aborts; a call that was given none cannot", async () => {
    const memory = await withVolume();
    memory.inject({ on: "images.grow", kind: "hang" }, { on: "images.sizeOf", kind: "hang" });
    const caller = new AbortController();
    const growing = memory.host.images.grow(image, 32n * mib, caller.signal);
    caller.abort(new Error("left"));
    await expect(growing).rejects.toThrow("left");
    expect(memory.imageOf("volumes", "v").bytes).toBe(16n * mib);
    await expect(memory.host.images.sizeOf(image)).rejects.toBeInstanceOf(CallerFault);
    await expect(memory.host.images.contents(image, caller.signal)).rejects.toThrow("left");
  });

  test("kill while frozen: the freeze stays until somebody thaws it", async () => {
    const memory = await staged();
    const dead = memory.host;
    memory.inject({ on: "space.freeBytes", kind: "die", when: "before" });
    await expect(dead.freezer.during(["/stage"], () => dead.space.freeBytes(), signal)).rejects.toBeInstanceOf(Killed);
    expect(memory.leftovers()).toContain("7:0 is frozen");
    expect(() => memory.write("v", 0n, 1, 1)).toThrow(CallerFault);
    await memory.restart().freezer.thaw("/stage", signal);
    expect(memory.leftovers()).not.toContain("7:0 is frozen");
    memory.reboot();
    expect(memory.leftovers()).toEqual([]);
  });
});

test("paths in the mount table are spelled without the links above them", async () => {
  const memory = await staged();
  memory.world.links.set("/link", "");
  expect(await memory.host.places.resolve("/link/stage")).toBe("/stage");
  await memory.host.mounts.unmount("/link/stage", signal);
  expect(await memory.host.mounts.table()).toEqual([]);
});
