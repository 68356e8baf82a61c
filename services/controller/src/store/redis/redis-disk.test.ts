/** What a disk, an operator or a backup does to Redis: full, out of memory, cut back, restored. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, it, vi } from "vitest";
import type { StoreIdentity } from "../../domain/store-types.ts";
import type { Store } from "../../ports.ts";
import { commitOf, keysOf, ref, take, write } from "../test-commits.ts";
import { vetAnew } from "../vet-anew.ts";
import { type RedisFixture, startRedisFixture, vet } from "./redis-fixture.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: a full disk needs root, for a small tmpfs");

const withFixture = async (
  config: Readonly<Record<string, string>>,
  run: (fixture: RedisFixture) => Promise<void>,
): Promise<void> => {
  const fixture = await startRedisFixture(config);
  try {
    await run(fixture);
  } finally {
    await fixture.stop();
  }
};

const places = { indexes: [{ index: "i", value: "v" }], due: [{ queue: "q", at: 1 }] };
const grant = (key: string, rev: number) => commitOf([write(key, rev, "x", places)], { requiresVetted: true });
const count = async (store: Store, key: string, from: number, to: number): Promise<void> => {
  for (let rev = from; rev < to; rev += 1) {
    const events = [{ type: "count", ref: ref(key), body: `${rev + 1}` }];
    await store.commit(commitOf([write(key, rev, `${rev + 1}`, places)], { events }));
  }
};

/** A rollback as far as a controller can see it: nothing is granted, and what it knew does not fit any more. */
const expectRolledBack = async (
  store: Store,
  before: Pick<StoreIdentity, "clusterUid" | "vetting"> & { token: string },
): Promise<void> => {
  await expect(store.commit(grant("new", 0))).rejects.toMatchObject({ reason: "STORE_UNVETTED" });
  const now = await store.identity();
  expect(now).toMatchObject({ clusterUid: before.clusterUid, vetting: before.vetting });
  expect(now.vettedRunId).not.toBe(now.runId);
  await expect(take(store, before.token, 1)).rejects.toMatchObject({ reason: "EVENTS_TRIMMED" });
};

