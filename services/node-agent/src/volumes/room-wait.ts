/**
 * Writes that wait for room on their disk.
 *
 * RW1 A write that finds the disk full is made again, whole and at the same place, until it is done: that writes over what was written in
 *     part, and makes anew what a sync may have dropped. RW2 Only `end` makes it give up.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "@holdfast/shared/log/logger";

export interface RoomWait {
  /** `write` is the whole write, and may be made again. */
  make(write: () => Promise<void>): Promise<void>;
  waits(): boolean;
  /** Whoever waits gives up, and so does whoever comes to wait later. */
  end(): void;
  ended(): boolean;
}

export interface RoomWaitOptions {
  readonly isFull: (error: unknown) => boolean;
  /** True: a write waits now. */
  readonly onChange: (waits: boolean) => void;
  readonly pauseMs?: number;
}

export function createRoomWait({ isFull, onChange, pauseMs = 250 }: RoomWaitOptions): RoomWait {
  const ending = new AbortController();
  let waiting = false;
  const become = (waits: boolean): void => {
    if (waiting !== waits) onChange(waits);
    waiting = waits;
  };
  return {
    async make(write) {
      for (;;) {
        try {
          await write();
          return become(false);
        } catch (error) {
          if (!isFull(error)) throw error;
        }
        become(true);
        await sleep(pauseMs, undefined, { signal: ending.signal }); // RW2
      }
    },
    waits: () => waiting,
    end: () => ending.abort(),
    ended: () => ending.signal.aborted,
  };
}

export function tellWait(log: Logger, directory: string, waits: boolean): void {
  if (waits)
    log.error("the disk of the journal is full: nothing is mounted or released until it has room", {
      directory,
      cure: "free some space; what waits then goes on by itself",
    });
  else log.info("the disk of the journal has room again, and what waited goes on", { directory });
}
