import path from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { startTcpProxy } from "../../../../../test/support/tcp-proxy.ts";
import { commitOf, write } from "../test-commits.ts";
import { libraryName } from "./library.ts";
import { type RedisFixture, startRedisFixture, vet } from "./redis-fixture.ts";
import { createRedisKeys } from "./redis-keys.ts";
import { decodeDurability, encodeDurability, type ServerFacts, startChecks, startFaults } from "./start-gate.ts";

const fit: ServerFacts = {
  info: {
    redis_version: "7.0.15",
    role: "master",
    loading: "0",
    aof_enabled: "1",
    aof_last_write_status: "ok",
    maxmemory_policy: "noeviction",
    connected_slaves: "0",
  },
  durability: { runId: "r", appendfsync: "always", noAppendfsyncOnRewrite: "no", minReplicasToWrite: 0 },
  declaredDurable: false,
};

describe("the start gate", () => {
  it("lets a durable server pass", () => {
    expect(startFaults(fit)).toEqual([]);
  });

  it("finds each field of INFO that is wrong or missing, and says how to mend it", () => {
    for (const field of Object.keys(fit.info).filter((name) => name !== "connected_slaves"))
      for (const value of ["", "wrong", undefined]) {
        const { [field]: _, ...rest } = fit.info;
        const faults = startFaults({ ...fit, info: value === undefined ? rest : { ...rest, [field]: value } });
        expect(faults, `${field}=${value}`).toHaveLength(1);
        expect(faults[0]?.description).toContain(": ");
      }
  });

  it("finds what CONFIG tells, and minds replicas only when there are some", () => {
    const durability = fit.durability;
    if (durability === undefined) throw new Error("unset");
    const faultsOf = (change: Partial<typeof durability>, info = {}) =>
      startFaults({ ...fit, info: { ...fit.info, ...info }, durability: { ...durability, ...change } }).map(
        (it) => it.field,
      );
    expect(faultsOf({ appendfsync: "everysec" })).toEqual(["appendfsync"]);
    expect(faultsOf({ noAppendfsyncOnRewrite: "yes" })).toEqual(["no-appendfsync-on-rewrite"]);
    expect(faultsOf({}, { connected_slaves: "1" })).toEqual(["min-replicas-to-write"]);
    expect(faultsOf({ minReplicasToWrite: 1 }, { connected_slaves: "1" })).toEqual([]);
  });

  it("takes the operator's word for what nobody may ask, and for nothing else", () => {
    const unknown = { ...fit, durability: undefined };
    expect(startFaults(unknown).map((it) => it.field)).toEqual([
      "appendfsync",
      "no-appendfsync-on-rewrite",
      "min-replicas-to-write",
    ]);
    expect(startFaults({ ...unknown, declaredDurable: true })).toEqual([]);
    const volatileInfo = { ...fit.info, aof_enabled: "0" };
    expect(startFaults({ ...unknown, info: volatileInfo, declaredDurable: true })).toHaveLength(1);
    expect(
      startFaults({ ...fit, durability: { ...startDurability(), appendfsync: "no" }, declaredDurable: true }),
    ).toHaveLength(1);
  });

  it("names every fault at once", () => {
    const faults = startFaults({ info: {}, durability: undefined, declaredDurable: false });
    expect(faults).toHaveLength(startChecks.length);
  });

  it("what was found out of one process counts for that one only", () => {
    fc.assert(
      fc.property(fc.constantFrom("a", "b", ""), fc.constantFrom("a", "b", ""), (asked, now) => {
        const text = encodeDurability({ ...startDurability(), runId: asked });
        expect(decodeDurability(text, now)?.runId).toBe(asked === now ? asked : undefined);
      }),
    );
    expect(decodeDurability("", "x")).toBeUndefined();
  });
});

const startDurability = () => ({
  runId: "r",
  appendfsync: "always",
  noAppendfsyncOnRewrite: "no",
  minReplicasToWrite: 0,
});

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
const refusal = (opening: Promise<unknown>): Promise<string> =>
  opening.then(
    () => "opened",
    (error: Error & { reason?: string }) => `${error.name} ${error.reason}: ${error.message}`,
  );

