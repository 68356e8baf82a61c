/** A plugin that answers nobody, in a whole controller: calls stop, it is told why, and all goes on when it answers. */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createApp } from "@holdfast/controller/app";
import { configSchema } from "@holdfast/controller/config";
import { loadConfig } from "@holdfast/shared/config/config";
import { CallFlow, PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { VolumeServiceDefinition, VolumeState } from "@holdfast/shared/gen/holdfast/v1/volume";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createSimPlugin } from "@holdfast/sim-plugin/sim-plugin";
import { expect, onTestFinished, test } from "vitest";
import { cliRun } from "./cli/cli-run.ts";

const plugin = "sim.holdfast.dev";

test("several volumes without an answer hold its calls back, Explain says so, and its first answer lets all go", async () => {
  const dir = await mkdtemp(path.join(tmpdir(), "hf-si-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  const pluginDir = path.join(dir, "p");
  await mkdir(pluginDir, { mode: 0o700 });
  const sim = await createSimPlugin({
    role: "controller",
    socket: path.join(pluginDir, "s.sock"),
    faults: [{ method: "CreateVolume", code: "UNAVAILABLE", message: "no backend", times: "always" }],
  });
  onTestFinished(() => sim.close());
  const app = createApp(
    loadConfig(configSchema, {
      HOLDFAST_LISTEN: "127.0.0.1:0",
      HOLDFAST_AGENT_LISTEN: "127.0.0.1:0",
      HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
      HOLDFAST_STATE_DIR: path.join(dir, "c"),
      HOLDFAST_PLUGIN_DIR: pluginDir,
    }),
    { log: createMemoryLogger() },
  );
  await app.start();
  onTestFinished(() => app.stop());
  const channel = createGrpcChannel(app.address());
  onTestFinished(() => channel.close());
  const client = { log: createMemoryLogger() };
  const volumes = createGrpcClient(VolumeServiceDefinition, channel, client);
  const catalogue = createGrpcClient(PluginServiceDefinition, channel, client);
  const calls = async () => (await catalogue.getPlugin({ name: plugin })).plugin?.calls;

  await expect.poll(() => calls().catch(() => undefined), { timeout: 30_000 }).toBeDefined();
  const ids = ["a", "b", "c", "d", "e"];
  for (const id of ids)
    await volumes.createVolume({
      namespace: "default",
      id,
      plugin,
      capacity: { requiredBytes: 1n << 24n },
      capabilities: [{ attachmentMode: 1, accessMode: 1 }],
    });
  await expect.poll(async () => (await calls())?.flow, { timeout: 30_000 }).toBe(CallFlow.CALL_FLOW_HELD);
  const held = await calls();
  expect(held?.heldBecause).toMatch(/has not answered for .* s \(CreateVolume answered UNAVAILABLE\); its calls wait/);
  expect(held?.socket).toBe(path.join(pluginDir, "s.sock"));
  expect(held?.silentInstances).toEqual([expect.stringMatching(/s\.sock has not answered for .* UNAVAILABLE/)]);
  const shown = await cliRun(["plugin", "status", plugin], { address: app.address() });
  expect(shown.out).toMatch(/Calls wait: +plugin sim.*\nDoes not answer: .*s\.sock has not answered for/);
  // It may be trying just now: held or tried, it says why.
  const explained = await volumes.explainVolume({ namespace: "default", id: "e" });
  expect(explained.findings.join(" ")).toContain("waits for its plugin");
  expect(explained.nextActions.join(" ")).toMatch(/holdfast plugin \w+ sim.holdfast.dev/);

  sim.backend.setFaults([]);
  const states = () =>
    Promise.all(ids.map(async (id) => (await volumes.getVolume({ namespace: "default", id })).volume?.state));
  await expect
    .poll(states, { timeout: 60_000, interval: 200 })
    .toEqual(ids.map(() => VolumeState.VOLUME_STATE_AVAILABLE));
  await expect.poll(async () => (await calls())?.flow, { timeout: 30_000 }).toBe(CallFlow.CALL_FLOW_OPEN);
  expect((await calls())?.silentInstances).toEqual([]);
  expect(sim.backend.state().volumes.size).toBe(ids.length);
  expect(sim.backend.violations()).toEqual([]);
}, 150_000);
