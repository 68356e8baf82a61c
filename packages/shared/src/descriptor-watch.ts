/**
 * Says that this process, or its host, has no file descriptor left. Connections are then turned away before anything of ours sees them, so
 * that nothing else would tell.
 */
import { closeSync, openSync } from "node:fs";
import { type Clock, systemClock } from "./async/clock.ts";
import type { Logger } from "./log/logger.ts";

export interface DescriptorWatchOptions {
  readonly log: Pick<Logger, "error" | "info">;
  readonly signal: AbortSignal;
  readonly clock?: Clock;
  /** Takes one descriptor and gives it back. */
  readonly probe?: () => void;
}

const lookMs = 5_000;

const cures: Readonly<Record<string, string>> = {
  EMFILE: "find who holds connections to it, or raise its limit (LimitNOFILE= of the unit, ulimit -n)",
  ENFILE: "the whole host has none left: raise fs.file-max, or end what holds them",
};

const openOne = (): void => closeSync(openSync("/dev/null", "r"));

export const watchDescriptors = ({
  log,
  signal,
  clock = systemClock,
  probe = openOne,
}: DescriptorWatchOptions): void => {
  let lacking: string | undefined;
  const found = (): string | undefined => {
    try {
      probe();
      return undefined;
    } catch (error) {
      const code = String((error as NodeJS.ErrnoException).code);
      return cures[code] === undefined ? undefined : code;
    }
  };
  const look = (): void => {
    if (signal.aborted) return;
    const now = found();
    if (now !== undefined && now !== lacking)
      log.error("no file descriptor is left: connections are turned away, and what needs a file waits", {
        code: now,
        cure: cures[now],
      });
    if (now === undefined && lacking !== undefined)
      log.info("there are file descriptors again, and what waited goes on", { code: lacking });
    lacking = now;
    clock.timer(lookMs, look);
  };
  clock.timer(lookMs, look);
};
