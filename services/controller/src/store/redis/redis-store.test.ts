import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { systemClock } from "@holdfast/shared/async/clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sample } from "../../../../../test/support/full.ts";
import { type RedisServer, startRedisServer } from "../../../../../test/support/redis-server.ts";
import { startTcpProxy } from "../../../../../test/support/tcp-proxy.ts";
import type { Commit } from "../../domain/store-types.ts";
import type { Store } from "../../ports.ts";
import { openStore } from "../open-store.ts";
import { describeStore } from "../store-contract.ts";
import { runtimeAcl } from "./acl.ts";
import { redisKeys } from "./redis-keys.ts";
import { createRedisStore } from "./redis-store.ts";

const log = createMemoryLogger();
const ids = { uuid: () => randomUUID(), random: () => Math.random() };

const openOver = (
  server: RedisServer,
  stateDir: string,
  more: { url?: string; cell?: string; allowVolatile?: boolean } = {},
): Promise<Store> =>
  openStore({
    url: more.url ?? server.url,
    migrateUrl: server.url,
    cell: more.cell ?? "test",
    stateDir,
    allowVolatile: more.allowVolatile ?? false,
    declaredDurable: false,
    log,
    clock: systemClock,
    ids,
    signal: new AbortController().signal,
  });

const bare = (
  url: string,
  more: { maxEvents?: number; commandTimeoutMs?: number; settleMs?: number } = {},
): Promise<Store> =>
  createRedisStore({ url, cell: "test", log, random: Math.random, monotonic: () => performance.now(), ...more });

const counting = (opId: string, key: string, expectedRev: number, value: number): Commit => ({
  opId,
  writes: [{ ref: { kind: "volume", key }, expectedRev, body: String(value), indexes: [], due: [] }],
  events: [],
  requiresVetted: false,
});

describeStore("Redis, as the restricted user", async () => {
  const server = await startRedisServer();
  const stateDir = mkdtempSync(path.join(tmpdir(), "hf-state-"));
  const migrated = await openOver(server, stateDir);
  await migrated.close();
  const url = await server.addUser("holdfast", runtimeAcl("test"));
  const store = await bare(url, { maxEvents: 200 });
  const other = await bare(url, { maxEvents: 200 });
  return {
    store,
    other,
    maxEvents: 200,
    stop: async () => {
      await store.close();
      await other.close();
      await server.stop();
      rmSync(stateDir, { recursive: true, force: true });
    },
  };
});

