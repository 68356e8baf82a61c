/** Each way to a controller that needs no certificate: five calls a second and address, and all of them together. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { networkInterfaces, tmpdir } from "node:os";
import path from "node:path";
import { TrustServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/trust";
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import { createGrpcChannel, createGrpcClient, type GrpcChannel } from "@holdfast/shared/grpc/client";
import { ServeWireDefinition } from "@holdfast/shared/grpc/stream/serve-wire";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { healthClient } from "@holdfast/shared/testing/health-client";
import { uncertified } from "@holdfast/shared/testing/uncertified";
import { isUnusable, readCredentialTexts } from "@holdfast/shared/trust/credential-files";
import { afterAll, beforeAll, expect, test } from "vitest";
import { until } from "../harness/until.ts";
import { tokenKeyLine } from "../support/token-keys.ts";
import { trustedController } from "./trusted-controller.ts";

const log = createMemoryLogger();
const dir = mkdtempSync(path.join(tmpdir(), "hf-strangers-"));
let controller: Awaited<ReturnType<typeof trustedController>>;
let channels: Readonly<Record<"schedulers" | "agents", GrpcChannel>>;
let keysAt: (host: string) => string;
const outer = Object.values(networkInterfaces())
  .flatMap((all = []) => all)
  .find(({ family, internal }) => family === "IPv4" && !internal)?.address;
if (outer === undefined) console.warn("SKIPPED: this host has no address beyond loopback");

beforeAll(async () => {
  writeFileSync(path.join(dir, "token-keys"), `${tokenKeyLine("first")}\n`, { mode: 0o600 });
  const discovery = {
    HOLDFAST_OIDC_LISTEN: "0.0.0.0:0",
    HOLDFAST_TOKEN_ISSUER: "https://tokens.example.com",
    HOLDFAST_INSECURE: "1",
  };
  controller = await trustedController(dir, { HOLDFAST_TOKEN_KEYS: "token-keys" }, discovery);
  const own = readCredentialTexts(controller.at("controller"));
  if (isUnusable(own)) throw new Error(own.wrong);
  const dial = (address: string) =>
    createGrpcChannel(address, { credentials: uncertified(own.roots.join("")), ownConnection: true });
  channels = { schedulers: dial(controller.app.address()), agents: dial(controller.app.agentAddress()) };
  const listening = controller.log.lines.find(({ message }) => message === "discovery listening");
  const port = String(listening?.fields["address"]).split(":").pop();
  keysAt = (host) => `http://${host}:${port}/openid/v1/jwks`;
});
afterAll(async () => {
  for (const channel of Object.values(channels ?? {})) channel.close();
  await controller?.app.stop();
  rmSync(dir, { recursive: true, force: true });
});

const health = (at: keyof typeof channels) => healthClient(channels[at], log);
const trust = (at: keyof typeof channels) => createGrpcClient(TrustServiceDefinition, channels[at], { log });
const enrol = { token: "0".repeat(32), node: "", request: "none" };
const never = new Promise<void>(() => undefined);
async function* nothing() {
  await never;
  yield new Uint8Array();
}

/** Answers the reason of its refusal, or nothing. */
type Ask = () => Promise<string | undefined>;

const reasonOf = async (call: Promise<unknown>): Promise<string | undefined> =>
  call.then(
    () => undefined,
    (error: { readonly reason?: string }) => error.reason ?? String(error),
  );

const first = async (stream: AsyncIterable<unknown>): Promise<void> => {
  for await (const _ of stream) return;
};

const keysFrom = async (host: string): Promise<string | undefined> =>
  (await fetch(keysAt(host))).status === 429 ? "OVERLOADED" : undefined;

const ways: Readonly<Record<string, Ask>> = {
  "health, where schedulers ask": () => reasonOf(health("schedulers").check({ service: "" })),
  "health, where agents ask": () => reasonOf(health("agents").check({ service: "" })),
  "a watch of health": () => reasonOf(first(health("schedulers").watch({ service: "" }))),
  "enrolment, where schedulers ask": () => reasonOf(trust("schedulers").enrol(enrol)),
  "enrolment, where agents ask": () => reasonOf(trust("agents").enrol(enrol)),
  ...(outer === undefined ? {} : { "public keys": () => keysFrom(outer) }),
  "a call that needs a certificate": () =>
    reasonOf(createGrpcClient(VolumeServiceDefinition, channels.schedulers, { log }).listVolumes({})),
  "the stream of an agent": () =>
    reasonOf(first(createGrpcClient(ServeWireDefinition, channels.agents, { log }).serve(nothing()))),
};

/** The second one is of a stream whose end came before its words. */
const tooMany = ["OVERLOADED", "RESOURCE_EXHAUSTED"];

/** How many of a crowd were heard, for each second in which it asked. */
const heardASecond = async (asks: readonly Ask[]): Promise<number> => {
  const begun = performance.now();
  const reasons = await Promise.all(Array.from({ length: 40 }, (_, at) => asks[at % asks.length]?.()));
  // The first and the last second are parts of one.
  const seconds = Math.floor((performance.now() - begun) / 1_000) + 2;
  return reasons.filter((reason) => !tooMany.includes(reason ?? "")).length / seconds;
};

test.each(Object.entries(ways))("%s", async (_, ask) => {
  await until("one to be heard", async () => !tooMany.includes((await ask()) ?? ""));
  expect(await heardASecond([ask])).toBeLessThanOrEqual(5);
});

test("public keys for a proxy on this host are not counted: it asks for many", async () => {
  for (const _ of Array.from({ length: 12 })) expect(await keysFrom("127.0.0.1")).toBeUndefined();
});

test("all of them count together", async () => {
  expect(await heardASecond(Object.values(ways))).toBeLessThanOrEqual(5);
});

test("streams that stay open are no way around it; one that ends makes room", async () => {
  const ends: AbortController[] = [];
  const open = async (): Promise<boolean> => {
    const end = new AbortController();
    const stream = health("schedulers").watch({ service: "" }, { signal: end.signal })[Symbol.asyncIterator]();
    const heard = await stream.next().then(
      () => true,
      () => false,
    );
    if (heard) ends.push(end);
    void stream.next().catch(() => undefined);
    return heard;
  };
  await until("five to be open", async () => {
    await open();
    return ends.length === 5;
  });
  const refused = () =>
    health("agents")
      .check({ service: "" })
      .then(() => "", String);
  await until("the second to be over", async () => (await refused()).includes("has 5 calls open"));
  ends.pop()?.abort();
  await until("one to be heard again", async () => (await refused()) === "");
  for (const end of ends) end.abort();
});

test("those with a certificate are not held up, from the same address", async () => {
  await heardASecond(Object.values(ways));
  for (const _ of Array.from({ length: 3 })) await controller.asAda(["volume", "list"]);
});
