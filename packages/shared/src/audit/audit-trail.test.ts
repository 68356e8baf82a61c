import {
  appendFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { createMemoryLogger, type MemoryLogger } from "../log/logger.ts";
import { createFaultyDisk } from "../testing/faulty-disk.ts";
import { systemDisk } from "./audit-disk.ts";
import { type AuditTrail, type AuditTrailOptions, AuditUnwritable, openAuditTrail } from "./audit-trail.ts";
import { verifyAudit } from "./verify-audit.ts";

let directory: string;
let log: MemoryLogger;
let missing: number;

beforeEach(() => {
  directory = path.join(mkdtempSync(path.join(tmpdir(), "hf-audit-")), "audit");
  onTestFinished(() => rmSync(path.dirname(directory), { recursive: true, force: true }));
  log = createMemoryLogger();
  missing = 0;
});

const open = (options: Partial<AuditTrailOptions> = {}): AuditTrail => {
  const trail = openAuditTrail({
    directory,
    name: "acts",
    by: { service: "test" },
    maxFiles: 3,
    disk: systemDisk,
    now: () => 1_700_000_000_000,
    log,
    onMissing(lines) {
      missing += lines;
    },
    ...options,
  });
  onTestFinished(() => trail.close());
  return trail;
};

const files = (): readonly string[] => readdirSync(directory).sort();
const lines = (): readonly Record<string, unknown>[] =>
  files().flatMap((name) =>
    readFileSync(path.join(directory, name), "utf8")
      .split("\n")
      .filter((line) => line !== "")
      .map((line): Record<string, unknown> => JSON.parse(line)),
  );
const kinds = () => lines().map(({ kind }) => kind);
const sound = () => verifyAudit([directory]);
const act = (n: number) => ({ kind: "act", n });

describe("a trail", () => {
  test("is for its owner alone, and every line stands in it at once", () => {
    const trail = open();
    expect(trail.append(act(1))).toBe(true);
    expect(kinds()).toEqual(["opened", "act"]);
    expect(statSync(directory).mode & 0o777).toBe(0o700);
    expect(statSync(path.join(directory, files()[0] ?? "")).mode & 0o777).toBe(0o600);
    expect(files()).toEqual(["acts-0000000000000001.jsonl"]);
  });

  test("is on disk when commit resolves, and those who wait at once share a sync", async () => {
    const { disk, course } = createFaultyDisk();
    const trail = open({ disk });
    course.length = 0;
    await trail.commit(act(1));
    expect(course).toEqual(["write", "sync"]);
    course.length = 0;
    await Promise.all([2, 3, 4, 5].map((n) => trail.commit(act(n))));
    expect(course.filter((word) => word === "sync")).toHaveLength(2);
    expect(kinds()).toHaveLength(6);
  });

  test("goes on over restarts as one chain", () => {
    for (const n of [1, 2, 3]) {
      const trail = open();
      trail.append(act(n));
      trail.close();
    }
    expect(kinds()).toEqual(["opened", "act", "closed", "opened", "act", "closed", "opened", "act", "closed"]);
    expect(sound()).toMatchObject({ trails: [{ count: 9, first: 1, head: { seq: 9 } }] });
  });

  test("cuts off what a crash left of a line, and says so", () => {
    const first = open();
    first.append(act(1));
    appendFileSync(path.join(directory, files()[0] ?? ""), '{"seq":3,"prev":"00');
    const trail = open();
    trail.append(act(2));
    expect(kinds()).toEqual(["opened", "act", "opened", "act"]);
    expect(lines()[2]).toMatchObject({ seq: 3, cut_bytes: 19 });
    expect(sound()).toMatchObject({ trails: [{ count: 4 }] });
  });

  test("that a crash cut anywhere in its last line goes on as a sound chain", () => {
    open().append(act(1));
    const file = path.join(directory, files()[0] ?? "");
    const whole = readFileSync(file);
    const end = whole.subarray(0, -1).lastIndexOf(0x0a) + 1;
    for (let size = end; size <= whole.length; size += 7) {
      writeFileSync(file, whole.subarray(0, size));
      open().append(act(2));
      expect(sound()).toMatchObject({ trails: [{ first: 1 }] });
    }
  });

  test("leaves a last line that is none as it is, goes on in a new file, and the damage is found", () => {
    open().append(act(1));
    appendFileSync(path.join(directory, files()[0] ?? ""), "no line\n");
    const trail = open();
    trail.append(act(2));
    expect(files()).toHaveLength(2);
    expect(readFileSync(path.join(directory, files()[1] ?? ""), "utf8")).toContain(
      '"damaged":"acts-0000000000000001.jsonl"',
    );
    expect(sound()).toMatchObject({ bad: { line: 3, reason: expect.stringContaining("no line of an audit file") } });
  });

  test("begins a new file where one is full, keeps so many, and says which lines are gone with the others", () => {
    const trail = open({ maxBytes: 600 });
    for (let n = 0; n < 40; n += 1) trail.append(act(n));
    expect(files()).toHaveLength(3);
    const verdict = sound();
    expect(verdict).toMatchObject({ trails: [{ files: 3, first: Number((files()[0] ?? "").slice(5, 21)) }] });
    trail.close();
    open({ maxBytes: 600 }).append(act(41));
    expect(sound()).toMatchObject({ trails: [{}] });
    // Somebody else removes the oldest one: no line says so.
    rmSync(path.join(directory, files()[0] ?? ""));
    expect(sound()).toMatchObject({ bad: { line: 1, reason: expect.stringContaining("removed for their age") } });
  });

  test("of which a file in the middle is gone, or bears another name, is not sound", () => {
    const trail = open({ maxBytes: 200, maxFiles: 9 });
    for (let n = 0; n < 8; n += 1) trail.append(act(n));
    const [, second = "", third = "", fourth] = files();
    const moved = path.join(directory, third);
    const text = readFileSync(moved);
    rmSync(moved);
    expect(sound()).toMatchObject({ bad: { file: fourth, reason: /missing before it/ } });
    writeFileSync(moved, text);
    expect(sound()).toHaveProperty("trails");
    writeFileSync(path.join(directory, second.replace(/\d(?=\.)/, "9")), readFileSync(path.join(directory, second)));
    expect(sound()).toHaveProperty("bad");
  });

  test("of which the file bears the number of another line is not sound", () => {
    open().close();
    renameSync(path.join(directory, files()[0] ?? ""), path.join(directory, "acts-0000000000000002.jsonl"));
    expect(sound()).toMatchObject({
      bad: { line: 1, reason: expect.stringContaining("as the name of the file says") },
    });
  });

  test("tells two trails of one directory apart", () => {
    open().append(act(1));
    open({ name: "calls" }).append(act(2));
    expect(sound()).toMatchObject({
      trails: [
        { trail: "acts", count: 2 },
        { trail: "calls", count: 2 },
      ],
    });
  });
});

describe("a disk that fails", () => {
  test.each(["ENOSPC", "EROFS", "EIO"])(
    "with %s is told once, counted, and the chain says how many lines are missing",
    async (code) => {
      const { disk, faults } = createFaultyDisk();
      const trail = open({ disk });
      faults.write = code;
      expect(trail.append(act(1))).toBe(false);
      await expect(trail.commit(act(2))).rejects.toEqual(new AuditUnwritable(directory, code));
      expect(trail.append(act(3))).toBe(false);
      expect(trail.failing()).toMatchObject({ code });
      expect(missing).toBe(3);
      expect(log.lines.filter(({ level }) => level === "error")).toHaveLength(1);
      delete faults.write;
      expect(trail.append(act(4))).toBe(true);
      expect(trail.failing()).toBeUndefined();
      expect(lines().slice(1)).toMatchObject([{ kind: "gap", missing: 3, code }, { n: 4 }]);
      expect(sound()).toMatchObject({ trails: [{ count: 3, missing: 3 }] });
      trail.append(act(5));
      expect(kinds()).toEqual(["opened", "gap", "act", "act"]);
    },
  );

  test("in the middle of a line leaves nothing of it", () => {
    const { disk, faults } = createFaultyDisk();
    const trail = open({ disk });
    faults.half = true;
    expect(trail.append(act(1))).toBe(false);
    delete faults.half;
    trail.append(act(2));
    expect(kinds()).toEqual(["opened", "gap", "act"]);
    expect(sound()).toHaveProperty("trails");
  });

  test("takes back all that a failed sync may have lost, and tells it as missing", async () => {
    const { disk, faults } = createFaultyDisk();
    const trail = open({ disk });
    await trail.commit(act(1));
    faults.sync = "EIO";
    const refused = [trail.commit(act(2)), trail.commit(act(3))];
    trail.append(act(4));
    for (const one of refused) await expect(one).rejects.toThrow(AuditUnwritable);
    expect(missing).toBe(3);
    await expect(trail.commit(act(5))).rejects.toThrow(/EIO/);
    expect(missing).toBe(4);
    expect(log.lines.filter(({ level }) => level === "error")).toHaveLength(1);
    delete faults.sync;
    await trail.commit(act(6));
    expect(trail.failing()).toBeUndefined();
    expect(lines()).toMatchObject([{ kind: "opened" }, { n: 1 }, { kind: "gap", missing: 4, code: "EIO" }, { n: 6 }]);
    expect(sound()).toHaveProperty("trails");
  });

  test("fails a commit whose line was taken back, although the sync that it waited for succeeds", async () => {
    const { disk, faults } = createFaultyDisk();
    const trail = open({ disk });
    faults.sync = "EIO";
    const both = Promise.allSettled([trail.commit(act(1)), trail.commit(act(2))]);
    delete faults.sync;
    expect((await both).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(kinds()).not.toContain("act");
  });

  test("at the start stops nothing: the trail begins when it can", () => {
    const { disk, faults } = createFaultyDisk();
    faults.open = "EROFS";
    const trail = open({ disk });
    expect(trail.failing()).toMatchObject({ code: "EROFS" });
    expect(trail.append(act(1))).toBe(false);
    delete faults.open;
    expect(trail.append(act(2))).toBe(true);
    expect(kinds()).toEqual(["opened", "gap", "act"]);
  });

  test("that has no room for a new file loses no line that the old one takes", () => {
    const { disk, faults } = createFaultyDisk();
    const trail = open({ disk, maxBytes: 200 });
    trail.append(act(1));
    faults.open = "ENOSPC";
    expect(trail.append(act(2))).toBe(false);
    delete faults.open;
    expect(trail.append(act(3))).toBe(true);
    expect(files()).toHaveLength(2);
    expect(sound()).toMatchObject({ trails: [{ missing: 1 }] });
  });

  test("keeps its last 32 MiB: no file is begun there", () => {
    const { disk, faults } = createFaultyDisk();
    const trail = open({ disk, maxBytes: 200 });
    trail.append(act(1));
    faults.room = 32 * 1024 * 1024;
    expect(trail.append(act(2))).toBe(false);
    expect(trail.failing()).toMatchObject({ code: "ENOSPC" });
    faults.room += 200;
    expect(trail.append(act(3))).toBe(true);
    expect(sound()).toMatchObject({ trails: [{ missing: 1 }] });
  });

  test("makes a commit fail after the trail was closed", async () => {
    const trail = open();
    trail.close();
    await expect(trail.commit(act(1))).rejects.toThrow(AuditUnwritable);
  });
});
