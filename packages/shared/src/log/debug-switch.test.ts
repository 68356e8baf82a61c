import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createDebugSwitch } from "./debug-switch.ts";
import { createLogger, type LogLevel } from "./logger.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const logAt = (level: LogLevel) => {
  const lines: string[] = [];
  const log = createLogger({
    level,
    destination: { write: (line) => void lines.push((JSON.parse(line) as { readonly message: string }).message) },
  });
  return { log, lines };
};

test("it ends by itself", () => {
  const { log, lines } = logAt("error");
  const child = log.child({ part: "a" });
  const debug = createDebugSwitch(1_000);
  debug.flip(log);
  child.debug("seen");
  vi.advanceTimersByTime(999);
  child.debug("seen too");
  vi.advanceTimersByTime(1);
  child.debug("not seen");
  expect(lines).toEqual([
    "the log has every line, as SIGUSR2 asked",
    "seen",
    "seen too",
    "the log has the lines of HOLDFAST_LOG_LEVEL again",
  ]);
  expect(vi.getTimerCount()).toBe(0);
});

test("asked again it ends at once, and a third time it begins anew with all of its time", () => {
  const { log } = logAt("info");
  const debug = createDebugSwitch(1_000);
  debug.flip(log);
  vi.advanceTimersByTime(600);
  debug.flip(log);
  expect(log.writes("debug")).toBe(false);
  debug.flip(log);
  vi.advanceTimersByTime(600);
  expect(log.writes("debug")).toBe(true);
  vi.advanceTimersByTime(400);
  expect(log.writes("debug")).toBe(false);
});

test("a service that logs every line is told so, and stays as it is", () => {
  const { log, lines } = logAt("debug");
  const debug = createDebugSwitch(1_000);
  debug.flip(log);
  debug.flip(log);
  expect(lines.every((line) => line.includes("HOLDFAST_LOG_LEVEL is debug"))).toBe(true);
  expect([log.writes("debug"), vi.getTimerCount()]).toEqual([true, 0]);
});
