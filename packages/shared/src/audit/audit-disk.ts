/** What the audit asks of a file system. A port, so that tests plant a full disk. */
import {
  closeSync,
  existsSync,
  fdatasync,
  fdatasyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  statfsSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { syncDirectory } from "../durable-text.ts";

export interface AuditDisk {
  makeDirectory(directory: string): void;
  /** Bytes that this user may still write there. */
  room(directory: string): number;
  /** For writing at its end; made for its owner alone, under a name that outlives a loss of power. */
  open(file: string): number;
  /** Answers how much of it was written. */
  write(fd: number, bytes: Uint8Array): number;
  truncate(fd: number, size: number): void;
  sync(fd: number): Promise<void>;
  syncNow(fd: number): void;
  close(fd: number): void;
  remove(file: string): void;
}

const openLasting = (file: string): number => {
  const isNew = !existsSync(file);
  const fd = openSync(file, "a", 0o600);
  if (isNew) syncDirectory(path.dirname(file));
  return fd;
};

export const systemDisk: AuditDisk = {
  makeDirectory: (directory) => void mkdirSync(directory, { recursive: true, mode: 0o700 }),
  room(directory) {
    const { bavail, bsize } = statfsSync(directory);
    return bavail * bsize;
  },
  open: openLasting,
  write: (fd, bytes) => writeSync(fd, bytes),
  truncate: ftruncateSync,
  sync: promisify(fdatasync),
  syncNow: fdatasyncSync,
  close: closeSync,
  remove: unlinkSync,
};
