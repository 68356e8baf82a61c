import {
  chmod,
  link,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  symlink,
  truncate,
  utimes,
  writeFile,
} from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createHostRig, type HostRig, isRoot } from "../testing/host-rig.ts";
import { createCopier } from "./copier.ts";
import { createRunTool } from "./run-tool.ts";

const MiB = 1 << 20;
let rig: HostRig;
let from: string;
let to: string;

beforeEach(async () => {
  rig = await createHostRig();
  from = rig.at("from");
  to = rig.at("to");
});
afterEach(async () => {
  expect(await rig.close()).toEqual([]);
});

const isThere = (file: string): Promise<boolean> =>
  lstat(file).then(
    () => true,
    () => false,
  );

/** A cp that hangs when half of its work is done. */
const hangingCopier = async () => {
  await mkdir(rig.at("bin"));
  const real = (await rig.run("which", ["cp"], { signal: rig.signal })).stdout.trim();
  await writeFile(rig.at("bin/cp"), `#!/bin/sh\n${real} "$@"; touch ${rig.at("begun")}; sleep 600\n`);
  await chmod(rig.at("bin/cp"), 0o755);
  const run = createRunTool({
    stateDir: rig.stateDir,
    nodeId: "node-a",
    path: `${rig.at("bin")}:${process.env["PATH"]}`,
  });
  const controller = new AbortController();
  const begun = async () => {
    while (!(await isThere(rig.at("begun")))) await sleep(5);
  };
  return { copier: createCopier({ run, stateDir: rig.stateDir }), controller, begun };
};

describe("an image", () => {
  it("is copied byte for byte, and holes stay holes, also those that were written as zeros", async () => {
    await writeFile(from, "");
    await truncate(from, 128 * MiB);
    const file = await open(from, "r+");
    await file.write(Buffer.from("begin"), 0, 5, 0);
    await file.write(Buffer.alloc(8 * MiB), 0, 8 * MiB, 64 * MiB);
    await file.write(Buffer.from("end"), 0, 3, 128 * MiB - 3);
    await file.close();
    await rig.copier.image(from, to, rig.signal);
    await rig.run("cmp", ["--", from, to], { signal: rig.signal });
    expect((await stat(to)).size).toBe(128 * MiB);
    expect((await stat(to)).blocks * 512).toBeLessThan(MiB);
  });

  it("is never copied over anything", async () => {
    await writeFile(from, "new");
    await writeFile(to, "precious");
    await expect(rig.copier.image(from, to, rig.signal)).rejects.toThrow(/is there already/);
    expect(await readFile(to, "utf8")).toBe("precious");
    await rm(to);
    await mkdir(to);
    await expect(rig.copier.image(from, to, rig.signal)).rejects.toThrow(/is there already/);
    expect(await readdir(to)).toEqual([]);
  });

  it("has no copy when the original is not there", async () => {
    await expect(rig.copier.image(from, to, rig.signal)).rejects.toMatchObject({ code: "INTERNAL" });
    expect(await isThere(to)).toBe(false);
  });

  it("whose copy is given up in the middle leaves nothing", async () => {
    await writeFile(from, Buffer.alloc(4 * MiB, 1));
    const { copier, controller, begun } = await hangingCopier();
    const copying = copier.image(from, to, controller.signal);
    await begun();
    expect((await stat(to)).size).toBe(4 * MiB);
    controller.abort(new DOMException("", "TimeoutError"));
    await expect(copying).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
    expect(await isThere(to)).toBe(false);
    expect((await readFile(from)).equals(Buffer.alloc(4 * MiB, 1))).toBe(true);
  });

  it("whose source hangs is given up, too", async () => {
    await rig.run("mkfifo", [from], { signal: rig.signal });
    const copying = rig.copier.image(from, to, AbortSignal.timeout(100));
    await expect(copying).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
    expect(await isThere(to)).toBe(false);
  });
});

