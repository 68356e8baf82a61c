import { systemClock } from "@holdfast/shared/async/clock";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { describe, expect, test } from "vitest";
import { createKillableChildren } from "./killable-children.ts";

describe("a child", () => {
  test("tells its code and what it said", async () => {
    const children = createKillableChildren({ clock: systemClock, deadlineMs: 10_000 });
    const end = await children.run("v", "sh", ["-c", "echo no >&2; exit 3"]);
    expect(end).toEqual({ kind: "ended", code: 3, said: "no" });
  });

  test("is told nothing of this process: no setting, no secret", async () => {
    process.env["HOLDFAST_CANARY"] = "canary-env";
    try {
      const children = createKillableChildren({ clock: systemClock, deadlineMs: 10_000 });
      const end = await children.run("v", "sh", ["-c", "env >&2"]);
      expect(JSON.stringify(end)).not.toContain("canary-env");
    } finally {
      delete process.env["HOLDFAST_CANARY"];
    }
  });

  test("that cannot be started has ended", async () => {
    const children = createKillableChildren({ clock: systemClock, deadlineMs: 10_000 });
    const end = await children.run("v", "/no/such/program", []);
    expect(end).toMatchObject({ kind: "ended", code: -1, said: expect.stringContaining("ENOENT") });
  });

  test("[C1] that hangs is killed at its deadline, and its budget comes back when it has died", async () => {
    const clock = createManualClock();
    const children = createKillableChildren({ clock, deadlineMs: 5_000 });
    const hanging = children.run("v", "sleep", ["600"]);
    await clock.advance(5_000);
    expect(await hanging).toEqual({ kind: "hung" });
    await expect.poll(() => children.leftBehind("v")).toBe(0);
    expect(clock.pending()).toBe(0);
  });

  test("[C2] past the budget none is started for that volume; for others they are", async () => {
    const clock = createManualClock();
    const children = createKillableChildren({ clock, deadlineMs: 5_000, budget: 0 });
    expect(await children.run("v", "sh", ["-c", "exit 0"])).toEqual({ kind: "hung" });
    const free = createKillableChildren({ clock: systemClock, deadlineMs: 10_000, budget: 1 });
    expect(await free.run("w", "sh", ["-c", "exit 0"])).toMatchObject({ kind: "ended", code: 0 });
  });
});
