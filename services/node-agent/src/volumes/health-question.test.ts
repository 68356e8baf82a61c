import type { VolumeHealthEntry } from "@holdfast/model/health";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { describe, expect, test } from "vitest";
import {
  anyCaller,
  modelPaths,
  permitOrder,
  releaseOrder,
  startModelAgent,
  volumeRef,
} from "../testing/model-agent.ts";
import { createHealthQuestion } from "./health-question.ts";

const lost: VolumeHealthEntry = { status: "INACCESSIBLE", reason: "PathsLost", message: "no path is left" };
const { staging, target } = modelPaths.of(volumeRef.plugin, volumeRef.externalId);

async function start() {
  const agent = await startModelAgent();
  const clock = createManualClock();
  const volumes = createHealthQuestion(agent.volumes(), {
    ledger: agent.ledger(),
    plugins: agent.host.plugins,
    clock,
    signal: anyCaller,
  });
  const asked = () => agent.host.calls.filter((call) => call.startsWith("NodeGetVolumeHealth"));
  return { agent, clock, volumes, asked, publish: () => volumes.publish(permitOrder("a", 5), anyCaller) };
}

describe("a plugin that failed to mount a volume", () => {
  test("is asked how the volume is, with the paths that were tried, and its words stand on the halt", async () => {
    const { agent, publish, volumes, asked } = await start();
    agent.host.figures.health = async () => [lost];
    agent.host.fates.push("lost-before");
    const result = await publish();
    expect(asked()).toEqual([`NodeGetVolumeHealth ext-1 - ${staging}`]);
    expect(result).toMatchObject({ kind: "uncertain", health: [lost] });
    const words = expect.stringContaining("asked for its health, it says INACCESSIBLE (PathsLost): no path is left");
    expect(result.kind === "uncertain" && result.halt.message).toEqual(words);
    expect(volumes.halts().get(volumeRef.volumeUid)?.message).toEqual(words);
  });

  test("[H1] is asked once per streak of failures, and again in the next one", async () => {
    const { agent, publish, asked } = await start();
    agent.host.figures.health = async () => [lost];
    agent.host.fates.push("lost-before", "blocked", "done", "lost-before");
    expect(await publish()).toMatchObject({ health: [lost] });
    expect(await publish()).toMatchObject({ health: [lost] });
    expect(await publish()).toMatchObject({ health: [lost] });
    expect(asked()).toHaveLength(1);
    expect((await publish()).kind).toBe("published");
    agent.host.unmount(target("a"));
    agent.host.fates.push("done", "lost-before");
    expect(await publish()).toMatchObject({ kind: "uncertain" });
    expect(asked()).toEqual([
      `NodeGetVolumeHealth ext-1 - ${staging}`,
      `NodeGetVolumeHealth ext-1 ${target("a")} ${staging}`,
    ]);
  });

  test("[H2] is not asked beside an order that came while it was about to fail", async () => {
    const { agent, volumes, publish, asked } = await start();
    agent.host.figures.health = async () => [lost];
    agent.host.fates.push("lost-before");
    const [failed, released] = await Promise.all([publish(), volumes.release(releaseOrder("a", 5), anyCaller)]);
    expect([failed.kind, released.kind]).toEqual(["uncertain", "released"]);
    expect(asked()).toEqual([]);
  });

  test("[H2] holds up no other order of the volume while the question hangs, and is given up for it", async () => {
    const { agent, volumes, publish } = await start();
    let given: AbortSignal | undefined;
    agent.host.figures.health = (signal) => {
      given = signal;
      return new Promise(() => undefined);
    };
    agent.host.fates.push("lost-before");
    const waiting = publish();
    await expect.poll(() => agent.host.calls.some((call) => call.startsWith("NodeGetVolumeHealth"))).toBe(true);
    expect(await volumes.release(releaseOrder("a", 5), anyCaller)).toMatchObject({ kind: "released" });
    // No time has passed: the order has ended the question.
    expect(await waiting).not.toHaveProperty("health");
    expect(given?.aborted).toBe(true);
  });

  test("[H3] is waited for five seconds, and its silence changes nothing", async () => {
    const { agent, publish, clock } = await start();
    let limit: AbortSignal | undefined;
    agent.host.figures.health = (signal) => {
      limit = signal;
      return new Promise(() => undefined);
    };
    agent.host.fates.push("lost-before");
    let answered = false;
    const result = publish().finally(() => {
      answered = true;
    });
    await expect.poll(() => limit !== undefined).toBe(true);
    await clock.advance(4_999);
    expect(answered).toBe(false);
    await clock.advance(1);
    const bare = await result;
    expect(bare.kind).toBe("uncertain");
    expect(bare).not.toHaveProperty("health");
    expect(bare.kind === "uncertain" && bare.halt.message).not.toContain("health");
    expect(limit?.aborted).toBe(true);
  });

  test("[H3] whose question fails too is told as it was", async () => {
    const { agent, publish } = await start();
    agent.host.figures.health = () => Promise.reject(new Error("broken"));
    agent.host.fates.push("lost-before");
    const result = await publish();
    expect(result).toMatchObject({ kind: "uncertain", halt: { code: "DEADLINE_EXCEEDED" } });
    expect(result).not.toHaveProperty("health");
  });

  test("tells of a volume in which nothing is adverse nothing more", async () => {
    const { agent, publish } = await start();
    agent.host.figures.health = async () => [];
    agent.host.fates.push("lost-before");
    const result = await publish();
    expect(result).toMatchObject({ health: [] });
    expect(result.kind === "uncertain" && result.halt.message).not.toContain("health");
  });

  test("for good has its words on the end of the claim", async () => {
    const { agent, publish } = await start();
    agent.host.figures.health = async () => [{ ...lost, status: "UNRECOGNISED(9)" }];
    agent.host.fates.push("refused");
    expect(await publish()).toMatchObject({
      kind: "not-mounted",
      message: expect.stringContaining("UNRECOGNISED(9) (PathsLost)"),
    });
  });

  test("that could not be called is not asked", async () => {
    const { agent, publish, asked } = await start();
    agent.host.setPluginAway(true);
    expect((await publish()).kind).toBe("uncertain");
    expect(asked()).toEqual([]);
  });
});
