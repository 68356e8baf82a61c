import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { FsType } from "../domain/records.ts";
import { createHostRig, type HostRig, isRoot } from "../testing/host-rig.ts";

let rig: HostRig;
const children: ChildProcess[] = [];

const mounted = async (name: string, fsType: FsType): Promise<string> => {
  const image = rig.at(`${name}.img`);
  await rig.images.create(image, fsType === "xfs" ? 300n << 20n : 32n << 20n, rig.signal);
  await rig.images.format(image, fsType, rig.signal);
  return mountImage(name, fsType);
};

const mountImage = async (name: string, fsType: FsType): Promise<string> => {
  const { device } = await rig.loops.attach(rig.at(`${name}.img`), { readonly: false }, rig.signal);
  const place = await rig.makeDirectory(name);
  await rig.mounts.mountDevice(device, place, { fsType, options: [] }, rig.signal);
  return place;
};

const unmountAll = async (): Promise<void> => {
  for (const { mountPoint, source } of await rig.mounts.table()) {
    if (!mountPoint.startsWith(`${rig.stateDir}/`)) continue;
    await rig.mounts.unmount(mountPoint, rig.signal);
    const image = `${mountPoint}.img`;
    for (const loop of await rig.loops.of(image))
      if (loop.device === source) await rig.loops.detach(loop, image, rig.signal);
  }
};

/** A frozen filesystem lets nobody write: the child that tries is stopped in the kernel. */
const isFrozen = async (place: string): Promise<boolean> => {
  const child = spawn("touch", [path.join(place, "probe")], { stdio: "ignore" });
  children.push(child);
  const ended = once(child, "exit").then(() => false);
  return Promise.race([ended, new Promise<boolean>((resolve) => setTimeout(() => resolve(true), 300))]);
};

describe.skipIf(!isRoot)("freezing (as root)", () => {
  beforeEach(async () => {
    rig = await createHostRig();
  });
  afterEach(async () => {
    await unmountAll();
    for (const child of children.splice(0)) child.kill("SIGKILL");
    expect(await rig.close()).toEqual([]);
  });

  it.each(["ext4", "xfs"] as const)(
    "a copy of a frozen %s under a writer is consistent, mounts beside its original, and has what was written before",
    async (fsType) => {
      const place = await mounted("volume", fsType);
      // Each file is complete before the next one is begun.
      const writer = spawn(
        "sh",
        [
          "-c",
          `n=0; while :; do n=$((n+1)); head -c 20000 /dev/zero | tr '\\0' x > ${place}/tmp; mv ${place}/tmp ${place}/file-$n; echo $n; done`,
        ],
        { stdio: ["ignore", "pipe", "inherit"] },
      );
      children.push(writer);
      let written = 0;
      writer.stdout.on("data", (text) => {
        written = Number(`${text}`.trim().split("\n").at(-1));
      });
      while (written < 20) await once(writer.stdout, "data");

      let before = 0;
      const answer = await rig.freezer.during(
        [place],
        async () => {
          before = written;
          await rig.copier.image(rig.at("volume.img"), rig.at("copy.img"), rig.signal);
          return "copied";
        },
        rig.signal,
      );
      expect(answer).toBe("copied");
      while (written <= before + 5) await once(writer.stdout, "data");
      const ended = once(writer, "exit");
      writer.kill("SIGKILL");
      await ended;

      await rig.images.newIdentity(rig.at("copy.img"), fsType, rig.signal);
      if (fsType === "ext4") await rig.run("e2fsck", ["-f", "-n", rig.at("copy.img")], { signal: rig.signal });
      else await rig.run("xfs_repair", ["-n", rig.at("copy.img")], { signal: rig.signal });
      const copy = await mountImage("copy", fsType);
      const files = (await readdir(copy)).filter((name) => name.startsWith("file-"));
      expect(files.length).toBeGreaterThanOrEqual(before);
      expect(files.length).toBeLessThan(written);
      for (const file of files) expect((await readFile(path.join(copy, file))).length).toBe(20000);
    },
  );

  it("writers wait, and go on afterwards; it can be done again", async () => {
    const place = await mounted("volume", "ext4");
    for (const round of [1, 2]) {
      const frozen = await rig.freezer.during([place], () => isFrozen(place), rig.signal);
      expect([round, frozen, await isFrozen(place)]).toEqual([round, true, false]);
    }
  });

  it("all of a group are frozen together, and thawed though the act fails", async () => {
    const places = [await mounted("one", "ext4"), await mounted("two", "ext4")];
    const seen: boolean[] = [];
    const failing = async () => {
      seen.push(...(await Promise.all(places.map(isFrozen))));
      throw new Error("the copy failed");
    };
    await expect(rig.freezer.during(places, failing, rig.signal)).rejects.toThrow("the copy failed");
    expect(seen).toEqual([true, true]);
    expect(await Promise.all(places.map(isFrozen))).toEqual([false, false]);
  });

  it("when one of a group cannot be frozen, none stays so, and the act is not done", async () => {
    const places = [await mounted("one", "ext4"), await mounted("two", "ext4")];
    await rig.run("fsfreeze", ["-f", places[1] ?? ""], { signal: rig.signal });
    const act = async () => expect.unreachable();
    await expect(rig.freezer.during(places, act, rig.signal)).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(/two is frozen already, by somebody else.*fsfreeze -u/),
    });
    // What somebody else froze is theirs to thaw.
    expect(await Promise.all(places.map(isFrozen))).toEqual([false, true]);
    await rig.freezer.thaw(places[1] ?? "", rig.signal);
    expect(await isFrozen(places[1] ?? "")).toBe(false);
  });

  it("a caller that gives up in the act finds it thawed", async () => {
    const place = await mounted("volume", "ext4");
    const controller = new AbortController();
    const act = async () => {
      controller.abort();
      await rig.copier.image(rig.at("volume.img"), rig.at("copy.img"), controller.signal);
    };
    await expect(rig.freezer.during([place], act, controller.signal)).rejects.toMatchObject({ code: "CANCELLED" });
    expect(await isFrozen(place)).toBe(false);
    expect(await readdir(rig.stateDir)).not.toContain("copy.img");
  });

  it("the host's own filesystem is never frozen, though nothing is mounted there any more", async () => {
    const place = await mounted("volume", "ext4");
    await unmountAll();
    const act = async () => expect.unreachable();
    for (const path of [place, rig.stateDir, "/"]) {
      await expect(rig.freezer.during([path], act, rig.signal)).rejects.toMatchObject({
        code: "FAILED_PRECONDITION",
        message: expect.stringMatching(/is not frozen: .*stage it again/),
      });
      await rig.freezer.thaw(path, rig.signal);
    }
    await writeFile(rig.at("file"), "the host goes on");
  });

  it("thawing what is not frozen is no error, nor is naming one twice", async () => {
    const place = await mounted("volume", "ext4");
    await rig.freezer.thaw(place, rig.signal);
    expect(await rig.freezer.during([place, `${place}/`], async () => 1, rig.signal)).toBe(1);
    expect(await isFrozen(place)).toBe(false);
  });

  it("with nothing to freeze it is just done", async () => {
    expect(await rig.freezer.during([], async () => 7, rig.signal)).toBe(7);
  });
});
