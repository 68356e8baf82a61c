/** Certificates as they are made, used and denied: a controller with an authority, over real TLS sockets. */
import { createHash, X509Certificate } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createSecureServer } from "node:http2";
import path from "node:path";
import { configSchema as controllerSchema } from "@holdfast/controller/config";
import { doctorFindings } from "@holdfast/controller/doctor-wiring";
import { configSchema } from "@holdfast/node-agent/config";
import { keepCertificates } from "@holdfast/node-agent/link-certificates";
import { loadConfig } from "@holdfast/shared/config/config";
import { certifyBy } from "@holdfast/shared/grpc/certify";
import { createChannelCredentials } from "@holdfast/shared/grpc/tls-credentials";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { tempDirectory } from "@holdfast/shared/testing/certified";
import { createCertificateKeeper } from "@holdfast/shared/trust/certificate-keeper";
import { isUnusable, readCredentialTexts } from "@holdfast/shared/trust/credential-files";
import { readLeaf } from "@holdfast/shared/trust/leaf";
import { generateKey, makeCertificate } from "@holdfast/shared/trust/make-certificate";
import { certifiedRoles } from "@holdfast/shared/trust/spiffe-id";
import { describe, expect, onTestFinished, test } from "vitest";
import { formsOf, thereOf } from "../canary/forms.ts";
import { cliRun } from "../cli/cli-run.ts";
import { dialAgent } from "../support/controller/dial-agent.ts";
import { startImpostor } from "../support/impostor.ts";
import { told, trustedController } from "./trusted-controller.ts";

const keeperOf = (directory: string) => {
  const log = createMemoryLogger();
  const keeper = createCertificateKeeper({ path: directory, setting: "TEST", wanted: { roles: certifiedRoles }, log });
  onTestFinished(keeper.stop);
  return keeper;
};

const started = async () => {
  const parts = await trustedController(tempDirectory());
  onTestFinished(() => parts.app.stop());
  return parts;
};

const identity = { machineId: "m1", bootId: "b1", journalUid: "j1", rootDir: "/r", version: "1" };

