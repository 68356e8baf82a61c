import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createSecrets } from "./secrets.ts";
import { createVault } from "./vault.ts";

const token = "hvs.token-canary";
const value = "value-canary";
const log = createMemoryLogger();
let dir: string;
let tokenFile: string;
let server: Server;
let address: string;
let asked: { readonly url: string | undefined; readonly token: unknown; readonly namespace: unknown }[] = [];
let answer: (request: IncomingMessage, response: ServerResponse) => void;

const kv = (data: unknown, version = 3) =>
  JSON.stringify({ data: { data, metadata: { version, created_time: "2026-01-01T00:00:00Z", destroyed: false } } });

beforeAll(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-vault-"));
  tokenFile = path.join(dir, "token");
  server = createServer((request, response) => {
    const { "x-vault-token": said, "x-vault-namespace": namespace } = request.headers;
    asked.push({ url: request.url, token: said, namespace });
    answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await rm(dir, { recursive: true, force: true });
});
beforeEach(async () => {
  asked = [];
  answer = (_request, response) => void response.end(kv({ token: value }));
  await writeFile(tokenFile, `${token}\n`);
});

const use = { volume: "data", method: "CreateVolume" };
const secretsOf = (change: Partial<Parameters<typeof createVault>[0]> = {}) =>
  createSecrets({
    scope: { files: [], env: [], vault: [{ path: "kv", namespaces: [] }] },
    env: {},
    vault: createVault({ address, tokenFile, ...change }),
    log,
  });

const failure = (ref: string, secrets = secretsOf()): Promise<{ readonly reason: string; readonly message: string }> =>
  secrets.read(ref, "default", use).then(
    () => Promise.reject(new Error("it was read")),
    (error: unknown) => error as { reason: string; message: string },
  );

describe("a reference into Vault", () => {
  test("reads the newest version of KV 2, with the token of the moment", async () => {
    const secrets = secretsOf({ namespace: "team" });
    expect(await secrets.resolve("vault:kv/storage/array-1", "default", use)).toEqual({ token: value });
    await writeFile(tokenFile, "renewed");
    await secrets.resolve("vault:kv/storage/array-1@2", "default", use);
    expect(asked).toEqual([
      { url: "/v1/kv/data/storage/array-1", token, namespace: "team" },
      { url: "/v1/kv/data/storage/array-1?version=2", token: "renewed", namespace: "team" },
    ]);
  });

  test("has another version after each change, and the same one before", async () => {
    const versions: string[] = [];
    for (const version of [3, 3, 4]) {
      answer = (_request, response) => void response.end(kv({ token: value }, version));
      versions.push((await secretsOf().read("vault:kv/a", "default", use)).version);
    }
    expect(versions[0]).toBe(versions[1]);
    expect(versions[2]).not.toBe(versions[1]);
  });

  test.each([
    ["404", 404, "{}", "SECRET_NOT_FOUND", /not there in Vault/],
    ["a deleted version", 200, JSON.stringify({ data: { data: null, metadata: {} } }), "SECRET_NOT_FOUND", /deleted/],
    ["403", 403, `{"errors":["${value}"]}`, "SECRET_NOT_FOUND", /refuses the token/],
    ["503", 503, value, "SECRET_UNREADABLE", /sealed/],
    ["a redirect", 307, "", "SECRET_UNREADABLE", /answered 307/],
    ["no JSON", 200, value, "SECRET_NOT_FOUND", /no JSON/],
    ["no texts", 200, kv({ token: 1 }), "SECRET_NOT_FOUND", /no text/],
    ["too much", 200, "x".repeat(300_000), "SECRET_NOT_FOUND", /longer than/],
  ])("%s: told without token or value", async (_what, status, body, reason, says) => {
    answer = (_request, response) => {
      response.writeHead(status, status === 307 ? { location: "http://elsewhere.invalid/" } : {});
      response.end(body);
    };
    log.clear();
    const error = await failure("vault:kv/a");
    expect(error).toMatchObject({ reason, metadata: { ref: "vault:kv/a" } });
    const why = reason === "SECRET_NOT_FOUND" ? String(log.lines[0]?.fields["why"]) : error.message;
    expect(why).toMatch(says);
    if (reason === "SECRET_NOT_FOUND")
      expect(error.message).toMatch(/^secret vault:kv\/a cannot be used: it is not there, not/);
    const text = JSON.stringify([error, error.message, (error as { stack?: string }).stack, log.lines]);
    for (const hidden of [token, value]) expect(text).not.toContain(hidden);
    expect(asked).toHaveLength(1);
  });

  test("gives a server that never answers up", async () => {
    answer = () => undefined;
    const error = await failure("vault:kv/a", secretsOf({ timeoutMs: 50 }));
    expect(error).toMatchObject({ reason: "SECRET_UNREADABLE", message: expect.stringContaining("within 50 ms") });
  });

  test.each([
    ["no Vault", { address: undefined }, /HOLDFAST_VAULT_ADDRESS/],
    ["no token file", { tokenFile: "/nowhere/token" }, /ENOENT/],
    ["nobody there", { address: "http://127.0.0.1:1" }, /ECONNREFUSED/],
  ])("%s: says what to set right", async (_what, change, says) => {
    const error = await failure("vault:kv/a", secretsOf(change));
    expect(error).toMatchObject({ reason: "SECRET_UNREADABLE", message: expect.stringMatching(says) });
  });

  test("never leaves its path", async () => {
    for (const ref of [
      "vault:kv/../sys/seal",
      "vault:sys/a",
      "vault:kvs/a",
      "vault:kv",
      "vault:kv/a?x=1",
      "vault:kv//a",
      "vault:kv/a@0",
    ])
      expect(await failure(ref)).toMatchObject({ reason: "SECRET_NOT_FOUND" });
    expect(asked).toEqual([]);
  });
});
