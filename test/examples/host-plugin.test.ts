/** examples/host-plugin.ts hosts the local driver for a live agent: registered, restarted when it was killed, stopped in order. */
import path from "node:path";
import { PluginHealth } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { expect, onTestFailed, onTestFinished, test, vi } from "vitest";
import { hostPlugin } from "../../examples/host-plugin.ts";
import { startCluster } from "../harness/cluster.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: the local driver needs root");
const repo = path.resolve(import.meta.dirname, "../..");

test.skipIf(!root)("a plugin is hosted, restarted after its death, and stopped", async () => {
  const cluster = await startCluster({ nodes: ["node-a"] });
  onTestFinished(() => cluster.stop());
  const said: string[] = [];
  const printed: string[] = [];
  onTestFailed(() =>
    console.error(["--- the runtime", ...said, "--- the plugin", printed.join(""), cluster.output()].join("\n")),
  );
  // The runtime hands its environment on, and a driver refuses settings that it does not know.
  vi.stubEnv("HOLDFAST_FULL", undefined);
  onTestFinished(() => void vi.unstubAllEnvs());
  const plugin = "hosted.holdfast.dev";
  const hosted = await hostPlugin({
    agent: cluster.node("node-a").localAddress,
    plugin,
    allocation: "alloc-1",
    command: [process.execPath, path.join(repo, "packages/local-driver/src/main.ts")],
    environment: (socket) => ({
      HOLDFAST_LOCAL_SOCKET: socket,
      HOLDFAST_LOCAL_NAME: plugin,
      HOLDFAST_LOCAL_NODE_ID: "node-a",
      HOLDFAST_LOCAL_STATE_DIR: path.join(cluster.dir, "hosted"),
      HOLDFAST_LOCAL_TYPES: "directory",
    }),
    say: (line) => said.push(line),
    output: (text) => printed.push(text),
  });
  onTestFinished(() => hosted.close());
  await hosted.ready;
  const health = async () => {
    const { node } = await cluster.nodes.getNode({ name: "node-a" });
    return node?.plugins.find((each) => each.plugin === plugin)?.health;
  };
  await until("the controller to know it", async () => (await health()) === PluginHealth.PLUGIN_HEALTH_HEALTHY);

  const first = hosted.pid();
  expect(first).toBeDefined();
  process.kill(first ?? 0, "SIGKILL");
  await until("the agent to see it healthy again", () => said.includes(`${plugin}: healthy again`));
  await until("the controller to know that", async () => (await health()) === PluginHealth.PLUGIN_HEALTH_HEALTHY);
  expect(hosted.pid()).not.toBe(first);

  await hosted.stop();
  expect(said.at(-1)).toBe(`${plugin}: stopped`);
  await until("it to be forgotten", async () => (await health()) !== PluginHealth.PLUGIN_HEALTH_HEALTHY);
});
