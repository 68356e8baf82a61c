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
  keyOf,
  type PluginRegistry,
  placeOf,
  pluginTypes,
  type RegistryChange,
  type RegistryEvent,
  recordedPlace,
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
    expect(entryOf(again.registry, { allocation: "a", plugin: "p" })?.registeredAt).toBe(1);
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
    const entry = entryOf(both.registry, { allocation: "m", plugin: "p" });
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

  test("D12 plugins of one allocation come and go each for itself; who knows one an allocation takes nothing for the other's", () => {
    const beside = { allocation: "a", plugin: "q" };
    const both = run([
      prepared("a", "node", "p"),
      prepared("a", "node", "q"),
      { type: "registered", beside, at: 1, nodeId: "n" },
    ]);
    expect(allocations(both.registry, "node", "p")).toEqual([]);
    expect(allocations(both.registry, "node", "q")).toEqual(["a"]);
    expect(both.registry.entries.map(recordedPlace)).toEqual([{ allocation: "a" }, { beside }]);
    const without = applyRegistryChange(both.registry, removed("a"));
    expect(without.registry.entries.map(({ instance: { plugin } }) => plugin)).toEqual(["q"]);
    expect(without.events).toEqual([]);
    expect(applyRegistryChange(without.registry, removed("a")).registry).toBe(without.registry);
    const stranger: RegistryChange = { type: "removed", beside: { allocation: "a", plugin: "p" } };
    expect(applyRegistryChange(both.registry, stranger)).toEqual({ registry: both.registry, events: [] });
    const last = applyRegistryChange(without.registry, { type: "removed", beside });
    expect(last.registry.entries).toEqual([]);
    expect(last.events).toHaveLength(2);
  });

  test("D12 the first plugin of an allocation has the place that is named after that alone, those beside it have their own", () => {
    const places = (registry: PluginRegistry) => registry.entries.map(placeOf);
    const both = run([prepared("a", "node", "p"), prepared("a", "node", "q"), prepared("b", "node", "q")]).registry;
    expect(places(both)).toEqual([["a"], ["a", "q"], ["b"]]);
    const again = run([removed("a"), prepared("a", "node", "r")], both).registry;
    expect(places(again)).toEqual([["a", "q"], ["b"], ["a"]]);
    const back = run([prepared("a", "node", "p")], again).registry;
    expect(places(back)).toEqual([["a", "q"], ["b"], ["a"], ["a", "p"]]);
    expect(run([{ ...prepared("c"), ownPlace: true } as RegistryChange]).registry.entries.map(placeOf)).toEqual([
      ["c", "p"],
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

const which = { allocation: fc.constantFrom("a", "b", "c"), plugin: fc.constantFrom("p", "q") };
const change = fc.oneof(
  fc.record({
    type: fc.constant("prepared" as const),
    ownPlace: fc.boolean(),
    instance: fc
      .tuple(which.allocation, which.plugin)
      .chain(([allocation, plugin]) =>
        fc
          .constantFrom<InstanceRole>("node", "controller", "monolith")
          .map((role) => instance(allocation, role, plugin)),
      ),
  }),
  fc.record({
    type: fc.constant("registered" as const),
    ...which,
    at: fc.nat(),
    nodeId: fc.constant("n"),
  }),
  fc.record({ type: fc.constant("removed" as const), ...which }),
);

describe("any changes in any order", () => {
  test("stacks are what a plain list of pushes and removals says, and the events tell every change of the current one", () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 40 }), (changes) => {
        let registry = emptyRegistry;
        const model = new Map<string, string[]>();
        const known = new Map<string, HostedInstance>();
        const current = new Map<string, string>();
        const before = new Map<string, string>();
        for (const one of changes) {
          const key = one.type === "prepared" ? one.instance : one;
          const { allocation } = key;
          const instanceKey = keyOf(key);
          const entry = entryOf(registry, key);
          const place = entry === undefined ? { beside: key } : recordedPlace(entry);
          const made: RegistryChange =
            one.type === "prepared"
              ? one
              : one.type === "removed"
                ? { type: "removed", ...place }
                : { type: "registered", ...place, at: one.at, nodeId: one.nodeId };
          const step = applyRegistryChange(registry, made);
          registry = step.registry;
          if (one.type === "prepared" && !known.has(instanceKey)) known.set(instanceKey, one.instance);
          const held = known.get(instanceKey);
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
          if (one.type === "removed") {
            known.delete(instanceKey);
            before.delete(instanceKey);
          }
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
          const places = registry.entries.map((entry) => placeOf(entry).join(" "));
          expect(new Set(places).size).toBe(places.length); // R5
          for (const entry of registry.entries) {
            const place = placeOf(entry).join(" ");
            expect(before.get(keyOf(entry.instance)) ?? place).toBe(place);
            before.set(keyOf(entry.instance), place);
          }
          const again = applyRegistryChange(registry, made);
          expect(again).toEqual({ registry, events: [] });
          expect(JSON.parse(JSON.stringify(registry))).toEqual(registry);
        }
      }),
    );
  });
});
