import { describe, expect, it } from "vitest";
import type { NodePlugin } from "../node/node.ts";
import { type PluginSighting, summaryOf, toldBy } from "./plugin-sighting.ts";

const instance = (change: Partial<NodePlugin> = {}): NodePlugin => ({
  name: "p",
  version: "1",
  instance: "a",
  role: "NODE",
  health: "HEALTHY",
  healthMessage: "",
  nodeId: "n1",
  maxVolumes: 0,
  topology: {},
  capabilities: { "plugin:CONTROLLER_SERVICE": "yes" },
  ...change,
});

const on = (node: string, change: Partial<NodePlugin> = {}, silent = false): PluginSighting => ({
  node,
  controllerId: "",
  socket: "",
  plugin: instance(change),
  silent,
});

describe("a plugin's instances together", () => {
  it("[O68] a split plugin counts each half apart", () => {
    const found = summaryOf("p", [on("", { role: "CONTROLLER" }), on("n1"), on("n2", { health: "UNHEALTHY" })], {});
    expect(found).toMatchObject({
      controller: { healthy: 1, expected: 1 },
      node: { healthy: 1, expected: 2 },
      missing: "",
    });
  });

  it("[O68] a monolith counts in both halves, and several instances of one node each", () => {
    const both = [
      on("n1", { role: "MONOLITH" }),
      on("n1", { role: "MONOLITH", instance: "b", health: "INITIALISING" }),
    ];
    expect(summaryOf("p", both, {})).toMatchObject({
      controller: { healthy: 1, expected: 2 },
      node: { healthy: 1, expected: 2 },
      missing: "",
    });
  });

  it("[W9] a node instance's word that there is a controller half is enough, and not knowing blocks", () => {
    expect(summaryOf("p", [on("n1")], {})).toMatchObject({
      controllerRequired: "yes",
      controller: { healthy: 0, expected: 1 },
      missing: "no healthy instance of the controller half of plugin p was seen",
    });
    const silent = summaryOf("p", [on("n1", { capabilities: {} })], {});
    expect(silent).toMatchObject({ controllerRequired: "unknown" });
    expect(silent.missing).toContain("not known yet");
    const headless = summaryOf("p", [on("n1", { capabilities: { "plugin:CONTROLLER_SERVICE": "no" } })], {});
    expect(headless).toMatchObject({ controllerRequired: "no", missing: "", controller: { expected: 0 } });
    // Before any told: what the version told before.
    expect(summaryOf("p", [on("n1", { capabilities: {} })], { "plugin:CONTROLLER_SERVICE": "no" }).missing).toBe("");
    // One that was configured otherwise does not make the others need nothing.
    const mixed = [on("n1", { capabilities: { "plugin:CONTROLLER_SERVICE": "no" } }), on("n2")];
    expect(summaryOf("p", mixed, {}).controllerRequired).toBe("yes");
  });

  it("[X40] a silent node's instance is expected and not healthy", () => {
    expect(summaryOf("p", [on("n1", {}, true), on("n2")], {}).node).toEqual({ healthy: 1, expected: 2 });
    expect(summaryOf("p", [on("n1", {}, true)], {}).missing).toBe(
      "none of the 1 instances of plugin p on nodes is healthy",
    );
    expect(summaryOf("p", [], {}).missing).toBe("no node has an instance of plugin p");
  });

  it("[W8] capabilities are what the healthy agree on; while none is there, what was told last", () => {
    const attach = "controller:PUBLISH_UNPUBLISH_VOLUME";
    const controller = (standing: "yes" | "no", health: NodePlugin["health"] = "HEALTHY") =>
      on("", { role: "CONTROLLER", health, capabilities: { [attach]: standing } });
    expect(summaryOf("p", [controller("yes"), controller("yes")], {}).capabilities[attach]).toBe("yes");
    expect(summaryOf("p", [controller("yes"), controller("no")], {}).capabilities[attach]).toBe("unknown");
    expect(summaryOf("p", [controller("yes"), controller("no", "UNHEALTHY")], {}).capabilities[attach]).toBe("yes");
    expect(summaryOf("p", [controller("no", "UNHEALTHY")], { [attach]: "yes" }).capabilities[attach]).toBe("yes");
  });

  it("a half's silence about the other half is not its word", () => {
    const told = {
      "plugin:CONTROLLER_SERVICE": "yes",
      "controller:LIST_VOLUMES": "no",
      "node:EXPAND_VOLUME": "no",
    } as const;
    expect(Object.keys(toldBy(instance({ capabilities: told })))).toEqual([
      "plugin:CONTROLLER_SERVICE",
      "node:EXPAND_VOLUME",
    ]);
    expect(Object.keys(toldBy(instance({ role: "CONTROLLER", capabilities: told })))).toEqual([
      "plugin:CONTROLLER_SERVICE",
      "controller:LIST_VOLUMES",
    ]);
    expect(toldBy(instance({ role: "MONOLITH", capabilities: told }))).toEqual(told);
  });
});
