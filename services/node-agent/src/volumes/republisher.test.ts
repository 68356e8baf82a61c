import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createMetrics } from "@holdfast/shared/metrics";
import { describe, expect, onTestFinished, test } from "vitest";
import { defaultForcedOptions } from "../domain/mount-options.ts";
import type { CallResult, MountOrder, NodePlugin, PermitContents, PublishTokens, TokenSource } from "../ports.ts";
import {
  anyCaller,
  type ModelAgent,
  modelHash,
  modelPaths,
  permitOrder,
  releaseOrder,
  startModelAgent,
  volumeRef,
} from "../testing/model-agent.ts";
import { createRepublisher } from "./republisher.ts";
import { createSecureMount } from "./secure-mount.ts";

const minute = 60_000;
const tokensOf = (n: number): PublishTokens => ({
  secrets: { tokens: `canary-token-${n}` },
  volumeContext: {},
  sensitive: { token: `canary-token-${n}` },
});
const target = modelPaths.of(volumeRef.plugin, volumeRef.externalId).target("a");

/** `life`: one more life of an agent that runs already. */
const start = async (
  life?: ModelAgent,
  wants: Partial<PermitContents> = { republishMs: 48 * minute, wantsTokens: true },
) => {
  let asked = 0;
  const world = {
    wants: wants as Partial<PermitContents> | undefined,
    refusal: undefined as HoldfastError | undefined,
    context: {} as Record<string, string>,
    quarantined: false,
    answer: undefined as ((order: MountOrder) => Promise<CallResult>) | undefined,
  };
  const source: TokenSource = {
    async tokens() {
      asked += 1;
      if (world.refusal !== undefined) throw world.refusal;
      return tokensOf(asked);
    },
    async again(ref, held, signal) {
      const tokens = await source.tokens(ref, held, signal);
      if (world.wants === undefined) return undefined;
      const order = permitOrder(held.claimUid, held.epoch.ctr, { context: world.context });
      return { order: { ...order, contents: { ...order.contents, ...world.wants } }, tokens };
    },
  };
  const agent = life ?? (await startModelAgent(undefined, source));
  const clock = createManualClock();
  const log = createMemoryLogger();
  const over = new AbortController();
  onTestFinished(() => over.abort());
  const orders: MountOrder[] = [];
  const watched = (plugin: NodePlugin): NodePlugin => ({
    ...plugin,
    publish(order, signal) {
      orders.push(order);
      return world.answer?.(order) ?? plugin.publish(order, signal);
    },
  });
  const republisher = createRepublisher(agent.volumes(), {
    ledger: agent.ledger(),
    plugins: {
      get(name) {
        const plugin = agent.host.plugins.get(name);
        return plugin && watched(plugin);
      },
    },
    mounts: agent.host.mounts,
    secure: createSecureMount({ ...agent.host, forced: defaultForcedOptions }),
    tokens: source,
    paths: modelPaths,
    hash: modelHash,
    quarantined: () => world.quarantined,
    clock,
    random: () => 0.5,
    metrics: createMetrics(),
    log,
    signal: over.signal,
  });
  const permit = permitOrder("a", 5);
  const publish = () =>
    republisher.volumes.publish({ ...permit, contents: { ...permit.contents, ...world.wants } }, anyCaller);
  const release = () => republisher.volumes.release(releaseOrder("a", 5), anyCaller);
  const reasons = () => republisher.ailing().map(({ claimUid, halt }) => [claimUid, halt.reason]);
  return { world, agent, clock, log, orders, republisher, publish, release, reasons, asked: () => asked };
};

const away = new HoldfastError({ kind: "unavailable", reason: "CONTROLLER_UNAVAILABLE", message: "nobody is there" });
const unsigned = new HoldfastError({ kind: "precondition", reason: "TOKENS_UNSIGNED", message: "there is no key" });
const failing: CallResult = {
  kind: "refused",
  failure: {
    method: "NodePublishVolume",
    code: "INVALID_ARGUMENT",
    message: "no such token",
    sent: true,
    advice: "fail",
    needs: "correct what the plugin's message names",
  },
};

