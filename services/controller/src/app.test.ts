import { spawn } from "node:child_process";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { loadConfig } from "@holdfast/shared/config/config";
import { NodeServiceDefinition, NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import { RepairServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/repair";
import {
  type CreateVolumeRequest,
  type DeepPartial,
  VolumeServiceDefinition,
  VolumeState,
} from "@holdfast/shared/gen/holdfast/v1/volume";
import { createGrpcChannel, createGrpcClient, type GrpcChannel } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createBackend } from "@holdfast/sim-plugin/backend/backend";
import { createSimPlugin, type SimPlugin } from "@holdfast/sim-plugin/sim-plugin";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { childEnvironment } from "../../../test/support/child-environment.ts";
import { dialAgent } from "../../../test/support/controller/dial-agent.ts";
import { type App, createApp } from "./app.ts";
import { configSchema } from "./config.ts";

let dir: string;
const running: App[] = [];
const channels: GrpcChannel[] = [];
let plugin: SimPlugin | undefined;

beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-app-"));
  await mkdir(path.join(dir, "cp"), { mode: 0o700 });
});
afterEach(async () => {
  for (const channel of channels.splice(0)) channel.close();
  for (const app of running.splice(0)) await app.stop();
  await plugin?.close();
  plugin = undefined;
  await rm(dir, { recursive: true, force: true });
});

const env = (change: Record<string, string> = {}): Record<string, string> => ({
  HOLDFAST_LISTEN: "127.0.0.1:0",
  HOLDFAST_AGENT_LISTEN: "127.0.0.1:0",
  HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
  HOLDFAST_STATE_DIR: path.join(dir, "state"),
  HOLDFAST_PLUGIN_DIR: path.join(dir, "cp"),
  ...change,
});

const start = async (change: Record<string, string> = {}) => {
  const log = createMemoryLogger();
  const app = createApp(loadConfig(configSchema, env(change)), { log });
  running.push(app);
  await app.start();
  const channel = createGrpcChannel(app.address());
  channels.push(channel);
  const options = { log, identity: { role: "operator", name: "ann" } } as const;
  return {
    app,
    log,
    volumes: createGrpcClient(VolumeServiceDefinition, channel, options),
    nodes: createGrpcClient(NodeServiceDefinition, channel, options),
    repair: createGrpcClient(RepairServiceDefinition, channel, options),
    ready: log.lines.findLast(({ message }) => message === "ready")?.fields,
    stop: async () => {
      running.splice(running.indexOf(app), 1);
      await app.stop();
    },
  };
};

const waitFor = { seconds: 20n, nanos: 0 };
const wanted: DeepPartial<CreateVolumeRequest> = {
  namespace: "default",
  id: "data",
  plugin: "sim.holdfast.dev",
  capacity: { requiredBytes: 1n << 24n },
  capabilities: [{ attachmentMode: 1, accessMode: 1 }],
  waitFor,
};

