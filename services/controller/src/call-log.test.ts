import { appendFileSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
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
