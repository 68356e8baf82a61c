import type { CallOptions } from "@holdfast/csi/csi-caller";
import { pathOf } from "@holdfast/csi/methods";
import { type CallOutcome, codes, verdictOf } from "@holdfast/csi/outcome";
import type { PluginConnection } from "@holdfast/csi/plugin-connection";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { describe, expect, test } from "vitest";
import { anyCaller } from "../testing/model-agent.ts";
import { createRelay, type RelayedCall, type RelayedEnd } from "./relay.ts";

const bytes = new Uint8Array([1, 2]);
const failed: CallOutcome<Uint8Array> = {
  outcome: "unknown",
  failure: {
    method: "GetMetadataAllocated",
    plugin: "sim",
    code: "ABORTED",
    verdict: verdictOf("read", "ABORTED"),
    message: "busy",
    sent: true,
  },
};

function startRelay(
  promised = 0,
  items: readonly CallOutcome<Uint8Array>[] = [{ outcome: "done", value: bytes }],
  role: PluginConnection["role"] = "controller",
) {
  const calls: { method: string; options: CallOptions }[] = [];
  const connection = {
    role,
    async relay(method: string, _: Uint8Array, options: CallOptions) {
      calls.push({ method, options });
      return items[0];
    },
    async *relayStream(method: string, _: Uint8Array, options: CallOptions) {
      calls.push({ method, options });
      yield* items;
    },
  } as unknown as PluginConnection;
  const asked: unknown[] = [];
  const log = createMemoryLogger();
  const relay = createRelay({
    node: "n1",
    life: "life-2",
    directory: {
      get: (name) => (name === "sim" ? connection : undefined),
      async quiesce(...one) {
        asked.push(one);
        return { idle: true };
      },
      openCalls: () => [],
    },
    promised: () => ({ gen: promised, uid: "mine" }),
    log,
  });
  const order: Omit<RelayedCall, "method"> = { plugin: "sim", request: bytes, deadlineMs: 0, vetting: vetted(0) };
  const all = async (changes: Partial<typeof order> & { method: string }): Promise<RelayedEnd[]> => {
    const ends: RelayedEnd[] = [];
    for await (const end of relay.stream({ ...order, ...changes }, anyCaller)) ends.push(end);
    return ends;
  };
  const one = (changes: Partial<typeof order> & { method: string }) => relay.unary({ ...order, ...changes }, anyCaller);
  const quiesce = (gate: string, gen: number) =>
    relay.quiesce(
      { plugin: "sim", gate, subject: "volume v", order: { gen, sequence: 7 }, vetting: vetted(gen), waitMs: 5 },
      anyCaller,
    );
  return { calls, all, one, asked, quiesce, log };
}

const vetted = (gen: number) => ({ gen, uid: "mine" });
const publish = pathOf("ControllerPublishVolume");
const allocated = pathOf("GetMetadataAllocated");

describe("a controller with an older store", () => {
  test("changes no backend through this host: nothing reaches the plugin, by a call or by a stream", async () => {
    const { calls, one, all } = startRelay(3);
    const stale = { reason: "GENERATION", metadata: { plugin: "sim", gen: "2", promised: "3" } };
    await expect(one({ method: publish, vetting: vetted(2) })).rejects.toMatchObject(stale);
    await expect(all({ method: allocated, vetting: vetted(2) })).rejects.toMatchObject(stale);
    // The same number in another history.
    await expect(one({ method: publish, vetting: { gen: 3, uid: "other" } })).rejects.toMatchObject({
      reason: "GENERATION",
    });
    expect(calls).toEqual([]);
    expect(await one({ method: publish, vetting: vetted(3) })).toEqual({ response: bytes });
    expect(await all({ method: allocated, vetting: vetted(4) })).toEqual([{ response: bytes }]);
  });
});

describe("a node half, while the controller half of its plugin is not there", () => {
  test("is not asked for a call of the other half, by a call or by a stream; it is for its own", async () => {
    const { calls, one, all } = startRelay(0, undefined, "node");
    const away = [{ failure: { code: codes.indexOf("UNAVAILABLE"), notSent: true, answered: false } }];
    for (const method of ["ControllerUnpublishVolume", "CreateVolumeGroupSnapshot"] as const)
      expect([await one({ method: pathOf(method) })]).toMatchObject(away);
    expect(await all({ method: allocated })).toMatchObject(away);
    expect(calls).toEqual([]);
    for (const method of ["NodeGetVolumeStats", "Probe"] as const)
      expect(await one({ method: pathOf(method) })).toEqual({ response: bytes });
  });
});

