import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { openAuditTrail } from "@holdfast/shared/audit/audit-trail";
import { verifyAudit } from "@holdfast/shared/audit/verify-audit";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { QuotaServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/quota";
import { OrphanKind, RepairServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/repair";
import { SecretServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/secret";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { identityFromMetadata } from "@holdfast/shared/grpc/identity";
import { createGrpcServer } from "@holdfast/shared/grpc/server";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createFaultyDisk } from "@holdfast/shared/testing/faulty-disk";
import { tempSocket } from "@holdfast/shared/testing/temp-socket";
import { describe, expect, onTestFinished, test } from "vitest";
import { secretKeys } from "../../../../../test/support/controller/world.ts";
import { createActAudit } from "../../audit/act-audit.ts";
import { createQuotaCommands } from "../../commands/quota/quota-commands.ts";
import { createSecretCommands } from "../../commands/secret/secret-commands.ts";
import { everything } from "../../domain/access/caller-scope.ts";
import { createAuditRecords } from "../../records/audit-records.ts";
import { createQuotaRecords } from "../../records/quota/quota-records.ts";
import { createSealer } from "../../secrets/sealer.ts";
import { createSecretRecords } from "../../secrets/secret-records.ts";
import { createSqliteStore } from "../../store/sqlite/sqlite-store.ts";
import { createQuotaService } from "../quota/quota-service.ts";
import { createSecretService } from "../secret/secret-service.ts";
import { unimplemented } from "../unimplemented.ts";
import { createAuditMiddleware } from "./audit-middleware.ts";

const trace = "0af7651916cd43dd8448eb211c80319c";
const value = "cAnArY-value";
const certificate = { trustDomain: "test.example", serial: "0a1b", notBefore: 0, notAfter: 2 ** 42, fingerprint: "" };

const serve = async () => {
  const socket = await tempSocket();
  const log = createMemoryLogger();
  const clock = createManualClock();
  const { disk, faults, course } = createFaultyDisk();
  const ids = { uuid: randomUUID, random: () => 0.5 };
  const sqlite = createSqliteStore({
    file: ":memory:",
    now: clock.now,
    uuid: randomUUID,
    formats: { oldest: 1, newest: 4 },
  });
  const down = { store: false };
  const store: typeof sqlite = {
    ...sqlite,
    async commit(commit) {
      if (down.store)
        throw new HoldfastError({ kind: "unavailable", reason: "STORE_UNAVAILABLE", message: "the store is away" });
      course.push("commit");
      return await sqlite.commit(commit);
    },
  };
  let missing = 0;
  const open = (name: string) =>
    openAuditTrail({
      ...{ directory: socket.directory, name, by: {}, maxFiles: 4, disk, now: clock.now, log },
      onMissing(lines) {
        missing += lines;
      },
    });
  const trail = open("acts");
  const noted: { current: (id: string) => void } = { current: () => undefined };
  const records = createAuditRecords({ store, ids, noted: (id) => noted.current(id) });
  const traceId = () => trace;
  const acts = createActAudit({
    ...{
      trail,
      reads: open("secrets"),
      records: createAuditRecords({ store, ids }),
      self: "controller/c1",
      clock,
      traceId,
    },
  });
  noted.current = acts.noted;
  const tracing = { currentTraceparent: () => `00-${trace}-b7ad6b7169203331-01` };
  const around = createAuditMiddleware({ acts, tracing });
  const signal = new AbortController().signal;
  const quotas = createQuotaCommands({
    quotas: createQuotaRecords({ store, clock, ids, signal }),
    audit: records,
    store,
    clock,
  });
  const secrets = createSecretCommands({
    granted: () => true,
    records: createSecretRecords({ store, clock, ids, signal }),
    sealer: createSealer({ keyFile: { keys: async () => secretKeys }, clusterUid: async () => "world" }),
    clock,
    changed: () => undefined,
  });
  const server = createGrpcServer({ log, identity: (call) => ({ ...identityFromMetadata(call), certificate }) });
  const api = { tracing, scopeOf: () => everything } as unknown as Parameters<typeof createQuotaService>[0];
  server.add(QuotaServiceDefinition, createQuotaService({ ...api, quotas }), {
    middlewares: around(QuotaServiceDefinition),
  });
  server.add(SecretServiceDefinition, createSecretService({ ...api, secrets }), {
    middlewares: around(SecretServiceDefinition),
  });
  const repair = unimplemented(RepairServiceDefinition, {
    async *scanOrphans(_request, { signal: left }) {
      yield { orphan: undefined, gap: undefined, outcome: undefined, progress: undefined, cleaned: true };
      await new Promise((resolve) => setTimeout(resolve, 20));
      left.throwIfAborted();
      yield { orphan: undefined, gap: undefined, outcome: undefined, progress: undefined, cleaned: true };
    },
  });
  server.add(RepairServiceDefinition, repair, { middlewares: around(RepairServiceDefinition) });
  await server.listen(socket.address);
  const channel = createGrpcChannel(socket.address);
  const options = { log, identity: { role: "operator", name: "ada" } } as const;
  onTestFinished(async () => {
    channel.close();
    await server.stop({ graceMs: 0 });
    trail.close();
    await socket.remove();
  });
  const lines = (): Record<string, unknown>[] =>
    readdirSync(socket.directory)
      .filter((name) => name.startsWith("acts-"))
      .flatMap((name) => readFileSync(`${socket.directory}/${name}`, "utf8").split("\n"))
      .flatMap((line) => (line === "" ? [] : [JSON.parse(line)]))
      .filter(({ kind }) => kind !== "opened");
  course.length = 0;
  return {
    quotas: createGrpcClient(QuotaServiceDefinition, channel, options),
    secrets: createGrpcClient(SecretServiceDefinition, channel, options),
    repair: createGrpcClient(RepairServiceDefinition, channel, options),
    ...{ acts, faults, course, down, lines, clock },
    missing: () => missing,
    sound: () => verifyAudit([socket.directory]),
    stored: async () => (await records.list({ namespace: "", volume: "", verb: "" }, { limit: 50 })).records,
    text: () => JSON.stringify(lines()),
  };
};

const setQuota = { namespace: "shop", limits: { volumes: 3n }, reason: "as ordered" };
const put = { namespace: "shop", name: "array", values: { token: value } };

describe("an act", () => {
  test("has its word on disk before the store is asked, and a line of how it ended", async () => {
    const { quotas, course, lines, stored, sound } = await serve();
    await quotas.setQuota(setQuota);
    expect(course.slice(0, 3)).toEqual(["write", "sync", "commit"]);
    expect(course.lastIndexOf("write")).toBeGreaterThan(course.lastIndexOf("commit"));
    const [record] = await stored();
    const common = {
      kind: "act",
      who: "operator/ada",
      serial: "0a1b",
      method: "/holdfast.v1.QuotaService/SetQuota",
      subject: { namespace: "shop" },
      trace,
    };
    const [begun, ended] = lines();
    expect(begun).toMatchObject({ ...common, outcome: "begun", reason: "as ordered" });
    expect(ended).toMatchObject({ ...common, outcome: "OK", audit: record?.id, request: begun?.["request"] });
    expect(begun?.["request"]).not.toBe("");
    await quotas.setQuota({ ...setQuota, limits: { volumes: 5n } });
    expect(lines()[3]).toMatchObject({ outcome: "OK", before_rev: 2, after_rev: 3 });
    expect(lines()).toHaveLength(4);
    expect(sound()).toHaveProperty("trails");
  });

  test("that is refused has both lines too, and names no record that is not there", async () => {
    const { quotas, lines, stored } = await serve();
    await expect(quotas.setQuota({ ...setQuota, limits: {} })).rejects.toMatchObject({ reason: "INVALID_ARGUMENT" });
    expect(lines()).toMatchObject([{ outcome: "begun" }, { outcome: "INVALID_ARGUMENT", error: "INVALID_ARGUMENT" }]);
    expect(lines()[1]).not.toHaveProperty("audit");
    expect(await stored()).toEqual([]);
  });

  test("on a secret names it and its version, and holds none of its values", async () => {
    const { secrets, lines, text } = await serve();
    await secrets.putSecret(put);
    await secrets.deleteSecret({ namespace: "shop", name: "array", version: 1n });
    expect(lines()).toMatchObject([
      { outcome: "begun", subject: { namespace: "shop", secret: "array" } },
      { outcome: "OK", result: { version: "1" } },
      { outcome: "begun", subject: { namespace: "shop", secret: "array", version: "1" } },
      { outcome: "OK" },
    ]);
    expect(text()).not.toContain(value);
  });

  test("that is a question leaves no line", async () => {
    const { quotas, secrets, course } = await serve();
    await quotas.listQuotas({});
    await secrets.listSecrets({});
    expect(course).toEqual([]);
  });

  test("that is answered in pieces ends with the last one, or when its caller goes away", async () => {
    const { repair, lines } = await serve();
    const pieces: unknown[] = [];
    for await (const piece of repair.scanOrphans({ clean: [OrphanKind.ORPHAN_KIND_RECORD], reason: "tidy" }))
      pieces.push(piece);
    expect(pieces).toHaveLength(2);
    expect(lines()).toMatchObject([{ outcome: "begun", reason: "tidy" }, { outcome: "OK" }]);
    for await (const _ of repair.scanOrphans({})) break;
    expect(lines()).toHaveLength(2);
    for await (const _ of repair.scanOrphans({ clean: [OrphanKind.ORPHAN_KIND_RECORD], reason: "tidy" })) break;
    await expect.poll(() => lines()[3]).toMatchObject({ outcome: "CANCELLED" });
  });
});

describe("where the file cannot be written", () => {
  test("an act goes on with its word in the store, and the file says later how many lines are missing", async () => {
    const { secrets, quotas, faults, stored, lines, missing } = await serve();
    faults.write = "ENOSPC";
    await secrets.putSecret(put);
    const [record] = await stored();
    expect(record).toMatchObject({
      verb: "PutSecret",
      who: "operator/ada",
      requestId: "",
      subject: { namespace: "shop" },
      effects: ["PutSecret, namespace shop, secret array was begun while the audit file could not be written (ENOSPC)"],
    });
    expect(JSON.stringify(record)).not.toContain(value);
    expect(missing()).toBe(2);
    delete faults.write;
    await quotas.setQuota(setQuota);
    expect(lines()).toMatchObject([
      { kind: "gap", missing: 2, code: "ENOSPC" },
      { outcome: "begun" },
      { outcome: "OK" },
    ]);
  });

  test("for the line of the end alone, the act is done and answered, and the line counts as missing", async () => {
    const { secrets, faults, course, lines, missing } = await serve();
    const push = course.push.bind(course);
    course.push = (...words) => {
      if (words[0] === "commit") faults.write = "EIO";
      return push(...words);
    };
    expect(await secrets.putSecret(put)).toMatchObject({ version: 1n });
    expect(lines()).toMatchObject([{ outcome: "begun" }]);
    expect(missing()).toBe(1);
  });

  test("nor the store, nothing is done, and the answer says what to do", async () => {
    const { secrets, quotas, faults, down, stored, course } = await serve();
    faults.sync = "EIO";
    down.store = true;
    for (const ask of [() => secrets.putSecret(put), () => quotas.setQuota(setQuota)])
      await expect(ask()).rejects.toMatchObject({
        kind: "unavailable",
        reason: "AUDIT_UNAVAILABLE",
        message: expect.stringMatching(/nothing was done.*\(EIO\).*\(STORE_UNAVAILABLE\).*HOLDFAST_AUDIT_DIR/),
        metadata: { file: "EIO", store: "STORE_UNAVAILABLE" },
      });
    down.store = false;
    expect(course).not.toContain("commit");
    expect((await secrets.listSecrets({})).secrets).toEqual([]);
    expect((await quotas.listQuotas({})).quotas).toEqual([]);
    expect(await stored()).toEqual([]);
  });

  test("a read of a secret leaves one record in the store, and with neither the value is given to nobody", async () => {
    const { acts, faults, down, stored } = await serve();
    const read = {
      reference: "secret:array",
      version: "secret:shop/array@1",
      namespace: "shop",
      volume: "data",
      method: "CreateVolume",
    };
    faults.write = "EROFS";
    await acts.secretRead(read);
    await acts.secretRead(read);
    expect(await stored()).toMatchObject([
      { verb: "ReadSecret", who: "controller/c1", subject: { namespace: "shop", volume: "data" } },
    ]);
    down.store = true;
    await expect(acts.secretRead({ ...read, method: "DeleteVolume" })).rejects.toMatchObject({
      reason: "AUDIT_UNAVAILABLE",
    });
  });

  test("as the disk does not answer, it is waited for only so long", async () => {
    const { quotas, faults, clock, stored } = await serve();
    faults.hangs = true;
    const asked = quotas.setQuota(setQuota);
    await expect.poll(() => clock.pending()).toBeGreaterThan(0);
    await clock.advance(5_000);
    await asked;
    expect((await stored()).map(({ effects }) => effects[0])).toContainEqual(expect.stringContaining("(ETIMEDOUT)"));
  });
});
