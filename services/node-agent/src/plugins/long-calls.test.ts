import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { expect, test } from "vitest";
import { volumeRef } from "../testing/model-agent.ts";
import { createLongCalls } from "./long-calls.ts";

test("a call is told once it has lasted, and no more when it has ended, however it ends", async () => {
  const clock = createManualClock();
  const calls = createLongCalls(clock, 3_000);
  const since = clock.now();
  const ending = Promise.withResolvers<void>();
  const watched = { method: "NodeStageVolume", ref: volumeRef, instance: "sim", claimUid: "a", attempt: 2 } as const;
  const running = calls.watch(watched, () => ending.promise);
  await clock.advance(2_999);
  expect(calls.list()).toEqual([]);
  await clock.advance(1);
  expect(calls.list()).toEqual([{ ...watched, since, deadline: since + 120_000 }]);
  ending.reject(new Error("broken"));
  await expect(running).rejects.toThrow("broken");
  expect(calls.list()).toEqual([]);
});

test("a call that ends sooner needs no timer", async () => {
  const clock = createManualClock();
  const calls = createLongCalls(clock, 3_000);
  await calls.watch({ method: "NodeExpandVolume", ref: volumeRef, instance: "sim" }, async () => undefined);
  expect(clock.pending()).toBe(0);
});
