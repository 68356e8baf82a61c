/** A controller with two namespaces of two schedulers, and the agent's services with nothing behind them, as one caller after another asks. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Asked } from "@holdfast/controller/api/access/judge-scope";
import { controllerRules } from "@holdfast/controller/api/access/rules";
import { unimplemented } from "@holdfast/controller/api/unimplemented";
import { createApp } from "@holdfast/controller/app";
import { configSchema } from "@holdfast/controller/config";
import { agentAccess, agentRules } from "@holdfast/node-agent/api/rules";
import { loadConfig } from "@holdfast/shared/config/config";
import { GrantServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/grant";
import { QuotaServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/quota";
import { SecretServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/secret";
import { SnapshotServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { AccessRow } from "@holdfast/shared/grpc/access";
import { createGrpcClient } from "@holdfast/shared/grpc/client";
import { createGrpcServer } from "@holdfast/shared/grpc/server";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createBackend } from "@holdfast/sim-plugin/backend/backend";
import { createSimPlugin } from "@holdfast/sim-plugin/sim-plugin";
import type { CompatServiceDefinition } from "nice-grpc";
import { type Column, type IdentityTransport, namesOf } from "./callers.ts";
import { onAgent } from "./methods.ts";

export interface Addresses {
  readonly controller: string;
  readonly streams: string;
  readonly agent: string;
}

export interface AccessWorld {
  readonly transport: IdentityTransport;
  /** A program on the host comes by unix sockets, everybody else by TLS. */
  addressesFor(caller: Column): Addresses;
  /** What the servers go by at this moment; a test may change it. */
  readonly rows: Map<string, AccessRow<Asked>>;
  readonly agentRows: Map<string, AccessRow<unknown>>;
  close(): Promise<void>;
}

const quiet = createMemoryLogger();
const sim = namesOf.own.plugin;
const waitFor = { seconds: 20n, nanos: 0 };

export const createAccessWorld = async (transport: IdentityTransport): Promise<AccessWorld> => {
  const dir = await mkdtemp(path.join(tmpdir(), "hf-access-"));
  await mkdir(path.join(dir, "cp"), { mode: 0o700 });
  const plugin = await createSimPlugin({
    role: "controller",
    socket: path.join(dir, "cp", "sim.sock"),
    backend: createBackend(),
  });
  const keys = path.join(dir, "secret-keys");
  await writeFile(keys, `k1 ${Buffer.alloc(32, 7).toString("base64")}\n`, { mode: 0o600 });
  const rows = controllerRules();
  const agentRows = agentRules();
  const ends: (() => Promise<void>)[] = [];

  /** One controller and one agent's services, on addresses of one kind. */
  const serve = async (name: string, addressOf: (what: string) => string): Promise<Addresses> => {
    const app = createApp(
      loadConfig(configSchema, {
        HOLDFAST_LISTEN: addressOf("api"),
        HOLDFAST_AGENT_LISTEN: addressOf("streams"),
        HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
        HOLDFAST_STATE_DIR: path.join(dir, name),
        HOLDFAST_PLUGIN_DIR: path.join(dir, "cp"),
        HOLDFAST_TLS_DIR: transport.tlsDir,
        HOLDFAST_SECRET_KEYS: keys,
        HOLDFAST_NODE_NAMESPACES: namesOf.own.namespace,
      }),
      { log: quiet, rules: rows },
    );
    ends.push(() => app.stop());
    await app.start();
    const { certificates } = transport;
    const agent = createGrpcServer({ log: quiet, certificates, access: agentAccess("certificates", agentRows) });
    for (const definition of onAgent) agent.add(definition, unimplemented<typeof definition>(definition, {}) as never);
    ends.push(() => agent.stop({ graceMs: 0 }));
    return {
      controller: app.address(),
      streams: app.agentAddress(),
      agent: await agent.listen(addressOf("agent")),
    };
  };
  const remote = await serve("remote", () => "127.0.0.1:0");
  const local = await serve("local", (what) => `unix://${path.join(dir, `${what}.sock`)}`);

  const channel = transport.dial("operator", remote.controller);
  const clientOf = <Definition extends CompatServiceDefinition>(definition: Definition) =>
    createGrpcClient(definition, channel, { log: quiet });
  const [grants, volumes] = [clientOf(GrantServiceDefinition), clientOf(VolumeServiceDefinition)];
  const [snapshots, secrets] = [clientOf(SnapshotServiceDefinition), clientOf(SecretServiceDefinition)];
  const quotas = clientOf(QuotaServiceDefinition);
  const reason = "for the test";
  for (const { namespace, plugin: name } of [namesOf.own, namesOf.other]) {
    await grants.setGrant({ scheduler: namespace, namespaces: [namespace], plugins: [name], reason });
    await volumes.createVolume({
      ...{ namespace, id: "data", plugin: sim, capacity: { requiredBytes: 1n << 24n }, waitFor },
      capabilities: [{ attachmentMode: 1, accessMode: 1 }],
    });
    await snapshots.createSnapshot({ namespace, id: "cut", volume: "data", waitFor });
    await snapshots.createSnapshotGroup({
      namespace,
      id: "both",
      members: [{ volume: "data", snapshot: "one" }],
      waitFor,
    });
    await secrets.putSecret({ namespace, name: `login-of-${namespace}`, values: { user: "u" } });
    await quotas.setQuota({ namespace, limits: { volumes: 5n }, reason });
  }
  return {
    transport,
    addressesFor: (caller) => (caller === "local" ? local : remote),
    rows,
    agentRows,
    async close() {
      await transport.close();
      for (const end of ends.toReversed()) await end();
      await plugin.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
};
