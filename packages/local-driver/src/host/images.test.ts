/** mkfs, blkid and fsck work on files, so that nothing here needs root. What needs a mount is in image-filesystems.test.ts. */
import { chmod, mkdtemp, open, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { FsType } from "../domain/records.ts";
import type { Images, Loops } from "../ports.ts";
import { createImages } from "./images.ts";
import { createRunTool, type RunTool } from "./run-tool.ts";

const signal = new AbortController().signal;
const MiB = 1 << 20;
const least: Readonly<Record<FsType, bigint>> = { ext4: 16n << 20n, xfs: 300n << 20n };
const unused = () => {
  throw new Error("no loop device is needed here");
};
const noLoops: Loops = { of: unused, attach: unused, detach: unused, refresh: unused };

let dir: string;
let image: string;
let run: RunTool;
let images: Images;

beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-images-"));
  image = path.join(dir, "image");
  run = createRunTool({ stateDir: dir, nodeId: "node-a", path: `${dir}/bin:${process.env["PATH"]}` });
  images = createImages({ run, loops: noLoops });
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const write = async (text: string | Buffer, position: number): Promise<void> => {
  const file = await open(image, "r+");
  await file.write(Buffer.from(text), 0, undefined, position);
  await file.close();
};

const script = async (name: string, text: string): Promise<void> => {
  await run("mkdir", ["-p", path.join(dir, "bin")], { signal });
  await writeFile(path.join(dir, "bin", name), `#!/bin/sh\n${text}\n`);
  await chmod(path.join(dir, "bin", name), 0o755);
};

describe("the file", () => {
  it("is sparse, of the exact size, and of nobody else's reading", async () => {
    await images.create(image, 10n << 30n, signal);
    const { size, blocks, mode } = await stat(image);
    expect([size, blocks, mode & 0o777]).toEqual([10 * 1024 * MiB, 0, 0o600]);
    expect(await images.sizeOf(image)).toBe(10n << 30n);
    expect(await images.contents(image, signal)).toEqual({ kind: "blank" });
  });

  it("is never made over another, and that one stays", async () => {
    await writeFile(image, "precious");
    await expect(images.create(image, 4096n, signal)).rejects.toMatchObject({
      message: expect.stringMatching(/EEXIST/),
    });
    expect(await readFile(image, "utf8")).toBe("precious");
  });

  it("is not left behind when the filesystem takes no such size", async () => {
    await expect(images.create(image, 1n << 52n, signal)).rejects.toMatchObject({ code: "OUT_OF_RANGE" });
    await expect(stat(image)).rejects.toMatchObject({ code: "ENOENT" });
  });

  it("grows and never shrinks, and keeps what is in it", async () => {
    await images.create(image, 8192n, signal);
    await write("kept", 100);
    await images.grow(image, 1n << 20n, signal);
    await images.grow(image, 4096n, signal);
    expect(await images.sizeOf(image)).toBe(1n << 20n);
    expect((await readFile(image)).toString("utf8", 100, 104)).toBe("kept");
    await expect(images.grow(path.join(dir, "none"), 1n, signal)).rejects.toThrow(/cannot grow .*none.*ENOENT/);
  });

  it("is left alone when the caller has given up", async () => {
    await expect(images.create(image, 4096n, AbortSignal.abort())).rejects.toMatchObject({ code: "CANCELLED" });
    await expect(stat(image)).rejects.toMatchObject({ code: "ENOENT" });
  });
});

describe("what it carries", () => {
  it.each<[string, string | Buffer, number]>([
    ["a word in the middle, and no signature", "hello", 3 * MiB + 1],
    ["its last byte", Buffer.from([1]), 8 * MiB - 1],
    ["its first byte", Buffer.from([0x80]), 0],
  ])("data: %s", async (_what, text, position) => {
    await images.create(image, 8n << 20n, signal);
    await write(text, position);
    expect(await images.contents(image, signal)).toEqual({ kind: "data", offset: BigInt(position) });
  });

  it.each<[string, readonly (readonly [string | Buffer, number])[], object]>([
    ["squashfs", [[squashfs(), 0]], { kind: "filesystem", fsType: "squashfs" }],
    [
      "swap",
      [
        ["SWAPSPACE2", 4086],
        [Buffer.from([1, 0, 0, 0, 255]), 1024],
      ],
      { kind: "signature", name: "swap" },
    ],
    ["LUKS", [[Buffer.from("LUKS\xba\xbe\x00\x01", "latin1"), 0]], { kind: "signature", name: "crypto_LUKS" }],
    [
      "an LVM member",
      [
        ["LABELONE", 512],
        [lvmLabel(), 520],
      ],
      { kind: "signature", name: "LVM2_member" },
    ],
    [
      "a partition table",
      [
        [partitionTable(), 446],
        [Buffer.from([0x55, 0xaa]), 510],
      ],
      { kind: "signature", name: "dos partition table" },
    ],
  ])("the signature of %s", async (_what, pieces, expected) => {
    await images.create(image, 8n << 20n, signal);
    for (const [bytes, position] of pieces) await write(bytes, position);
    expect(await images.contents(image, signal)).toEqual(expected);
  });

  it("half a signature, or one whose checksum is wrong, is not blank either", async () => {
    await images.create(image, 8n << 20n, signal);
    await write("_BHRfS_M", 0x10040);
    expect(await images.contents(image, signal)).not.toEqual({ kind: "blank" });
  });

  it("two signatures that contradict each other are no blank image", async () => {
    await images.create(image, least.xfs, signal);
    await images.format(image, "xfs", signal);
    await write(Buffer.from([0x53, 0xef]), 1024 + 0x38);
    expect(["signature", "filesystem"]).toContain((await images.contents(image, signal)).kind);
  });

  it("is not known of a file that is not there, and then it is not blank", async () => {
    await expect(images.contents(image, signal)).rejects.toMatchObject({
      message: expect.stringMatching(/cannot read .*ENOENT/),
    });
  });

  it("is not known when blkid says something else, and then it is not blank", async () => {
    await images.create(image, 8n << 20n, signal);
    await script("blkid", "echo 'blkid: error: cannot open: Input/output error' >&2; exit 2");
    await expect(images.contents(image, signal)).rejects.toThrow(/Input\/output error; nothing was changed/);
    await script("blkid", "echo USAGE=other");
    await expect(images.contents(image, signal)).rejects.toThrow(/blkid answered "USAGE=other\\n"/);
    await script("blkid", "exit 4");
    await expect(images.contents(image, signal)).rejects.toMatchObject({ code: "INTERNAL" });
    await script("blkid", "exit 8");
    expect(await images.contents(image, signal)).toEqual({
      kind: "signature",
      name: "several contradicting signatures",
    });
  });
});

describe.each(["ext4", "xfs"] as const)("a new %s", (fsType) => {
  it("is what was asked for, healthy, sparse, and as large as its file", async () => {
    await images.create(image, least[fsType], signal);
    await images.format(image, fsType, signal);
    expect(await images.contents(image, signal)).toEqual({ kind: "filesystem", fsType });
    if (fsType === "ext4") await run("e2fsck", ["-f", "-n", image], { signal });
    else await run("xfs_repair", ["-n", image], { signal });
    expect((await stat(image)).blocks * 512).toBeLessThan(Number(least[fsType]) / 3);
    expect((await images.extents(image, signal)).length).toBeGreaterThan(1);
  });

  it("is made again over one that was not finished", async () => {
    await images.create(image, least[fsType], signal);
    await images.format(image, fsType, signal);
    await images.format(image, fsType, signal);
    await images.format(image, fsType === "xfs" ? "ext4" : fsType, signal);
  });

  it("names the package when mkfs is not there, and leaves the image blank", async () => {
    await images.create(image, least[fsType], signal);
    await run("mkdir", [path.join(dir, "bin")], { signal });
    for (const program of ["blkid", "filefrag"])
      await run("ln", ["-s", (await run("which", [program], { signal })).stdout.trim(), path.join(dir, "bin")], {
        signal,
      });
    const bare = createImages({
      run: createRunTool({ stateDir: dir, nodeId: "node-a", path: path.join(dir, "bin") }),
      loops: noLoops,
    });
    await expect(bare.format(image, fsType, signal)).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(/^mkfs\.\w+ is not installed on node node-a: apt-get install (e2fs|xfs)progs$/),
    });
    expect(await bare.contents(image, signal)).toEqual({ kind: "blank" });
  });

  it("is killed in the middle with its caller, and writes no more", async () => {
    await images.create(image, least[fsType], signal);
    const real = (await run("which", [`mkfs.${fsType}`], { signal })).stdout.trim();
    // Stops half-way for ever, as it would over a disk that does not answer; then goes on writing if it lives.
    await script(
      `mkfs.${fsType}`,
      `for last; do :; done; printf half | dd of="$last" bs=1 seek=5000 conv=notrunc 2>/dev/null; touch ${dir}/begun; sleep 0.4; exec ${real} "$@"`,
    );
    const controller = new AbortController();
    const formatting = images.format(image, fsType, controller.signal);
    while (!(await stat(path.join(dir, "begun")).catch(() => undefined))) await sleep(5);
    controller.abort();
    await expect(formatting).rejects.toMatchObject({ code: "CANCELLED" });
    const before = await readFile(image);
    await sleep(600);
    expect((await readFile(image)).equals(before)).toBe(true);
    expect(await images.contents(image, signal)).toEqual({ kind: "data", offset: 5000n });
    await rm(path.join(dir, "bin"), { recursive: true });
    await images.format(image, fsType, signal);
    expect(await images.contents(image, signal)).toEqual({ kind: "filesystem", fsType });
  });
});