describe("enrolment", () => {
  test("a host becomes a node by what `node token` prints, once, and registers with its certificate", async () => {
    const { at, app, enrolArgs, asAda, log } = await started();
    const { args, token } = await enrolArgs("node-a", "a");
    expect(await told(args)).toEqual({ node: "node-a", dir: at("a") });
    const again = await cliRun(args);
    expect([again.code, again.err]).toEqual([4, expect.stringContaining("it was used before")]);
    const kept = readdirSync(at("state"), { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    const files = kept.map((entry) => readFileSync(path.join(entry.parentPath, entry.name), "latin1"));
    const [hashed, forms] = [createHash("sha256").update(token).digest("hex"), formsOf(token)];
    expect(files.filter((text) => text.includes(hashed))).not.toEqual([]);
    for (const text of [...files, JSON.stringify(log.lines), again.err, again.out])
      expect(thereOf(text, forms)).toEqual([]);
    const agent = dialAgent(app.agentAddress(), {
      credentials: createChannelCredentials(keeperOf(at("a"))),
      node: "node-a",
    });
    onTestFinished(agent.cut);
    await agent.register(identity);
    expect(JSON.stringify(await asAda(["node", "list"]))).toContain('"node-a"');
  });

  test("the token of another node is refused before it is used up", async () => {
    const { at, enrolArgs } = await started();
    const { args } = await enrolArgs("node-a", "b");
    const { code, err } = await cliRun([...args, "--node", "node-b"]);
    expect([code, err]).toEqual([4, expect.stringContaining("it is of another node")]);
    expect(isUnusable(readCredentialTexts(at("b")))).toBe(true);
    await told([...args, "--node", "node-a"]);
  });

  test("with a wrong pin nothing is sent: an impostor with a root of its own hears no byte of a call", async () => {
    const { port, heard } = await startImpostor();
    const pin = `sha256:${createHash("sha256").update("another").digest("hex")}`;
    const out = path.join(tempDirectory(), "x");
    const args = ["agent", "enrol", "--controller", `127.0.0.1:${port}`, "--token", "0".repeat(32), "--out", out];
    const { code, err } = await cliRun([...args, "--pin", pin]);
    expect([code, err]).toEqual([4, expect.stringContaining("the token was not sent")]);
    expect(Buffer.concat(heard)).toHaveLength(0);
    expect(isUnusable(readCredentialTexts(out))).toBe(true);
  });

  test("a certificate of the right root that is no controller's hears no token either", async () => {
    const { at, enrolArgs } = await started();
    const issuing = readCredentialTexts(at("ca/issuing"));
    if (isUnusable(issuing)) throw new Error(issuing.wrong);
    // Another issuer of the same root may give such a one: for servers, and of an operator.
    const [key, now, [own = ""]] = [generateKey(), Date.now(), issuing.chain];
    const mallory = await makeCertificate({
      ...{ kind: "server", uri: "spiffe://td.test/csi/operator/mallory", subject: "", key },
      ...{ by: { certificate: own, key: issuing.key }, notBefore: now - 60_000, notAfter: now + 60_000 },
    });
    const heard: Buffer[] = [];
    const server = createSecureServer({
      // With the root, so that the pin is there.
      ...{ key, cert: [mallory, own, ...issuing.roots].join(""), minVersion: "TLSv1.3" },
    });
    server.on("stream", (stream) => stream.on("data", (bytes: Buffer) => heard.push(bytes)));
    server.on("tlsClientError", () => undefined);
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    onTestFinished(() => void server.close());
    const address = server.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const { args, token } = await enrolArgs("node-a", "x");
    const { code } = await cliRun(args.map((arg, i) => (args[i - 1] === "--controller" ? `127.0.0.1:${port}` : arg)));
    expect(code).not.toBe(0);
    expect(Buffer.concat(heard).toString("latin1")).not.toContain(token);
    // The token was not used up.
    await told(args);
  });
});

test("an agent without a certificate enrols by its settings, once; its certificate has another one made", async () => {
  const { at, app, enrolArgs } = await started();
  const { token, pin } = await enrolArgs("node-a", "unused");
  writeFileSync(at("token"), `${token}\n`);
  const log = createMemoryLogger();
  const config = loadConfig(configSchema, {
    HOLDFAST_NODE: "node-a",
    HOLDFAST_TLS_DIR: at("agent"),
    HOLDFAST_CONTROLLERS: app.agentAddress(),
    HOLDFAST_ENROL_TOKEN_FILE: at("token"),
    HOLDFAST_ENROL_PIN: pin,
  });
  const end = new AbortController();
  onTestFinished(() => end.abort());
  const life = { config, log, signal: end.signal };
  const credentials = await keepCertificates(life);
  if (credentials === undefined) throw new Error("no credentials");
  const { leaf } = keeperOf(at("agent")).current();
  // The next start has a certificate, and sends no token.
  await keepCertificates(life);
  expect(keeperOf(at("agent")).current().leaf.serial).toBe(leaf.serial);
  const texts = await certifyBy({ controllers: ["127.0.0.1:1", app.agentAddress()], credentials, log }, generateKey());
  const renewed = readLeaf(new X509Certificate(texts.chain[0] ?? "").raw);
  expect(renewed).toMatchObject({ id: leaf.id });
  expect(renewed).not.toMatchObject({ serial: leaf.serial });
});

test("a cloned certificate: the second host that registers by it is refused, and the node says so", async () => {
  const { at, app, asAda, enrolArgs } = await started();
  await told((await enrolArgs("node-a", "a")).args);
  const credentials = createChannelCredentials(keeperOf(at("a")));
  const [first, clone] = ["i1", "i2"].map((instance) => {
    const agent = dialAgent(app.agentAddress(), { credentials, node: "node-a", instance });
    onTestFinished(agent.cut);
    return agent;
  });
  await first?.register(identity);
  await expect(clone?.register({ ...identity, machineId: "m2", bootId: "b2" })).rejects.toMatchObject({
    reason: "NODE_CONFLICT",
  });
  expect(JSON.stringify(await asAda(["node", "status", "node-a"]))).toMatch(/NODE_CONFLICT|blocked/);
});

describe("revocation", () => {
  test("ends a running stream at once, and refuses the next call with the reason; another certificate goes on", async () => {
    const { at, app, issue, asAda, enrolArgs } = await started();
    await told((await enrolArgs("node-a", "a")).args);
    await told((await enrolArgs("node-b", "b")).args);
    const dialled = (name: string) => {
      const credentials = createChannelCredentials(keeperOf(at(name)));
      const agent = dialAgent(app.agentAddress(), { credentials, node: `node-${name}` });
      onTestFinished(agent.cut);
      return agent;
    };
    const [a, b] = [dialled("a"), dialled("b")];
    await a.register(identity);
    await b.register({ ...identity, machineId: "m2", bootId: "b2", journalUid: "j2" });
    const serial = keeperOf(at("a")).current().leaf.serial;
    await asAda(["ca", "revoke", serial, "--reason", "stolen"]);
    await a.over;
    const next = dialled("a");
    await expect(next.register(identity)).rejects.toMatchObject({});
    expect(await next.over).toMatchObject({ reason: "CERTIFICATE_DENIED" });
    await b.register({ ...identity, machineId: "m2", bootId: "b2", journalUid: "j2" });
    // By name: whatever was issued until now, and nothing that is issued later.
    const bob = await issue("scheduler/nomad", "nomad");
    await asAda(["ca", "revoke", "scheduler/nomad", "--reason", "left"]);
    const list = ["volume", "list", "--certs", bob.directory];
    const denied = await cliRun(list, { address: app.address() });
    expect([denied.code, denied.err]).toEqual([4, expect.stringContaining("CERTIFICATE_DENIED")]);
    expect((await asAda(["ca", "revoked"]))["revoked"]).toHaveLength(2);
  });
});

test("where agents reach the controller, no token is made and nothing is revoked, whoever asks", async () => {
  const { at, app } = await started();
  const args = ["--certs", at("ada")];
  for (const command of [
    ["node", "token", "node-a"],
    ["ca", "revoked"],
  ]) {
    const { code, err } = await cliRun([...command, ...args], { address: app.agentAddress() });
    expect([code, err]).toEqual([4, expect.stringContaining("PERMISSION_DENIED")]);
  }
});

test("the doctor of a controller looks at its authority", async () => {
  const { at } = await started();
  const paths = { HOLDFAST_STATE_DIR: "state", HOLDFAST_PLUGIN_DIR: "plugins", HOLDFAST_TLS_DIR: "controller" };
  const env = Object.entries({ ...paths, HOLDFAST_CA_DIR: "ca/issuing" }).map(([name, place]) => [name, at(place)]);
  const findings = await doctorFindings(loadConfig(controllerSchema, Object.fromEntries(env)), {});
  expect(findings.filter(({ subject }) => subject === at("ca/issuing"))).toMatchObject([
    { id: "authority", level: "ok" },
  ]);
});

test.each([
  ["a root", "ca/root", "as a root is, whose key stays offline"],
  ["the certificate of a controller", "controller", "is no authority"],
])("a controller does not start with %s as its authority, and says why", async (_, directory, words) => {
  await expect(trustedController(tempDirectory(), { HOLDFAST_CA_DIR: directory })).rejects.toThrow(words);
});