describe("a tree", () => {
  beforeEach(async () => {
    await mkdir(from);
  });

  const fill = async (): Promise<void> => {
    await mkdir(path.join(from, "sub dir"));
    await writeFile(path.join(from, "sub dir", "-n\nline"), "text");
    await chmod(path.join(from, "sub dir", "-n\nline"), 0o640);
    await link(path.join(from, "sub dir", "-n\nline"), path.join(from, "hard"));
    await symlink("../../outside", path.join(from, "soft"));
    await rig
      .run("setfattr", ["-n", "user.kind", "-v", "x", path.join(from, "hard")], { signal: rig.signal, judges: [0, 1] })
      .catch(() => undefined);
    await rig.run("mkfifo", [path.join(from, "pipe")], { signal: rig.signal });
    await chmod(from, 0o2775);
    await utimes(path.join(from, "hard"), 1000, 2000);
    await utimes(from, 3000, 4000);
  };

  it.each(["absent", "empty"])("is copied with all that belongs to it: the place is %s", async (place) => {
    await fill();
    if (place === "empty") await mkdir(to, { mode: 0o700 });
    await rig.copier.tree(from, to, rig.signal);
    expect((await readdir(to)).sort()).toEqual(["hard", "pipe", "soft", "sub dir"]);
    expect(await readFile(path.join(to, "sub dir", "-n\nline"), "utf8")).toBe("text");
    expect(await readlink(path.join(to, "soft"))).toBe("../../outside");
    expect((await lstat(path.join(to, "pipe"))).isFIFO()).toBe(true);
    const [hard, other, root] = await Promise.all(
      ["hard", "sub dir/-n\nline", "."].map((name) => stat(path.join(to, name))),
    );
    expect([hard?.mode, hard?.mtimeMs, hard?.nlink, hard?.ino === other?.ino]).toEqual([0o100640, 2_000_000, 2, true]);
    expect([root?.mode, root?.mtimeMs]).toEqual([0o42775, 4_000_000]);
  });

  it.runIf(isRoot)("keeps owners, extended attributes and ACLs", async () => {
    await writeFile(path.join(from, "file"), "x");
    await rig.run("chown", ["-R", "1234:5678", from], { signal: rig.signal });
    // By the system calls behind setfattr and setfacl, whose packages may not be there.
    const acl = "0200000001000700ffffffff020007009a020000040005ffffffffff10000700ffffffff20000500ffffffff";
    const set = `import os; os.setxattr(${JSON.stringify(path.join(from, "file"))}, "user.kind", b"x"); os.setxattr(${JSON.stringify(from)}, "system.posix_acl_default", bytes.fromhex("${acl.replace("040005ff", "04000500")}"))`;
    const read = `import os, sys; print(os.getxattr(sys.argv[1] + "/file", "user.kind"), os.getxattr(sys.argv[1], "system.posix_acl_default").hex())`;
    const python = await rig.run("python3", ["-c", set], { signal: rig.signal }).catch(() => undefined);
    await rig.copier.tree(from, to, rig.signal);
    const { uid, gid } = await stat(path.join(to, "file"));
    expect([uid, gid]).toEqual([1234, 5678]);
    if (python === undefined) return;
    const [before, after] = await Promise.all(
      [from, to].map((it) => rig.run("python3", ["-c", read, it], { signal: rig.signal })),
    );
    expect(after?.stdout).toBe(before?.stdout);
    expect(after?.stdout).toMatch(/^b'x' 02000000/);
  });

  it("is never copied into one that holds anything", async () => {
    await mkdir(to);
    await writeFile(path.join(to, "precious"), "");
    await expect(rig.copier.tree(from, to, rig.signal)).rejects.toThrow(/is not empty/);
    expect(await readdir(to)).toEqual(["precious"]);
  });

  it.each([
    ["absent", false],
    ["empty", true],
  ])("whose copy is given up in the middle leaves the place %s, as it was", async (_place, keep) => {
    await fill();
    if (keep) await mkdir(to);
    const { copier, controller, begun } = await hangingCopier();
    const copying = copier.tree(from, to, controller.signal);
    await begun();
    controller.abort();
    await expect(copying).rejects.toMatchObject({ code: "CANCELLED" });
    expect(await isThere(to)).toBe(keep);
    if (keep) expect(await readdir(to)).toEqual([]);
    expect((await readdir(from)).length).toBe(4);
  });
});