describe("Redis store", { timeout: 120_000 }, () => {
  let server: RedisServer;
  let stateDir: string;

  beforeAll(async () => {
    server = await startRedisServer();
    stateDir = mkdtempSync(path.join(tmpdir(), "hf-state-"));
    await (await openOver(server, stateDir)).close();
  });
  afterAll(async () => {
    await server.stop();
    rmSync(stateDir, { recursive: true, force: true });
  });

  it("the restricted user can neither load code, nor read the configuration, nor leave its cell", async () => {
    const { Redis } = await import("ioredis");
    const redis = new Redis(await server.addUser("narrow", runtimeAcl("test")), { maxRetriesPerRequest: 0 });
    redis.on("error", () => undefined);
    const commands: readonly (readonly [string, ...string[]])[] = [
      ["EVAL", "return 1", "0"],
      ["FUNCTION", "LIST"],
      ["SCRIPT", "FLUSH"],
      ["CONFIG", "GET", "*"],
      ["FLUSHALL"],
      ["KEYS", "*"],
      ["HGET", "{hf:other}:meta", "gen"],
      ["SET", "{hf:test}:r:volume:x", "1"],
    ];
    for (const [command, ...args] of commands)
      await expect(redis.call(command, ...args), command).rejects.toThrow(/NOPERM/);
    redis.disconnect();
  });

  it(`${sample(1000, 100)} lost answers leave no doubled effect`, async () => {
    const proxy = await startTcpProxy({ port: server.port });
    const store = await bare(proxy.url, { commandTimeoutMs: 500 });
    const count = sample(1000, 100);
    for (let n = 0; n < count; n += 1) {
      proxy.dropNextReply();
      const result = await store.commit(counting(`drop-${n}`, "counter", n, n + 1));
      expect(result).toMatchObject({ ok: true, revs: [n + 1] });
    }
    expect(proxy.dropped()).toBe(count);
    expect(await store.get({ kind: "volume", key: "counter" })).toMatchObject({ rev: count, body: String(count) });
    await store.close();
    await proxy.close();
  });

  it("says UNAVAILABLE while Redis stands still, and goes on after", async () => {
    const store = await bare(server.url, { commandTimeoutMs: 200, settleMs: 600 });
    server.signal("SIGSTOP");
    try {
      await expect(store.get({ kind: "volume", key: "x" })).rejects.toMatchObject({
        kind: "unavailable",
        reason: "STORE_UNAVAILABLE",
      });
      await expect(store.commit(counting("stopped", "stopped", 0, 1))).rejects.toMatchObject({ kind: "unavailable" });
    } finally {
      server.signal("SIGCONT");
    }
    // Whether the lost commit was written or not: the same operation again gives one effect.
    expect(await store.commit(counting("stopped", "stopped", 0, 1))).toMatchObject({ ok: true, revs: [1] });
    await store.close();
  });

  it("[I8] after a kill everything acknowledged is there, and nothing is granted before vetting", async () => {
    const store = await bare(server.url, { settleMs: 10_000 });
    const reasons: string[] = [];
    store.onSuspect((reason) => reasons.push(reason));
    const first = await store.identity();
    await store.markVetted(first.runId, 1);
    expect(await store.commit({ ...counting("before", "kept", 0, 1), requiresVetted: true })).toMatchObject({
      ok: true,
    });
    await server.kill();
    await server.restart();
    await expect
      .poll(async () => (await store.identity().catch(() => first)).runId, { timeout: 20_000 })
      .not.toBe(first.runId);
    expect(await store.get({ kind: "volume", key: "kept" })).toMatchObject({ body: "1" });
    await expect(store.commit({ ...counting("grant", "kept", 1, 2), requiresVetted: true })).rejects.toMatchObject({
      reason: "STORE_UNVETTED",
    });
    expect(await store.commit(counting("release", "kept", 1, 2))).toMatchObject({ ok: true });
    await expect.poll(() => reasons.some((r) => r.includes("another one"))).toBe(true);
    await expect(store.markVetted(first.runId, 2)).rejects.toMatchObject({ kind: "unavailable" });
    await store.markVetted((await store.identity()).runId, 2);
    expect(await store.commit({ ...counting("grant2", "kept", 2, 3), requiresVetted: true })).toMatchObject({
      ok: true,
    });
    await store.close();
  });

  it.each([
    ["appendonly", "no", "CONFIG SET appendonly yes"],
    ["appendfsync", "everysec", "CONFIG SET appendfsync always"],
    ["no-appendfsync-on-rewrite", "yes", "CONFIG SET no-appendfsync-on-rewrite no"],
    ["maxmemory-policy", "allkeys-lru", "CONFIG SET maxmemory-policy noeviction"],
  ])("a Redis with %s %s is refused with the cure, unless that is allowed", async (setting, value, cure) => {
    const weak = await startRedisServer({ [setting]: value });
    try {
      const refused = await openOver(weak, stateDir).then(
        () => undefined,
        (error: unknown) => error as Error & { reason: string },
      );
      expect(refused).toMatchObject({ reason: "STORE_VOLATILE" });
      expect(refused?.message).toContain(cure);
      await (await openOver(weak, stateDir, { allowVolatile: true })).close();
    } finally {
      await weak.stop();
    }
  });

  it("names every fault at once", async () => {
    const weak = await startRedisServer({ appendonly: "no", "maxmemory-policy": "allkeys-lru", appendfsync: "no" });
    try {
      const error = await openOver(weak, stateDir).catch((e: unknown) => e as Error);
      expect(error instanceof Error ? error.message.split("cure:").length - 1 : 0).toBe(3);
    } finally {
      await weak.stop();
    }
  });

  it("refuses a store with a newer schema", async () => {
    const admin = await server.admin();
    await admin.hset(redisKeys("newer").meta, "schema", "99");
    await expect(openOver(server, stateDir, { cell: "newer" })).rejects.toMatchObject({ reason: "STORE_SCHEMA_NEWER" });
  });
});
