/** Two controllers with a stream each to one agent, whose plugin both call through it. What one of them sends is held on its way. */
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { codecOf } from "@holdfast/csi/messages";
import { pathOf } from "@holdfast/csi/methods";
import { wireDuration } from "@holdfast/model/wire-duration";
import { type AgentRig, isRoot, pluginName, startRig } from "@holdfast/node-agent/testing/agent-rig";
import { type FakeController, startFakeController } from "@holdfast/node-agent/testing/fake-controller";
import { PluginHealth, PluginRole } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { createSimPlugin } from "@holdfast/sim-plugin/sim-plugin";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { startTcpProxy, type TcpProxy } from "../support/tcp-proxy.ts";

type Method = "ControllerPublishVolume" | "ControllerUnpublishVolume";

describe.skipIf(!isRoot)("calls that two controllers relay through one agent", () => {
  let rig: AgentRig;
  let way: TcpProxy;
  let held: FakeController;
  let other: FakeController;

  beforeEach(async () => {
    rig = await startRig({ backend: { capabilities: {} } });
    const half = {
      role: "controller",
      socket: path.join(rig.dir, "p", "half.sock"),
      backend: rig.plugin.backend,
    } as const;
    const plugin = await createSimPlugin(half);
    onTestFinished(() => plugin.close());
    const plugins = [{ socket: "half.sock", role: "controller", id: pluginName }];
    await writeFile(path.join(rig.dir, "p", "plugins.json"), JSON.stringify({ plugins }), { mode: 0o600 });
    held = rig.controller;
    other = await startFakeController();
    way = await startTcpProxy({ port: Number(held.address.split(":").pop()) });
    onTestFinished(() => way.close());
    await started();
  });

  /** The agent runs, again, and both controllers have seen its plugin. */
  const started = async (): Promise<void> => {
    const lives = held.headers.length;
    await rig.start({ HOLDFAST_CONTROLLERS: `127.0.0.1:${way.port},${other.address}` });
    const ready = (at: FakeController): boolean =>
      at
        .fingerprints()
        .some(
          ({ role, health }) =>
            role === PluginRole.PLUGIN_ROLE_CONTROLLER && health === PluginHealth.PLUGIN_HEALTH_HEALTHY,
        );
    const both = (): boolean => held.headers.length > lives && ready(held) && ready(other);
    await expect.poll(both, { timeout: 10_000 }).toBe(true);
  };
  const life = (): string => held.headers.at(-1)?.instance ?? "";

  const call = (by: FakeController, method: Method, sequence: number, opId = `op-${sequence}`, gate = life()) => {
    const codec = codecOf(method);
    const capability = { mount: {}, accessMode: { mode: 1 } };
    const request = { volumeId: "vol-1", nodeId: "node-a", volumeCapability: capability };
    return by.orders().relay({
      plugin: pluginName,
      method: pathOf(method),
      request: codec.encode(codec.complete(request as object)),
      deadline: { seconds: 20n, nanos: 0 },
      gen: 1n,
      node: "node-a",
      order: { gen: 1n, sequence: BigInt(sequence), opId },
      gate,
    });
  };
  const quiesce = (by: FakeController, sequence: number, waitMs: number, gate = life()) =>
    by.orders().quiesce({
      node: "node-a",
      plugin: pluginName,
      gate,
      subject: "volume vol-1",
      gen: 1n,
      sequence: BigInt(sequence),
      wait: wireDuration(waitMs),
    });
  const made = (): readonly string[] =>
    rig.plugin.backend
      .record()
      .map(({ method }) => method)
      .filter((method) => /^Controller(P|Unp)ublishVolume$/.test(method));

  test("[I5] an attach that was held while a later detach ran is refused when it arrives; stored anew it runs", async () => {
    way.holdAnswers(true);
    const late = call(held, "ControllerPublishVolume", 7);
    expect((await call(other, "ControllerUnpublishVolume", 9)).failure).toBeUndefined();
    way.holdAnswers(false);
    expect(await late).toMatchObject({ failure: { notSent: true, answered: false, staleOrder: true } });
    expect(made()).toEqual(["ControllerUnpublishVolume"]);
    expect((await call(held, "ControllerPublishVolume", 11)).failure).toBeUndefined();
    expect(made()).toEqual(["ControllerUnpublishVolume", "ControllerPublishVolume"]);
  });

  test("[I5] one order that arrives over both streams is called once, and answered over both, also when it comes late", async () => {
    way.holdAnswers(true);
    const late = call(held, "ControllerPublishVolume", 7);
    const early = await call(other, "ControllerPublishVolume", 7);
    way.holdAnswers(false);
    expect(early.failure).toBeUndefined();
    expect(await late).toEqual(early);
    rig.plugin.backend.setFaults([{ method: "ControllerUnpublishVolume", hangMs: 300, when: "before" }]);
    const both = [call(held, "ControllerUnpublishVolume", 8), call(other, "ControllerUnpublishVolume", 8)];
    const [one, two] = await Promise.all(both);
    expect(one?.failure).toBeUndefined();
    expect(two).toEqual(one);
    expect(made()).toEqual(["ControllerPublishVolume", "ControllerUnpublishVolume"]);
  });

  test("[I5] an attach that was held while the agent was asked to let go of its volume is refused when it arrives", async () => {
    way.holdAnswers(true);
    const late = call(held, "ControllerPublishVolume", 7);
    expect(await quiesce(other, 8, 0)).toMatchObject({ idle: true, superseded: false });
    way.holdAnswers(false);
    expect(await late).toMatchObject({ failure: { notSent: true, staleOrder: true } });
    expect((await call(other, "ControllerUnpublishVolume", 9)).failure).toBeUndefined();
    expect(await quiesce(held, 8, 0)).toMatchObject({ idle: false, superseded: true });
    expect(made()).toEqual(["ControllerUnpublishVolume"]);
  });

  test("[I5] an agent that is asked to let go of a volume waits for the answer of its plugin, and says when there is none", async () => {
    rig.plugin.backend.setFaults([{ method: "ControllerPublishVolume", hangMs: 4_000, when: "before" }]);
    const open = call(held, "ControllerPublishVolume", 7);
    await expect
      .poll(() => rig.plugin.backend.record().map(({ method }) => method), { timeout: 4_000 })
      .toContain("ControllerPublishVolume");
    const words = expect.stringContaining("ControllerPublishVolume for volume vol-1");
    expect(await quiesce(other, 8, 0)).toMatchObject({ idle: false, superseded: false, words });
    expect(await quiesce(other, 8, 9_000)).toMatchObject({ idle: true });
    expect((await open).failure).toBeUndefined();
  });

  test("[I5] a call that was meant for the life before reaches no plugin, and the next life does not speak for that one", async () => {
    const before = life();
    rig.signal("SIGKILL");
    await rig.exited();
    await started();
    expect(life()).not.toBe(before);
    const late = await call(held, "ControllerPublishVolume", 7, "op-7", before);
    expect(late).toMatchObject({ failure: { notSent: true, staleOrder: true } });
    await expect(quiesce(other, 8, 0, before)).rejects.toMatchObject({ message: expect.stringContaining(before) });
    expect(made()).toEqual([]);
    expect((await call(held, "ControllerPublishVolume", 7)).failure).toBeUndefined();
  });
});
