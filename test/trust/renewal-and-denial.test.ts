/**
 * Processes as they run in production: two controllers of one store and an agent behind a proxy, with certificates. The agent's is renewed
 * by itself while its streams go on, and what one controller denies is denied at the other.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { OrphanKind, RepairServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/repair";
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import { createGrpcChannel, createGrpcClient, type GrpcChannel } from "@holdfast/shared/grpc/client";
import { createChannelCredentials } from "@holdfast/shared/grpc/tls-credentials";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { issueLeaf, readAuthority } from "@holdfast/shared/trust/authority";
import { createCertificateKeeper } from "@holdfast/shared/trust/certificate-keeper";
import { writeCredentials } from "@holdfast/shared/trust/credential-dir";
import { generateKey } from "@holdfast/shared/trust/make-certificate";
import { certifiedRoles } from "@holdfast/shared/trust/spiffe-id";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ManagedProcess } from "../harness/managed-process.ts";
import { startTrustedAgent, startTrustedController, type TrustedController } from "../harness/trusted-processes.ts";
import { until } from "../harness/until.ts";
import { type ConnectProxy, startConnectProxy } from "../support/connect-proxy.ts";
import { type RedisServer, startRedisServer } from "../support/redis-server.ts";
import { told } from "./trusted-controller.ts";

const dir = mkdtempSync(path.join(tmpdir(), "hf-"));
const at = (...parts: readonly string[]): string => path.join(dir, ...parts);
const log = createMemoryLogger();
const lifeMs = 15_000;

const processes: ManagedProcess[] = [];
const ends: (() => unknown)[] = [];
let redis: RedisServer;
let proxy: ConnectProxy;
let first: TrustedController;
let second: TrustedController;
let agent: ManagedProcess;

const keeperOf = (name: string) => {
  const wanted = { roles: certifiedRoles };
  const keeper = createCertificateKeeper({ path: at(name, "tls"), setting: "TEST", wanted, log });
  ends.push(keeper.stop);
  return keeper;
};

const dial = (who: string, { address }: TrustedController): GrpcChannel => {
  const channel = createGrpcChannel(address, {
    credentials: createChannelCredentials(keeperOf(who)),
    ownConnection: true,
  });
  ends.push(() => channel.close());
  return channel;
};

const revoke = (subject: string) =>
  told(
    ["ca", "revoke", subject, "--reason", "test", "--certs", at("ada", "tls"), "--address", first.address],
    first.address,
  );

beforeAll(async () => {
  redis = await startRedisServer();
  const ca = ["--dir", at("ca")];
  await told(["ca", "init", "--trust-domain", "td.test", ...ca]);
  for (const [name, as] of [
    ["controller/c-1", "c-1"],
    ["controller/c-2", "c-2"],
    ["operator/ada", "ada"],
    ["operator/bob", "bob"],
  ] as const)
    await told(["ca", "issue", name, ...ca, "--out", at(as, "tls")]);
  const started = (one: ManagedProcess): void => void processes.push(one);
  const controllers = ["c-1", "c-2"].map((id) =>
    startTrustedController(dir, id, started, { HOLDFAST_ID: id, HOLDFAST_STORE: redis.url }),
  );
  [first, second] = (await Promise.all(controllers)) as [TrustedController, TrustedController];
  proxy = await startConnectProxy({ leadsTo: (target) => ({ port: Number(target.split(":").pop()) }) });

  const authority = await readAuthority(at("ca", "issuing"), { now: Date.now() });
  const [key, now] = [generateKey(), Date.now()];
  const identity = { role: "node", name: "node-a" } as const;
  const chain = await issueLeaf(authority, { identity, key, ttlMs: lifeMs, now, after: now });
  writeCredentials(at("node-a", "tls"), { chain, key, roots: authority.roots });
  agent = await startTrustedAgent(dir, "node-a", started, {
    HOLDFAST_CONTROLLERS: `${first.agents},${second.agents}`,
    HOLDFAST_PROXY: proxy.url,
  });
});
afterAll(async () => {
  for (const end of ends.reverse()) end();
  for (const one of processes.reverse()) await one.kill("SIGTERM");
  await proxy?.close();
  await redis?.stop();
  rmSync(dir, { recursive: true, force: true, maxRetries: 3 });
});

/** Has the controller ask the agent over its stream; answers why it could not. */
const asks = (channel: GrpcChannel) => {
  const repair = createGrpcClient(RepairServiceDefinition, channel, { log });
  const question = { nodes: ["node-a"], kinds: [OrphanKind.ORPHAN_KIND_MOUNT] };
  return async (): Promise<string | undefined> => {
    let why: string | undefined;
    for await (const { gap } of repair.scanOrphans(question)) why ??= gap?.error?.message;
    return why;
  };
};

