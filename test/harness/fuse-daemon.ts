/**
 * A file system in user space, as a process of its own that can be stopped and killed: an empty directory, for tests of what
 * its volume does to everybody else. It speaks the kernel's protocol (linux/fuse.h) itself, so that no package is needed.
 *
 * Usage: node fuse-daemon.ts <mount point>
 */
import { spawnSync } from "node:child_process";
import { openSync, readSync, writeSync } from "node:fs";

const opcodes = {
  getattr: 3,
  open: 14,
  statfs: 17,
  release: 18,
  init: 26,
  opendir: 27,
  readdir: 28,
  releasedir: 29,
  access: 34,
} as const;
/** They have no answer: forget, interrupt and batch forget. */
const unanswered: readonly number[] = [2, 36, 42];
const noEntry = -2;
const notImplemented = -38;
const lookup = 1;
const headerBytes = 40;
const directoryMode = 0o040755;

const answer = (unique: bigint, error: number, body: Buffer = Buffer.alloc(0)): Buffer => {
  const out = Buffer.alloc(16);
  out.writeUInt32LE(16 + body.length, 0);
  out.writeInt32LE(error, 4);
  out.writeBigUInt64LE(unique, 8);
  return Buffer.concat([out, body]);
};

/** fuse_init_out of protocol 7.31: no flags, so that the kernel asks for the least. */
const initialised = (): Buffer => {
  const body = Buffer.alloc(64);
  body.writeUInt32LE(7, 0);
  body.writeUInt32LE(31, 4);
  body.writeUInt32LE(128 * 1024, 20);
  return body;
};

/** fuse_attr_out of the one directory; never kept, so that each look asks the daemon. */
const attributes = (): Buffer => {
  const body = Buffer.alloc(104);
  body.writeBigUInt64LE(1n, 16);
  body.writeUInt32LE(directoryMode, 16 + 60);
  body.writeUInt32LE(2, 16 + 64);
  return body;
};

const bodyOf = (opcode: number): Buffer | undefined => {
  switch (opcode) {
    case opcodes.init:
      return initialised();
    case opcodes.getattr:
      return attributes();
    case opcodes.opendir:
    case opcodes.open:
      return Buffer.alloc(16);
    case opcodes.statfs:
      return Buffer.alloc(80);
    case opcodes.readdir:
    case opcodes.release:
    case opcodes.releasedir:
    case opcodes.access:
      return Buffer.alloc(0);
    default:
      return undefined;
  }
};

const [place] = process.argv.slice(2);
if (place === undefined) throw new Error("usage: fuse-daemon.ts <mount point>");
const device = openSync("/dev/fuse", "r+");
const options = "fd=3,rootmode=40000,user_id=0,group_id=0,allow_other";
const mounted = spawnSync("mount", ["-i", "-t", "fuse", "-o", options, "hf-test", place], {
  stdio: ["ignore", "inherit", "inherit", device],
});
if (mounted.status !== 0) throw new Error(`the file system was not mounted: ${mounted.status}`);
process.stdout.write(`${JSON.stringify({ message: "ready" })}\n`);

const buffer = Buffer.alloc(256 * 1024);
for (;;) {
  let size = 0;
  try {
    size = readSync(device, buffer, 0, buffer.length, null);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENODEV") break;
    if (code === "EINTR" || code === "ENOENT" || code === "EAGAIN") continue;
    throw error;
  }
  if (size < headerBytes) continue;
  const opcode = buffer.readUInt32LE(4);
  const unique = buffer.readBigUInt64LE(8);
  if (unanswered.includes(opcode)) continue;
  const body = bodyOf(opcode);
  const error = body === undefined ? (opcode === lookup ? noEntry : notImplemented) : 0;
  writeSync(device, answer(unique, error, body));
}
