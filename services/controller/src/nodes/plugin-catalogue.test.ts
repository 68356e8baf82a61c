import { describe, expect, it, vi } from "vitest";
import type { NodePlugin, NodeRecord } from "../domain/node/node.ts";
import type { NodeView } from "../ports.ts";
import { createPluginCatalogue } from "./plugin-catalogue.ts";

const instance = (name: string, change: Partial<NodePlugin> = {}): NodePlugin => ({
  name,
  version: "1",
  instance: "a",
  role: "NODE",
  health: "HEALTHY",
  healthMessage: "",
  nodeId: "id",
  maxVolumes: 0,
  topology: {},
  capabilities: {},
  ...change,
});

const createNodes = () => {
  const views = new Map<string, NodeView>();
  let listener: ((node: string) => void) | undefined;
  return {
    get: vi.fn((name: string) => views.get(name)),
    list: () => [...views.values()],
    onChange(one: (node: string) => void) {
      listener = one;
      return () => undefined;
    },
    set(name: string, plugins: readonly NodePlugin[] | undefined, live: NodeView["live"] = "alive") {
      if (plugins === undefined) views.delete(name);
      else views.set(name, { record: { name, plugins } as unknown as NodeRecord, live });
      listener?.(name);
    },
  };
};

const setUp = () => {
  const nodes = createNodes();
  const beside: { socket: string; plugin: NodePlugin }[] = [];
  let tellBeside: (() => void) | undefined;
  const catalogue = createPluginCatalogue({
    nodes,
    controllerId: "c1",
    beside: () => beside,
    onChangeBeside: (listener) => {
      tellBeside = listener;
    },
  });
  const told: string[] = [];
  catalogue.onChange((plugin) => void told.push(plugin));
  const at = (plugin: string) => catalogue.of(plugin).map(({ node, plugin: one }) => `${node}/${one.instance}`);
  return { nodes, beside, tellBeside: () => tellBeside?.(), catalogue, told, at };
};

describe("the catalogue of plugins", () => {
  it("knows each allocation of a plugin on a node apart, and those beside the controller first", () => {
    const { nodes, beside, catalogue, at } = setUp();
    nodes.set("n2", [instance("p"), instance("p", { instance: "b" }), instance("q")]);
    nodes.set("n1", [instance("p")]);
    beside.push({ socket: "/s", plugin: instance("p", { role: "CONTROLLER", instance: "/s" }) });
    expect(at("p")).toEqual(["//s", "n1/a", "n2/a", "n2/b"]);
    expect(catalogue.of("p")[0]).toMatchObject({ controllerId: "c1", socket: "/s", node: "" });
    expect(catalogue.names()).toEqual(["p", "q"]);
    expect(catalogue.on("n2")).toEqual(["p", "q"]);
  });

  it("follows instances that come, change and go, and nodes that are forgotten", () => {
    const { nodes, catalogue, told, at } = setUp();
    nodes.set("n1", [instance("p"), instance("q")]);
    nodes.set("n1", [instance("p"), instance("q", { health: "UNHEALTHY" })]);
    expect(told).toEqual(["p", "q", "q"]);
    nodes.set("n1", [instance("q")]);
    expect(at("p")).toEqual([]);
    nodes.set("n1", undefined);
    expect(catalogue.names()).toEqual([]);
    expect(told).toEqual(["p", "q", "q", "p", "q", "q"]);
  });

  it("tells when a node falls silent and when it is back", () => {
    const { nodes, catalogue, told } = setUp();
    nodes.set("n1", [instance("p")]);
    nodes.set("n1", [instance("p")], "suspect");
    expect(catalogue.of("p")[0]?.silent).toBe(true);
    nodes.set("n1", [instance("p")]);
    expect(catalogue.of("p")[0]?.silent).toBe(false);
    expect(told).toEqual(["p", "p", "p"]);
  });

  it("tells of plugins beside the controller also once they are gone", () => {
    const { beside, tellBeside, told } = setUp();
    beside.push({ socket: "/s", plugin: instance("p") });
    tellBeside();
    beside.pop();
    tellBeside();
    tellBeside();
    expect(told).toEqual(["p", "p"]);
  });

  it("[W24] a change of one node looks at that node and at its own plugins, however many others there are", () => {
    const { nodes, catalogue, told } = setUp();
    for (let n = 0; n < 500; n += 1) nodes.set(`n${n}`, [instance("everywhere"), instance(`only-${n}`)]);
    const [looks, tellings] = [nodes.get.mock.calls.length, told.length];
    nodes.set("n7", [instance("everywhere"), instance("only-7", { health: "UNHEALTHY" })]);
    expect(nodes.get.mock.calls.slice(looks)).toEqual([["n7"]]);
    expect(told.slice(tellings)).toEqual(["only-7"]);
    expect(catalogue.of("everywhere")).toHaveLength(500);
  });
});