describe("a publication that is wanted again", () => {
  test("[Again-3] is repeated before its tokens end, with fresh ones, and nothing else is called", async () => {
    const { agent, clock, orders, publish, asked } = await start();
    expect((await publish()).kind).toBe("published");
    expect(asked()).toBe(1);
    await clock.advance(40 * minute);
    expect(orders).toEqual([]);
    // Within 48 minutes: 80 % of an hour.
    await clock.advance(8 * minute);
    expect(orders.map(({ tokens }) => tokens)).toEqual([tokensOf(2)]);
    await clock.advance(96 * minute);
    expect(orders).toHaveLength(3);
    expect(agent.host.calls).toEqual(["NodeStageVolume done", ...Array(4).fill("NodePublishVolume done")]);
    expect(agent.host.mountedPaths()).toContain(target);
  });

  test("is put off by no permit that comes once more", async () => {
    const { clock, orders, publish } = await start();
    await publish();
    await clock.advance(40 * minute);
    expect((await publish()).kind).toBe("published");
    await clock.advance(8 * minute);
    expect(orders).toHaveLength(1);
  });

  test("is asked for ever more rarely while the node is in quarantine", async () => {
    const { clock, world, orders, publish, asked } = await start();
    await publish();
    world.quarantined = true;
    await clock.advance(60 * minute);
    expect(orders).toEqual([]);
    expect(asked()).toBeLessThan(40);
    world.quarantined = false;
    await clock.advance(minute);
    expect(orders).toHaveLength(1);
  });

  test("is told in no record of the journal, and no line of the log", async () => {
    const { agent, clock, log, world, publish } = await start();
    await publish();
    world.answer = async () => ({ ...failing, failure: { ...failing.failure, message: "***" } });
    await clock.advance(60 * minute);
    const kept = JSON.stringify(agent.disk().records);
    expect(kept).toContain("published");
    expect([kept, JSON.stringify(log.lines)].filter((text) => text.includes("canary"))).toEqual([]);
  });

  test("ends with its release, from the moment at which that is ordered", async () => {
    const { clock, orders, publish, release } = await start();
    await publish();
    expect((await release()).kind).toBe("released");
    expect(clock.pending()).toBe(0);
    await clock.advance(10 * 60 * minute);
    expect(orders).toEqual([]);
  });

  test("[Again-7] is not repeated while its release cannot go on, whatever has changed", async () => {
    const { agent, clock, orders, publish, release, republisher } = await start();
    await publish();
    agent.host.fates.push("blocked");
    expect((await release()).kind).toBe("pending");
    republisher.renew({ plugin: volumeRef.plugin });
    await clock.advance(60 * minute);
    expect(orders).toEqual([]);
  });

  test("is not repeated when nobody wants it, and is when a change says so", async () => {
    const { clock, world, orders, publish, republisher, asked } = await start(undefined, {});
    await publish();
    await clock.advance(10 * 60 * minute);
    expect([orders, asked()]).toEqual([[], 0]);
    republisher.renew({ plugin: "other" });
    await clock.advance(minute);
    expect(asked()).toBe(0);
    world.wants = { republishMs: minute };
    republisher.renew({ plugin: volumeRef.plugin });
    await clock.advance(minute / 2);
    expect(orders).toHaveLength(1);
    world.wants = undefined;
    republisher.renew({ volumeUid: volumeRef.volumeUid });
    await clock.advance(10 * minute);
    expect(orders).toHaveLength(1);
    expect(clock.pending()).toBe(0);
  });

  test("[Again-6] is in doubt after a restart of the agent, at once", async () => {
    const first = await start();
    await first.publish();
    first.agent.crash();
    await first.agent.start();
    const { clock, orders, republisher } = await start(first.agent);
    republisher.start();
    await clock.advance(5_000);
    expect(orders).toHaveLength(1);
    expect(first.agent.host.calls.filter((call) => /Stage|Unpublish/.test(call))).toEqual(["NodeStageVolume done"]);
  });
});

