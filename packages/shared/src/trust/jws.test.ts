import { createHmac, createSign, generateKeyPairSync } from "node:crypto";
import { describe, expect, test } from "vitest";
import { publicJwk, signJws, verifyJws } from "./jws.ts";

const ec = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
const otherEc = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 });
const claims = { who: "web" };
const found = (token: string, ...keys: readonly (typeof ec.publicKey)[]) => verifyJws(token, () => keys);
const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
const wrong = { wrong: expect.any(String) };

test.each([
  ["ES256", ec],
  ["RS256", rsa],
] as const)("what was signed by %s is verified by its public key, among others", async (alg, pair) => {
  const token = await signJws(pair.privateKey, { typ: "x" }, claims);
  const keys = [otherEc.publicKey, ec.publicKey, rsa.publicKey];
  expect(found(token, ...keys)).toEqual({ header: { alg, typ: "x" }, claims });
  expect(found(token, otherEc.publicKey)).toEqual(wrong);
  expect(found(token)).toEqual(wrong);
});

describe("refused is", () => {
  test("a token without a signature, and one of algorithm none", async () => {
    const [, body = ""] = (await signJws(ec.privateKey, {}, claims)).split(".");
    for (const alg of ["none", "None", "", undefined])
      for (const signature of ["", "AA"])
        expect(found(`${encoded({ alg })}.${body}.${signature}`, ec.publicKey, rsa.publicKey)).toEqual(wrong);
  });

  test("[J1] a key that is used by another algorithm than its own", async () => {
    const asRsa = await signJws(ec.privateKey, { alg: "RS256" }, claims);
    expect(found(asRsa, ec.publicKey, rsa.publicKey)).toEqual(wrong);
    expect(found(await signJws(rsa.privateKey, { alg: "ES256" }, claims), ec.publicKey, rsa.publicKey)).toEqual(wrong);
    // The public key, which everybody has, as the secret of an HMAC.
    const text = `${encoded({ alg: "HS256" })}.${encoded(claims)}`;
    const pem = rsa.publicKey.export({ format: "pem", type: "spki" });
    expect(
      found(`${text}.${createHmac("sha256", pem).update(text).digest("base64url")}`, rsa.publicKey, ec.publicKey),
    ).toEqual(wrong);
  });

  test("an ES256 signature in DER, and one of zeros", () => {
    const text = `${encoded({ alg: "ES256" })}.${encoded(claims)}`;
    const der = createSign("sha256").update(text).sign(ec.privateKey).toString("base64url");
    expect(found(`${text}.${der}`, ec.publicKey)).toEqual(wrong);
    expect(found(`${text}.${Buffer.alloc(64).toString("base64url")}`, ec.publicKey)).toEqual(wrong);
  });

  test("[J2] one that is written in another way, or is none", async () => {
    const token = await signJws(ec.privateKey, {}, claims);
    const [head = "", , signature = ""] = token.split(".");
    const odd = [`${token}=`, ` ${token}`, `${token}.`, `${token}.${signature}`, "", "..", "a.b", head];
    const notObjects = [[1], "text", null].map((body) => `${head}.${encoded(body as object)}.${signature}`);
    for (const one of [...odd, ...notObjects]) expect(found(one, ec.publicKey)).toEqual(wrong);
  });

  test("[J3] one whose header has to be understood", async () => {
    expect(found(await signJws(ec.privateKey, { crit: ["b64"], b64: false }, claims), ec.publicKey)).toEqual(wrong);
  });

  test("[J2] one of which any letter is another one", async () => {
    const token = await signJws(ec.privateKey, {}, claims);
    const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.= ";
    const taken: string[] = [];
    for (let at = 0; at < token.length; at += 1)
      for (const [i, letter] of [...letters].entries()) {
        // All of them at the end, where bits are left over.
        if (letter === token[at] || (at < token.length - 1 && (i + at) % 8 !== 0)) continue;
        const changed = `${token.slice(0, at)}${letter}${token.slice(at + 1)}`;
        if (!("wrong" in found(changed, ec.publicKey, rsa.publicKey))) taken.push(changed);
      }
    expect(taken).toEqual([]);
  });

  test("one whose claims or header were changed, and the words hold nothing of it", async () => {
    const [head = "", body = "", signature = ""] = (await signJws(ec.privateKey, {}, claims)).split(".");
    const changed = [
      `${head}.${encoded({ who: "db" })}.${signature}`,
      `${encoded({ alg: "ES256", a: 1 })}.${body}.${signature}`,
    ];
    for (const one of changed) {
      expect(found(one, ec.publicKey)).toEqual(wrong);
      expect(JSON.stringify(found(one, ec.publicKey))).not.toContain(signature.slice(0, 8));
    }
  });
});

test("a key on another curve or of too few bits is none that anything is signed with", () => {
  expect(publicJwk(generateKeyPairSync("ec", { namedCurve: "secp384r1" }).publicKey)).toBeUndefined();
  expect(publicJwk(generateKeyPairSync("rsa", { modulusLength: 1024 }).publicKey)).toBeUndefined();
  expect(publicJwk(generateKeyPairSync("ed25519").publicKey)).toBeUndefined();
  expect(publicJwk(ec.publicKey)).toEqual(publicJwk(ec.privateKey));
  expect(publicJwk(ec.privateKey)).not.toHaveProperty("d");
});
