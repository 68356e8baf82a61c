import tls from "node:tls";
import { ChannelCredentials, ServerCredentials } from "@grpc/grpc-js";
import { createServer, Metadata } from "nice-grpc";
import { beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { waitFor } from "../async/signals.ts";
import { createMemoryLogger } from "../log/logger.ts";
import { certified } from "../testing/certified.ts";
import { EchoDefinition } from "../testing/echo-service.ts";
import { failureOf } from "../testing/failure-of.ts";
import { healthClient } from "../testing/health-client.ts";
import { tempSocket } from "../testing/temp-socket.ts";
import { createTestAuthority, type LeafWish, type TestAuthority } from "../testing/test-authority.ts";
import { peerHeader } from "./caller-interceptor.ts";
import { createGrpcChannel, createGrpcClient, type GrpcChannelOptions } from "./client.ts";
import { formatIdentity, type Identity } from "./identity.ts";
import { createGrpcServer } from "./server.ts";
import { createChannelCredentials } from "./tls-credentials.ts";

let authority: TestAuthority;
/** Another one, and one that also has the name of ours. */
let foreign: TestAuthority;
let twin: TestAuthority;
beforeAll(async () => {
  authority = await createTestAuthority();
  foreign = await createTestAuthority("test.example", "elsewhere");
  twin = await createTestAuthority();
});

const controller = { path: "csi/controller/c1" };
const hourMs = 3_600_000;

interface Served {
  readonly address: string;
  readonly seen: Identity[];
  readonly log: ReturnType<typeof createMemoryLogger>;
}

async function served(options: { server?: LeafWish; listen?: string; denied?: string[] } = {}): Promise<Served> {
  const log = createMemoryLogger();
  const seen: Identity[] = [];
  const { keeper } = await certified(authority, options.server ?? controller);
  const server = createGrpcServer({
    log,
    certificates: { keeper, isDenied: ({ serial }) => options.denied?.includes(serial) === true },
  });
  server.add(EchoDefinition, {
    async say(request, { identity }) {
      seen.push(identity);
      return request;
    },
    async *watch(request, { signal }) {
      yield request;
      if (request.text === "for ever") await waitFor(new Promise<never>(() => undefined), signal);
    },
  });
  const address = await server.listen(options.listen ?? "127.0.0.1:0");
  server.setServing("", true);
  onTestFinished(() => server.stop({ graceMs: 0 }));
  return { address, seen, log };
}

function clientOf(address: string, credentials: GrpcChannelOptions["credentials"], identity?: Identity) {
  const channel = createGrpcChannel(address, { credentials, ownConnection: true });
  onTestFinished(() => channel.close());
  const log = createMemoryLogger();
  return {
    echo: createGrpcClient(EchoDefinition, channel, { log, ...(identity === undefined ? {} : { identity }) }),
    health: healthClient(channel, log),
  };
}

const bearing = async (wish: LeafWish, by = authority) =>
  createChannelCredentials((await certified(by, wish, [authority.root])).keeper);

/** Trusts the server, whatever it is, and shows no certificate. */
const nobody = () =>
  ChannelCredentials.createSsl(Buffer.from(authority.root), null, null, { checkServerIdentity: () => undefined });

describe("a server with certificates knows its callers", () => {
  test.each(["node/n1", "scheduler/s", "operator/ada", "controller/c2"])(
    "as %s, from the certificate alone",
    async (name) => {
      const { address, seen } = await served();
      const { echo } = clientOf(address, await bearing({ path: `csi/${name}` }));
      expect(await echo.say({ text: "x" })).toEqual({ text: "x" });
      const [role, own] = name.split("/");
      expect(seen).toMatchObject([{ role, name: own, certificate: { trustDomain: "test.example" } }]);
    },
  );

  test("whose certificate Node takes apart once for a connection, however many calls come over it", async () => {
    const { address, seen } = await served();
    const { echo } = clientOf(address, await bearing({ path: "csi/operator/ada" }));
    await echo.say({ text: "x" });
    const takenApart = vi.spyOn(tls.TLSSocket.prototype, "getPeerCertificate");
    onTestFinished(() => takenApart.mockRestore());
    for (let count = 0; count < 5; count += 1) await echo.say({ text: "x" });
    expect(seen).toHaveLength(6);
    expect(takenApart).not.toHaveBeenCalled();
  });

  test("a caller without one is anonymous", async () => {
    const { address, seen } = await served();
    await clientOf(address, nobody()).echo.say({ text: "x" });
    expect(seen).toEqual([{ role: "anonymous", name: "" }]);
  });

  test("one whose certificate does not verify is cut off: no call of it arrives, the log and the metric say why", async () => {
    const cases: readonly (readonly [why: string, wish: LeafWish, by: TestAuthority])[] = [
      ["CERT_HAS_EXPIRED", { notBefore: Date.now() - 2 * hourMs, notAfter: Date.now() - hourMs }, authority],
      ["CERT_NOT_YET_VALID", { notBefore: Date.now() + hourMs, notAfter: Date.now() + 2 * hourMs }, authority],
      ["SELF_SIGNED_CERT_IN_CHAIN", {}, foreign],
      ["CERT_SIGNATURE_FAILURE", {}, twin],
      ["INVALID_PURPOSE", { usages: ["server"] }, authority],
    ];
    for (const [why, wish, by] of cases) {
      const { address, seen, log } = await served();
      const leaf = await by.issue({ path: "csi/operator/ada", ...wish });
      const end = await rawConnection(address, { cert: leaf.certificate + by.root, key: leaf.key, ca: authority.root });
      expect(end, why).toBe("ended");
      expect(seen).toEqual([]);
      expect(log.lines.find(({ message }) => message.includes("does not verify"))?.fields).toMatchObject({ why });
    }
  });

  test.each<readonly [string, LeafWish, RegExp]>([
    ["another trust domain", { path: "csi/operator/ada", domain: "other.example" }, /other\.example.*test\.example/],
    ["no URI", { names: [{ type: "dns", value: "ada.example" }] }, /0 URIs/],
    [
      "two URIs",
      {
        names: [
          { type: "url", value: "spiffe://test.example/csi/operator/ada" },
          { type: "url", value: "spiffe://test.example/csi/controller/c1" },
        ],
      },
      /2 URIs/,
    ],
    ["a URI of something else", { path: "ns/default/sa/web" }, /csi/],
  ])("a verified certificate with %s names nobody: the call is refused by name", async (_, wish, words) => {
    const { address, seen } = await served();
    const error = await failureOf(clientOf(address, await showing(wish)).echo.say({ text: "x" }));
    expect(error).toMatchObject({ kind: "unauthenticated", reason: "CERTIFICATE_REFUSED" });
    expect(error.message).toMatch(words);
    expect(seen).toEqual([]);
  });

  test("a denied serial is refused at the next call, on a connection that stays open", async () => {
    const denied: string[] = [];
    const { address, seen } = await served({ denied });
    const { echo } = clientOf(address, await bearing({ path: "csi/operator/ada", serial: "0badcafe" }));
    await echo.say({ text: "x" });
    expect(seen[0]?.certificate?.serial).toBe("0BADCAFE");
    denied.push("0BADCAFE");
    expect(await failureOf(echo.say({ text: "y" }))).toMatchObject({ reason: "CERTIFICATE_DENIED" });
    expect(seen).toHaveLength(1);
  });

  test("one whose certificate ends while it watches is told so, and its next call on that connection is refused", async () => {
    const { address } = await served();
    const { echo } = clientOf(address, await bearing({ path: "csi/operator/ada", notAfter: Date.now() + 2_500 }));
    const watching = (async () => {
      for await (const _ of echo.watch({ text: "for ever" }));
    })();
    expect(await failureOf(watching)).toMatchObject({ kind: "unauthenticated", reason: "CERTIFICATE_REFUSED" });
    expect(await failureOf(echo.say({ text: "x" }))).toMatchObject({ reason: "CERTIFICATE_REFUSED" });
  });

  test("an older TLS is not spoken", async () => {
    const { address } = await served();
    const end = await rawConnection(address, { ca: authority.root, maxVersion: "TLSv1.2", minVersion: "TLSv1.2" });
    expect(end).toMatch(/protocol version|PROTOCOL_VERSION|unsupported/i);
  });

  test("no session is resumed: its certificate would not be looked at again", async () => {
    const { address } = await served();
    const leaf = await authority.issue({ path: "csi/operator/ada" });
    const first = connection(address, { cert: leaf.certificate, key: leaf.key, ca: authority.root });
    const sessions: Buffer[] = [];
    first.on("session", (session) => sessions.push(session));
    await new Promise((resolve) => first.once("secureConnect", resolve));
    await new Promise((resolve) => setTimeout(resolve, 100));
    first.destroy();
    for (const session of sessions) {
      const again = connection(address, { ca: authority.root, session });
      await new Promise((resolve) => again.once("secureConnect", resolve));
      expect(again.isSessionReused()).toBe(false);
      again.destroy();
    }
  });
});

describe("what a caller says of itself gives nothing", () => {
  const ada = { path: "csi/operator/ada" };

  test("the header of the certificate is taken away and set anew, with TLS and without", async () => {
    const leaf = await authority.issue({ path: "csi/controller/c9" });
    const forged = Metadata({ [peerHeader]: leaf.der.toString("base64") });
    const { address, seen } = await served();
    await clientOf(address, await bearing(ada)).echo.say({ text: "x" }, { metadata: forged });
    await clientOf(address, nobody()).echo.say({ text: "x" }, { metadata: forged });
    const local = await served({ listen: (await socket()).address });
    await clientOf(local.address, undefined).echo.say({ text: "x" }, { metadata: forged });
    expect([...seen, ...local.seen].map(formatIdentity)).toEqual(["operator/ada", "anonymous", "local"]);
  });

  test("another identity than the certificate's is refused, also beside none", async () => {
    const { address, seen } = await served();
    const root: Identity = { role: "operator", name: "root" };
    for (const credentials of [await bearing(ada), nobody()])
      expect(await failureOf(clientOf(address, credentials, root).echo.say({ text: "x" }))).toMatchObject({
        kind: "unauthenticated",
        reason: "IDENTITY_FORGED",
      });
    await clientOf(address, await bearing(ada), { role: "operator", name: "ada" }).echo.say({ text: "x" });
    expect(seen.map(formatIdentity)).toEqual(["operator/ada"]);
  });

  test("the peer of a unix socket is local, whatever it claims", async () => {
    const { address, seen } = await served({ listen: (await socket()).address });
    const root: Identity = { role: "operator", name: "root" };
    await clientOf(address, await bearing(ada), root).echo.say({ text: "x" });
    expect(seen).toEqual([{ role: "local", name: "" }]);
  });
});

describe("callers without a certificate", () => {
  test("make five calls a second and address, health too; others are not held up by them", async () => {
    const { address } = await served();
    const stranger = clientOf(address, nobody());
    const answers = await Promise.allSettled(Array.from({ length: 40 }, () => stranger.health.check({ service: "" })));
    const refused = answers.flatMap((answer) => (answer.status === "rejected" ? [answer.reason] : []));
    expect(refused.length).toBeGreaterThanOrEqual(40 - 3 * 5);
    expect(refused[0]).toMatchObject({ reason: "OVERLOADED", kind: "exhausted" });
    const known = clientOf(address, await bearing({ path: "csi/operator/ada" }));
    await Promise.all(Array.from({ length: 40 }, () => known.echo.say({ text: "x" })));
  });
});

describe("a client speaks to a controller of its own trust domain alone", () => {
  test.each<readonly [string, LeafWish, RegExp]>([
    ["a node", { path: "csi/node/n2" }, /csi\/node\/n2, and no controller/],
    ["a scheduler", { path: "csi/scheduler/s" }, /no controller/],
    ["an operator", { path: "csi/operator/ada" }, /no controller/],
    ["a controller of another trust domain", { path: "csi/controller/c1", domain: "other.example" }, /other\.example/],
    ["one without a name", { names: [{ type: "dns", value: "localhost" }] }, /names nobody/],
  ])("and not to %s", async (_, server, words) => {
    const { address, seen } = await servedBy(server);
    const error = await failureOf(clientOf(address, await bearing({ path: "csi/node/n1" })).echo.say({ text: "x" }));
    expect(error.kind).toBe("unavailable");
    expect(error.message).toMatch(words);
    expect(seen).toEqual([]);
  });

  test.each<readonly [string, LeafWish]>([
    ["has expired", { notBefore: Date.now() - 2 * hourMs, notAfter: Date.now() - hourMs }],
    ["is not valid yet", { notBefore: Date.now() + hourMs, notAfter: Date.now() + 2 * hourMs }],
  ])("and not to one whose certificate %s", async (_, wish) => {
    const { address, seen } = await servedBy({ ...controller, ...wish });
    const error = await failureOf(clientOf(address, await bearing({ path: "csi/node/n1" })).echo.say({ text: "x" }));
    expect(error.message).toMatch(/certificate has expired|certificate is not yet valid/);
    expect(seen).toEqual([]);
  });

  test("and not to one of another authority, whatever that calls itself", async () => {
    for (const [by, words] of [
      [foreign, /self-signed certificate in certificate chain/],
      [twin, /certificate signature failure/],
    ] as const) {
      const { address, seen } = await servedBy(controller, by);
      const error = await failureOf(clientOf(address, await bearing({ path: "csi/node/n1" })).echo.say({ text: "x" }));
      expect(error.message).toMatch(words);
      expect(seen).toEqual([]);
    }
  });

  test("and not in an older TLS", async () => {
    const { address, seen } = await servedBy(controller, authority, { maxVersion: "TLSv1.2", minVersion: "TLSv1.2" });
    const error = await failureOf(clientOf(address, await bearing({ path: "csi/node/n1" })).echo.say({ text: "x" }));
    expect(error.message).toMatch(/protocol version/);
    expect(seen).toEqual([]);
  });

  test("and never without TLS at an address that has none", async () => {
    const log = createMemoryLogger();
    const server = createGrpcServer({ log });
    const seen: string[] = [];
    server.add(EchoDefinition, {
      async say(request) {
        seen.push(request.text);
        return request;
      },
      async *watch(request) {
        yield request;
      },
    });
    const address = await server.listen("127.0.0.1:0");
    onTestFinished(() => server.stop({ graceMs: 0 }));
    await failureOf(clientOf(address, await bearing({ path: "csi/node/n1" })).echo.say({ text: "x" }));
    expect(seen).toEqual([]);
  });
});

/** Bears this certificate although it is none that a keeper takes. */
async function showing(wish: LeafWish) {
  const leaf = await authority.issue(wish);
  return ChannelCredentials.createSsl(
    Buffer.from(authority.root),
    Buffer.from(leaf.key),
    Buffer.from(leaf.certificate),
    { checkServerIdentity: () => undefined },
  );
}

/** The same for a server, which knows no callers. */
async function servedBy(wish: LeafWish, by = authority, versions: tls.SecureContextOptions = {}) {
  const leaf = await by.issue(wish);
  const seen: string[] = [];
  const server = createServer();
  server.add(EchoDefinition, {
    async say(request) {
      seen.push(request.text);
      return request;
    },
    async *watch(request) {
      yield request;
    },
  });
  const pair = { cert_chain: Buffer.from(leaf.certificate + by.root), private_key: Buffer.from(leaf.key) };
  const credentials = ServerCredentials.createSsl(Buffer.from(authority.root), [pair]);
  const context = { ...credentials._getSecureContextOptions(), ...versions };
  Object.assign(credentials, { _getSecureContextOptions: () => context });
  const port = await server.listen("127.0.0.1:0", credentials);
  onTestFinished(() => server.forceShutdown());
  return { address: `127.0.0.1:${port}`, seen };
}

async function socket() {
  const made = await tempSocket();
  onTestFinished(made.remove);
  return made;
}

function connection(address: string, options: tls.ConnectionOptions): tls.TLSSocket {
  const port = Number(address.split(":")[1]);
  return tls.connect({
    host: "127.0.0.1",
    port,
    ALPNProtocols: ["h2"],
    checkServerIdentity: () => undefined,
    ...options,
  });
}

/** How it ended; "open" when it has not after a while. */
const rawConnection = (address: string, options: tls.ConnectionOptions): Promise<string> =>
  new Promise((resolve) => {
    const opened = connection(address, options);
    opened.once("error", (error) => resolve(error.message.includes("reset") ? "ended" : error.message));
    opened.once("close", () => resolve("ended"));
    opened.resume();
    setTimeout(() => resolve("open"), 3_000).unref();
  });
