import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  applyRegistryChange,
  currentOf,
  differingField,
  emptyRegistry,
  entryOf,
  type HostedInstance,
  type InstanceRole,
  isCurrent,
  type PluginRegistry,
  pluginTypes,
  type RegistryChange,
  type RegistryEvent,
  serves,
  stackOf,
} from "./plugin-registry.ts";

const instance = (
  allocation: string,
  role: InstanceRole = "node",
  plugin = "p",
  changes: Partial<HostedInstance> = {},
): HostedInstance => ({
  plugin,
  allocation,
  role,
  socketDir: "/csi",
  publishDir: "/local/csi",
  healthTimeoutMs: 30_000,
  hostFilesystem: false,
  restartInUse: false,
  ...changes,
});
const prepared = (allocation: string, role?: InstanceRole, plugin?: string): RegistryChange => ({
  type: "prepared",
  instance: instance(allocation, role, plugin),
});
const registered = (allocation: string, at = 1): RegistryChange => ({
  type: "registered",
  allocation,
  at,
  nodeId: "n",
});
const removed = (allocation: string): RegistryChange => ({ type: "removed", allocation });

function run(changes: readonly RegistryChange[], from = emptyRegistry) {
  let registry = from;
  const events: RegistryEvent[] = [];
  for (const change of changes) {
    const step = applyRegistryChange(registry, change);
    registry = step.registry;
    events.push(...step.events);
  }
  return { registry, events };
}

const allocations = (registry: PluginRegistry, type: "node" | "controller", plugin = "p") =>
  stackOf(registry, type, plugin).map((entry) => entry.instance.allocation);

describe("stacks", () => {
  test("the newest registration is in front, whatever the order of preparation", () => {
    const { registry } = run([prepared("a"), prepared("b"), registered("b"), registered("a")]);
    expect(allocations(registry, "node")).toEqual(["a", "b"]);
    expect(currentOf(registry, "node", "p")).toBe("a");
  });

  test("R1 a registration again never reorders and tells nothing", () => {
    const { registry } = run([prepared("a"), prepared("b"), registered("a"), registered("b")]);
    const again = applyRegistryChange(registry, registered("a", 99));
    expect(again).toEqual({ registry, events: [] });
    expect(entryOf(again.registry, "a")?.registeredAt).toBe(1);
  });

  test("what is prepared and was never ready is in no stack", () => {
    const { registry, events } = run([prepared("a")]);
    expect(events).toEqual([]);
    expect(currentOf(registry, "node", "p")).toBeUndefined();
    expect(registry.entries.map((entry) => isCurrent(registry, entry))).toEqual([false]);
    expect(run([removed("a")], registry)).toEqual({ registry: emptyRegistry, events: [] });
  });

  test("W14 the removal of an allocation that nobody knows announces nothing and takes nobody away", () => {
    const { registry } = run([prepared("a"), registered("a"), prepared("b"), registered("b")]);
    expect(applyRegistryChange(registry, removed("zz"))).toEqual({ registry, events: [] });
    expect(allocations(registry, "node")).toEqual(["b", "a"]);
  });

  test("W15 when the front leaves, the one behind it is promoted and announced; an older one's leaving promotes nobody", () => {
    const { registry } = run([prepared("a"), registered("a"), prepared("b"), registered("b")]);
    expect(applyRegistryChange(registry, removed("b")).events).toEqual([
      { type: "removed", pluginType: "node", plugin: "p", allocation: "b" },
      { type: "current", pluginType: "node", plugin: "p", allocation: "a" },
    ]);
    expect(applyRegistryChange(registry, removed("a")).events).toEqual([
      { type: "removed", pluginType: "node", plugin: "p", allocation: "a" },
    ]);
    expect(run([removed("b"), removed("a")], registry).events.at(-1)).toEqual({
      type: "current",
      pluginType: "node",
      plugin: "p",
      allocation: undefined,
    });
  });

  test("R3 a monolith is in both types and leaves both at once; a half leaves the other half alone", () => {
    const both = run([prepared("m", "monolith"), registered("m"), prepared("c", "controller"), registered("c")]);
    expect(currentOf(both.registry, "controller", "p")).toBe("c");
    expect(currentOf(both.registry, "node", "p")).toBe("m");
    const entry = entryOf(both.registry, "m");
    expect(entry && isCurrent(both.registry, entry)).toBe(false);
    const without = applyRegistryChange(both.registry, removed("c"));
    expect(without.events.map(({ pluginType }) => pluginType)).toEqual(["controller", "controller"]);
    expect(allocations(without.registry, "node")).toEqual(["m"]);
    const gone = applyRegistryChange(without.registry, removed("m"));
    expect(gone.registry.entries).toEqual([]);
    expect(gone.events.map(({ type, pluginType }) => `${type} ${pluginType}`)).toEqual([
      "removed controller",
      "current controller",
      "removed node",
      "current node",
    ]);
  });

  test("a plugin may have any name, also one that JavaScript's objects know", () => {
    const { registry } = run([prepared("a", "node", "constructor"), registered("a")]);
    expect(currentOf(registry, "node", "constructor")).toBe("a");
    expect(currentOf(registry, "node", "__proto__")).toBeUndefined();
  });

  test("two preparations differ in a field that is named, or not at all", () => {
    expect(differingField(instance("a"), instance("a"))).toBeUndefined();
    expect(differingField(instance("a"), instance("a", "monolith"))).toBe("role");
    expect(differingField(instance("a"), instance("a", "node", "p", { healthTimeoutMs: 1 }))).toBe("healthTimeoutMs");
  });
});

