import { execFileSync } from "node:child_process";
import { createPrivateKey, X509Certificate } from "node:crypto";
import type { AddressInfo } from "node:net";
import { connect, createServer, type TLSSocket } from "node:tls";
import { describe, expect, test } from "vitest";
import {
  type Authority,
  backdatedMs,
  checkAuthority,
  createIssuing,
  createRoot,
  issueLeaf,
  issuingTtlMs,
  leafTtlMs,
  pinOf,
} from "./authority.ts";
import { readLeaf } from "./leaf.ts";
import { generateKey, makeCertificate, makeRequest, readRequest } from "./make-certificate.ts";

const hour = 3_600_000;
/** Whole seconds, as a certificate has them. */
const now = Math.floor(Date.now() / 1_000) * 1_000;
const domain = "td.test";

const root = await createRoot(domain, now);
const issuing = await createIssuing(root, issuingTtlMs, now);
const authority = await checkAuthority(issuing, { now });

const leafOf = async (
  text: string,
  more: { readonly ttlMs?: number; readonly from?: Authority; after?: number } = {},
) => {
  const [role = "", name = ""] = text.split("/");
  const key = generateKey();
  const pem = await issueLeaf(more.from ?? authority, {
    identity: { role: role as "node", name },
    key,
    ttlMs: more.ttlMs ?? leafTtlMs,
    now,
    after: more.after,
  });
  return { key, pem: pem.join(""), chain: pem.map((one) => new X509Certificate(one)) };
};

