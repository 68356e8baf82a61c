/** A controller with two namespaces of two schedulers, and the agent's services with nothing behind them, as one caller after another asks. */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
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
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { AccessRow } from "@holdfast/shared/grpc/access";
import { createGrpcClient } from "@holdfast/shared/grpc/client";
import { createGrpcServer } from "@holdfast/shared/grpc/server";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createBackend } from "@holdfast/sim-plugin/backend/backend";
import { createSimPlugin } from "@holdfast/sim-plugin/sim-plugin";
import { type IdentityTransport, namesOf } from "./callers.ts";
import { onAgent } from "./methods.ts";

export interface AccessWorld {
  readonly transport: IdentityTransport;
  readonly addresses: { readonly controller: string; readonly streams: string; readonly agent: string };
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
  const rows = controllerRules();
  const app = createApp(
    loadConfig(configSchema, {
      HOLDFAST_LISTEN: "127.0.0.1:0",
      HOLDFAST_AGENT_LISTEN: "127.0.0.1:0",
      HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
      HOLDFAST_STATE_DIR: path.join(dir, "state"),
      HOLDFAST_PLUGIN_DIR: path.join(dir, "cp"),
    }),
    { log: quiet, access: { trust: "certificates", rows } },
  );
  await app.start();
  const agentRows = agentRules();
  const agent = createGrpcServer({ log: quiet, access: agentAccess("certificates", agentRows) });
  for (const definition of onAgent) agent.add(definition, unimplemented<typeof definition>(definition, {}) as never);
  const addresses = {
    controller: app.address(),
    streams: app.agentAddress(),
    agent: await agent.listen("127.0.0.1:0"),
  };

  const { channel, identity } = transport.dial("operator", addresses.controller);
  const options = { log: quiet, ...(identity === undefined ? {} : { identity }) };
  const grants = createGrpcClient(GrantServiceDefinition, channel, options);
  const volumes = createGrpcClient(VolumeServiceDefinition, channel, options);
  for (const { namespace, plugin: name } of [namesOf.own, namesOf.other]) {
    await grants.setGrant({ scheduler: namespace, namespaces: [namespace], plugins: [name], reason: "for the test" });
    await volumes.createVolume({
      ...{ namespace, id: "data", plugin: sim, capacity: { requiredBytes: 1n << 24n }, waitFor },
      capabilities: [{ attachmentMode: 1, accessMode: 1 }],
    });
  }
  return {
    transport,
    addresses,
    rows,
    agentRows,
    async close() {
      transport.close();
      await app.stop();
      await agent.stop({ graceMs: 0 });
      await plugin.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
};
