/** One sync at a time for all who wait: those who come while one is under way wait for the next, together. */
import type { AuditDisk } from "./audit-disk.ts";

export interface SharedSync {
  /** Resolves when all that was written before is on disk. */
  wait(): Promise<void>;
  /** Closes a file, as soon as no sync is at it. */
  retire(fd: number): void;
}

export const createSharedSync = ({
  disk,
  run,
}: {
  readonly disk: Pick<AuditDisk, "sync" | "close">;
  /** One sync, of the file that it chooses. */
  readonly run: (through: (fd: number) => Promise<void>) => Promise<void>;
}): SharedSync => {
  const at = new Map<number, Promise<void>>();
  let under: Promise<void> | undefined;
  let next: Promise<void> | undefined;

  const through = async (fd: number): Promise<void> => {
    const done = disk.sync(fd);
    at.set(fd, done);
    try {
      await done;
    } finally {
      at.delete(fd);
    }
  };

  const start = (): Promise<void> => {
    under = run(through).finally(() => {
      under = undefined;
    });
    return under;
  };

  const wait = (): Promise<void> => {
    if (under === undefined) return start();
    const afterwards = (): Promise<void> => {
      next = undefined;
      return start();
    };
    next ??= under.then(afterwards, afterwards);
    return next;
  };

  return {
    wait,
    retire(fd) {
      const close = (): void => disk.close(fd);
      const going = at.get(fd);
      if (going === undefined) close();
      else going.then(close, close);
    },
  };
};
