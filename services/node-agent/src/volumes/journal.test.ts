import { appendFile, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { ConfigError } from "@holdfast/shared/config/config-error";
import { createFailpoints } from "@holdfast/shared/failpoints";
import { describe, expect, onTestFinished, test } from "vitest";
import { type FailpointName, noFailpoints } from "../failpoints.ts";
import { type Journal, openJournal } from "./journal.ts";
import { encodeHeader } from "./journal-format.ts";
import type { JournalOptions } from "./journal-writer.ts";

async function freshDir(): Promise<string> {
  const dir = await mkdtemp(path.join(tmpdir(), "hf-journal-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

let uids = 0;
async function open(dir: string, changes: Partial<JournalOptions> = {}): Promise<Journal> {
  const journal = await openJournal({
    dir,
    machine: "m-1",
    newUid: () => {
      uids += 1;
      return `uid-${uids}`;
    },
    failpoint: noFailpoints,
    maxBytes: 1 << 30,
    minFreeBytes: 0,
    onFatal: () => undefined,
    ...changes,
  });
  onTestFinished(() => journal.close());
  return journal;
}

const noSync = () => undefined;

test("what was appended is there for the next life, under the same uid", async () => {
  const dir = await freshDir();
  const first = await open(dir);
  expect(first.records).toEqual([]);
  await first.append([{ a: 1 }, { a: 2 }], "host", noSync);
  await first.append([{ a: 3 }], "host", noSync);
  await first.close();
  const second = await open(dir);
  expect(second.uid).toBe(first.uid);
  expect(second.records).toEqual([{ a: 1 }, { a: 2 }, { a: 3 }]);
  await second.append([{ a: 4 }], "host", noSync);
  await second.close();
  expect((await open(dir)).records).toHaveLength(4);
});

test("no file is a new journal with a uid of its own", async () => {
  const dir = await freshDir();
  const first = await open(dir);
  await first.close();
  await rm(path.join(dir, "journal"));
  expect((await open(dir)).uid).not.toBe(first.uid);
});

test("[I4] waiters share a sync, in order, and are told in the order of their records", async () => {
  const dir = await freshDir();
  const journal = await open(dir);
  const told: number[] = [];
  await Promise.all(Array.from({ length: 100 }, (_, at) => journal.append([{ at }], "host", () => told.push(at))));
  expect(journal.syncs()).toBe(2); // the first alone, the ninety-nine that came meanwhile together
  expect(told).toEqual(Array.from({ length: 100 }, (_, at) => at));
  await journal.close();
  expect((await open(dir)).records).toEqual(told.map((at) => ({ at })));
});

test("synced runs before the append resolves, with the record on disk", async () => {
  const dir = await freshDir();
  const journal = await open(dir);
  let onDisk = Promise.resolve("");
  await journal.append([{ word: "durable" }], "host", () => {
    onDisk = readFile(path.join(dir, "journal"), "utf8");
  });
  expect(await onDisk).toContain("durable");
});

test("a torn end is cut and the journal goes on", async () => {
  const dir = await freshDir();
  const first = await open(dir);
  await first.append([{ a: 1 }], "host", noSync);
  await first.close();
  await appendFile(path.join(dir, "journal"), "deadbeef [2,[{");
  const second = await open(dir);
  expect(second.damage).toBeUndefined();
  await second.append([{ a: 2 }], "host", noSync);
  await second.close();
  expect((await open(dir)).records).toEqual([{ a: 1 }, { a: 2 }]);
});

test("a damaged middle is told with its place, keeps the file as it is, and takes nothing", async () => {
  const dir = await freshDir();
  const first = await open(dir);
  for (const a of [1, 2, 3]) await first.append([{ a }], "host", noSync);
  await first.close();
  const file = path.join(dir, "journal");
  const text = await readFile(file, "utf8");
  await writeFile(file, text.replace('"a":2', '"a":7'));
  const before = await readFile(file);
  const fatal: Error[] = [];
  const second = await open(dir, { onFatal: (error) => fatal.push(error) });
  expect(second.damage).toMatch(/damaged at byte \d+: a checksum does not match/);
  expect(second.uid).toBe(first.uid);
  expect(second.records).toEqual([{ a: 1 }]);
  await expect(second.append([{ a: 4 }], "host", noSync)).rejects.toThrow("damaged");
  expect(await readFile(file)).toEqual(before);
  expect(fatal).toEqual([]);
});

test("a newer format and a foreign machine are refused, with what to do", async () => {
  const newer = await freshDir();
  await writeFile(path.join(newer, "journal"), encodeHeader({ format: 99, uid: "u", machine: "m-1" }));
  await expect(open(newer)).rejects.toSatisfy(
    (error) =>
      error instanceof ConfigError && /format 99.*run the release that wrote it.*drain the node/.test(error.message),
  );
  const foreign = await freshDir();
  await (await open(foreign)).close();
  await expect(open(foreign, { machine: "m-2" })).rejects.toThrow(/belongs to machine m-1, this is m-2/);
});

test("a rewrite keeps what the snapshot says and drops the rest, also over a half-written earlier one", async () => {
  const dir = await freshDir();
  await writeFile(path.join(dir, "journal.new"), "left by a crash");
  const journal = await open(dir);
  journal.rewriteFrom(() => [[{ kept: 1 }], [{ kept: 2 }]]);
  for (let at = 0; at < 50; at += 1) await journal.append([{ at, filler: "x".repeat(1000) }], "host", noSync);
  const before = journal.bytes();
  await journal.rewrite();
  expect(journal.bytes()).toBeLessThan(before / 10);
  await journal.append([{ later: 3 }], "host", noSync);
  await journal.close();
  expect((await open(dir)).records).toEqual([{ kept: 1 }, { kept: 2 }, { later: 3 }]);
});

test("it rewrites by itself when it has outgrown what it holds", async () => {
  const dir = await freshDir();
  const journal = await open(dir);
  journal.rewriteFrom(() => [[{ kept: 1 }]]);
  for (let at = 0; at < 30; at += 1) await journal.append([{ filler: "x".repeat(50_000) }], "host", noSync);
  expect((await stat(path.join(dir, "journal"))).size).toBeLessThan(1_200_000);
});

test("full: told before it happens; releases are still written", async () => {
  const dir = await freshDir();
  const journal = await open(dir, { maxBytes: 1000 });
  expect(journal.fullBecause()).toBeUndefined();
  await journal.append([{ filler: "x".repeat(2000) }], "host", noSync);
  expect(journal.fullBecause()).toMatch(/1000 are allowed/);
  await journal.append([{ release: 1 }], "host", noSync);
  const short = await open(await freshDir(), { minFreeBytes: Number.MAX_SAFE_INTEGER });
  expect(short.fullBecause()).toMatch(/are kept for releases/);
});

test("[I4] a write that fails is the end: nothing is told, nothing more is written, the owner is told once", async () => {
  const dir = await freshDir();
  const fatal: Error[] = [];
  let fail = false;
  const failpoint = createFailpoints<FailpointName>([{ name: "agent.journal.after-write", at: 2 }], () => {
    fail = true;
    throw new Error("EIO");
  });
  const journal = await open(dir, { failpoint, onFatal: (error) => fatal.push(error) });
  await journal.append([{ a: 1 }], "host", noSync);
  const synced: number[] = [];
  await expect(journal.append([{ a: 2 }], "host", () => synced.push(2))).rejects.toThrow("EIO");
  await expect(journal.append([{ a: 3 }], "host", noSync)).rejects.toThrow("EIO");
  expect({ fail, synced, fatal: fatal.length }).toEqual({ fail: true, synced: [], fatal: 1 });
});

test("[I6] what earlier lives left is rewritten in this one: restarts do not fill the journal", async () => {
  const dir = await freshDir();
  const first = await open(dir);
  for (let at = 0; at < 30; at += 1) await first.append([{ filler: "x".repeat(50_000) }], "host", noSync);
  await first.close();
  const second = await open(dir, { maxBytes: 1_600_000 });
  second.rewriteFrom(() => [[{ kept: 1 }]]);
  await second.append([{ a: 1 }], "host", noSync);
  await second.append([{ a: 2 }], "host", noSync);
  expect(second.bytes()).toBeLessThan(1000);
  expect(second.fullBecause()).toBeUndefined();
});

test("no room for a second file: the first one goes on, whole, and the rewrite is tried again later", async () => {
  const dir = await freshDir();
  const fatal: Error[] = [];
  let fulls = 1;
  const failpoint = (name: string): void => {
    if (name !== "agent.compact.after-write" || fulls === 0) return;
    fulls -= 1;
    throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
  };
  const first = await open(dir);
  await first.append([{ a: 1 }], "host", noSync);
  await first.close();
  const journal = await open(dir, { failpoint, onFatal: (error) => fatal.push(error) });
  journal.rewriteFrom(() => [[{ kept: 1 }]]);
  await journal.rewrite();
  await journal.append([{ a: 2 }], "host", noSync);
  await journal.rewrite();
  await journal.append([{ a: 3 }], "host", noSync);
  await journal.close();
  expect(fatal).toEqual([]);
  expect((await open(dir)).records).toEqual([{ kept: 1 }, { a: 3 }]);
});

test("an append that meets the end is turned away, and is no fault of the disk", async () => {
  const dir = await freshDir();
  const fatal: Error[] = [];
  const journal = await open(dir, { onFatal: (error) => fatal.push(error) });
  const written = journal.append([{ a: 1 }], "host", noSync);
  const closing = journal.close();
  await expect(journal.append([{ a: 2 }], "host", noSync)).rejects.toThrow("closed");
  await Promise.all([written, closing]);
  expect(fatal).toEqual([]);
  expect((await open(dir)).records).toEqual([{ a: 1 }]);
});

describe("what has to outlive the process only", () => {
  const text = (dir: string) => readFile(path.join(dir, "journal"), "utf8");

  test("[I4] is told once the file has it, and synced before the next write begins", async () => {
    const dir = await freshDir();
    const order: string[] = [];
    const disk = slowDisk(order);
    const journal = await open(dir, { syncData: disk.sync });
    await journal.append([{ a: "undone" }], "process", () => order.push("told a"));
    expect(await text(dir)).toContain("undone");
    const next = journal.append([{ b: "owed" }], "host", () => order.push("told b"));
    await disk.asked;
    expect(await text(dir)).not.toContain("owed");
    disk.go();
    await next;
    expect(order).toEqual(["told a", "sync", "synced", "told b"]);
    expect(journal.syncs()).toBe(2);
  });

  test("[I4] waits for the disk with whoever asks for that in the same frame", async () => {
    const dir = await freshDir();
    const order: string[] = [];
    const journal = await open(dir, { syncData: slowDisk(order).sync });
    const first = journal.append([{ at: 0 }], "host", noSync);
    const both = [
      journal.append([{ at: 1 }], "process", () => order.push("told 1")),
      journal.append([{ at: 2 }], "host", () => order.push("told 2")),
    ];
    await Promise.all([first, ...both]);
    expect(order).toEqual(["told 1", "told 2"]); // nothing was left to be synced
    expect(journal.syncs()).toBe(2);
  });

  test("[I4] a sync behind it that fails is the end as well", async () => {
    const fatal: Error[] = [];
    const journal = await open(await freshDir(), {
      syncData: () => Promise.reject(new Error("EIO")),
      onFatal: (error) => fatal.push(error),
    });
    await journal.append([{ a: 1 }], "process", noSync);
    await expect(journal.append([{ a: 2 }], "process", noSync)).rejects.toThrow("EIO");
    expect(fatal.map(({ message }) => message)).toEqual(["EIO"]);
  });

  test("an end waits for its sync", async () => {
    const dir = await freshDir();
    const order: string[] = [];
    const disk = slowDisk(order);
    const journal = await open(dir, { syncData: disk.sync });
    await journal.append([{ a: 1 }], "process", noSync);
    const closed = journal.close().then(() => order.push("closed"));
    await disk.asked;
    disk.go();
    await closed;
    expect(order).toEqual(["sync", "synced", "closed"]);
  });
});

/** Syncs when it is told to. */
function slowDisk(order: string[]) {
  const asked = Promise.withResolvers<void>();
  const gone = Promise.withResolvers<void>();
  return {
    asked: asked.promise,
    go: gone.resolve,
    async sync() {
      order.push("sync");
      asked.resolve();
      await gone.promise;
      order.push("synced");
    },
  };
}
