import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { describe, expect, test } from "vitest";
import type { CallFailure } from "../ports.ts";
import {
  anyCaller,
  type ModelAgent,
  modelPaths,
  permitOrder,
  releaseOrder,
  startModelAgent,
  volumeRef,
} from "../testing/model-agent.ts";
import { createVolumeStats } from "./volume-stats.ts";

const { volumeUid } = volumeRef;
const asked = (agent: ModelAgent) => agent.host.calls.filter((call) => call.startsWith("NodeGetVolumeStats")).length;

async function startStats() {
  const agent = await startModelAgent();
  const clock = createManualClock();
  const stats = createVolumeStats({
    ledger: agent.ledger(),
    plugins: agent.host.plugins,
    mounts: agent.host.mounts,
    clock,
    log: createMemoryLogger(),
    deadlineMs: 1_000,
    maxAgeMs: 30_000,
    signal: anyCaller,
  });
  return { agent, clock, stats };
}

const lost: CallFailure = {
  method: "NodeGetVolumeStats",
  code: "DEADLINE_EXCEEDED",
  message: "no answer",
  sent: true,
  advice: "again",
  needs: "",
};

describe("figures of a volume", () => {
  test("[S1] one call for all who ask, and for all who share the volume", async () => {
    const { agent, stats } = await startStats();
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    await agent.volumes().publish(permitOrder("b", 6, { oldestLiveEpoch: { gen: 1, ctr: 5 } }), anyCaller);
    const all = await Promise.all([1, 2, 3].map(() => stats.volumeStats(volumeUid)));
    expect(asked(agent)).toBe(1);
    expect(new Set(all.map((one) => one?.sharedBy))).toEqual(new Set([2]));
    expect(all[0]?.figures.usage).toEqual([{ unit: "bytes", total: 10n, used: 4n, available: 6n }]);
  });

  test("are asked for anew once they are old", async () => {
    const { agent, clock, stats } = await startStats();
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    const first = await stats.volumeStats(volumeUid);
    await clock.advance(29_999);
    await stats.volumeStats(volumeUid);
    expect(asked(agent)).toBe(1);
    await clock.advance(1);
    const second = await stats.volumeStats(volumeUid);
    expect(asked(agent)).toBe(2);
    expect((second?.measuredAt ?? 0) - (first?.measuredAt ?? 0)).toBe(30_000);
  });

  test("[S2] [S3] a volume that does not answer is an error of its own, keeps its older figures, and is left alone for longer each time", async () => {
    const { agent, clock, stats } = await startStats();
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    const good = await stats.volumeStats(volumeUid);
    const told: number[] = [];
    agent.host.figures.stats = async (deadlineMs) => {
      told.push(deadlineMs);
      return { kind: "unknown", failure: lost };
    };
    await clock.advance(30_000);
    const bad = await stats.volumeStats(volumeUid);
    expect(bad?.error).toMatchObject({ reason: "DEADLINE_EXCEEDED", method: "NodeGetVolumeStats" });
    expect(bad?.figures).toEqual(good?.figures);
    expect(bad?.measuredAt).toBe(good?.measuredAt);
    for (const [pause, calls] of [
      [1_999, 1],
      [1, 2],
      [3_999, 2],
      [1, 3],
    ] as const) {
      await clock.advance(pause);
      await stats.volumeStats(volumeUid);
      expect(told).toHaveLength(calls);
    }
    expect(new Set(told)).toEqual(new Set([1_000]));
  });

  test("a volume that is released while its mount is looked at is asked nothing", async () => {
    const { agent } = await startStats();
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    const stats = createVolumeStats({
      ledger: agent.ledger(),
      plugins: agent.host.plugins,
      mounts: {
        async look(everywhere) {
          const view = await agent.host.mounts.look(everywhere);
          await agent.volumes().release(releaseOrder("a", 5), anyCaller);
          return view;
        },
      },
      clock: createManualClock(),
      log: createMemoryLogger(),
      deadlineMs: 1_000,
      maxAgeMs: 30_000,
      signal: anyCaller,
    });
    expect((await stats.volumeStats(volumeUid))?.error?.reason).toBe("MOUNT_MISSING");
    expect(asked(agent)).toBe(0);
  });

  test("of what is not published here there are none; of what has lost its mount or plugin, an error and no call", async () => {
    const { agent, clock, stats } = await startStats();
    expect(await stats.volumeStats(volumeUid)).toBeUndefined();
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    expect(stats.published()).toEqual([volumeUid]);
    agent.host.setPluginAway(true);
    expect((await stats.volumeStats(volumeUid))?.error?.reason).toBe("PLUGIN_NOT_READY");
    agent.host.setPluginAway(false);
    const { target } = modelPaths.of(volumeRef.plugin, volumeRef.externalId);
    agent.host.unmount(target("a"));
    await clock.advance(30_000);
    expect((await stats.volumeStats(volumeUid))?.error?.reason).toBe("MOUNT_MISSING");
    expect(asked(agent)).toBe(0);
    await agent.volumes().release(releaseOrder("a", 5), anyCaller);
    expect(stats.published()).toEqual([]);
    expect(await stats.volumeStats(volumeUid)).toBeUndefined();
  });
});