it("reflinks are not claimed where there are none, and trying leaves nothing", async () => {
  expect(await rig.copier.reflinks()).toBe(false);
  expect(await readdir(rig.stateDir)).toEqual([]);
});

it("whether there are reflinks is asked again after a failure to tell", async () => {
  const nowhere = createCopier({ run: rig.run, stateDir: rig.at("later") });
  await expect(nowhere.reflinks()).rejects.toThrow(/cannot try whether files of .*later can be reflinked: ENOENT/);
  await mkdir(rig.at("later"));
  expect(await nowhere.reflinks()).toBe(false);
});

describe.runIf(isRoot)("where the filesystem has reflinks (xfs, as root)", () => {
  let inside: HostRig;
  beforeEach(async () => {
    await rig.images.create(from, 400n << 20n, rig.signal);
    await rig.images.format(from, "xfs", rig.signal);
    const { device } = await rig.loops.attach(from, { readonly: false }, rig.signal);
    await rig.mounts.mountDevice(device, await rig.makeDirectory("xfs"), { fsType: "xfs", options: [] }, rig.signal);
    inside = await createHostRig({ parent: rig.at("xfs") });
  });
  afterEach(async () => {
    expect(await inside.close()).toEqual([]);
    await rig.mounts.unmount(rig.at("xfs"), rig.signal);
    const [loop] = await rig.loops.of(from);
    if (loop !== undefined) await rig.loops.detach(loop, from, rig.signal);
  });

  it("a copy shares every block with its original", async () => {
    expect(await inside.copier.reflinks()).toBe(true);
    await writeFile(inside.at("image"), Buffer.alloc(64 * MiB, 7));
    await truncate(inside.at("image"), 100 * MiB);
    const file = await open(inside.at("image"));
    await file.sync();
    await file.close();
    const before = await inside.space.freeBytes();
    await inside.copier.image(inside.at("image"), inside.at("copy"), inside.signal);
    expect(before - (await inside.space.freeBytes())).toBeLessThan(BigInt(MiB));
    await rig.run("cmp", ["--", inside.at("image"), inside.at("copy")], { signal: rig.signal });
    expect(await inside.images.extents(inside.at("copy"), inside.signal)).toEqual([{ offset: 0n, length: 64n << 20n }]);
  });

  it("a copy that cannot share is refused: it would not be one moment's picture", async () => {
    await inside.copier.reflinks();
    await writeFile(rig.at("elsewhere"), "another filesystem");
    await expect(inside.copier.image(rig.at("elsewhere"), inside.at("copy"), inside.signal)).rejects.toMatchObject({
      code: "INTERNAL",
      message: expect.stringMatching(/failed to clone/),
    });
    expect(await isThere(inside.at("copy"))).toBe(false);
  });
});

it("a full disk refuses the copy with a word that says so, and leaves nothing", async () => {
  if (!isRoot) return;
  const small = await rig.makeDirectory("small");
  await rig.run("mount", ["-t", "tmpfs", "-o", "size=4m", "tmpfs", small], { signal: rig.signal });
  try {
    const full = await createHostRig({ parent: small });
    await writeFile(from, Buffer.alloc(16 * MiB, 3));
    await expect(full.copier.image(from, full.at("copy"), full.signal)).rejects.toMatchObject({
      code: "RESOURCE_EXHAUSTED",
    });
    await mkdir(rig.at("tree"));
    await writeFile(rig.at("tree/file"), Buffer.alloc(16 * MiB, 3));
    await expect(full.copier.tree(rig.at("tree"), full.at("copy"), full.signal)).rejects.toMatchObject({
      code: "RESOURCE_EXHAUSTED",
      message: expect.stringMatching(/delete volumes or snapshots/),
    });
    expect(await readdir(full.stateDir)).toEqual([]);
    expect(await full.space.freeBytes()).toBeGreaterThan(3n << 20n);
  } finally {
    await rig.mounts.unmount(small, rig.signal);
  }
});
