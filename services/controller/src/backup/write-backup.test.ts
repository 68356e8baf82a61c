import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { beforeEach, expect, it, onTestFinished } from "vitest";
import type { PlacedRecord } from "../domain/store-types.ts";
import type { ExportIdentity, ExportSource } from "../store/export-source.ts";
import { type BackupFiles, createBackupFiles } from "./backup-files.ts";
import { readExport } from "./export-file.ts";
import { writeBackup } from "./write-backup.ts";

const identity: ExportIdentity = { clusterUid: "c-1", schema: 3, gen: 4 };
const records: readonly PlacedRecord[] = Array.from({ length: 500 }, (_, i) => ({
  ref: { kind: "volume", key: `ns/v-${i}` },
  body: JSON.stringify({ text: `\u2028 ${"x".repeat(300)} ${i}` }),
  indexes: [{ index: "volume-all", value: "all" }],
  due: [],
}));

const sourceOf = (now: ExportIdentity | undefined = identity): ExportSource => ({
  identity,
  async *records() {
    yield* records;
  },
  identityNow: async () => now,
  close: async () => undefined,
});

let dir: string;
let files: BackupFiles;
beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), "hf-write-"));
  files = createBackupFiles(dir);
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
});

const written = (source: ExportSource, into: BackupFiles = files) =>
  writeBackup({ source, files: into, name: "one.export", cell: "default", at: 0, judge: () => undefined });

it("W1 a backup holds every record, and its summary is that of the file", async () => {
  const { digest, bytes } = await written(sourceOf());
  expect(readdirSync(dir)).toEqual(["one.export"]);
  expect(readFileSync(path.join(dir, "one.export")).length).toBe(bytes);
  const read = await readExport({ file: "one.export", lines: files.lines("one.export") });
  expect(read.head).toMatchObject({ cell: "default", ...identity, at: "1970-01-01T00:00:00.000Z" });
  expect([read.digest, read.records]).toEqual([digest, records]);
});

const moments: readonly (readonly [string, ExportIdentity | undefined])[] = [
  ["emptied", undefined],
  ["replaced by that of another installation", { ...identity, clusterUid: "c-2" }],
  ["vetted anew, after a rollback", { ...identity, gen: 5 }],
];

it.each(moments)("W2 [I8] a store that was %s while it was read makes no file", async (_what, now) => {
  const { identityNow, ...rest } = sourceOf();
  expect(await identityNow()).toEqual(identity);
  await expect(written({ ...rest, identityNow: async () => now })).rejects.toMatchObject({ reason: "EXPORT_MOVED" });
  expect(readdirSync(dir)).toEqual([]);
});

it("W1 a disk that gives back something else than was written makes no file, and spares the one before", async () => {
  await written(sourceOf());
  const bad: BackupFiles = {
    ...files,
    async *lines(name) {
      for await (const line of files.lines(name)) yield line.replace("ns/v-7", "ns/v-8");
    },
  };
  await expect(written(sourceOf(), bad)).rejects.toMatchObject({
    reason: "EXPORT_DAMAGED",
    message: expect.stringContaining(`${dir}/one.export.part`),
  });
  await written({ ...sourceOf(), identity: { ...identity, schema: 2 } });
  const before = readFileSync(path.join(dir, "one.export"));
  const other: BackupFiles = { ...files, lines: () => files.lines("one.export") };
  await expect(written(sourceOf(), other)).rejects.toMatchObject({ reason: "EXPORT_DAMAGED" });
  expect(readdirSync(dir)).toEqual(["one.export"]);
  expect(readFileSync(path.join(dir, "one.export"))).toEqual(before);
});
