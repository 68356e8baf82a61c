/**
 * What earlier releases left on disks (test/fixtures, by make-fixtures.ts) is opened by this one: every record is read, a controller
 * serves what it held, and its format is raised by `upgrade finish` alone. What a newer release wrote is refused, with the way back.
 */

import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createApp } from "@holdfast/controller/app";
import { configSchema } from "@holdfast/controller/config";
import { judgeRecord } from "@holdfast/controller/records/shape/record-readers";
import { openExportSource } from "@holdfast/controller/store/open-export-source";
import { openSqliteDatabase } from "@holdfast/controller/store/sqlite/sqlite-database";
import { noFailpoints } from "@holdfast/node-agent/failpoints";
import { machineIdFile } from "@holdfast/node-agent/testing/machine-id-file";
import { openJournal } from "@holdfast/node-agent/volumes/journal";
import { encodeHeader, journalFormat, readJournal } from "@holdfast/node-agent/volumes/journal-format";
import { foldRecords } from "@holdfast/node-agent/volumes/ledger";
import { systemClock } from "@holdfast/shared/async/clock";
import { loadConfig } from "@holdfast/shared/config/config";
import { ClaimServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/claim";
import { NodeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/node";
import { QuotaServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/quota";
import { RepairServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/repair";
import { SecretServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/secret";
import { SnapshotServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Held, heldOf } from "./fixtures/held.ts";
import { childEnvironment } from "./support/child-environment.ts";
import { type RedisServer, startRedisServer } from "./support/redis-server.ts";

const repo = path.resolve(import.meta.dirname, "..");
const fixture = path.join(import.meta.dirname, "fixtures/format-1");
const kinds = ["sqlite", "redis"] as const;
type Kind = (typeof kinds)[number];

let dir: string;
let redis: RedisServer;
let serial = 0;

beforeAll(async () => {
  dir = mkdtempSync(path.join(tmpdir(), "hf-formats-"));
  redis = await startRedisServer();
});
afterAll(async () => {
  await redis?.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** A claim waits for at most an hour, and the fixture is older: it is over as soon as a controller looks. */
const lasting = (held: Held): Held => ({
  ...held,
  claims: held.claims.filter((line) => !line.endsWith("CLAIM_STATE_QUEUED")),
});
const heldBy = (kind: Kind): Held => lasting(JSON.parse(readFileSync(path.join(fixture, `held-${kind}.json`), "utf8")));

/** An installation of its own: where its controller's state and its store are. */
const emptyPlace = async (kind: Kind) => {
  serial += 1;
  const stateDir = path.join(dir, `state-${serial}`);
  const keys = path.join(dir, `keys-${serial}`);
  writeFileSync(keys, readFileSync(path.join(fixture, "secret-keys")), { mode: 0o600 });
  mkdirSync(path.join(dir, `cp-${serial}`), { mode: 0o700 });
  if (kind === "redis") await (await redis.admin()).call("FLUSHALL");
  return {
    kind,
    file: path.join(dir, `store-${serial}.db`),
    env: {
      HOLDFAST_LISTEN: "127.0.0.1:0",
      HOLDFAST_AGENT_LISTEN: "127.0.0.1:0",
      HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
      HOLDFAST_STATE_DIR: stateDir,
      HOLDFAST_PLUGIN_DIR: path.join(dir, `cp-${serial}`),
      HOLDFAST_STORE: kind === "redis" ? redis.url : `sqlite://${path.join(dir, `store-${serial}.db`)}`,
      HOLDFAST_SECRET_KEYS: keys,
    },
  };
};
type Place = Awaited<ReturnType<typeof emptyPlace>>;

/** With what the release of the fixture left in it. */
const placeOf = async (kind: Kind): Promise<Place> => {
  const place = await emptyPlace(kind);
  if (kind === "sqlite") {
    cpSync(path.join(fixture, "controller"), place.env.HOLDFAST_STATE_DIR, { recursive: true });
    copyFileSync(path.join(fixture, "store.db"), place.file);
    return place;
  }
  const admin = await redis.admin();
  for (const line of readFileSync(path.join(fixture, "redis.jsonl"), "utf8").trimEnd().split("\n")) {
    const [command = "", ...args] = JSON.parse(line) as readonly string[];
    await admin.call(command, ...args);
  }
  return place;
};

const withController = async <T>(
  { env }: Place,
  use: (clients: ReturnType<typeof clientsOf>) => Promise<T>,
): Promise<T> => {
  const app = createApp(loadConfig(configSchema, env), { log: createMemoryLogger() });
  await app.start();
  const channel = createGrpcChannel(app.address());
  try {
    return await use(clientsOf(channel));
  } finally {
    channel.close();
    await app.stop();
  }
};

const clientsOf = (channel: ReturnType<typeof createGrpcChannel>) => {
  const options = { log: createMemoryLogger(), identity: { role: "operator", name: "ada" } } as const;
  return {
    volumes: createGrpcClient(VolumeServiceDefinition, channel, options),
    claims: createGrpcClient(ClaimServiceDefinition, channel, options),
    nodes: createGrpcClient(NodeServiceDefinition, channel, options),
    snapshots: createGrpcClient(SnapshotServiceDefinition, channel, options),
    quotas: createGrpcClient(QuotaServiceDefinition, channel, options),
    secrets: createGrpcClient(SecretServiceDefinition, channel, options),
    repair: createGrpcClient(RepairServiceDefinition, channel, options),
  };
};

/** The service as an operator runs it; what it printed and how it ended. */
const run = (service: string, args: readonly string[], env: Readonly<Record<string, string>>) =>
  new Promise<{ readonly code: unknown; readonly said: string }>((resolve) => {
    const main = path.join(repo, `services/${service}/src/main.ts`);
    execFile(process.execPath, [main, ...args], { env: { ...childEnvironment(), ...env } }, (error, out, err) =>
      resolve({ code: error?.code ?? 0, said: `${out}${err}` }),
    );
  });

const recordsIn = async ({ env }: Place): Promise<Readonly<Record<string, number>>> => {
  const source = await openExportSource({
    url: env.HOLDFAST_STORE,
    cell: "default",
    log: createMemoryLogger(),
    clock: systemClock,
    random: Math.random,
  });
  const counts: Record<string, number> = {};
  for await (const record of source.records()) {
    judgeRecord({ ...record, rev: 1 });
    counts[record.ref.kind] = (counts[record.ref.kind] ?? 0) + 1;
  }
  await source.close();
  return counts;
};

describe.each(kinds)("a store of format 1 on %s", (kind) => {
  test("is served as it was: each record reads, and nothing of it is damaged", async () => {
    const place = await placeOf(kind);
    await withController(place, async (clients) => {
      expect(lasting(await heldOf(clients))).toEqual(heldBy(kind));
      expect((await clients.repair.listStuck({})).stuck.map(({ blocked }) => blocked?.reason)).not.toContain(
        "RECORD_DAMAGED",
      );
      // The file is known by its state directory; at another Redis each node has to tell first.
      expect((await clients.repair.vet({})).open).toBe(kind === "sqlite");
    });
    expect(await recordsIn(place)).toMatchObject({
      volume: 5,
      node: 2,
      snapshot: 3,
      group: 1,
      plugin: 1,
      secret: 1,
      audit: 1,
    });
  });

  test("keeps its format until the upgrade is finished, and is served the same after it", async () => {
    const place = await placeOf(kind);
    const held = heldBy(kind);
    await withController(place, async (clients) => {
      await expect.poll(async () => (await clients.repair.getUpgrade({})).controllers.length).toBe(1);
      expect(await clients.repair.getUpgrade({})).toMatchObject({ format: 1, newestFormat: 4 });
      const asked = { reason: "all are new" };
      const { outcome } = await clients.repair.finishUpgrade({ ...asked, dryRun: true });
      await clients.repair.finishUpgrade({ ...asked, confirm: outcome?.confirmWith ?? "" });
      expect(await clients.repair.getUpgrade({})).toMatchObject({ format: 4 });
      expect((await clients.repair.listAudit({ verb: "FinishUpgrade" })).records).toHaveLength(1);
    });
    await withController(place, async (clients) => {
      const after = lasting(await heldOf(clients));
      expect({ ...after, audit: after.audit.slice(1) }).toEqual(held);
      expect((await clients.repair.getUpgrade({})).format).toBe(4);
    });
  });

  test("of a newer format, is refused at the start and by a backup, with the way back", async () => {
    const place = await placeOf(kind);
    const meta = "{hf:default}meta";
    if (kind === "redis") await (await redis.admin()).call("HSET", meta, "schema", "5");
    else {
      const db = openSqliteDatabase(place.file);
      db.setMeta("schema", "5");
      db.close();
    }
    const refused = await run("controller", [], place.env);
    expect(refused.code).toBe(78);
    expect(refused.said).toMatch(
      /format 5, this release reads formats 1 to 4: run the release that wrote it, or a newer one/,
    );
    expect(refused.said).toContain("a backup from before the upgrade was finished");
    const exported = await run("controller", ["export", path.join(dir, "never.export")], place.env);
    expect([exported.code, exported.said.includes("is format 5")], exported.said).toEqual([78, true]);
  });
});

describe("a backup of format 1", () => {
  test.each(kinds)("goes into an empty store on %s, which has its format then", async (kind) => {
    const place = await emptyPlace(kind);
    const imported = await run("controller", ["import", path.join(fixture, "backup.export")], place.env);
    expect(imported.code, imported.said).toBe(0);
    await withController(place, async (clients) => {
      expect(lasting(await heldOf(clients))).toEqual(heldBy("sqlite"));
      expect((await clients.repair.getUpgrade({})).format).toBe(1);
    });
  });

  const changed = (name: string, change: (head: Record<string, unknown>) => Record<string, unknown>): string => {
    const [head = "", ...rest] = readFileSync(path.join(fixture, "backup.export"), "utf8").split("\n");
    const file = path.join(dir, name);
    writeFileSync(file, [JSON.stringify(change(JSON.parse(head))), ...rest].join("\n"));
    return file;
  };

  test.each([
    ["file", "it is written in format 2", { holdfast_export: 2 }],
    ["records", "its records have format 5", { schema: 5 }],
  ])("of a newer format of its %s is refused with the way back, and nothing is written", async (what, said, more) => {
    const place = await emptyPlace("sqlite");
    const refused = await run("controller", ["import", changed(what, (head) => ({ ...head, ...more }))], place.env);
    expect(refused.code).toBe(78);
    expect(refused.said).toMatch(new RegExp(`${said}.*nothing was written.*EXPORT_NEWER`));
    expect(refused.said).toContain("an export from before the upgrade was finished");
  });
});

describe("an agent's journal of format 1", () => {
  const bytes = readFileSync(path.join(fixture, "journal"));

  const stateWith = (journal: Buffer): string => {
    serial += 1;
    const stateDir = path.join(dir, `agent-${serial}`);
    mkdirSync(stateDir, { mode: 0o700 });
    writeFileSync(path.join(stateDir, "journal"), journal, { mode: 0o600 });
    return stateDir;
  };

  test("is read whole: the agent knows its node and what is mounted there", async () => {
    const read = readJournal(bytes);
    if (read.kind !== "good") throw new Error(`the journal is ${read.kind}`);
    const { uid, machine } = read.journal.header;
    const journal = await openJournal({
      dir: stateWith(bytes),
      machine,
      newUid: randomUUID,
      failpoint: noFailpoints,
      maxBytes: 1 << 30,
      minFreeBytes: 0,
      onFatal: () => undefined,
    });
    expect([journal.uid, journal.damage]).toEqual([uid, undefined]);
    const { agent, volumes, fault } = foldRecords(journal.records);
    expect(fault).toBeUndefined();
    expect(agent.nodeEpoch).toBe(1);
    const [, used] =
      heldBy("sqlite")
        .volumes.find((line) => line.startsWith("used "))
        ?.split(" ") ?? [];
    expect([...volumes.keys()]).toContain(used);
    await journal.close();
  });

  test("of a newer format, is refused at the start with the way back", async () => {
    const read = readJournal(bytes);
    if (read.kind !== "good") throw new Error(`the journal is ${read.kind}`);
    const newer = encodeHeader({ ...read.journal.header, format: journalFormat + 1 });
    const refused = await run("node-agent", [], {
      HOLDFAST_NODE: "node-a",
      HOLDFAST_LOCAL_LISTEN: `unix://${path.join(dir, "agent.sock")}`,
      HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
      HOLDFAST_CONTROLLERS: "127.0.0.1:1",
      HOLDFAST_STATE_DIR: stateWith(newer),
      HOLDFAST_MACHINE_ID_FILE: machineIdFile(),
      HOLDFAST_ROOT_DIR: path.join(dir, "root"),
      HOLDFAST_PLUGIN_DIR: path.join(dir, "np"),
      HOLDFAST_HOSTED_PLUGIN_DIR: path.join(dir, "h"),
    });
    expect(refused.code, refused.said).toBe(78);
    expect(refused.said).toMatch(/format 2, this release reads up to 1: run the release that wrote it.*drain the node/);
  });
});
