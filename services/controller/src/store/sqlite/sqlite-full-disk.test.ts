import { randomUUID } from "node:crypto";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { mountTinyDisk } from "../../../../../test/support/tiny-disk.ts";
import { createStateFile } from "../state-file.ts";
import { commitOf, ref, write } from "../test-commits.ts";
import { createSqliteStore, type SqliteStore } from "./sqlite-store.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: a full disk needs root, for a small tmpfs");

const open = (file: string): SqliteStore => {
  const store = createSqliteStore({ file, now: () => 1_700_000_000_000, uuid: randomUUID });
  onTestFinished(() => store.close());
  return store;
};

const tinyDisk = (kibibytes: number) => {
  const disk = mountTinyDisk(kibibytes);
  onTestFinished(() => disk.remove());
  return disk;
};

/** The files as a process that is killed now leaves them, on a disk with room. */
const leftBehind = (dir: string): string => {
  const copy = mkdtempSync(path.join(tmpdir(), "hf-sqlite-"));
  onTestFinished(() => rmSync(copy, { recursive: true, force: true }));
  cpSync(dir, copy, { recursive: true, filter: (from) => path.basename(from) !== "filler" });
  return path.join(copy, "store.db");
};

test.skipIf(!root)(
  "[D3] a full disk refuses commits without a doubt, keeps what was acknowledged, and takes them once it has room",
  async () => {
    const disk = tinyDisk(2_048);
    const file = path.join(disk.dir, "store.db");
    const store = open(file);
    const body = "x".repeat(20_000);
    let acknowledged = 0;
    const next = () => store.commit(commitOf([write("k", acknowledged, `${acknowledged}${body}`)]));
    for (; acknowledged < 3; acknowledged += 1) expect(await next()).toMatchObject({ ok: true });
    disk.fill();
    // What the write-ahead log has room for is taken still.
    let refusal: unknown;
    while (refusal === undefined)
      await next().then(
        () => (acknowledged += 1),
        (error: unknown) => {
          refusal = error;
        },
      );
    expect(refusal).toMatchObject({
      kind: "unavailable",
      reason: "STORE_UNAVAILABLE",
      message: expect.stringMatching(/store\.db failed: .*full; nothing was written, and free some space/),
    });
    for (const _again of [1, 2, 3]) await expect(next()).rejects.toMatchObject({ reason: "STORE_UNAVAILABLE" });
    expect(await store.get(ref("k"))).toMatchObject({ rev: acknowledged });
    // Nor does the next life find any of it.
    expect(await open(leftBehind(disk.dir)).get(ref("k"))).toMatchObject({ rev: acknowledged });
    disk.empty();
    expect(await next()).toMatchObject({ ok: true, revs: [acknowledged + 1] });
    expect(await open(leftBehind(disk.dir)).get(ref("k"))).toMatchObject({
      rev: acknowledged + 1,
      body: `${acknowledged}${body}`,
    });
  },
);

test.skipIf(!root)("a store on a full disk says so at its start, and is no wrong setting", () => {
  const disk = tinyDisk(256);
  disk.fill();
  expect(() => open(path.join(disk.dir, "store.db"))).toThrow(
    expect.objectContaining({ reason: "STORE_UNAVAILABLE", message: expect.stringContaining("free some space") }),
  );
});

test.skipIf(!root)("a state file on a full disk is named, and keeps what it had", () => {
  const disk = tinyDisk(256);
  const mark = createStateFile(disk.dir, "mark");
  mark.write("before");
  disk.fill();
  expect(() => mark.write("after")).toThrow(`${disk.dir}/mark cannot be written: ENOSPC: no space left on device`);
  expect(mark.read()).toBe("before");
  disk.empty();
  mark.write("after");
  expect(mark.read()).toBe("after");
});
