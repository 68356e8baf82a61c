/** The disk of an audit that fails while it is told to, and tells what was asked of it. */
import { type AuditDisk, systemDisk } from "../audit/audit-disk.ts";

export interface DiskFaults {
  /** The system's word for what fails. */
  open?: string;
  write?: string;
  sync?: string;
  /** Half of what is to be written is. */
  half?: boolean;
  /** A sync is never answered. */
  hangs?: boolean;
  room?: number;
}

const failure = (code: string): Error => Object.assign(new Error(code), { code });

export const createFaultyDisk = (course: string[] = []) => {
  const faults: DiskFaults = {};
  const disk: AuditDisk = {
    ...systemDisk,
    room: (place) => faults.room ?? systemDisk.room(place),
    open(file) {
      if (faults.open !== undefined) throw failure(faults.open);
      return systemDisk.open(file);
    },
    write(fd, bytes) {
      if (faults.half === true) return systemDisk.write(fd, bytes.subarray(0, bytes.length >> 1));
      if (faults.write !== undefined) throw failure(faults.write);
      course.push("write");
      return systemDisk.write(fd, bytes);
    },
    async sync(fd) {
      if (faults.sync !== undefined) throw failure(faults.sync);
      if (faults.hangs === true) return await new Promise(() => undefined);
      await systemDisk.sync(fd);
      course.push("sync");
    },
    syncNow(fd) {
      if (faults.sync !== undefined) throw failure(faults.sync);
      systemDisk.syncNow(fd);
    },
  };
  return { disk, faults, course };
};