describe("a controller", () => {
  test("makes a volume at its plugin, with nothing installed but itself", async () => {
    const backend = createBackend();
    plugin = await createSimPlugin({ role: "controller", socket: path.join(dir, "cp", "sim.sock"), backend });
    const first = await start();
    const { volume } = await first.volumes.createVolume(wanted);
    expect(volume).toMatchObject({ state: VolumeState.VOLUME_STATE_AVAILABLE, pluginVersion: expect.any(String) });
    expect([...backend.state().volumes.keys()]).toEqual([volume?.externalId]);
    await first.stop();

    const second = await start();
    expect(second.ready).toMatchObject({ controller: first.ready?.["controller"], incarnation: 2, store: "sqlite" });
    expect((await second.volumes.createVolume(wanted)).volume?.uid).toBe(volume?.uid);
    expect((await second.volumes.deleteVolume({ namespace: "default", id: "data", waitFor })).volume).toBe(undefined);
    expect(backend.state().volumes.size).toBe(0);
    expect(backend.violations()).toEqual([]);
  });

  test("has a listener of its own for agents: a node is READY by the stream that its agent keeps there", async () => {
    const { app, nodes, ready } = await start();
    expect(ready).toMatchObject({ address: app.address(), agents: app.agentAddress() });
    expect(app.agentAddress()).not.toBe(app.address());
    const agent = dialAgent(app.agentAddress());
    await agent.register({ machineId: "m", bootId: "b", journalUid: "j", lockId: "8:1" });
    await expect.poll(async () => (await nodes.getNode({ name: "n1" })).node?.state).toBe(NodeState.NODE_STATE_READY);
    // What schedulers reach serves no stream of an agent.
    expect(await dialAgent(app.address()).over).toMatchObject({ kind: "unimplemented" });
    agent.cut();
  });

  test("goes on after its death with what was owed", async () => {
    const backend = createBackend({ faults: [{ method: "CreateVolume", dropReply: true, times: 1 }] });
    plugin = await createSimPlugin({ role: "controller", socket: path.join(dir, "cp", "sim.sock"), backend });
    const first = await start();
    await first.volumes.createVolume({ ...wanted, waitFor: undefined });
    await expect.poll(() => backend.state().volumes.size).toBe(1);
    await first.stop();
    const second = await start();
    const { volume } = await second.volumes.createVolume(wanted);
    expect(volume).toMatchObject({ state: VolumeState.VOLUME_STATE_AVAILABLE });
    expect(backend.state().volumes.size).toBe(1);
    expect(backend.violations()).toEqual([]);
  });

  test("[I8] grants nothing from a store that is not its own, until somebody vouches for it", async () => {
    await (await start()).stop();
    const other = `sqlite://${path.join(dir, "other.db")}`;
    const replaced = await start({ HOLDFAST_STORE: other });
    const shut = await replaced.repair.vet({});
    expect(shut).toMatchObject({ open: false, findings: [{ message: expect.stringContaining("installation") }] });
    await expect(replaced.volumes.createVolume(wanted)).rejects.toBeDefined();
    await expect(replaced.repair.vet({ accept: true })).rejects.toMatchObject({ violations: [{ field: "reason" }] });
    expect(await replaced.repair.vet({ accept: true, reason: "moved", dryRun: true })).toMatchObject({
      open: false,
      outcome: { dryRun: true, auditId: "", consequence: { effects: [expect.any(String)] } },
    });
    expect(await replaced.repair.vet({ accept: true, reason: "moved" })).toMatchObject({ open: true });
    expect(replaced.log.lines).toContainEqual(
      expect.objectContaining({ fields: expect.objectContaining({ who: "operator/ann" }) }),
    );
  });
});

/** The process itself: what it prints and how it ends. */
const startProcess = (change: Record<string, string>) => {
  const main = path.join(import.meta.dirname, "main.ts");
  const child = spawn(process.execPath, [main], { env: { ...childEnvironment(), ...env(change) } });
  let out = "";
  child.stdout.on("data", (text) => {
    out += String(text);
  });
  child.stderr.on("data", (text) => {
    out += String(text);
  });
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  return { child, ended, out: () => out };
};

describe("the process", () => {
  test("prints every wrong setting and ends with 78", async () => {
    const wrong = {
      HOLDFAST_CELL: "No!",
      HOLDFAST_LISTEN: "nowhere",
      HOLDFAST_STATEDIR: "/x",
      HOLDFAST_ADMIN_LISTEN: "unix:///run/admin.sock",
    };
    const run = startProcess(wrong);
    expect(await run.ended).toBe(78);
    expect(run.out()).toContain("the settings have 4 mistakes");
    for (const name of Object.keys(wrong)) expect(run.out()).toContain(name);
  });

  test("refuses an address that everybody reaches with 78, and a state directory in use with 70", async () => {
    const open = startProcess({ HOLDFAST_LISTEN: "0.0.0.0:0" });
    expect(await open.ended).toBe(78);
    expect(open.out()).toContain("HOLDFAST_INSECURE=1");
    await start();
    const second = startProcess({});
    expect(await second.ended).toBe(70);
    expect(second.out()).toContain("HOLDFAST_STATE_DIR");
  });

  test("is ready, and ends in order when it is asked to, also with the command line's settings around it", async () => {
    const run = startProcess({ HOLDFAST_ADDRESS: "127.0.0.1:1", HOLDFAST_CONFIG: "/etc/holdfast/config.yaml" });
    await expect.poll(run.out, { timeout: 20_000 }).toContain('"message":"ready"');
    run.child.kill("SIGTERM");
    expect(await run.ended).toBe(0);
    expect(run.out()).not.toContain('"level":"error"');
    expect(run.out()).toContain("HOLDFAST_CONFIG is the command line's and was not read");
  });
});