test("an agent renews its certificate after two thirds of its life, and each of its streams goes on behind the end of the old one", async () => {
  const keeper = keeperOf("node-a");
  const { leaf, notBefore, notAfter } = keeper.current();
  const ways = [asks(dial("ada", first)), asks(dial("ada", second))];
  for (const ask of ways) await until("the agent to register", async () => (await ask()) === undefined);

  const failures: string[] = [];
  while (Date.now() < notAfter + 2_000) {
    for (const ask of ways) {
      const failure = await ask();
      if (failure !== undefined) failures.push(failure);
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  expect(failures).toEqual([]);

  const renewed = keeper.current();
  expect(renewed.leaf).toMatchObject({ id: leaf.id });
  expect(renewed.leaf.serial).not.toBe(leaf.serial);
  expect(renewed.notAfter).toBeGreaterThan(notAfter);
  const line = await agent.line(({ message }) => message === "the certificate was renewed", "its renewal");
  const share = (Date.parse(String(line["time"])) - notBefore) / (notAfter - notBefore);
  expect(share).toBeGreaterThanOrEqual(2 / 3);
  expect(share).toBeLessThan(1);
  // All of it went through the proxy: both links, and the renewal.
  expect(new Set(proxy.asked)).toEqual(new Set([first.agents, second.agents]));
});

test("what is denied at one controller is denied at the other: open streams end, and the next call is refused", async () => {
  const bob = createGrpcClient(VolumeServiceDefinition, dial("bob", second), { log });
  const ada = createGrpcClient(VolumeServiceDefinition, dial("ada", second), { log });
  const watched = (client: typeof bob, signal: AbortSignal) =>
    (async () => {
      for await (const _ of client.watchVolumes({}, { signal }));
    })().catch((error: unknown) => error);
  await bob.listVolumes({});
  const [bobs, adas] = [new AbortController(), new AbortController()];
  const [ofBob, ofAda] = [watched(bob, bobs.signal), watched(ada, adas.signal)];
  await revoke("operator/bob");
  // His own signal did not end it.
  expect(await ofBob).toBeInstanceOf(Error);
  expect(bobs.signal.aborted).toBe(false);
  await expect(bob.listVolumes({})).rejects.toMatchObject({ reason: "CERTIFICATE_DENIED" });
  await ada.listVolumes({});
  expect(await Promise.race([ofAda, Promise.resolve("still open")])).toBe("still open");
  adas.abort();
});

test("so is the agent's: its stream to the other controller ends, and it is let in nowhere", async () => {
  const [here, there] = [asks(dial("ada", first)), asks(dial("ada", second))];
  expect([await here(), await there()]).toEqual([undefined, undefined]);
  await revoke(keeperOf("node-a").current().leaf.serial);
  for (const [ask, controller] of [
    [there, second],
    [here, first],
  ] as const) {
    await until("the node to be out of reach", async () => (await ask()) !== undefined);
    await controller.process.line(
      ({ message, name }) => String(message).includes("was denied; its connection was ended") && name === "node/node-a",
      "the end of the connection of the node",
    );
  }
  for (const { agents } of [first, second])
    await agent.line(
      ({ controller, reason }) => controller === agents && reason === "CERTIFICATE_DENIED",
      "why it is not let in",
    );
});
