import { hash } from "node:crypto";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createMetrics } from "@holdfast/shared/metrics";
import { type Jwk, verifyToken } from "@holdfast/sim-plugin/tokens/verify-token";
import { describe, expect, onTestFinished, test } from "vitest";
import { tokenKeyLine } from "../../../../../test/support/token-keys.ts";
import { createDiscoveryServer } from "./discovery-server.ts";
import { createTokenKeyFile } from "./token-keys.ts";
import { createTokenSigner } from "./token-signer.ts";

const issuer = "https://tokens.example.com/cell-1";
const subject = { namespace: "team-a", workload: "job:7", node: "node-a", volume: "data" };
const hour = { audience: "vault", ttlSeconds: 3600 };

const rig = async (...lines: readonly string[]) => {
  const dir = await mkdtemp(path.join(tmpdir(), "hf-token-keys-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  const file = path.join(dir, "keys");
  const put = (...next: readonly string[]) => writeFile(file, `${next.join("\n")}\n`, { mode: 0o600 });
  await put(...lines);
  const clock = { at: 1_800_000_000_500, now: () => clock.at };
  const uuid = () => "id-1";
  const signer = createTokenSigner({ keyFile: createTokenKeyFile(file), issuer, clock, uuid });
  const kids = async () => (await signer.published()).map(({ kid }) => kid);
  const check = async (token: string, audience = "vault", now = clock.at) =>
    verifyToken(token, { keys: await signer.published(), issuer, audience, now });
  const one = async (request = hour) => (await signer.sign(subject, [request]))[0]?.token ?? "";
  return { file, put, clock, signer, kids, check, one };
};

const parts = (token: string) => token.split(".");
const decoded = (part: string | undefined) => JSON.parse(Buffer.from(part ?? "", "base64url").toString());

describe("a token", () => {
  test.each([
    ["ec", "ES256"],
    ["rsa", "RS256"],
  ] as const)("signed with a key of kind %s is %s, and is verified by the JWKS alone", async (kind, alg) => {
    const { signer, check, one } = await rig(tokenKeyLine("k1", kind));
    const token = await one();
    const [jwk] = await signer.published();
    expect(decoded(parts(token)[0])).toEqual({ alg, typ: "JWT", kid: jwk?.kid });
    expect(await check(token)).toEqual({
      iss: issuer,
      sub: "system:holdfast:workload:team-a:job:7",
      aud: ["vault"],
      iat: 1_800_000_000,
      nbf: 1_799_999_970,
      exp: 1_800_003_600,
      jti: "id-1",
      ...subject,
    });
    expect(token).toMatch(/^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/);
  });

  test("has the thumbprint of RFC 7638 as the id of its key, and the JWKS nothing of the private half", async () => {
    const { signer } = await rig(tokenKeyLine("k1"), tokenKeyLine("k2", "rsa"));
    const [ec, rsa] = await signer.published();
    const text = JSON.stringify({ crv: ec?.["crv"], kty: "EC", x: ec?.["x"], y: ec?.["y"] });
    expect(ec?.kid).toBe(hash("sha256", text, "base64url"));
    expect(rsa?.kid).toBe(hash("sha256", JSON.stringify({ e: rsa?.["e"], kty: "RSA", n: rsa?.["n"] }), "base64url"));
    expect(Object.keys(ec ?? {}).sort()).toEqual(["alg", "crv", "kid", "kty", "use", "x", "y"]);
    expect(Object.keys(rsa ?? {}).sort()).toEqual(["alg", "e", "kid", "kty", "n", "use"]);
  });

  test("is refused when it was changed, is for another audience, has ended, or is not valid yet", async () => {
    const { check, clock, one } = await rig(tokenKeyLine("k1"));
    const token = await one();
    const [head, body, signature] = parts(token);
    const other = Buffer.from(JSON.stringify({ ...decoded(body), workload: "other" })).toString("base64url");
    await expect(check(`${head}.${other}.${signature}`)).rejects.toThrow("signature");
    await expect(check(`${token}=`)).rejects.toThrow("base64url");
    await expect(check(token, "sts")).rejects.toThrow("it is for vault");
    await expect(check(token, "vault", clock.at + 3_600_000)).rejects.toThrow("expired");
    // The clock of whoever verifies is behind by up to 30 s.
    await check(token, "vault", clock.at - 30_000);
    await expect(check(token, "vault", clock.at - 31_000)).rejects.toThrow("not valid yet");
  });
});

describe("keys", () => {
  test("a new first key signs without a restart, and the old one is published until its last token ended", async () => {
    const [old, next] = [tokenKeyLine("k1"), tokenKeyLine("k2", "rsa")];
    const { put, clock, signer, kids, check, one } = await rig(old);
    const [oldKid] = await kids();
    const before = await one();
    await put(next, old);
    const after = await one();
    expect(decoded(parts(after)[0]).kid).not.toBe(oldKid);
    expect(await kids()).toHaveLength(2);
    await put(next);
    expect(await kids()).toContain(oldKid);
    await check(before);
    await check(after);
    clock.at += 3_631_000;
    expect(await kids()).not.toContain(oldKid);
    expect(await signer.trouble()).toBeUndefined();
  });

  test("that never signed are published as long as they are in the file", async () => {
    const [first, second] = [tokenKeyLine("k1"), tokenKeyLine("k2")];
    const { put, kids } = await rig(first, second);
    const both = await kids();
    expect(both).toHaveLength(2);
    await put(first);
    expect(await kids()).toEqual([both[0]]);
  });

  test.each([
    ["nothing", "", "holds no key"],
    ["a curve that ES256 is not for", tokenKeyLine("k1", "p384"), "line 1"],
    ["a short RSA key", tokenKeyLine("k1", "short"), "line 1"],
    ["bytes that are no key", `k1 ${Buffer.alloc(48, 7).toString("base64")}`, "line 1"],
    ["the same id twice", `${tokenKeyLine("k1")}\n${tokenKeyLine("k1")}`, "line 2"],
  ])("%s is refused, and the words hold nothing of it", async (_what, text, words) => {
    const { signer } = await rig(text);
    const failure = await signer.sign(subject, [hour]).catch((error: unknown) => error);
    expect(failure).toMatchObject({ reason: "TOKENS_UNSIGNED", message: expect.stringContaining(words) });
    const key = text.split(" ").at(-1) ?? "";
    if (key !== "") expect(String(failure)).not.toContain(key.slice(0, 20));
    expect(await signer.trouble()).toContain(words);
  });

  test("that others can read are refused, and so is a file that nobody named, or an issuer", async () => {
    const { file, signer, clock } = await rig(tokenKeyLine("k1"));
    await chmod(file, 0o644);
    expect(await signer.trouble()).toContain(`chmod 600 ${file}`);
    await chmod(file, 0o600);
    expect(await signer.trouble()).toBeUndefined();
    const parts = { clock, uuid: () => "id" };
    const keyless = createTokenSigner({ ...parts, keyFile: createTokenKeyFile(undefined), issuer });
    expect(await keyless.trouble()).toContain("HOLDFAST_TOKEN_KEYS");
    const nobody = createTokenSigner({ ...parts, keyFile: createTokenKeyFile(file), issuer: undefined });
    expect(await nobody.trouble()).toContain("HOLDFAST_TOKEN_ISSUER");
  });
});

describe("discovery", () => {
  const served = async (...lines: readonly string[]) => {
    const made = await rig(...lines);
    const log = createMemoryLogger();
    const server = createDiscoveryServer({
      signer: made.signer,
      issuer,
      insecure: false,
      log,
      metrics: createMetrics(),
    });
    const address = await server.listen("127.0.0.1:0");
    onTestFinished(() => server.stop());
    return { ...made, get: (at: string, init = {}) => fetch(`http://${address}${at}`, init) };
  };

  test("names the issuer and where its keys are, and may be kept for a while", async () => {
    const { get, one } = await served(tokenKeyLine("k1"));
    const token = await one();
    for (const prefix of ["", "/cell-1"]) {
      const found = await get(`${prefix}/.well-known/openid-configuration`);
      expect(found.headers.get("cache-control")).toBe("public, max-age=300");
      expect(await found.json()).toMatchObject({
        issuer,
        jwks_uri: `${issuer}/openid/v1/jwks`,
        id_token_signing_alg_values_supported: ["ES256"],
      });
      const { keys } = (await (await get(`${prefix}/openid/v1/jwks`)).json()) as { readonly keys: readonly Jwk[] };
      verifyToken(token, { keys, issuer, audience: "vault", now: 1_800_000_001_000 });
    }
  });

  test("answers GET alone, nothing else, and no empty set of keys", async () => {
    const { get, put } = await served(tokenKeyLine("k1"));
    expect((await get("/openid/v1/jwks", { method: "POST", body: "x" })).status).toBe(405);
    expect((await get("/metrics")).status).toBe(404);
    await put("");
    const nothing = await get("/openid/v1/jwks");
    expect([nothing.status, nothing.headers.get("cache-control")]).toEqual([503, "no-store"]);
  });

  test("listens on loopback alone, where nobody has said that the network may be trusted", async () => {
    const { signer } = await rig(tokenKeyLine("k1"));
    const log = createMemoryLogger();
    const open = createDiscoveryServer({ signer, issuer, insecure: false, log, metrics: createMetrics() });
    await expect(open.listen("0.0.0.0:0")).rejects.toMatchObject({ reason: "INSECURE_ADDRESS" });
  });
});
