import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { describe, expect, it } from "vitest";
import { createCallSlots } from "./call-slots.ts";
import { createPluginGovernor } from "./plugin-governor.ts";

const build = () => {
  const clock = createManualClock();
  const stop = new AbortController();
  let most = 8;
  let current: { readonly id: string; readonly own?: object } = { id: "a" };
  const governor = createPluginGovernor({
    allowed: () => ({ maxConcurrentCalls: most, maxConcurrentAttachesPerNode: 1, exclusiveMethods: [] }),
    current: () => current,
    clock,
    random: () => 1,
    log: createMemoryLogger(),
    signal: stop.signal,
  });
  const slots = createCallSlots(governor, clock);
  /** A call that answers so. */
  const call = (subject: string, code: string, { took = 10, sent = true, via = "a" } = {}) =>
    slots.run({ plugin: "p", via, kind: "make", node: `node of ${subject}` }, stop.signal, async () => {
      const { end } = governor.begin("p", via, "ControllerPublishVolume", subject, 60_000);
      if (took > 0) await clock.sleep(took, stop.signal);
      end(code, sent);
    });
  const all = async (code: string, subjects: readonly string[], options?: Parameters<typeof call>[2]) => {
    const calls = subjects.map((subject) => call(subject, code, options));
    await clock.advance(options?.took ?? 10);
    await Promise.all(calls);
  };
  const setMost = (next: number): void => {
    most = next;
  };
  const setCurrent = (next: typeof current): void => {
    current = next;
  };
  return { clock, stop, governor, slots, call, all, setMost, setCurrent };
};

