import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { reasonOf } from "@holdfast/shared/async/signals";
import { describe, expect, test } from "vitest";
import { pluginsSettled } from "./plugins-settled.ts";

const never = (signal: AbortSignal): Promise<void> =>
  new Promise((_, reject) => signal.addEventListener("abort", () => reject(reasonOf(signal)), { once: true }));

describe("at the start the controller waits for its plugins", () => {
  test("until all of them have told who they are, and no longer", async () => {
    const clock = createManualClock();
    await pluginsSettled({ settled: async () => undefined }, clock, new AbortController().signal);
    expect(clock.pending()).toBe(0);
  });

  test("not for ever", async () => {
    const clock = createManualClock();
    let over = false;
    const waiting = pluginsSettled({ settled: never }, clock, new AbortController().signal).then(() => {
      over = true;
    });
    await clock.advance(1_999);
    expect(over).toBe(false);
    await clock.advance(1);
    await waiting;
    expect([over, clock.pending()]).toEqual([true, 0]);
  });

  test("and gives up when it is told to stop", async () => {
    const clock = createManualClock();
    const stop = new AbortController();
    const waiting = pluginsSettled({ settled: never }, clock, stop.signal);
    stop.abort(new Error("enough"));
    await expect(waiting).rejects.toThrow("enough");
    expect(clock.pending()).toBe(0);
  });
});
