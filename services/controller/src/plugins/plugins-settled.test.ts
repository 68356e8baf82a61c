import type { PluginConnection } from "@holdfast/csi/plugin-connection";
import type { PluginStatus } from "@holdfast/csi/plugin-status";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { describe, expect, test } from "vitest";
import { pluginsSettled } from "./plugins-settled.ts";

const facts = { name: "p" } as PluginStatus["facts"] & object;

describe("at the start the controller waits for its plugins", () => {
  const wait = (statuses: () => readonly Pick<PluginStatus, "phase" | "facts">[]) => {
    const clock = createManualClock();
    const directory = {
      list: () =>
        statuses().map((status) => ({ status: () => ({ since: 0, ...status }) }) as unknown as PluginConnection),
    };
    let over = false;
    void pluginsSettled(directory, clock, new AbortController().signal).then(() => {
      over = true;
    });
    return {
      over: () => over,
      after: async (ms: number) => {
        await clock.advance(ms);
        return over;
      },
    };
  };

  test("until the directory has been looked at, when it is empty", async () => {
    const waited = wait(() => []);
    expect(await waited.after(150)).toBe(false);
    expect(await waited.after(100)).toBe(true);
  });

  test("until each has told who it is", async () => {
    let phase: PluginStatus["phase"] = "connecting";
    const waited = wait(() => [{ phase: "ready", facts }, phase === "ready" ? { phase, facts } : { phase }]);
    expect(await waited.after(1_000)).toBe(false);
    phase = "ready";
    expect(await waited.after(20)).toBe(true);
  });

  test("not for one that is known to be away, nor for one that is only ailing", async () => {
    expect(await wait(() => [{ phase: "waiting" }]).after(220)).toBe(true);
    expect(await wait(() => [{ phase: "connecting", facts }]).after(0)).toBe(true);
  });

  test("and not for ever", async () => {
    const waited = wait(() => [{ phase: "connecting" }]);
    expect(await waited.after(1_900)).toBe(false);
    expect(await waited.after(200)).toBe(true);
  });
});