describe("the governor of a plugin's calls", () => {
  it("[S1] what is allowed to it holds from then on: others may have come to share it", async () => {
    const { clock, governor, slots, call, setMost } = build();
    expect(governor.repeatsAtOnce("p")).toBe(4);
    setMost(2);
    const more = ["a", "b", "c", "d"].map((subject) => call(subject, "OK"));
    expect([slots.waiting("p"), governor.load("p").limit, governor.repeatsAtOnce("p")]).toEqual([2, 2, 1]);
    await clock.advance(10);
    await clock.advance(10);
    await Promise.all(more);
  });

  it("stops calls when several volumes get no answer, says so, tries one, and lets all go when it answers", async () => {
    const { clock, governor, slots, call, all } = build();
    await all("UNAVAILABLE", ["a", "b", "c"]);
    expect(governor.load("p").breaker).toBe("open");
    expect(governor.held("p", "a")).toMatch(
      /plugin p has not answered for .*ControllerPublishVolume answered UNAVAILABLE.*one call is tried/,
    );
    const waiting = ["d", "e", "f"].map((subject) => call(subject, "OK"));
    await clock.advance(999);
    expect(slots.waiting("p")).toBe(3);
    await clock.advance(1);
    expect([slots.waiting("p"), governor.load("p").breaker]).toEqual([2, "half-open"]);
    await clock.advance(10);
    await Promise.all([...waiting, clock.advance(10)]);
    expect([governor.load("p").breaker, governor.held("p", "a")]).toEqual(["closed", undefined]);
    expect(clock.pending()).toBe(0);
  });

  it("W17: one hung volume never holds the others back", async () => {
    const { governor, all } = build();
    for (let n = 0; n < 10; n += 1) await all("DEADLINE_EXCEEDED", ["hung"]);
    expect(governor.load("p")).toMatchObject({ breaker: "closed", limit: 8 });
  });

  it("counts no call that was not sent", async () => {
    const { governor, all } = build();
    await all("UNAVAILABLE", ["a", "b", "c", "d"], { sent: false });
    await all("INTERNAL", ["a", "b", "c", "d"]);
    expect(governor.load("p")).toMatchObject({ breaker: "closed", limit: 8 });
  });

  it("C33: lowers the calls at once when the backend pushes back, and trusts a new process at once", async () => {
    const { governor, all } = build();
    await all("RESOURCE_EXHAUSTED", ["a", "b", "c"]);
    expect(governor.load("p")).toMatchObject({ breaker: "closed", limit: 4 });
    await all("UNAVAILABLE", ["a", "b", "c"]);
    expect(governor.load("p").breaker).toBe("open");
    governor.renewed("p", "a");
    expect(governor.load("p").breaker).toBe("closed");
  });

  it("follows the profile in both directions", async () => {
    const { governor, all, setMost } = build();
    await all("OK", ["a"]);
    setMost(2);
    governor.changed("p");
    expect(governor.load("p")).toMatchObject({ limit: 2, most: 2 });
    setMost(16);
    governor.changed("p");
    expect(governor.load("p")).toMatchObject({ limit: 16, most: 16 });
  });

  it("gives a method more time after a missed deadline, and the others none", async () => {
    const { governor, all } = build();
    await all("DEADLINE_EXCEEDED", ["a"]);
    expect(governor.begin("p", "a", "ControllerPublishVolume", "a", 60_000).deadlineMs).toBe(120_000);
    expect(governor.begin("p", "a", "DeleteVolume", "a", 60_000).deadlineMs).toBe(60_000);
    expect(governor.begin("q", "a", "ControllerPublishVolume", "a", 60_000).deadlineMs).toBe(60_000);
  });

  it("[K2] a call of before that ends without a word does not let a second one through beside the trial", async () => {
    const { clock, governor, call, all } = build();
    const old = call("old", "INTERNAL", { took: 1_500 });
    await all("UNAVAILABLE", ["a", "b", "c"]);
    const waiting = ["d", "e"].map((subject) => call(subject, "OK", { took: 1_000 }));
    await clock.advance(1_100);
    expect(governor.load("p")).toMatchObject({ breaker: "half-open", running: 2 });
    await clock.advance(500);
    await old;
    expect(governor.load("p")).toMatchObject({ breaker: "half-open", running: 1 });
    await clock.advance(5_000);
    await Promise.all(waiting);
    expect(governor.load("p").breaker).toBe("closed");
  });

  it("[K4] a timer that comes a moment early is no reason never to try again", async () => {
    const { clock, governor, all } = build();
    const timer = clock.timer;
    let early = 1;
    clock.timer = (ms, fn) => timer(early-- > 0 && ms > 500 ? ms - 1 : ms, fn);
    await all("UNAVAILABLE", ["a", "b", "c"]);
    expect(governor.load("p").breaker).toBe("open");
    await clock.advance(2_000);
    expect(governor.load("p").breaker).toBe("half-open");
  });

  it("[G1 G3] an instance that answers UNAVAILABLE rests, longer each time in a row, until it answers or is another process", async () => {
    const { clock, governor, call, all } = build();
    const rest = () => Math.max(0, governor.restsUntil("p", "a") - clock.monotonic());
    const after = async (code: string, sent = true) => {
      await all(code, ["v"], { sent });
      return rest();
    };
    expect([await after("UNAVAILABLE"), await after("UNAVAILABLE"), governor.restsUntil("p", "b")]).toEqual([
      1_000, 2_000, 0,
    ]);
    // Neither says that it is well.
    expect(await after("INTERNAL")).toBeGreaterThan(0);
    expect(await after("OK", false)).toBeGreaterThan(0);
    expect(await after("NOT_FOUND")).toBe(0);
    expect(await after("UNAVAILABLE")).toBe(1_000);
    governor.renewed("p", "a");
    expect(rest()).toBe(0);
    // A single missed deadline is of its volume.
    await Promise.all([call("v", "DEADLINE_EXCEEDED", { took: 0 })]);
    expect(rest()).toBe(0);
  });

  it("[G2] an instance that does not answer rests as long as a call is open there, and holds no other instance back", async () => {
    const { clock, governor, all, setCurrent } = build();
    const rest = () => Math.max(0, governor.restsUntil("p", "a") - clock.monotonic());
    await all("DEADLINE_EXCEEDED", ["x", "y", "z"]);
    expect(rest()).toBe(60_000);
    setCurrent({ id: "b" });
    expect([governor.allows("p", "a"), governor.allows("p", "b"), governor.allows("p", undefined)]).toEqual([
      false,
      true,
      true,
    ]);
    expect([governor.load("p").breaker, governor.held("p", "b")]).toEqual(["closed", undefined]);
    expect(governor.held("p", "a")).toContain("ControllerPublishVolume answered DEADLINE_EXCEEDED");
    const why = "has not answered for 0 s (ControllerPublishVolume answered DEADLINE_EXCEEDED)";
    expect(governor.load("p").silent).toEqual([{ id: "a", why }]);
    // The same call again, with more time, and what comes after it.
    const { deadlineMs, end } = governor.begin("p", "a", "ControllerPublishVolume", "x", 60_000);
    expect([deadlineMs, rest()]).toEqual([120_000, 120_000]);
    await clock.advance(120_000);
    end("DEADLINE_EXCEEDED", true);
    expect(rest()).toBe(120_000);
    governor.begin("p", "a", "ControllerPublishVolume", "x", 60_000).end("OK", true);
    expect([rest(), governor.allows("p", "a"), clock.pending()]).toEqual([0, true, 0]);
    expect(governor.load("p").silent).toEqual([]);
  });

  it("[G2] a deadline that was missed at one instance gives the calls of another no more time", async () => {
    const { governor, all } = build();
    await all("DEADLINE_EXCEEDED", ["x"]);
    expect(governor.begin("p", "b", "ControllerPublishVolume", "v", 60_000).deadlineMs).toBe(60_000);
  });

  it("[G4] an instance that does not answer is aside only for another one that reaches everything", async () => {
    const { governor, all, setCurrent } = build();
    setCurrent({ id: "b" });
    expect(governor.aside("p", "a")).toBe(false);
    await all("UNAVAILABLE", ["x", "y", "z"]);
    expect(governor.aside("p", "a")).toBe(true);
    setCurrent({ id: "b", own: { host: "b" } });
    expect(governor.aside("p", "a")).toBe(false);
    setCurrent({ id: "a" });
    expect(governor.aside("p", "a")).toBe(false);
  });

  it("[K2] each instance has a trial of its own", async () => {
    const { clock, governor, call, all } = build();
    await all("UNAVAILABLE", ["a", "b", "c"]);
    await clock.advance(1_000);
    const trials = [call("d", "OK"), call("e", "OK", { via: "b" }), call("f", "OK", { via: "b" })];
    expect([governor.allows("p", "a"), governor.load("p").running]).toEqual([false, 3]);
    await clock.advance(10);
    await Promise.all(trials);
  });

  it("ends with the controller: no timer stays", async () => {
    const { clock, stop, governor, all } = build();
    await all("UNAVAILABLE", ["a", "b", "c"]);
    expect(governor.load("p").breaker).toBe("open");
    stop.abort(new Error("over"));
    expect(clock.pending()).toBe(0);
  });
});