describe("Redis store, when the disk is not what it was", () => {
  it("[I8] an append-only file that was cut back is a rollback, and shuts the gate", async () => {
    await withFixture({}, async ({ open, server }) => {
      const store = await open();
      await vet(store);
      await count(store, "k", 0, 20);
      const before = { ...(await store.identity()), token: await store.head() };
      await server.kill();
      const files = path.join(server.dir, "appendonlydir");
      const log = path.join(files, readdirSync(files).find((name) => name.endsWith(".incr.aof")) ?? "");
      truncateSync(log, statSync(log).size - 600);
      await server.restart();
      await expect.poll(() => store.get(ref("k")).catch(() => undefined), { timeout: 10_000 }).toBeDefined();
      const found = await store.get(ref("k"));
      expect(found?.rev).toBeLessThan(20);
      expect(found?.rev).toBeGreaterThan(10);
      await expectRolledBack(store, before);
      const late = commitOf([write("k", 20, "late")]);
      await expect(store.commit(late)).rejects.toMatchObject({
        reason: "STORE_UNVETTED",
        message: expect.stringMatching(/\d+ commits? (is|are) missing/),
      });
      expect(await store.commit(late)).toEqual({
        ok: false,
        conflicts: [{ ref: ref("k"), rev: found?.rev }],
      });
      // A half-written commit is none: the record and its places agree.
      expect(await keysOf(store, "i", "v")).toEqual(["k"]);
      expect(await store.due("q", 10, 10)).toHaveLength(1);
    });
  });

  it("[I8] a backup that was restored is a rollback, and shuts the gate", async () => {
    await withFixture({}, async ({ open, server }) => {
      const backup = mkdtempSync(path.join(tmpdir(), "hf-backup-"));
      try {
        const store = await open();
        await vet(store);
        await count(store, "k", 0, 3);
        const before = await store.identity();
        cpSync(server.dir, backup, { recursive: true });
        await count(store, "k", 3, 9);
        const token = await store.head();
        await server.kill();
        rmSync(path.join(server.dir, "appendonlydir"), { recursive: true });
        cpSync(backup, server.dir, { recursive: true });
        await server.restart();
        await expect
          .poll(() => store.get(ref("k")).catch(() => undefined), { timeout: 10_000 })
          .toMatchObject({ rev: 3 });
        await expectRolledBack(store, { ...before, token });
        // Not before the new process was looked at as the old one was.
        await vi.waitFor(() => vetAnew(store), { timeout: 30_000, interval: 50 });
        expect(await store.commit(grant("new", 0))).toMatchObject({ ok: true });
      } finally {
        rmSync(backup, { recursive: true, force: true });
      }
    });
  });

  it("out of memory: a commit is refused as a whole, says why, and reads go on", async () => {
    await withFixture({}, async ({ open, server }) => {
      const store = await open();
      await count(store, "k", 0, 2);
      const head = await store.head();
      const admin = await server.admin();
      await admin.config("SET", "maxmemory", "1");
      const refused = commitOf([write("k", 2, "3", places), write("other", 0, "x")]);
      await expect(store.commit(refused)).rejects.toMatchObject({
        kind: "unavailable",
        reason: "STORE_UNAVAILABLE",
        message: expect.stringContaining("raise maxmemory"),
      });
      expect(await store.get(ref("k"))).toMatchObject({ rev: 2 });
      expect(await store.get(ref("other"))).toBeUndefined();
      expect(await keysOf(store, "i", "v")).toEqual(["k"]);
      expect(await store.head()).toBe(head);
      await admin.config("SET", "maxmemory", "0");
      expect(await store.commit(refused)).toMatchObject({ ok: true, revs: [3, 1] });
    });
  });

  it("a snapshot that cannot be written: a commit is refused as a whole, says why, and goes on by itself", async () => {
    await withFixture({ "enable-protected-configs": "yes" }, async ({ open, server }) => {
      const store = await open();
      await count(store, "k", 0, 2);
      const admin = await server.admin();
      // A directory has the name that the snapshot would take.
      mkdirSync(path.join(server.dir, "taken"));
      await admin.config("SET", "dbfilename", "taken");
      await admin.config("SET", "save", "3600 1");
      await admin.call("BGSAVE");
      await expect.poll(() => admin.info("persistence")).toContain("rdb_last_bgsave_status:err");
      const refused = commitOf([write("k", 2, "3", places), write("other", 0, "x")]);
      await expect(store.commit(refused)).rejects.toMatchObject({
        kind: "unavailable",
        reason: "STORE_UNAVAILABLE",
        message: expect.stringMatching(/MISCONF.*the store cannot write to its disk: see its log/s),
      });
      expect(await store.get(ref("k"))).toMatchObject({ rev: 2 });
      expect(await store.get(ref("other"))).toBeUndefined();
      rmSync(path.join(server.dir, "taken"), { recursive: true });
      await admin.call("BGSAVE");
      await expect.poll(() => admin.info("persistence")).toContain("rdb_last_bgsave_status:ok");
      expect(await store.commit(refused)).toMatchObject({ ok: true, revs: [3, 1] });
    });
  });

  it.skipIf(!root)("a full disk: what was acknowledged is there when it has room again", async () => {
    const dir = mkdtempSync(path.join(tmpdir(), "hf-full-"));
    expect(spawnSync("mount", ["-t", "tmpfs", "-o", "size=3m", "tmpfs", dir]).status).toBe(0);
    try {
      await withFixture({ dir }, async ({ open, server }) => {
        const store = await open({ tuning: { commandTimeoutMs: 300, settleMs: 600 } });
        const filler = path.join(dir, "filler");
        writeFileSync(filler, Buffer.alloc(2_000_000));
        let acknowledged = 0;
        const body = "x".repeat(50_000);
        const next = () => store.commit(commitOf([write("big", acknowledged, body)]));
        const failure = await (async () => {
          for (;;) {
            expect(await next()).toMatchObject({ ok: true });
            acknowledged += 1;
          }
        })().catch((error: unknown) => error);
        expect(failure).toMatchObject({ kind: "unavailable" });
        expect(acknowledged).toBeGreaterThan(5);
        // With appendfsync always Redis ends rather than forget. Room again, and somebody starts it.
        await server.kill();
        rmSync(filler);
        await server.restart();
        await expect.poll(() => store.get(ref("big")).catch(() => undefined), { timeout: 10_000 }).toBeDefined();
        const found = await store.get(ref("big"));
        // The one that failed may have been written or not; nothing that was acknowledged is gone.
        expect([acknowledged, acknowledged + 1]).toContain(found?.rev);
        expect(found?.body).toBe(body);
      });
    } finally {
      spawnSync("umount", [dir]);
      rmSync(dir, { recursive: true, force: true });
    }
  });
});