const change = fc.oneof(
  fc.record({
    type: fc.constant("prepared" as const),
    instance: fc
      .tuple(fc.constantFrom("a", "b", "c", "d"), fc.constantFrom("p", "q"))
      .chain(([allocation, plugin]) =>
        fc
          .constantFrom<InstanceRole>("node", "controller", "monolith")
          .map((role) => instance(allocation, role, plugin)),
      ),
  }),
  fc.record({
    type: fc.constant("registered" as const),
    allocation: fc.constantFrom("a", "b", "c", "d", "e"),
    at: fc.nat(),
    nodeId: fc.constant("n"),
  }),
  fc.record({ type: fc.constant("removed" as const), allocation: fc.constantFrom("a", "b", "c", "d", "e") }),
);

describe("any changes in any order", () => {
  test("stacks are what a plain list of pushes and removals says, and the events tell every change of the current one", () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 40 }), (changes) => {
        let registry = emptyRegistry;
        const model = new Map<string, string[]>();
        const known = new Map<string, HostedInstance>();
        const current = new Map<string, string>();
        for (const one of changes) {
          const allocation = one.type === "prepared" ? one.instance.allocation : one.allocation;
          const step = applyRegistryChange(registry, one);
          registry = step.registry;
          if (one.type === "prepared" && !known.has(allocation)) known.set(allocation, one.instance);
          const held = known.get(allocation);
          for (const type of pluginTypes) {
            if (held === undefined || !serves(held.role, type)) continue;
            const key = `${type} ${held.plugin}`;
            const stack = model.get(key) ?? [];
            if (one.type === "registered" && !stack.includes(allocation)) model.set(key, [allocation, ...stack]);
            if (one.type === "removed")
              model.set(
                key,
                stack.filter((it) => it !== allocation),
              );
          }
          if (one.type === "removed") known.delete(allocation);
          for (const event of step.events) {
            if (event.type !== "current") continue;
            const key = `${event.pluginType} ${event.plugin}`;
            if (event.allocation === undefined) current.delete(key);
            else current.set(key, event.allocation);
          }
          for (const type of pluginTypes) {
            for (const plugin of ["p", "q"]) {
              expect(allocations(registry, type, plugin)).toEqual(model.get(`${type} ${plugin}`) ?? []);
              expect(currentOf(registry, type, plugin)).toBe(current.get(`${type} ${plugin}`));
            }
          }
          const again = applyRegistryChange(registry, one);
          expect(again).toEqual({ registry, events: [] });
          expect(JSON.parse(JSON.stringify(registry))).toEqual(registry);
        }
      }),
    );
  });
});
