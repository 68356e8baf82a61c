import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { mountTinyDisk } from "../../../test/support/tiny-disk.ts";
import { type CallLog, openCallLog } from "./call-log.ts";

let directory: string;
let file: string;
const open: CallLog[] = [];

beforeEach(() => {
  directory = mkdtempSync(path.join(tmpdir(), "hf-calls-"));
  file = path.join(directory, "calls");
});
afterEach(() => {
  for (const one of open.splice(0)) one.close();
  rmSync(directory, { recursive: true, force: true });
});

/** The life before it was killed: nobody closed its file. */
const nextLife = (most?: number): CallLog => {
  const log = openCallLog(file, most);
  open.push(log);
  return log;
};
const standing = (log: CallLog): readonly string[] => [...log.before().values()];

test("[CL1] what was put and not dropped is found by the next life, and by the one after it", () => {
  const first = nextLife();
  const [a, b] = [first.put("a"), first.put("b")];
  first.put("b2", b);
  first.drop(a);
  expect(standing(nextLife())).toEqual(["b2"]);
  const third = nextLife();
  third.put("c");
  expect(standing(third)).toEqual(["b2"]);
  third.drop(b);
  expect(standing(nextLife())).toEqual(["c"]);
});

test("[CL2] a line that was not written whole stands for no call", () => {
  nextLife().put("whole");
  appendFileSync(file, "2 tor");
  expect(standing(nextLife())).toEqual(["whole"]);
});

test("[CL3] the file stays small, whatever comes and goes, and keeps what stands", () => {
  const log = nextLife(1_000);
  log.put("stays");
  for (let i = 0; i < 500; i += 1) log.drop(log.put(`call ${i}`));
  expect(statSync(file).size).toBeLessThan(1_100);
  expect(standing(nextLife())).toEqual(["stays"]);
});

test("[CL1] what cannot be written is not answered", () => {
  const log = nextLife();
  log.close();
  expect(() => log.put("a")).toThrow("closed");
});

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: a full disk needs root, for a small tmpfs");

test.skipIf(!root)(
  "[CL1] [CL2] a full disk takes no call, its file is named, and it goes on once there is room",
  () => {
    const disk = mountTinyDisk(64);
    try {
      file = path.join(disk.dir, "calls");
      const log = nextLife();
      const stands = log.put("stands");
      disk.fill();
      const large = "x".repeat(5_000);
      for (const _twice of [1, 2]) expect(() => log.put(large)).toThrow(`the file ${file} takes no more`);
      expect(readFileSync(file, "utf8")).toBe(`${stands} stands\n`);
      // To the end of its page: from there on not a byte is taken.
      const fits = log.put("y".repeat(4096 - statSync(file).size - "2 \n".length));
      expect(() => log.put("one more")).toThrow(`the file ${file} takes no more: ENOSPC`);
      disk.empty();
      log.drop(fits);
      log.put(large);
      log.drop(stands);
      expect(standing(nextLife())).toEqual([large]);
      for (const one of open.splice(0)) one.close();
    } finally {
      disk.remove();
    }
  },
);
