/** The wall clock of one process, set by a test while the process runs; its monotonic clock goes on as it is. Needs libfaketime. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

const library = [
  process.env["HOLDFAST_LIBFAKETIME"] ?? "",
  "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
  "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
].find((file) => file !== "" && existsSync(file));

/** Undefined: clocks can be faked here. */
export const noFakeClock =
  library === undefined ? "libfaketime is not here (apt-get install libfaketime, or HOLDFAST_LIBFAKETIME)" : undefined;

export interface FakeClock {
  /** For the environment of the process. */
  readonly env: Readonly<Record<string, string>>;
  /** How far it is ahead of ours from now on, as `+3h`, `-5d` or `+0`. The process sees it within a second. */
  set(ahead: string): void;
  remove(): void;
}

export const createFakeClock = (): FakeClock => {
  const dir = mkdtempSync(path.join(tmpdir(), "hf-clock-"));
  const file = path.join(dir, "clock");
  const set = (ahead: string): void => writeFileSync(file, `${ahead}\n`);
  set("+0");
  return {
    env: {
      LD_PRELOAD: library ?? "",
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_CACHE_DURATION: "1",
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
      // The file times of directories that are watched are those of the kernel.
      NO_FAKE_STAT: "1",
    },
    set,
    remove: () => rmSync(dir, { recursive: true, force: true }),
  };
};
