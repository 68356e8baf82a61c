/** Filesystems of images on loop devices, mounted: growth, identity, and numbers that are used again at once. */
import { readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { FsType } from "../domain/records.ts";
import type { LoopDevice } from "../ports.ts";
import { createHostRig, type HostRig, isRoot } from "../testing/host-rig.ts";

const MiB = 1n << 20n;
const least: Readonly<Record<FsType, bigint>> = { ext4: 16n * MiB, xfs: 300n * MiB };
let rig: HostRig;

const make = async (name: string, fsType: FsType): Promise<string> => {
  await rig.images.create(rig.at(name), least[fsType], rig.signal);
  await rig.images.format(rig.at(name), fsType, rig.signal);
  return rig.at(name);
};

const mounted = async (image: string, fsType: FsType): Promise<{ loop: LoopDevice; place: string }> => {
  const loop = await rig.loops.attach(image, { readonly: false }, rig.signal);
  const place = await rig.makeDirectory(`${path.basename(image)}.mnt`);
  await rig.mounts.mountDevice(loop.device, place, { fsType, options: [] }, rig.signal);
  return { loop, place };
};

const taken = async (image: string, { loop, place }: { loop: LoopDevice; place: string }): Promise<void> => {
  await rig.mounts.unmount(place, rig.signal);
  await rig.loops.detach(loop, image, rig.signal);
};

const uuidOf = async (image: string): Promise<string | undefined> =>
  /^UUID=(.*)$/m.exec((await rig.run("blkid", ["-p", "-o", "export", image], { signal: rig.signal })).stdout)?.[1];

describe.skipIf(!isRoot)("filesystems of images (as root)", () => {
  beforeEach(async () => {
    rig = await createHostRig();
  });
  afterEach(async () => {
    expect(await rig.close()).toEqual([]);
  });

  it("xfs grows while it is mounted, and again is no error", async () => {
    const image = await make("image", "xfs");
    const use = await mounted(image, "xfs");
    const before = await rig.filesystems.usage(use.place, rig.signal);
    await rig.images.grow(image, 600n * MiB, rig.signal);
    await rig.loops.refresh(use.loop, rig.signal);
    for (const _ of [1, 2]) await rig.images.fitMounted(use.loop.device, use.place, "xfs", rig.signal);
    const after = await rig.filesystems.usage(use.place, rig.signal);
    expect(after.bytes.total - before.bytes.total).toBeGreaterThan(290n * MiB);
    await taken(image, use);
  });

  it("ext4 grows while it is mounted, or says what to do; after that it grows unmounted, with its data", async () => {
    const image = await make("image", "ext4");
    const use = await mounted(image, "ext4");
    await writeFile(path.join(use.place, "file"), "kept");
    await rig.images.grow(image, 64n * MiB, rig.signal);
    await rig.loops.refresh(use.loop, rig.signal);
    const growing = rig.images.fitMounted(use.loop.device, use.place, "ext4", rig.signal);
    const refused = await growing.then(
      () => undefined,
      (error: unknown) => error,
    );
    if (refused !== undefined)
      expect(refused).toMatchObject({
        code: "FAILED_PRECONDITION",
        message: expect.stringMatching(
          /lacks CAP_SYS_RESOURCE: unstage the volume and stage it again, and it grows then/,
        ),
      });
    await taken(image, use);
    await rig.images.fitUnmounted(image, "ext4", rig.signal);
    const again = await mounted(image, "ext4");
    expect((await rig.filesystems.usage(again.place, rig.signal)).bytes.total).toBeGreaterThan(50n * MiB);
    expect(await readFile(path.join(again.place, "file"), "utf8")).toBe("kept");
    await taken(image, again);
  });

  it.each(["ext4", "xfs"] as const)(
    "a copy of a mounted %s with a full journal gets an identity of its own, keeps its data, and mounts beside its original",
    async (fsType) => {
      const image = await make("image", fsType);
      const use = await mounted(image, fsType);
      for (let n = 0; n < 50; n += 1) await writeFile(path.join(use.place, `file-${n}`), `text ${n}`);
      await rig.run("sync", ["-f", use.place], { signal: rig.signal });
      // Not frozen: its journal is to be replayed, as after a loss of power.
      await rig.copier.image(image, rig.at("copy"), rig.signal);
      const copy = rig.at("copy");
      await rig.images.newIdentity(copy, fsType, rig.signal);
      expect(await uuidOf(copy)).toMatch(/^[0-9a-f-]{36}$/);
      expect(await uuidOf(copy)).not.toBe(await uuidOf(image));
      expect(await rig.loops.of(copy)).toEqual([]);
      const beside = await mounted(copy, fsType);
      expect(await readFile(path.join(beside.place, "file-49"), "utf8")).toBe("text 49");
      expect((await readdir(beside.place)).filter((name) => name.startsWith("file-")).length).toBe(50);
      await taken(copy, beside);
      // A copy of the copy, and the same once more: a call that was killed is repeated.
      await rig.images.newIdentity(copy, fsType, rig.signal);
      await taken(image, use);
    },
  );

  it("an xfs that cannot be mounted keeps no device and no mount, and says so", async () => {
    const image = await make("image", "xfs");
    await rig.run("dd", ["if=/dev/urandom", `of=${image}`, "bs=512", "seek=1", "count=7", "conv=notrunc"], {
      signal: rig.signal,
    });
    await expect(rig.images.newIdentity(image, "xfs", rig.signal)).rejects.toMatchObject({ code: "INTERNAL" });
    expect([await rig.loops.of(image), await rig.leftovers()]).toEqual([[], []]);
    await expect(rig.images.newIdentity(image, "ext4", rig.signal)).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(/does not carry ext4/),
    });
  });

  it("a device number that is used again at once shows what it carries now, twenty times", async () => {
    for (let round = 0; round < 20; round += 1) {
      const fsType = round % 2 === 0 ? "xfs" : "ext4";
      const image = rig.at(`image-${round}`);
      await rig.images.create(image, least[fsType], rig.signal);
      expect(await rig.images.contents(image, rig.signal)).toEqual({ kind: "blank" });
      await rig.images.format(image, fsType, rig.signal);
      expect(await rig.images.contents(image, rig.signal)).toEqual({ kind: "filesystem", fsType });
      const use = await mounted(image, fsType);
      await writeFile(path.join(use.place, "round"), String(round));
      const [shown] = (await rig.mounts.table()).filter(({ mountPoint }) => mountPoint === use.place);
      expect([shown?.fsType, shown?.dev]).toEqual([fsType, use.loop.dev]);
      await taken(image, use);
      expect(await rig.images.contents(image, rig.signal)).toEqual({ kind: "filesystem", fsType });
    }
    expect(await rig.leftovers()).toEqual([]);
  });
});