describe("a repetition that fails", () => {
  test("[Again-5] undoes nothing, is told until it is well, and is tried again", async () => {
    const { agent, clock, world, orders, publish, republisher, reasons } = await start();
    await publish();
    world.answer = async () => failing;
    await clock.advance(48 * minute);
    expect(reasons()).toEqual([["a", "REPUBLISH_FAILING"]]);
    const [told] = republisher.ailing();
    expect(told?.halt.message).toContain("answered INVALID_ARGUMENT: no such token");
    expect(told?.halt.blocked?.clearWith).toContain(
      "correct what the plugin's message names, and it goes on by itself",
    );
    await clock.advance(5 * minute);
    expect(orders.length).toBeGreaterThan(5);
    expect(republisher.ailing()).toEqual([told]);
    expect(agent.host.calls.filter((call) => call.includes("Un"))).toEqual([]);
    expect(agent.ledger().volume(volumeRef.volumeUid)?.claims["a"]).toMatchObject({
      phase: "published",
      goal: "mounted",
    });
    world.answer = undefined;
    await clock.advance(minute);
    expect(reasons()).toEqual([]);
  });

  test("because nobody signs its tokens says who has to do what", async () => {
    const { clock, world, publish, republisher, orders } = await start();
    await publish();
    world.refusal = unsigned;
    await clock.advance(48 * minute);
    expect(republisher.ailing()[0]?.halt.blocked?.clearWith).toContain("HOLDFAST_TOKEN_KEYS");
    expect(orders).toEqual([]);
  });

  test("because no controller is there is told only when it lasts", async () => {
    const { clock, world, publish, reasons, orders, asked } = await start();
    await publish();
    world.refusal = away;
    // It is due after 45.6 minutes, and tried again after three quarters of a second.
    await clock.advance(45.6 * minute + 1_000);
    expect([asked(), reasons()]).toEqual([3, []]);
    await clock.advance(minute);
    expect(reasons()).toEqual([["a", "REPUBLISH_FAILING"]]);
    world.refusal = undefined;
    await clock.advance(minute);
    expect([reasons(), orders.length]).toEqual([[], 1]);
  });

  test("because its contexts are others than those it was mounted with is not made", async () => {
    const { clock, world, publish, republisher, orders } = await start();
    await publish();
    world.context = { device: "other" };
    await clock.advance(48 * minute);
    expect(orders).toEqual([]);
    expect(republisher.ailing()[0]?.halt.reason).toBe("PERMIT_CHANGED");
  });

  test("[Again-2] that mounts anew leaves a mount with what it has to have, and the journal knows it", async () => {
    const { agent, clock, world, publish, reasons } = await start();
    await publish();
    const before = agent.ledger().volume(volumeRef.volumeUid)?.claims["a"]?.mountId;
    world.answer = async () => {
      agent.host.unmount(target);
      agent.host.mounting.pluginOptions = ["rw"];
      agent.host.addMount(target, "9:1", "/ext-1");
      return { kind: "done" };
    };
    await clock.advance(48 * minute);
    const after = agent.ledger().volume(volumeRef.volumeUid)?.claims["a"];
    expect(after?.mountId).not.toBe(before);
    expect(after?.phase).toBe("published");
    expect(agent.host.mounting.remounts.join()).toContain("nosuid");
    expect(reasons()).toEqual([]);
  });

  test("[Again-4] and hangs holds a release up no longer than its deadline, and is put off while another call runs", async () => {
    const { clock, world, orders, publish, release } = await start();
    await publish();
    let end: (result: CallResult) => void = () => undefined;
    world.answer = () =>
      new Promise((resolve) => {
        end = resolve;
      });
    await clock.advance(48 * minute);
    expect(orders.map(({ deadlineMs }) => deadlineMs)).toEqual([30_000]);
    let released = false;
    const releasing = release().then(() => {
      released = true;
    });
    await clock.advance(1_000);
    expect(released).toBe(false);
    end({ kind: "unknown", failure: { ...failing.failure, code: "DEADLINE_EXCEEDED", advice: "again" } });
    await releasing;
    await clock.advance(60 * minute);
    expect(orders).toHaveLength(1);
  });
});

test("the first publication waits for its tokens, and owes nothing meanwhile", async () => {
  const { agent, world, publish } = await start();
  world.refusal = unsigned;
  expect(await publish()).toMatchObject({ kind: "uncertain", halt: { reason: "TOKENS_UNSIGNED" } });
  expect(agent.host.calls).toEqual(["NodeStageVolume done"]);
  expect(agent.ledger().volume(volumeRef.volumeUid)?.claims["a"]?.phase).toBe("permitted");
  world.refusal = undefined;
  expect((await publish()).kind).toBe("published");
});
