/** Every line of a running service for a while, and its own level again: at once when asked a second time, else by itself, so that no disk is filled by it. */
import type { Logger } from "./logger.ts";

export interface DebugSwitch {
  /** On, or off again. */
  flip(log: Logger): void;
  /** Off; nothing of it is left. */
  end(): void;
}

export const createDebugSwitch = (lastsMs: number): DebugSwitch => {
  let off: (() => void) | undefined;
  return {
    flip(log) {
      const asked = off !== undefined;
      off?.();
      if (asked || log.setLevel === undefined) return;
      const { setLevel } = log;
      if (log.writes("debug")) return log.warn("the log has every line already: HOLDFAST_LOG_LEVEL is debug");
      setLevel("debug");
      log.warn("the log has every line, as SIGUSR2 asked", { for_seconds: lastsMs / 1000 });
      const timer = setTimeout(() => off?.(), lastsMs).unref();
      off = () => {
        clearTimeout(timer);
        off = undefined;
        log.warn("the log has the lines of HOLDFAST_LOG_LEVEL again");
        setLevel(undefined);
      };
    },
    end: () => off?.(),
  };
};