describe("opening a Redis", () => {
  it.each([
    ["appendonly", "no", "CONFIG SET appendonly yes"],
    ["appendfsync", "everysec", "CONFIG SET appendfsync always"],
    ["no-appendfsync-on-rewrite", "yes", "CONFIG SET no-appendfsync-on-rewrite no"],
    ["maxmemory-policy", "allkeys-lru", "CONFIG SET maxmemory-policy noeviction"],
  ])("with %s %s is refused with the cure, unless that is allowed", async (setting, value, cure) => {
    await withFixture({ [setting]: value }, async ({ open, log }) => {
      const told = await refusal(open());
      expect(told).toContain("StoreUnfitError STORE_VOLATILE");
      expect(told).toContain(cure);
      expect(told).toContain("HOLDFAST_ALLOW_VOLATILE_STORE=1");
      expect(told.match(/CONFIG SET/g)).toHaveLength(1);
      const store = await open({ allowVolatile: true });
      await vet(store);
      expect(await store.commit(commitOf([write("k", 0, "x")], { requiresVetted: true }))).toMatchObject({ ok: true });
      expect(log.lines.some(({ level, message }) => level === "warn" && message.includes("VOLATILE"))).toBe(true);
    });
  });

  it("that forgets everything names every fault in one message", async () => {
    const config = {
      appendonly: "no",
      appendfsync: "no",
      "no-appendfsync-on-rewrite": "yes",
      "maxmemory-policy": "allkeys-lru",
    };
    await withFixture(config, async ({ open }) => {
      expect((await refusal(open())).match(/CONFIG SET/g)).toHaveLength(4);
    });
  });

  it("as a user with all rights prepares it by itself, and no part of it twice", async () => {
    await withFixture({}, async ({ server, stateDir, open }) => {
      const admin = await server.admin();
      const opening = { url: server.url, stateDir };
      const [one, two] = await Promise.all([open(opening), open({ ...opening, stateDir: path.join(stateDir, "b") })]);
      expect((await one.identity()).clusterUid).toBe((await two.identity()).clusterUid);
      expect(await admin.call("FUNCTION", "LIST", "LIBRARYNAME", libraryName)).toHaveLength(1);
      expect(await one.identity()).toMatchObject({ format: 4, vetting: { gen: 0 }, vettedRunId: "" });
    });
  });

  it("as the restricted user needs the library, the identity and the facts of a migrator first", async () => {
    await withFixture({}, async ({ open, restricted, server }) => {
      const alone = { url: await restricted("test"), migrateUrl: await restricted("test") };
      expect(await refusal(open(alone))).toContain(`${libraryName} is not loaded`);
      await (await open()).close();
      expect(await refusal(open(alone))).toBe("opened");
      await server.kill();
      await server.restart();
      // Another process, which nobody who may has asked yet.
      expect(await refusal(open(alone))).toContain("appendfsync is not known of this process");
      expect(await refusal(open({ ...alone, declaredDurable: true }))).toBe("opened");
      expect(await refusal(open())).toBe("opened");
      expect(await refusal(open(alone))).toBe("opened");
    });
  });

  it("refuses a newer schema, another installation, and a library that is not this one", async () => {
    await withFixture({}, async ({ open, server, restricted }) => {
      const keys = createRedisKeys("test");
      const admin = await server.admin();
      const first = await open();
      const { clusterUid } = await first.identity();
      await admin.hset(keys.meta, "clusterUid", "another");
      expect(await refusal(open())).toContain(`clusterUid is another, not ${clusterUid}`);
      await admin.hset(keys.meta, "clusterUid", clusterUid);
      await admin.hset(keys.meta, "schema", "99");
      expect(await refusal(open())).toMatch(
        /STORE_SCHEMA_NEWER.*\n.*schema is format 99, this release reads formats 1 to 4/,
      );
      await admin.hset(keys.meta, "schema", "1");
      const other = `#!lua name=${libraryName}\nredis.register_function{function_name='${libraryName}_identity', callback=function() return {'0','','','1','1','',''} end, flags={'no-writes'}}`;
      await admin.call("FUNCTION", "LOAD", "REPLACE", other);
      expect(await refusal(open({ migrateUrl: await restricted("test") }))).toContain("is not loaded");
      expect(await refusal(open())).toBe("opened");
    });
  });

  it("tells a user with all rights how few it needs, and asks a restricted one for nothing twice", async () => {
    await withFixture({}, async ({ open, server, log }) => {
      const admin = await server.admin();
      await open();
      expect(log.lines.some(({ fields }) => "controller_acl" in fields)).toBe(false);
      await admin.call("ACL", "LOG", "RESET");
      await open({ tuning: { recheckMs: 10 } });
      await new Promise((resolve) => setTimeout(resolve, 100));
      const denied = (await admin.call("ACL", "LOG")) as unknown[];
      expect(denied).toHaveLength(1);
      expect(JSON.stringify(denied)).toContain('"count",1,');
      await open({ url: server.url, migrateUrl: server.url });
      const told = log.lines.find(({ fields }) => "controller_acl" in fields)?.fields["controller_acl"];
      expect(told).toContain("ACL SETUSER holdfast reset on ><password> resetkeys");
    });
  });

  it("that cannot be reached says where it looked, and never the password", async () => {
    await withFixture({}, async ({ open, server }) => {
      const tuning = { startTimeoutMs: 200, commandTimeoutMs: 100 };
      const wrong = `redis://somebody:hunter2@127.0.0.1:${server.port}/0`;
      const denied = await refusal(open({ url: wrong, tuning }));
      expect(denied).toContain("WRONGPASS");
      expect(denied).toContain(`redis://127.0.0.1:${server.port}/0`);
      const nobody = await refusal(open({ url: "redis://u:hunter2@127.0.0.1:1", tuning }));
      expect(nobody).toContain("ECONNREFUSED");
      const odd = await refusal(open({ url: "redis://u:hunter2@h/notadb", tuning }));
      expect(odd).toContain("redis://[user:password@]host[:port][/db]");
      for (const told of [denied, nobody, odd]) expect(told).not.toContain("hunter2");
    });
  });

  it("[I8] that stops keeping what it acknowledges is granted from no more, until it does again", async () => {
    await withFixture({}, async ({ open, server }) => {
      const store = await open({ tuning: { recheckMs: 30 } });
      await vet(store);
      const reasons: string[] = [];
      store.onSuspect((reason) => reasons.push(reason));
      const grant = (key: string) => commitOf([write(key, 0, "x")], { requiresVetted: true });
      const admin = await server.admin();
      await admin.config("SET", "appendonly", "no");
      await expect.poll(() => reasons.join()).toContain("appendonly aof_enabled is 0");
      await expect(store.commit(grant("k"))).rejects.toMatchObject({
        reason: "STORE_UNVETTED",
        metadata: { finding: expect.stringContaining("CONFIG SET appendonly yes") },
      });
      const { runId, vetting, vettedRunId } = await store.identity();
      expect(vettedRunId).not.toBe(runId);
      await expect(store.markVetted(runId, vetting)).rejects.toMatchObject({ reason: "STORE_UNVETTED" });
      expect(await store.commit(commitOf([write("released", 0, "x")]))).toMatchObject({ ok: true });
      await admin.config("SET", "appendonly", "yes");
      await expect.poll(() => store.commit(grant("k")).catch(() => undefined)).toMatchObject({ ok: true });
      expect(reasons).toHaveLength(1);
    });
  });

  it("[I8] another process is vetted by nobody before it was looked at, and the gate is told when it was", async () => {
    await withFixture({}, async ({ open, server, migrator }) => {
      const way = await startTcpProxy({ port: server.port, looksFor: () => false });
      try {
        const migrateUrl = new URL(await migrator("test"));
        migrateUrl.port = String(way.port);
        const store = await open({ migrateUrl: migrateUrl.href, tuning: { recheckMs: 50, commandTimeoutMs: 500 } });
        await vet(store);
        const before = await store.identity();
        const reasons: string[] = [];
        store.onSuspect((reason) => reasons.push(reason));
        // Whoever may ask it how durable it is gets no answer.
        way.blackHole(true);
        await server.kill();
        await server.restart();
        const runId = () =>
          store.identity().then(
            (found) => found.runId,
            () => before.runId,
          );
        await expect.poll(runId, { timeout: 10_000 }).not.toBe(before.runId);
        const now = await runId();
        await expect(store.markVetted(now, before.vetting)).rejects.toMatchObject({
          reason: "STORE_UNVETTED",
          message: expect.stringContaining(`process ${now} was not looked at yet`),
        });
        way.cut();
        way.blackHole(false);
        await expect.poll(() => reasons.at(-1), { timeout: 20_000 }).toBe("it was looked at, and is fit");
        await vet(store);
        expect((await store.identity()).vettedRunId).toBe(now);
      } finally {
        await way.close();
      }
    });
  });
});
