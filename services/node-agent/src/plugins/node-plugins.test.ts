import { allCaps, controllerCaps, groupCaps, nodeCaps, type PluginFacts, pluginCaps } from "@holdfast/csi/capabilities";
import { type Code, codes, verdictOf } from "@holdfast/csi/outcome";
import type { PluginPhase } from "@holdfast/csi/plugin-status";
import { systemClock } from "@holdfast/shared/async/clock";
import { invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import { PluginHealth, PluginRole, Support } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { describe, expect, test } from "vitest";
import { createPathMap } from "../domain/path-map.ts";
import type { MountOrder } from "../ports.ts";
import { anyCaller, permitOrder, volumeRef } from "../testing/model-agent.ts";
import { fingerprintOf } from "./fingerprint.ts";
import { createFingerprintBoard } from "./fingerprint-board.ts";
import { createLongCalls } from "./long-calls.ts";
import { createSecretGuard, nodePlugin } from "./node-plugins.ts";

const clock = { monotonic: () => 0 };

const factsWith = (changes: Partial<PluginFacts["node"]> = {}): PluginFacts => ({
  name: "sim",
  version: "1",
  manifest: {},
  role: "node",
  plugin: allCaps(pluginCaps, "no"),
  controller: allCaps(controllerCaps, "unknown"),
  node: { ...allCaps(nodeCaps, "no"), ...changes },
  group: allCaps(groupCaps, "no"),
  nodeInfo: { nodeId: "node-id", maxVolumes: 7, topology: { zone: "a" } },
});

/** A connection that keeps what it was asked and answers as it is told. */
function fakeConnection(
  facts: PluginFacts | undefined,
  answer: (method: string) => unknown = () => ({ outcome: "done", value: {} }),
) {
  const calls: { method: string; request: Record<string, unknown>; options: Record<string, unknown> }[] = [];
  const connection = {
    status: () => ({ phase: "ready", since: 0, ...(facts === undefined ? {} : { facts }) }),
    call: async (method: string, request: Record<string, unknown>, options: Record<string, unknown>) => {
      calls.push({ method, request, options });
      return answer(method);
    },
  };
  return {
    calls,
    plugin: nodePlugin("sim", connection as unknown as Parameters<typeof nodePlugin>[1], {
      node: "node-a",
      guard: createSecretGuard(clock),
      longCalls: createLongCalls(systemClock, 0),
      instance: "n1-sim",
    }),
  };
}

test("a publication tells the tokens of its workload, and has them struck out of what the plugin says", async () => {
  const { calls, plugin } = fakeConnection(factsWith());
  const tokens = { secrets: { told: "{}" }, volumeContext: { told: "{}" }, sensitive: { token: "canary" } };
  await plugin.publish({ ...order, tokens, deadlineMs: 5 }, anyCaller);
  await plugin.publish(order, anyCaller);
  const [told, bare] = calls;
  expect(told?.request).toMatchObject({
    secrets: { ...contents.publishSecrets, told: "{}" },
    volumeContext: { ...contents.volumeContext, told: "{}" },
  });
  expect(told?.options).toMatchObject({ deadlineMs: 5, secrets: { token: "canary" } });
  expect(bare?.request).toMatchObject({ secrets: contents.publishSecrets, volumeContext: contents.volumeContext });
  expect(bare?.request["secrets"]).not.toHaveProperty("told");
});

const { claim, contents } = permitOrder("a", 5, {
  context: { lun: "1" },
  accessMode: "SINGLE_NODE_WRITER",
  fsType: "ext4",
  readOnly: true,
});
const order: MountOrder = {
  ref: volumeRef,
  facts: { ...claim, digest: "", target: "/hf/publish/x/y" },
  contents: { ...contents, mountFlags: ["noatime"], volumeMountGroup: "1000", volumeContext: { pool: "p" } },
  stagingPath: "/hf/staging/x",
};

describe("the four calls", () => {
  test("stage and publish hold all that the permit said, each with its own secrets", async () => {
    const { calls, plugin } = fakeConnection(factsWith({ VOLUME_MOUNT_GROUP: "yes" }));
    await plugin.stage(order, anyCaller);
    await plugin.publish(order, anyCaller);
    const volumeCapability = {
      accessMode: { mode: 1 },
      mount: { fsType: "ext4", mountFlags: ["noatime"], volumeMountGroup: "1000" },
    };
    const common = {
      volumeId: "ext-1",
      publishContext: { lun: "1" },
      volumeContext: { pool: "p" },
      stagingTargetPath: "/hf/staging/x",
      volumeCapability,
    };
    expect(calls.map(({ method, request }) => [method, request])).toEqual([
      ["NodeStageVolume", { ...common, secrets: { key: "canary-stage" } }],
      [
        "NodePublishVolume",
        { ...common, secrets: { key: "canary-publish" }, targetPath: "/hf/publish/x/y", readonly: true },
      ],
    ]);
    expect(calls[0]?.options["subject"]).toEqual({
      namespace: "ns",
      volume: "vol",
      node: "node-a",
      claim: "a",
      attempt: 1,
    });
  });

  test("a group goes only to plugins that take one; a block device has no file system", async () => {
    const { calls, plugin } = fakeConnection(factsWith());
    await plugin.stage(order, anyCaller);
    await plugin.stage({ ...order, facts: { ...order.facts, attachmentMode: "BLOCK_DEVICE" } }, anyCaller);
    expect(calls.map(({ request }) => request["volumeCapability"])).toEqual([
      { accessMode: { mode: 1 }, mount: { fsType: "ext4", mountFlags: ["noatime"], volumeMountGroup: "" } },
      { accessMode: { mode: 1 }, block: {} },
    ]);
  });

  test("D9 one writer is said the old way to a plugin without the newer modes, and many as they are, for the gate to refuse", async () => {
    const { calls, plugin } = fakeConnection(factsWith());
    const inMode = (accessMode: "SINGLE_NODE_SINGLE_WRITER" | "SINGLE_NODE_MULTI_WRITER") =>
      plugin.stage({ ...order, facts: { ...order.facts, accessMode } }, anyCaller);
    await inMode("SINGLE_NODE_SINGLE_WRITER");
    await inMode("SINGLE_NODE_MULTI_WRITER");
    expect(calls.map(({ request }) => request["volumeCapability"])).toMatchObject([
      { accessMode: { mode: 1 } },
      { accessMode: { mode: 7 } },
    ]);
  });

  test("unpublish and unstage name the volume and the path", async () => {
    const { calls, plugin } = fakeConnection(factsWith());
    expect(await plugin.unpublish(volumeRef, "/t", anyCaller)).toEqual({ kind: "done" });
    expect(await plugin.unstage(volumeRef, "/s", anyCaller)).toEqual({ kind: "done" });
    expect(calls.map(({ method, request }) => [method, request])).toEqual([
      ["NodeUnpublishVolume", { volumeId: "ext-1", targetPath: "/t" }],
      ["NodeUnstageVolume", { volumeId: "ext-1", stagingTargetPath: "/s" }],
    ]);
  });

  test.each([
    [factsWith({ STAGE_UNSTAGE_VOLUME: "yes" }), "yes"],
    [factsWith({ STAGE_UNSTAGE_VOLUME: "no" }), "no"],
    [factsWith({ STAGE_UNSTAGE_VOLUME: "unknown" }), "unknown"],
    [undefined, "unknown"],
  ])("whether it stages is three-valued", (facts, says) => expect(fakeConnection(facts).plugin.stages()).toBe(says));

  test.each(codes.filter((code) => code !== "OK"))("%s keeps the verdict of the outcome table", async (code: Code) => {
    for (const [kind, act] of [
      ["stage", "stage"],
      ["unstage", "unstage"],
    ] as const) {
      const verdict = verdictOf(kind, code);
      const failure = { method: "x", plugin: "sim", code, verdict, message: "m", sent: true };
      const { plugin } = fakeConnection(factsWith(), () => ({ outcome: verdict.outcome, failure }));
      const result =
        act === "stage" ? await plugin.stage(order, anyCaller) : await plugin.unstage(volumeRef, "/s", anyCaller);
      expect(result).toMatchObject({ kind: verdict.outcome, failure: { code, advice: verdict.then, sent: true } });
    }
  });

  test("a request that breaks a limit of CSI was never sent and never will be", async () => {
    const { plugin } = fakeConnection(factsWith(), () => {
      throw invalidArgument([{ field: "volume_id", description: "is too long" }]);
    });
    expect(await plugin.stage(order, anyCaller)).toMatchObject({
      kind: "refused",
      failure: { code: "INVALID_ARGUMENT", advice: "fail", sent: false },
    });
  });
});

describe("a plugin in a container", () => {
  const inContainer = (paths: ReturnType<typeof createPathMap>) => {
    const asked: Record<string, unknown>[] = [];
    const connection = {
      status: () => ({ phase: "ready", since: 0, facts: factsWith() }),
      call: async (_method: string, request: Record<string, unknown>) => {
        asked.push(request);
        return { outcome: "done", value: {} };
      },
    };
    const plugin = nodePlugin("sim", connection as unknown as Parameters<typeof nodePlugin>[1], {
      node: "node-a",
      paths: paths,
      guard: createSecretGuard(clock),
      longCalls: createLongCalls(systemClock, 0),
      instance: "n1-sim",
    });
    return { asked, plugin };
  };

  test("is told its own names of the staging directory and of the target, in all four calls", async () => {
    const { asked, plugin } = inContainer(createPathMap("/hf", "/local/csi"));
    await plugin.stage(order, anyCaller);
    await plugin.publish(order, anyCaller);
    await plugin.unpublish(order.ref, order.facts.target, anyCaller);
    await plugin.unstage(order.ref, order.stagingPath, anyCaller);
    expect(asked.map(({ stagingTargetPath, targetPath }) => [stagingTargetPath, targetPath])).toEqual([
      ["/local/csi/staging/x", undefined],
      ["/local/csi/staging/x", "/local/csi/publish/x/y"],
      [undefined, "/local/csi/publish/x/y"],
      ["/local/csi/staging/x", undefined],
    ]);
    await plugin.publish({ ...order, stagingPath: "" }, anyCaller);
    expect(asked.at(-1)?.["stagingTargetPath"]).toBe("");
  });

  test("is never called with a path that it cannot see", async () => {
    const { asked, plugin } = inContainer(createPathMap("/elsewhere", "/local/csi"));
    expect(await plugin.stage(order, anyCaller)).toMatchObject({
      kind: "refused",
      failure: { code: "INVALID_ARGUMENT", sent: false },
    });
    expect(asked).toEqual([]);
  });
});

describe("fingerprints", () => {
  const connection = (socketPath: string, facts: PluginFacts | undefined, phase: PluginPhase = "ready") => ({
    socketPath,
    instanceId: socketPath,
    role: "node" as const,
    pin: () => ({ name: facts?.name, nodeId: undefined }),
    status: () => ({ phase, since: 1_000, ...(facts === undefined ? {} : { facts }) }),
  });

  test("say what was read; what is not known is left out and is no no", () => {
    const facts = { ...factsWith({ STAGE_UNSTAGE_VOLUME: "yes" }), controller: allCaps(controllerCaps, "unknown") };
    const fingerprint = fingerprintOf(connection("/p/a.sock", facts));
    expect(fingerprint).toMatchObject({
      plugin: "sim",
      instanceId: "/p/a.sock",
      role: PluginRole.PLUGIN_ROLE_NODE,
      health: PluginHealth.PLUGIN_HEALTH_HEALTHY,
      nodeId: "node-id",
      maxVolumes: 7n,
      topology: { segments: { zone: "a" } },
    });
    expect(fingerprint?.capabilities?.node["STAGE_UNSTAGE_VOLUME"]).toBe(Support.SUPPORT_YES);
    expect(fingerprint?.capabilities?.controller).toEqual({});
    expect(fingerprintOf(connection("/p/a.sock", undefined))).toBeUndefined();
    expect(fingerprintOf(connection("/p/a.sock", facts, "quarantined"))?.blocked?.reason).toBe(
      "PLUGIN_IDENTITY_CHANGED",
    );
  });

  test("a plugin that came back as another one is told as who it was, and blocked, although it says nothing of itself", () => {
    const stranger = {
      ...connection("/p/a.sock", undefined, "quarantined"),
      pin: () => ({ name: "sim", nodeId: "n-1" }),
    };
    expect(fingerprintOf(stranger)).toMatchObject({
      plugin: "sim",
      nodeId: "n-1",
      health: PluginHealth.PLUGIN_HEALTH_UNHEALTHY,
      capabilities: undefined,
      blocked: { reason: "PLUGIN_IDENTITY_CHANGED" },
    });
    const unknown = { ...stranger, pin: () => ({ name: undefined, nodeId: undefined }) };
    expect(fingerprintOf(unknown)).toBeUndefined();
  });

  test("an impostor is told, and blocked, only while it does not stand beside the true plugin", () => {
    const posing = {
      ...connection("/p/b.sock", undefined),
      status: () => ({ phase: "quarantined" as const, since: 1_000, reason: "run accept", impostorOf: "sim" }),
    };
    expect(fingerprintOf(posing, [posing])).toMatchObject({
      plugin: "sim",
      health: PluginHealth.PLUGIN_HEALTH_UNHEALTHY,
      blocked: { reason: "PLUGIN_IMPOSTOR", message: "run accept" },
    });
    expect(fingerprintOf(posing, [connection("/p/a.sock", factsWith(), "waiting"), posing])).toBeUndefined();
  });

  test("a board tells what is new since a number, once, and what is gone", () => {
    let here: ReturnType<typeof connection>[] = [connection("/p/a.sock", factsWith())];
    let changed: () => void = () => undefined;
    const directory = {
      list: () => here,
      isAdded: (socketPath: string) => socketPath === "/p/b.sock",
      onChange: (listener: () => void) => {
        changed = listener;
        return () => undefined;
      },
    };
    const board = createFingerprintBoard(directory as unknown as Parameters<typeof createFingerprintBoard>[0]);
    expect(board.revision()).toBe(1);
    changed();
    expect(board.revision()).toBe(1); // nothing that a controller does not know
    here = [...here, connection("/p/b.sock", { ...factsWith(), name: "other" })];
    changed();
    expect(board.changes(1)?.changed.map(({ plugin }) => plugin)).toEqual(["other"]);
    here = here.slice(1);
    changed();
    expect(board.changes(2)).toEqual({ changed: [], removed: [{ plugin: "sim", instanceId: "/p/a.sock" }] });
    expect(board.all().map(({ plugin }) => plugin)).toEqual(["other"]);
    expect(board.changes(99)).toBeUndefined();
  });
});

describe("[C26] a call that the plugin refused for its credentials", () => {
  const refusing = (code: Code) => () => ({
    outcome: "refused",
    failure: {
      plugin: "sim",
      method: "",
      code,
      message: "who are you?",
      sent: true,
      verdict: verdictOf("stage", code),
    },
  });
  const again = (attempt: number, change: Partial<MountOrder["contents"]> = {}): MountOrder => ({
    ...order,
    contents: { ...order.contents, attempt, ...change },
  });
  const another = { stageSecrets: { key: "another" }, publishSecrets: { key: "another" } };

  test.each(["stage", "publish"] as const)(
    "%s is made again only with other secrets, or by whoever asks anew",
    async (call) => {
      for (const code of ["UNAUTHENTICATED", "PERMISSION_DENIED"] as const) {
        const { calls, plugin } = fakeConnection(factsWith(), refusing(code));
        const first = await plugin[call](again(1), anyCaller);
        expect(first).toMatchObject({ kind: "refused", failure: { code } });
        for (const attempt of [2, 3])
          expect(await plugin[call](again(attempt), anyCaller)).toEqual({
            kind: "refused",
            failure: { ...(first.kind === "done" ? {} : first.failure), sent: false },
          });
        expect(calls).toHaveLength(1);
        await plugin[call](again(4, another), anyCaller);
        expect(calls).toHaveLength(2);
        await plugin[call](again(1), anyCaller);
        await plugin[call]({ ...again(2), facts: { ...order.facts, claimUid: "another" } }, anyCaller);
        expect(calls).toHaveLength(4);
      }
    },
  );

  test("of an expansion is made again only with other secrets", async () => {
    const { calls, plugin } = fakeConnection(factsWith(), refusing("UNAUTHENTICATED"));
    const grow = (attempt: number, key: string) =>
      plugin.expand(
        { ref: volumeRef, nodeEpoch: 1, capacity: undefined, usedAs: undefined, attempt, secrets: { key } },
        { ref: volumeRef, target: "/t", stagingPath: "/s" },
        anyCaller,
      );
    for (const attempt of [1, 2, 3]) await grow(attempt, "old");
    expect(calls).toHaveLength(1);
    await grow(4, "new");
    expect(calls).toHaveLength(2);
  });

  test.each(["INTERNAL", "INVALID_ARGUMENT"] as const)(
    "after %s, or without secrets, is no matter of these",
    async (code) => {
      const { calls, plugin } = fakeConnection(factsWith(), refusing(code));
      for (const attempt of [1, 2]) await plugin.stage(again(attempt), anyCaller);
      expect(calls).toHaveLength(2);
      const bare = fakeConnection(factsWith(), refusing("UNAUTHENTICATED"));
      for (const attempt of [1, 2]) await bare.plugin.stage(again(attempt, { stageSecrets: {} }), anyCaller);
      expect(bare.calls).toHaveLength(2);
    },
  );
});
