import type { PluginConnection } from "@holdfast/csi/plugin-connection";
import type { PluginPhase } from "@holdfast/csi/plugin-status";
import { describe, expect, test } from "vitest";
import {
  applyRegistryChange,
  emptyRegistry,
  type InstanceRole,
  type PluginRegistry,
} from "../../domain/plugin-registry.ts";
import { hosted } from "../../testing/host-rig.ts";
import { createHostedPlugins } from "./hosted-plugins.ts";

interface Fake {
  readonly instanceId: string;
  readonly role: InstanceRole;
  phase: PluginPhase;
}

function start(fakes: readonly Fake[], registry: PluginRegistry) {
  const connections = fakes.map(
    (fake) =>
      ({
        instanceId: fake.instanceId,
        socketPath: fake.instanceId,
        role: fake.role,
        pin: () => ({ name: "tiny.example.com", nodeId: undefined }),
        status: () => ({ phase: fake.phase, since: 0, facts: { name: "tiny.example.com" } }),
      }) as unknown as PluginConnection,
  );
  const listeners = new Set<(it: never) => void>();
  const listen = (listener: (it: never) => void) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  };
  const drained = new Set<string>();
  const plugins = createHostedPlugins({
    directory: { list: () => connections, onChange: listen },
    host: {
      registry: () => registry,
      drained: ({ allocation }) => drained.has(allocation),
      connectionOf: ({ allocation }) => connections.find(({ instanceId }) => instanceId === allocation),
      onChange: listen,
    },
    statics: { publishDirOf: (socket) => (socket === "/p/mapped.sock" ? "/local/csi" : undefined) },
    rootDir: "/hf",
  });
  const tell = () => {
    for (const listener of listeners) listener(undefined as never);
  };
  return { plugins, drained, tell, listeners };
}

const registryOf = (...instances: readonly (readonly [string, InstanceRole])[]): PluginRegistry =>
  instances.reduce((registry, [allocation, role]) => {
    const prepared = applyRegistryChange(registry, { type: "prepared", instance: hosted(allocation, { role }) });
    return applyRegistryChange(prepared.registry, { type: "registered", allocation, at: 1, nodeId: "n" }).registry;
  }, emptyRegistry);

const name = "tiny.example.com";
const pin = () => ({ name, nodeId: undefined });

describe("which instance is called", () => {
  test("the newest that is ready and not being stopped, each half for itself; found sockets come last", () => {
    const old: Fake = { instanceId: "old", role: "monolith", phase: "ready" };
    const next: Fake = { instanceId: "next", role: "node", phase: "ready" };
    const found: Fake = { instanceId: "/p/a.sock", role: "node", phase: "ready" };
    const { plugins, drained } = start([old, next, found], registryOf(["old", "monolith"], ["next", "node"]));
    expect(plugins.get(name, "node")?.instanceId).toBe("next");
    expect(plugins.get(name, "controller")?.instanceId).toBe("old");
    next.phase = "unhealthy";
    expect(plugins.get(name, "node")?.instanceId).toBe("old");
    drained.add("old");
    expect(plugins.get(name, "node")?.instanceId).toBe("/p/a.sock");
    expect(plugins.get(name, "controller")).toBeUndefined();
    found.phase = "waiting";
    expect(plugins.get(name, "node")).toBeUndefined();
    expect(plugins.get("other.example.com", "node")).toBeUndefined();
  });

  test("a node half stands in for a controller's call only where no controller half of the plugin is known", () => {
    const node: Fake = { instanceId: "/p/node.sock", role: "node", phase: "ready" };
    const half: Fake = { instanceId: "/p/half.sock", role: "controller", phase: "ready" };
    const idOf = (fakes: readonly Fake[], registry = emptyRegistry) =>
      start(fakes, registry).plugins.forController(name)?.instanceId;
    expect(idOf([node])).toBe("/p/node.sock");
    expect(idOf([half, node])).toBe("/p/half.sock");
    expect(idOf([{ ...half, phase: "waiting" }, node])).toBeUndefined();
    const away: Fake = { instanceId: "hosted", role: "controller", phase: "waiting" };
    expect(idOf([away, node], registryOf(["hosted", "controller"]))).toBeUndefined();
  });

  test("one that was prepared and is not registered yet gets no call", () => {
    const { registry } = applyRegistryChange(emptyRegistry, { type: "prepared", instance: hosted("a") });
    const { plugins } = start([{ instanceId: "a", role: "node", phase: "ready" }], registry);
    expect(plugins.get(name, "node")).toBeUndefined();
  });

  test("who waits is woken by the change and nothing else, and can give up", async () => {
    const one: Fake = { instanceId: "/p/a.sock", role: "node", phase: "connecting" };
    const { plugins, tell, listeners } = start([one], emptyRegistry);
    const stop = new AbortController();
    const found = plugins.whenReady(name, "node", stop.signal);
    const never = plugins.whenReady(name, "controller", stop.signal);
    let told = 0;
    const stopTelling = plugins.onChange(() => {
      told += 1;
    });
    one.phase = "ready";
    tell();
    expect(told).toBe(1);
    stopTelling();
    tell();
    expect(told).toBe(1);
    expect((await found).instanceId).toBe("/p/a.sock");
    stop.abort(new DOMException("too late", "TimeoutError"));
    await expect(never).rejects.toThrow("too late");
    plugins.close();
    expect(listeners.size).toBe(0);
  });
});

test("how an instance sees the agent's root: its own directory, the file's, or the host's", () => {
  const { registry } = applyRegistryChange(registryOf(["a", "node"]), {
    type: "prepared",
    instance: hosted("bare", { hostFilesystem: true }),
  });
  const { plugins } = start([], registry);
  const seenBy = (instanceId: string) =>
    plugins.pathsOf({ instanceId, socketPath: instanceId, pin }).toPlugin("/hf/publish/x");
  expect(seenBy("a")).toBe("/local/csi/publish/x");
  expect(seenBy("bare")).toBe("/hf/publish/x");
  expect(seenBy("/p/mapped.sock")).toBe("/local/csi/publish/x");
  expect(seenBy("/p/other.sock")).toBe("/hf/publish/x");
});