it("an image that was cut off to nothing is not formatted, and a missing one is not made", async () => {
  await writeFile(image, "");
  await expect(images.format(image, "ext4", signal)).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
  await expect(images.format(`${image}2`, "ext4", signal)).rejects.toThrow(/ENOENT/);
  await expect(stat(`${image}2`)).rejects.toMatchObject({ code: "ENOENT" });
});

describe("fitting an ext4 to its file", () => {
  const bytesOf = async (): Promise<bigint> => {
    const { stdout } = await run("dumpe2fs", ["-h", image], { signal });
    return BigInt(/Block count:\s+(\d+)/.exec(stdout)?.[1] ?? 0) * BigInt(/Block size:\s+(\d+)/.exec(stdout)?.[1] ?? 0);
  };
  beforeEach(async () => {
    await images.create(image, least.ext4, signal);
    await images.format(image, "ext4", signal);
  });

  it("grows it after the file, and leaves it healthy", async () => {
    expect(await bytesOf()).toBe(least.ext4);
    await images.grow(image, 200n << 20n, signal);
    await images.fitUnmounted(image, "ext4", signal);
    expect(await bytesOf()).toBe(200n << 20n);
    await run("e2fsck", ["-f", "-n", image], { signal });
  });

  it("does nothing when it fits: it does not even write", async () => {
    await images.grow(image, least.ext4 + 4095n, signal);
    const before = await readFile(image);
    await images.fitUnmounted(image, "ext4", signal);
    expect((await readFile(image)).equals(before)).toBe(true);
  });

  it("refuses a file that was cut off, and changes nothing", async () => {
    await truncate(image, 12 * MiB);
    const before = await readFile(image);
    await expect(images.fitUnmounted(image, "ext4", signal)).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(/is cut off: it has 12582912 bytes, its filesystem 16777216/),
    });
    expect((await readFile(image)).equals(before)).toBe(true);
  });

  it("refuses what is not ext4, and what a person has to repair", async () => {
    await images.grow(image, 32n << 20n, signal);
    await write(Buffer.alloc(64 * 1024, 0xa5), 4096);
    await expect(images.fitUnmounted(image, "ext4", signal)).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(/needs a person: e2fsck -f -p ended with \d+/),
    });
    await write(Buffer.alloc(8192), 0);
    await expect(images.fitUnmounted(image, "ext4", signal)).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(/does not carry ext4.*nothing was changed/),
    });
  });

  it("a growth that was begun goes on to its end, though the caller gives up", async () => {
    await images.grow(image, 64n << 20n, signal);
    const real = (await run("which", ["resize2fs"], { signal })).stdout.trim();
    await script("resize2fs", `touch ${dir}/begun; sleep 0.2; exec ${real} "$@"`);
    const controller = new AbortController();
    const fitting = images.fitUnmounted(image, "ext4", controller.signal);
    while (!(await stat(path.join(dir, "begun")).catch(() => undefined))) await sleep(5);
    controller.abort();
    await fitting;
    expect(await bytesOf()).toBe(64n << 20n);
  });

  it("gets another UUID and stays healthy", async () => {
    const uuid = async () =>
      /UUID=(.*)/.exec((await run("blkid", ["-p", "-o", "export", image], { signal })).stdout)?.[1];
    const before = await uuid();
    await images.newIdentity(image, "ext4", signal);
    expect(await uuid()).toMatch(/^[0-9a-f-]{36}$/);
    expect(await uuid()).not.toBe(before);
    await run("e2fsck", ["-f", "-n", image], { signal });
  });
});

function squashfs(): Buffer {
  const block = Buffer.alloc(96);
  block.write("hsqs");
  block.writeUInt32LE(131072, 12);
  block.writeUInt16LE(4, 28);
  block.writeBigUInt64LE(96n, 40);
  return block;
}

function lvmLabel(): Buffer {
  // Sector 1, the offset of the header, the type; blkid checks the sum.
  const label = Buffer.alloc(512 - 8);
  label.writeBigUInt64LE(1n, 0);
  label.writeUInt32LE(32, 12);
  label.write("LVM2 001", 16);
  label.write("abcdefghijklmnopqrstuvwxyzABCDEF", 24);
  label.writeUInt32LE(lvmSum(label.subarray(12)), 8);
  return label;
}

function lvmSum(bytes: Buffer): number {
  let sum = 0xf597a6cf;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return sum >>> 0;
}

function partitionTable(): Buffer {
  const entry = Buffer.alloc(16);
  entry[4] = 0x83;
  entry.writeUInt32LE(2048, 8);
  entry.writeUInt32LE(8192, 12);
  return entry;
}
