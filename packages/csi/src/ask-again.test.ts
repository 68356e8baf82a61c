import { createManualClock, type ManualClock } from "@holdfast/shared/async/manual-clock";
import { beforeEach, describe, expect, it } from "vitest";
import { createAskAgain } from "./ask-again.ts";
import type { UnaryMethod } from "./methods.ts";
import { type CallOutcome, type Code, verdictOf } from "./outcome.ts";

let clock: ManualClock;
let ready: boolean;
beforeEach(() => {
  clock = createManualClock();
  ready = true;
});

const failed = (code: Code, sent = true): CallOutcome<string> => ({
  outcome: "unknown",
  failure: { method: "ListVolumes", plugin: "p", code, verdict: verdictOf("read", code), message: "", sent },
});
const done: CallOutcome<string> = { outcome: "done", value: "answer" };

/** Asks until it is settled, moving time on; says when it asked and with how much time left. */
const ask = async (
  answers: CallOutcome<string>[],
  options: { method?: UnaryMethod; deadlineMs?: number; signal?: AbortSignal } = {},
) => {
  const { method = "ListVolumes", deadlineMs = 10_000, signal = new AbortController().signal } = options;
  const askAgain = createAskAgain({
    clock,
    random: () => 0.999,
    whenReady: async (until) => {
      while (!ready) await clock.sleep(10, until);
    },
  });
  const asked: { readonly at: number; readonly leftMs: number }[] = [];
  const result = askAgain(method, { signal, deadlineMs }, async (leftMs) => {
    asked.push({ at: clock.monotonic(), leftMs });
    return answers[asked.length - 1] ?? done;
  });
  let settled = false;
  void result.finally(() => {
    settled = true;
  });
  for (let step = 0; step < 2_000 && !settled; step += 1) await clock.advance(10);
  return { outcome: await result, asked };
};

describe("a question", () => {
  it("is asked up to three times, with growing pauses, each with the time that is left", async () => {
    const { outcome, asked } = await ask([failed("UNAVAILABLE"), failed("UNAVAILABLE"), failed("UNAVAILABLE")]);
    expect(outcome).toMatchObject({ outcome: "unknown", failure: { code: "UNAVAILABLE" } });
    expect(asked).toHaveLength(3);
    const [first, second, third] = asked.map(({ at }) => at);
    expect((second ?? 0) - (first ?? 0)).toBeGreaterThan(0);
    expect((third ?? 0) - (second ?? 0)).toBeGreaterThan((second ?? 0) - (first ?? 0));
    for (const { at, leftMs } of asked) expect(leftMs).toBe(10_000 - at);
  });

  it("is not asked again when it succeeded, failed otherwise, or was never sent", async () => {
    expect((await ask([done])).asked).toHaveLength(1);
    for (const code of ["INTERNAL", "ABORTED", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"] as const)
      expect((await ask([failed(code)])).asked, code).toHaveLength(1);
    const unsent = await ask([failed("UNAVAILABLE", false)]);
    expect(unsent.asked).toHaveLength(1);
    expect(unsent.outcome).toMatchObject({ failure: { sent: false } });
  });

  it("waits for the plugin to be ready, and not beyond its deadline", async () => {
    ready = false;
    const asking = ask([failed("UNAVAILABLE")], { deadlineMs: 1_000 });
    const { outcome, asked } = await asking;
    expect(asked).toHaveLength(1);
    expect(outcome).toMatchObject({ outcome: "unknown", failure: { code: "UNAVAILABLE" } });
    expect(clock.monotonic()).toBeLessThanOrEqual(1_010);
    expect(clock.pending()).toBe(0);
  });

  it("is asked again as soon as the plugin is ready", async () => {
    ready = false;
    clock.timer(400, () => {
      ready = true;
    });
    const { outcome, asked } = await ask([failed("UNAVAILABLE"), done]);
    expect(outcome).toEqual(done);
    expect(asked.map(({ at }) => at)[1]).toBeGreaterThanOrEqual(400);
    expect(asked.map(({ at }) => at)[1]).toBeLessThanOrEqual(420);
  });

  it("is not asked again for a caller who gave up", async () => {
    const giveUp = new AbortController();
    ready = false;
    clock.timer(100, () => giveUp.abort(new Error("enough")));
    const { outcome, asked } = await ask([failed("UNAVAILABLE")], { signal: giveUp.signal });
    expect(asked).toHaveLength(1);
    expect(outcome.outcome).toBe("unknown");
    expect(clock.monotonic()).toBeLessThan(200);
  });

  it("that changes the world is asked once, whatever comes back", async () => {
    for (const method of ["CreateVolume", "NodeUnpublishVolume", "DeleteSnapshot"] as const)
      expect((await ask([failed("UNAVAILABLE")], { method })).asked, method).toHaveLength(1);
  });
});