describe("what the plugin is told", () => {
  test("is the caller's own time: of a call, and of all of a stream; its own policy where the caller has none", async () => {
    const { calls, one, all } = startRelay();
    await one({ method: publish, deadlineMs: 1_234 });
    await all({ method: allocated, deadlineMs: 2_345 });
    await one({ method: publish });
    await all({ method: allocated });
    expect(calls.map(({ options: { deadlineMs, totalMs } }) => [deadlineMs, totalMs])).toEqual([
      [1_234, undefined],
      [undefined, 2_345],
      [undefined, undefined],
      [undefined, undefined],
    ]);
  });
});

describe("the order of a call", () => {
  const order = { gen: 1, sequence: 7, opId: "op" };
  test("goes with it to the holder of the socket; a call without one goes as it is", async () => {
    const { calls, one } = startRelay();
    await one({ method: publish, order });
    await one({ method: publish });
    expect(calls.map(({ options }) => options.order)).toEqual([order, undefined]);
  });

  test("that is stale is told as such", async () => {
    const verdict = verdictOf("controllerPublish", "ABORTED");
    const failure = {
      ...failed.failure,
      method: "ControllerPublishVolume",
      verdict,
      sent: false,
      stale: true,
    } as const;
    const { one } = startRelay(0, [{ outcome: "unknown", failure }]);
    expect(await one({ method: publish, order })).toMatchObject({ failure: { notSent: true, staleOrder: true } });
  });
});

describe("the life of the agent that is meant", () => {
  test("L1 is this one, or the call reaches no plugin and is told as stale; one of an earlier version names none", async () => {
    const { calls, one, log } = startRelay();
    const other = await one({ method: publish, gate: "life-1" });
    const message = "the call is for life life-1 of the agent, and this is life life-2";
    expect(other).toMatchObject({ failure: { message, notSent: true, answered: false, staleOrder: true } });
    const fields = { plugin: "sim", method: publish, why: message };
    expect(log.lines).toMatchObject([{ level: "info", message: "a late call was refused as overtaken", fields }]);
    expect(calls).toEqual([]);
    for (const gate of ["life-2", undefined]) await one({ method: publish, gate });
    expect(calls).toHaveLength(2);
  });

  test("L2 is told to be quiet, with its own plugins and under the promised generation; another one changes nothing", async () => {
    const { asked, quiesce } = startRelay(3);
    const metadata = { node: "n1", life: "life-2", wanted: "life-1" };
    await expect(quiesce("life-1", 3)).rejects.toMatchObject({ kind: "precondition", reason: "GATE_LIFE", metadata });
    await expect(quiesce("life-2", 2)).rejects.toMatchObject({ reason: "GENERATION" });
    expect(asked).toEqual([]);
    expect(await quiesce("life-2", 3)).toEqual({ idle: true });
    expect(asked).toEqual([["sim", "volume v", { gen: 3, sequence: 7 }, 5, anyCaller]]);
  });
});

describe("what is relayed", () => {
  test("a stream's failure is its last item, with its code", async () => {
    const { all } = startRelay(0, [{ outcome: "done", value: bytes }, failed]);
    expect(await all({ method: allocated })).toEqual([
      { response: bytes },
      {
        failure: {
          code: codes.indexOf("ABORTED"),
          message: "busy",
          notSent: false,
          answered: false,
          staleOrder: false,
        },
      },
    ]);
  });

  test("a plugin that is not here: told as not sent", async () => {
    const { one, all } = startRelay();
    const away = { failure: { code: codes.indexOf("UNAVAILABLE"), notSent: true } };
    expect(await one({ method: publish, plugin: "other" })).toMatchObject(away);
    expect(await all({ method: allocated, plugin: "other" })).toMatchObject([away]);
  });

  test("no call that a mount comes, grows or goes by, nothing unknown, and neither kind in the other's place", async () => {
    const { calls, one, all } = startRelay();
    for (const method of [
      pathOf("NodeStageVolume"),
      pathOf("NodePublishVolume"),
      pathOf("NodeUnpublishVolume"),
      pathOf("NodeUnstageVolume"),
      pathOf("NodeExpandVolume"),
      "/csi.v1.Node/Nothing",
      allocated,
    ]) {
      await expect(one({ method })).rejects.toMatchObject({ reason: "INVALID_ARGUMENT" });
    }
    await expect(all({ method: publish })).rejects.toMatchObject({ reason: "INVALID_ARGUMENT" });
    expect(calls).toEqual([]);
  });
});
