import { describe, expect, test } from "vitest";
import type { NodePlugin } from "../domain/node/node.ts";
import { nodeRecord } from "../domain/testing/record-fixtures.ts";
import { createHealthSecrets } from "./health-secrets.ts";

const plugin = "csi.example";

const half = (change: Partial<NodePlugin> = {}): NodePlugin => ({
  ...{ name: plugin, version: "1", instance: "i", role: "NODE", health: "HEALTHY", healthMessage: "" },
  ...{ nodeId: "n1", maxVolumes: 0, topology: {}, capabilities: { "node:GET_STORAGE_HEALTH": "yes" } },
  ...change,
});

const ask = async (
  plugins: readonly NodePlugin[],
  { state = "READY", named = true }: { state?: "READY" | "FENCING"; named?: boolean } = {},
) => {
  const read: (string | undefined)[][] = [];
  const { getHealthSecrets } = createHealthSecrets({
    nodes: { get: () => ({ record: { ...nodeRecord("n1"), state, plugins }, live: "alive" }) },
    profiles: {
      of: () => (named ? { nodeHealthSecret: { ref: "secret:ops/array", namespace: "ops" } } : {}) as never,
    } as never,
    secrets: {
      async resolve(ref, namespace) {
        read.push([ref, namespace]);
        return ref === undefined ? {} : { token: "t" };
      },
    },
  });
  const answer = async () => getHealthSecrets({ node: "n1", plugin }, {} as never);
  return { answer, read };
};

describe("the secrets of NodeGetStorageHealth", () => {
  test("are read for each question, in the namespace that the profile names", async () => {
    const { answer, read } = await ask([half()]);
    expect(await answer()).toEqual({ secrets: { token: "t" } });
    expect(await answer()).toEqual({ secrets: { token: "t" } });
    expect(read).toEqual([
      ["secret:ops/array", "ops"],
      ["secret:ops/array", "ops"],
    ]);
  });

  test("are none where the profile names none", async () => {
    expect(await (await ask([half()], { named: false })).answer()).toEqual({ secrets: {} });
  });

  test.each([
    ["to a node that is fenced", [half()], { state: "FENCING" }],
    ["to a node without the plugin", [half({ name: "other" })], {}],
    ["to a plugin that is not well, or was somebody else", [half({ health: "UNHEALTHY" })], {}],
    ["to a plugin that does not tell its storage's health", [half({ capabilities: {} })], {}],
  ] as const)("[HS1] are not given %s", async (_, plugins, how) => {
    const { answer, read } = await ask(plugins, how);
    await expect(answer()).rejects.toMatchObject({ reason: "PLUGIN_NOT_READY" });
    expect(read).toEqual([]);
  });
});
