/** A Redis behind TLS: who is let in, and what a refusal says. */
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { systemClock } from "@holdfast/shared/async/clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Authority, createAuthority } from "../../../../../test/support/certificates.ts";
import { commitOf, ref, write } from "../test-commits.ts";
import { type RedisAccess, refuseUnfitAccess } from "./redis-access.ts";
import { parseRedisAddress } from "./redis-address.ts";
import { createRedisConnection, type RedisConnection } from "./redis-connection.ts";
import { type RedisFixture, startRedisFixture, vet } from "./redis-fixture.ts";
import { createRedisKeys } from "./redis-keys.ts";

let dir: string;
let own: Authority;
let foreign: Authority;
let fixture: RedisFixture;
let access: RedisAccess;
const opened: RedisConnection[] = [];

beforeAll(async () => {
  dir = mkdtempSync(path.join(tmpdir(), "hf-tls-"));
  [own, foreign] = await Promise.all([createAuthority(dir, "own"), createAuthority(dir, "foreign")]);
  const [server, client] = await Promise.all([
    own.issue("server", ["IP:127.0.0.1", "DNS:redis.internal"]),
    own.issue("client", ["DNS:controller"]),
  ]);
  access = { caFile: own.cert, certFile: client.cert, keyFile: client.key };
  fixture = await startRedisFixture({}, { ca: own.cert, cert: server.cert, key: server.key });
});
afterAll(async () => {
  for (const connection of opened) connection.close();
  await fixture?.stop();
  rmSync(dir, { recursive: true, force: true });
});

const connect = (change: Partial<RedisAccess>): RedisConnection => {
  const connection = createRedisConnection({
    address: parseRedisAddress(fixture.server.tlsUrl ?? ""),
    access: { ...access, ...change },
    keys: createRedisKeys("test"),
    name: "tls-test",
    commandTimeoutMs: 400,
    log: createMemoryLogger(),
    clock: systemClock,
    random: Math.random,
  });
  opened.push(connection);
  return connection;
};

const refusal = (change: Partial<RedisAccess>): Promise<string> =>
  connect(change)
    .connected()
    .then(
      () => "connected",
      (error: Error) => error.message,
    );

describe("a Redis behind TLS", () => {
  it("takes a client whose certificates fit, and the store works", async () => {
    const url = fixture.server.tlsUrl ?? "";
    const store = await fixture.open({ url, migrateUrl: url, access });
    await vet(store);
    expect(await store.commit(commitOf([write("k", 0, "x")], { requiresVetted: true }))).toMatchObject({ ok: true });
    expect(await store.get(ref("k"))).toMatchObject({ body: "x" });
  });

  it("is refused by whoever does not know its authority, with the setting that names it", async () => {
    const told = await refusal({ caFile: foreign.cert });
    expect(told).toContain("the server's certificate is of an unknown authority: HOLDFAST_STORE_CA_FILE has to hold");
    expect(await refusal({ caFile: undefined })).toContain("HOLDFAST_STORE_CA_FILE has to hold");
  });

  it("refuses a client without a certificate, and with one of another authority", async () => {
    const none = await refusal({ certFile: undefined, keyFile: undefined });
    expect(none).toContain(
      "the server wants a client certificate: HOLDFAST_STORE_CERT_FILE and HOLDFAST_STORE_KEY_FILE",
    );
    const theirs = await foreign.issue("client", ["DNS:controller"]);
    const told = await refusal({ certFile: theirs.cert, keyFile: theirs.key });
    expect(told).toContain("does not know the authority of the client certificate: HOLDFAST_STORE_CERT_FILE");
  });

  it("has to bear the name that is wanted", async () => {
    expect(await refusal({ serverName: "redis.internal" })).toBe("connected");
    const told = await refusal({ serverName: "redis.example" });
    expect(told).toContain("redis.example");
    expect(told).toContain("set HOLDFAST_STORE_SERVER_NAME to a name that it bears");
  });

  it("tells of a file that cannot be read, and of a key that is another's", async () => {
    const gone = path.join(dir, "gone.pem");
    expect(await refusal({ caFile: gone })).toMatch(/HOLDFAST_STORE_CA_FILE cannot be read: ENOENT.*gone\.pem/);
    expect(await refusal({ keyFile: foreign.key })).toMatch(/foreign-ca\.key cannot be used: .*its own key/);
  });

  it("is connected to with the files as they are then: a renewed certificate needs no restart", async () => {
    const kept = { certFile: path.join(dir, "kept.pem"), keyFile: path.join(dir, "kept.key") };
    const put = (from: { cert: string; key: string }): void => {
      copyFileSync(from.cert, kept.certFile);
      copyFileSync(from.key, kept.keyFile);
    };
    put(await foreign.issue("old", ["DNS:controller"]));
    const connection = connect(kept);
    await expect(connection.connected()).rejects.toThrow("does not know the authority");
    put(await own.issue("new", ["DNS:controller"]));
    await expect.poll(() => connection.current()?.runId).toMatch(/^\w{40}$/);
  });

  it("is not spoken to in plain words, nor the other way round", async () => {
    const plain = fixture.server.url;
    const told = await fixture
      .open({ url: plain.replace("redis:", "rediss:"), access, tuning: { startTimeoutMs: 300, commandTimeoutMs: 200 } })
      .catch((error: Error) => error.message);
    expect(told).toContain("no TLS handshake in time: correct the port, or use redis://");
  });
});

describe("settings of TLS", () => {
  const wrong = (urls: readonly string[], settings: RedisAccess): readonly string[] => {
    try {
      refuseUnfitAccess(urls, settings);
      return [];
    } catch (error) {
      return (error as { violations: readonly { field: string }[] }).violations.map(({ field }) => field);
    }
  };

  it("are refused where they would be ignored, and where half is missing, all at once", () => {
    const all = { caFile: "/a", certFile: "/b", keyFile: "/c", serverName: "d" };
    expect(wrong(["rediss://h"], all)).toEqual([]);
    expect(wrong(["redis://h", "rediss://h"], all)).toEqual([]);
    expect(wrong(["sqlite:///x"], {})).toEqual([]);
    expect(wrong(["redis://h"], { caFile: "/a", keyFile: "/c", serverName: "d" })).toEqual([
      "HOLDFAST_STORE_CA_FILE",
      "HOLDFAST_STORE_KEY_FILE",
      "HOLDFAST_STORE_SERVER_NAME",
      "HOLDFAST_STORE_CERT_FILE",
    ]);
    expect(wrong(["rediss://h"], { certFile: "/b" })).toEqual(["HOLDFAST_STORE_KEY_FILE"]);
  });
});
