import { describe, expect, test } from "vitest";
import type { NodePlugin, NodeRecord } from "../domain/node/node.ts";
import type { NodeView } from "../ports.ts";
import { createHalvesOnNodes } from "./halves-on-nodes.ts";

const pluginOn = (change: Partial<NodePlugin> = {}): NodePlugin => ({
  name: "p",
  version: "1",
  instance: "a",
  role: "CONTROLLER",
  health: "HEALTHY",
  healthMessage: "",
  nodeId: "",
  maxVolumes: 0,
  topology: {},
  capabilities: { "plugin:CONTROLLER_SERVICE": "yes", "controller:GET_VOLUME": "yes" },
  ...change,
});

const build = () => {
  const views = new Map<string, NodeView>();
  const listeners = new Set<(node: string) => void>();
  const halves = createHalvesOnNodes({
    get: (name) => views.get(name),
    list: () => [...views.values()],
    onChange: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  });
  const heard: string[] = [];
  halves.onChange((plugin) => void heard.push(plugin));
  const set = (
    name: string,
    plugins: readonly NodePlugin[] | undefined,
    live: NodeView["live"] = "alive",
    state: NodeRecord["state"] = "READY",
    instance = "life-1",
  ): readonly string[] => {
    heard.length = 0;
    if (plugins === undefined) views.delete(name);
    else views.set(name, { record: { name, instance, state, plugins } as unknown as NodeRecord, live });
    for (const listener of listeners) listener(name);
    return [...heard];
  };
  return { halves, set };
};

describe("controller halves on nodes", () => {
  test("are there as long as their node has them, in the order of names, and only changes are told", () => {
    const { halves, set } = build();
    expect(set("n2", [pluginOn()])).toEqual(["p"]);
    expect(set("n1", [pluginOn({ role: "MONOLITH", nodeId: "x" })])).toEqual(["p"]);
    expect(set("n1", [pluginOn({ role: "MONOLITH", nodeId: "x" })])).toEqual([]);
    expect(set("n3", [pluginOn({ role: "NODE", capabilities: { "plugin:CONTROLLER_SERVICE": "yes" } })])).toEqual([]);
    expect(halves.of("p").map(({ node, usable }) => [node.name, usable])).toEqual([
      ["n1", true],
      ["n2", true],
    ]);
    expect(halves.of("p")[0]?.facts).toMatchObject({
      role: "controller",
      controller: { GET_VOLUME: "yes", LIST_VOLUMES: "unknown" },
    });
    expect(set("n2", [])).toEqual(["p"]);
    expect(set("n1", undefined)).toEqual(["p"]);
    expect(halves.of("p")).toEqual([]);
    expect(halves.names()).toEqual(["p"]);
    set("n3", undefined);
    expect(halves.names()).toEqual([]);
  });

  test("are those of the life of the agent that is registered, also where it has the same plugins as the one before", () => {
    const { halves, set } = build();
    set("n1", [pluginOn()]);
    expect(set("n1", [pluginOn()], "alive", "READY", "life-2")).toEqual(["p"]);
    expect(halves.at("p", "n1")?.node.instance).toBe("life-2");
    expect(set("n1", [pluginOn()], "alive", "READY", "life-2")).toEqual([]);
  });

  test.each([
    ["silent", "suspect", "READY", "HEALTHY", /agent of node n1 is silent/],
    ["cut off", "alive", "QUARANTINED", "HEALTHY", /n1 is QUARANTINED/],
    ["not ready yet", "alive", "READY", "INITIALISING", /INITIALISING: wait/],
  ] as const)("are not called where the node is %s, and say why", (_what, live, state, health, why) => {
    const { halves, set } = build();
    set("n1", [pluginOn({ health, healthMessage: health === "HEALTHY" ? "" : "wait" })], live, state);
    expect(halves.of("p")).toMatchObject([{ usable: false, why: expect.stringMatching(why) }]);
    expect(set("n1", [pluginOn()])).toEqual(["p"]);
    expect(halves.of("p")).toMatchObject([{ usable: true, why: "" }]);
  });
});

test("places stay when an instance goes, and monoliths are counted with them, until their node is forgotten", () => {
  const { halves, set } = build();
  const monolith = pluginOn({ role: "MONOLITH", nodeId: "x", topology: { host: "1" } });
  set("n1", [monolith]);
  set("n2", [pluginOn({ role: "NODE", nodeId: "y" })]);
  expect([halves.monoliths("p"), halves.placeAt("p", "n1")?.segments]).toEqual([1, { host: "1" }]);
  set("n1", []);
  set("n1", [{ ...monolith, topology: { host: "2" } }]);
  expect([halves.monoliths("p"), halves.placeAt("p", "n1")?.segments]).toEqual([1, { host: "2" }]);
  set("n2", [{ ...monolith, nodeId: "y" }]);
  expect(halves.monoliths("p")).toBe(2);
  set("n1", [pluginOn({ role: "NODE", nodeId: "x" })]);
  expect([halves.monoliths("p"), halves.places("p").filter((one) => one.monolith)]).toEqual([
    1,
    [halves.placeAt("p", "n2")],
  ]);
  for (const node of ["n1", "n2"]) set(node, undefined);
  expect([halves.monoliths("p"), halves.places("p"), halves.placeAt("p", "n1")]).toEqual([0, [], undefined]);
});

describe("what nodes say of a plugin's controller half", () => {
  const say = (...told: readonly ("yes" | "no" | "unknown" | undefined)[]) => {
    const { halves, set } = build();
    for (const [at, said] of told.entries()) {
      const capabilities = said === undefined ? {} : { "plugin:CONTROLLER_SERVICE": said };
      // Told once more: what a node said before must not count twice.
      for (let round = 0; round < 2; round += 1) set(`n${at}`, [pluginOn({ role: "NODE", capabilities })]);
    }
    return halves.announced("p");
  };

  test("W9: is no only when every one that told says so, and unknown until then", () => {
    expect(say()).toBe("unknown");
    expect(say(undefined)).toBe("unknown");
    expect(say("no", undefined)).toBe("no");
    expect(say("no", "unknown")).toBe("unknown");
    expect(say("no", "yes")).toBe("yes");
  });
});
