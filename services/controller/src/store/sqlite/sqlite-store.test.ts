import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { describeStore } from "../store-contract.ts";
import { createSqliteStore, type SqliteStore } from "./sqlite-store.ts";

const dirs: string[] = [];
const freshFile = (): string => {
  const dir = mkdtempSync(path.join(tmpdir(), "hf-sqlite-"));
  dirs.push(dir);
  return path.join(dir, "store.db");
};
const removeAll = (): void => {
  for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true, force: true });
};

const open = (file: string, more: { expectedLineage?: string; maxEvents?: number } = {}): SqliteStore =>
  createSqliteStore({ file, now: () => Date.now(), uuid: () => randomUUID(), ...more });

describeStore("SQLite", async () => {
  const store = open(freshFile(), { maxEvents: 200 });
  return {
    store,
    other: store,
    maxEvents: 200,
    stop: async () => {
      await store.close();
      removeAll();
    },
  };
});

describe("SQLite store", () => {
  afterEach(removeAll);

  it("keeps everything over a restart, without vetting", async () => {
    const file = freshFile();
    const first = open(file);
    await first.commit({
      opId: "a",
      writes: [{ ref: { kind: "volume", key: "k" }, expectedRev: 0, body: "kept", indexes: [], due: [] }],
      events: [],
      requiresVetted: true,
    });
    const before = await first.identity();
    await first.close();
    const second = open(file, { expectedLineage: first.lineage });
    expect(await second.get({ kind: "volume", key: "k" })).toMatchObject({ body: "kept", rev: 1 });
    expect(await second.identity()).toEqual(before);
    await second.close();
  });

  it("[I8] grants nothing from a file that is not the one it left", async () => {
    const store = open(freshFile(), { expectedLineage: "another" });
    const { runId, vettedRunId } = await store.identity();
    expect(vettedRunId).not.toBe(runId);
    const commit = {
      writes: [{ ref: { kind: "volume" as const, key: "k" }, expectedRev: 0, body: "x", indexes: [], due: [] }],
      events: [],
    };
    await expect(store.commit({ ...commit, opId: "1", requiresVetted: true })).rejects.toMatchObject({
      reason: "STORE_UNVETTED",
    });
    expect(await store.commit({ ...commit, opId: "2", requiresVetted: false })).toMatchObject({ ok: true });
    await store.close();
  });
});