describe("a leaf", () => {
  test.each([
    ["node/node-a", ["1.3.6.1.5.5.7.3.2"], 2],
    ["scheduler/nomad", ["1.3.6.1.5.5.7.3.2"], 2],
    ["monitor", ["1.3.6.1.5.5.7.3.2"], 2],
    // A host that knows the pin alone has the root from the handshake.
    ["controller/c-1", ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"], 3],
  ] as const)("[MC1] of %s has one name, is no authority, and its uses", async (identity, uses, length) => {
    const { key, chain } = await leafOf(identity);
    const [leaf] = chain;
    expect(chain).toHaveLength(length);
    const [role, name = ""] = identity.split("/");
    expect(readLeaf(leaf?.raw ?? Buffer.of())).toMatchObject({ id: { trustDomain: "td.test", role, name } });
    expect(leaf?.ca).toBe(false);
    expect(leaf?.keyUsage).toEqual(uses);
    expect(leaf?.subject).toBeUndefined();
    expect(leaf?.checkPrivateKey(createPrivateKey(key))).toBe(true);
    expect(leaf?.verify(chain[1]?.publicKey ?? createPrivateKey(key))).toBe(true);
    expect([leaf?.validFromDate.getTime(), leaf?.validToDate.getTime()]).toEqual([now - backdatedMs, now + leafTtlMs]);
  });

  test.each([
    ["controller/c-1", true],
    ["controller/c_1", false],
    ["scheduler/nomad", false],
  ])("of %s has its ID as the name of a host: %s", async (identity, named) => {
    const [leaf] = (await leafOf(identity)).chain;
    const [, id = ""] = identity.split("/");
    expect(leaf?.checkHost(id)).toBe(named ? id : undefined);
  });

  test("has a serial of its own of 127 random bits, without a leading zero", async () => {
    const serials = await Promise.all(
      Array.from({ length: 20 }, async () => (await leafOf("node/a")).chain[0]?.serialNumber),
    );
    expect(new Set(serials).size).toBe(20);
    for (const serial of serials) expect(serial).toMatch(/^(?!00)[0-7][0-9A-F]{31}$/);
  });

  test("[AU1] ends no later than what signed it, and begins no earlier than it is told", async () => {
    const short = await checkAuthority(await createIssuing(root, hour, now), { now });
    const { chain } = await leafOf("node/a", { from: short });
    expect(chain[0]?.validToDate.getTime()).toBe(now + hour);
    const late = await leafOf("node/a", { after: now - 1_000 });
    expect(late.chain[0]?.validFromDate.getTime()).toBe(now - 1_000);
  });
});

describe("[AU2] an authority is refused", () => {
  const refused = (files: typeof issuing, at = now, trustDomain?: string) =>
    expect(checkAuthority(files, { now: at, trustDomain })).rejects;

  test("when it ended, or has not begun", async () => {
    await refused(issuing, now + issuingTtlMs).toThrow(/ended at 20.*the clock of this host says 20/);
    await refused(issuing, now - backdatedMs - 1_000).toThrow(/not valid before .*; is the clock right\?/);
  });
  test("of another trust domain", async () => {
    await refused(issuing, now, "prod.test").toThrow("is one of trust domain td.test, and this is prod.test");
  });
  test("with the key of another", async () => {
    await refused({ ...issuing, key: generateKey() }).toThrow("does not belong to the key beside it");
    await refused({ ...issuing, key: "no key" }).toThrow("does not belong to the key beside it");
  });
  test("that is a root", async () => {
    await refused(root).toThrow("valid for more than 90 days, as a root is, whose key stays offline");
  });
  test("that is the certificate of a controller", async () => {
    const { key, pem } = await leafOf("controller/c-1");
    await refused({ chain: [pem], key, roots: root.roots }).toThrow("is no authority");
  });
  test("that leads to none of its roots", async () => {
    const other = await createRoot(domain, now);
    await refused({ ...issuing, roots: other.roots }).toThrow("leads to none of those in ca.crt");
  });
  test("without a name of a trust domain", async () => {
    const key = generateKey();
    const by = { certificate: root.chain[0] ?? "", key: root.key };
    const own = { kind: "issuing", subject: "CN=x", key, by, notBefore: now, notAfter: now + hour } as const;
    const named = async (uri: string) => ({ ...issuing, key, chain: [await makeCertificate({ ...own, uri })] });
    await refused(await named("spiffe://td.test/csi/node/a")).toThrow("has to have one URI, spiffe://<trust domain>");
    await refused(await named("https://td.test")).toThrow("has to have one URI");
  });
});

test("a pin is of the key: a root that was certified anew has the same", async () => {
  const one = new X509Certificate(root.chain[0] ?? "");
  const again = new X509Certificate(
    await makeCertificate({
      ...{ kind: "root", uri: `spiffe://${domain}`, subject: "CN=anew", by: undefined },
      ...{ key: root.key, notBefore: now, notAfter: now + hour },
    }),
  );
  expect(pinOf(one)).toBe(authority.pin);
  expect(pinOf(again)).toBe(authority.pin);
});

describe("[MC2] a request", () => {
  const pem = (der: Buffer) =>
    `-----BEGIN CERTIFICATE REQUEST-----\n${der.toString("base64")}\n-----END CERTIFICATE REQUEST-----\n`;
  const derOf = (text: string) => Buffer.from(text.replace(/-----[^-]+-----|\s/g, ""), "base64");

  test("gives the key that signed it", async () => {
    const key = generateKey();
    const read = await readRequest(await makeRequest(key));
    const [leaf = ""] = await issueLeaf(authority, {
      identity: { role: "node", name: "a" },
      key: "key" in read ? read.key : "",
      ttlMs: hour,
      now,
    });
    expect(new X509Certificate(leaf).checkPrivateKey(createPrivateKey(key))).toBe(true);
  });
  test("that another key signed is refused, and so is each that was changed", async () => {
    const [one, other] = [derOf(await makeRequest(generateKey())), derOf(await makeRequest(generateKey()))];
    // Both have one layout: the key of the one under the signature of the other.
    const stolen = Buffer.concat([one.subarray(0, 90), other.subarray(90)]);
    expect(await readRequest(pem(stolen))).toEqual({ wrong: expect.stringMatching(/signature|PKCS#10/) });
    for (let at = 0; at < one.length; at += 7) {
      const changed = Buffer.from(one);
      changed[at] = (changed[at] ?? 0) ^ 0x55;
      expect(await readRequest(pem(changed)), `byte ${at}`).toHaveProperty("wrong");
    }
  });
  test.each([
    ["rsa:1024", "holds a key of type rsa 1024"],
    ["ec -pkeyopt ec_paramgen_curve:P-384", "holds a key of type ec secp384r1"],
    ["ed25519", "holds a key of type ed25519"],
  ] as const)("with a key of %s is refused by name", async (kind, words) => {
    const args = `req -new -newkey ${kind} -nodes -keyout /dev/null -subj /CN=operator`.split(" ");
    const request = execFileSync("openssl", args, { stdio: ["ignore", "pipe", "ignore"] });
    expect(await readRequest(request.toString())).toEqual({ wrong: expect.stringContaining(words) });
  });
  test.each(["", "x", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"])(
    "that is none is refused: %j",
    async (text) => expect(await readRequest(text)).toEqual({ wrong: "is no PEM of a PKCS#10 certificate request" }),
  );
});

describe("a handshake by TLS 1.3", () => {
  const shake = async (server: { readonly key: string; readonly pem: string }, client: typeof server) => {
    const seen: string[] = [];
    const trust = { ca: root.roots.join(""), minVersion: "TLSv1.3" } as const;
    const options = { ...trust, key: server.key, cert: server.pem, requestCert: true, rejectUnauthorized: false };
    const listening = createServer(options, (socket: TLSSocket) => {
      seen.push(
        socket.authorized ? (socket.getPeerCertificate().subjectaltname ?? "") : `${socket.authorizationError}`,
      );
      socket.end(socket.authorized ? "x" : "");
    });
    await new Promise<void>((done) => listening.listen(0, "127.0.0.1", done));
    const { port } = listening.address() as AddressInfo;
    const socket = connect({
      ...trust,
      port,
      host: "127.0.0.1",
      key: client.key,
      cert: client.pem,
      checkServerIdentity: () => undefined,
    });
    const end = await new Promise<string>((done) => {
      socket.on("error", (error) => done(error.message));
      socket.on("data", () => done("answered"));
      socket.on("close", () => done("closed"));
    });
    socket.destroy();
    await new Promise((done) => listening.close(done));
    return { end, seen };
  };

  test("is done by what was issued, before and after the issuing authority was renewed", async () => {
    const server = await leafOf("controller/c-1");
    const next = await checkAuthority(await createIssuing(root, issuingTtlMs, now), { now });
    const { end, seen } = await shake(server, await leafOf("node/node-a", { from: next }));
    expect([end, ...seen]).toEqual(["answered", "URI:spiffe://td.test/csi/node/node-a"]);
  });

  test("is refused for a name of another trust domain by a stolen issuing key", async () => {
    const server = await leafOf("controller/c-1");
    const foreign = { ...authority, trustDomain: "prod.test" };
    const { end, seen } = await shake(server, await leafOf("node/node-a", { from: foreign }));
    // Node has no name for a violation of name constraints.
    expect([end, ...seen]).toEqual(["closed", "UNSPECIFIED"]);
  });
});
