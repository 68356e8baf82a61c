/**
 * The cures of PLUGIN_IDENTITY_CHANGED, as `plugin status` prints them: an agent's real directory and host of plugins, a plugin on a real
 * socket, and what the agent tells of it at a controller over its real store and API.
 */
import path from "node:path";
import { startTinyPlugin, type TinyPlugin } from "@holdfast/csi/testing/tiny-plugin";
import { createFingerprintBoard } from "@holdfast/node-agent/plugins/fingerprint-board";
import { type HostLife, hosted, startHostRig } from "@holdfast/node-agent/testing/host-rig";
import { expect, onTestFinished, test } from "vitest";
import { cliRun } from "../cli/cli-run.ts";
import { until } from "../harness/until.ts";
import { createNodeWorld } from "../support/controller/node-world.ts";
import { linesOf, typedIn } from "../support/controller/typed-lines.ts";

const name = "tiny.example.com";
const reason = "PLUGIN_IDENTITY_CHANGED";

/** A controller, a host, and what the host's agent tells. */
const createHost = async () => {
  const nodes = await createNodeWorld();
  const rig = await startHostRig();
  const agent = nodes.agent("n1", "m1");
  let life = await rig.live();
  /** What `plugin status` shows once the agent has told how things stand. */
  const status = async (plugin: string): Promise<string> => {
    const board = createFingerprintBoard(life.directory);
    await agent.ask(board.all());
    board.stop();
    const { out, err } = await cliRun(["plugin", "status", plugin], { address: nodes.address });
    return `${out}${err}`;
  };
  return {
    ...nodes,
    rig,
    life: () => life,
    async restartAgent(): Promise<HostLife> {
      await life.close();
      life = await rig.live();
      return life;
    },
    /** On a socket that is merely found. */
    async found(options: { readonly name?: string; readonly nodeId?: string }): Promise<TinyPlugin> {
      const plugin = await startTinyPlugin({ socketPath: path.join(rig.dir, "static", "tiny.sock"), ...options });
      onTestFinished(() => plugin.kill());
      return plugin;
    },
    isUsed: (plugin = name) =>
      until(`plugin ${plugin} to be used`, async () => {
        const text = await status(plugin);
        return /\bHEALTHY/.test(text) && !/UNHEALTHY|Blocked/.test(text) ? text : undefined;
      }),
    /** What is printed once it is blocked. */
    cure: () =>
      until(`plugin ${name} to be blocked`, async () => {
        const text = await status(name);
        return new RegExp(`Blocked: +${reason}, [^\n]*\nMissing proof: [^\n]*\nClear with: +([^\n]*)`).exec(text)?.[1];
      }),
    /** The commands of a cure: what it shows has to be nothing, here. */
    async types(cure: string): Promise<void> {
      const lines = linesOf(cure);
      expect(lines).toEqual([`holdfast claim list -A --plugin ${name}`]);
      for (const line of lines) await typedIn(nodes.world, nodes.address, line);
    },
  };
};

test.each([
  ["another node id", { nodeId: "node-2" }],
  ["another name", { name: "other.example.com" }],
])("a plugin that was found, with %s: the right plugin is started on its socket", async (_, other) => {
  const host = await createHost();
  const first = await host.found({});
  await host.isUsed();
  await first.kill();
  const wrong = await host.found(other);
  expect(await host.cure()).toMatch(/^start the right plugin on this socket; /);
  expect(
    wrong.calls.filter((call) => call.startsWith("Node") && call !== "NodeGetCapabilities" && call !== "NodeGetInfo"),
  ).toEqual([]);
  await wrong.kill();
  await host.found({});
  await host.isUsed();
});

test("a plugin that was found, with another node id that is meant: the agent is restarted", async () => {
  const host = await createHost();
  const first = await host.found({});
  await host.isUsed();
  await first.kill();
  await host.found({ nodeId: "node-2" });
  const cure = await host.cure();
  await host.types(cure);
  expect(cure).toContain('"systemctl restart holdfast-node-agent"');
  await host.restartAgent();
  expect(await host.isUsed()).not.toContain(reason);
  expect(host.registry.get("n1")?.record.plugins).toMatchObject([{ name, nodeId: "node-2", health: "HEALTHY" }]);
});

test("a plugin that a runner hosts: the right one is started there", async () => {
  const host = await createHost();
  await host.life().host.prepare(hosted("a"));
  const wrong = await host.rig.plugin(host.life(), "a", { name: "other.example.com" });
  expect(await host.cure()).toMatch(/^have its runner start the right plugin there; /);
  await wrong.kill();
  await host.rig.plugin(host.life(), "a");
  await host.isUsed();
});

test("a plugin that a runner hosts, with another node id that is meant: each instance is stopped, and prepared anew", async () => {
  const host = await createHost();
  await host.life().host.prepare(hosted("a"));
  const first = await host.rig.plugin(host.life(), "a", { nodeId: "node-1" });
  await host.isUsed();
  await first.kill();
  // A restart of the agent is no cure here: its journal keeps the node id.
  await host.restartAgent();
  const second = await host.rig.plugin(host.life(), "a", { nodeId: "node-2" });
  const cure = await host.cure();
  await host.types(cure);
  expect(cure).toContain("(StopPlugin)");
  const stopped = await host.life().host.stop({ allocation: "a", waitMs: 1_000, leaveVolumes: false }, host.rig.signal);
  expect(stopped.stopped).toBe(true);
  await second.kill();
  await host.life().host.prepare(hosted("a"));
  await host.rig.plugin(host.life(), "a", { nodeId: "node-2" });
  await host.isUsed();
  expect(host.registry.get("n1")?.record.plugins).toMatchObject([{ name, nodeId: "node-2", health: "HEALTHY" }]);
});
