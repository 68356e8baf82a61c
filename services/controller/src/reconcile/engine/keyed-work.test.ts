import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { beforeEach, describe, expect, it } from "vitest";
import { createKeyedWork } from "./keyed-work.ts";

interface Begun {
  readonly step: string;
  readonly end: (stored: boolean | Error) => void;
}

let begun: Begun[];
let ready: Readonly<Record<string, readonly string[]>>;
/** The record was read, and its reader does not have it yet. */
let reading: ((key: string) => unknown) | undefined;
const clock = createManualClock();
let taking: AbortController;

const start = () =>
  createKeyedWork<string, string>({
    what: "volume",
    async read(key) {
      const found = key in ready ? key : undefined;
      await reading?.(key);
      return found;
    },
    ready: (key, _now, hurry) =>
      (ready[key] ?? []).flatMap((step) => (!step.startsWith("later") || hurry ? [step] : [])),
    laneOf: (step) => step.split(" ").at(-1) ?? step,
    idOf: (step) => step,
    run: (_key, step) =>
      new Promise((resolve, reject) => {
        begun.push({ step, end: (stored) => (stored instanceof Error ? reject(stored) : resolve(stored)) });
      }),
    clock,
    random: () => 0.5,
    log: createMemoryLogger(),
    taking: taking.signal,
  });

const settled = () => clock.advance(0);
const steps = () => begun.map(({ step }) => step);

beforeEach(() => {
  begun = [];
  ready = {};
  reading = undefined;
  taking = new AbortController();
});

describe("the work on records", () => {
  it("W1 runs one step of a lane at a time, and those of other lanes beside it", async () => {
    const work = start();
    ready = { v: ["a controller", "b controller", "c node"] };
    work.wake("v");
    await settled();
    expect(steps()).toEqual(["a controller", "c node"]);
    ready = { v: ["b controller"] };
    begun[0]?.end(true);
    await settled();
    expect(steps()).toEqual(["a controller", "c node", "b controller"]);
  });

  it("W2 W3 does not try a step again that stored nothing, until it is woken, be it while the step ran", async () => {
    const work = start();
    ready = { v: ["a controller"] };
    work.wake("v");
    await settled();
    begun[0]?.end(false);
    await settled();
    expect(steps()).toHaveLength(1);
    work.wake("v");
    await settled();
    work.wake("v");
    begun[1]?.end(false);
    await settled();
    expect(steps()).toHaveLength(3);
  });

  it("W3 tries a step again that stored nothing and was decided on a record that was read before the wake-up", async () => {
    const work = start();
    ready = { v: ["a controller"] };
    reading = () => {
      reading = undefined;
      work.wake("v");
    };
    work.wake("v");
    await settled();
    begun[0]?.end(false);
    await settled();
    expect(steps()).toHaveLength(2);
    begun[1]?.end(false);
    await settled();
    expect(steps()).toHaveLength(2);
  });

  it("W4 keeps nothing of a record with nothing to do", async () => {
    const work = start();
    ready = { v: [] };
    work.wake("v");
    work.wake("gone");
    await settled();
    expect([work.size(), steps()]).toEqual([0, []]);
  });

  it("W5 tries a step again after a pause that failed by our own fault", async () => {
    const work = start();
    ready = { v: ["a controller"] };
    work.wake("v");
    await settled();
    begun[0]?.end(new Error("the store is away"));
    await settled();
    expect(steps()).toHaveLength(1);
    await clock.advance(20_000);
    expect(steps()).toHaveLength(2);
  });

  it("W6 cuts the pause of every step once in a hurry, also of one whose lane is busy", async () => {
    const work = start();
    ready = { v: ["a controller", "later controller"] };
    work.wake("v");
    await settled();
    work.wake("v", true);
    await settled();
    expect(steps()).toEqual(["a controller"]);
    ready = { v: ["later controller"] };
    begun[0]?.end(true);
    await settled();
    expect(steps()).toEqual(["a controller", "later controller"]);
    begun[1]?.end(true);
    await settled();
    expect(steps()).toHaveLength(2);
  });

  describe("W8 a step that begins with a record that is being stored", () => {
    const early = (work: ReturnType<typeof start>, step: string) => {
      let looked: () => void = () => undefined;
      work.begin("v", step, (tell) => {
        looked = tell;
        return "v";
      });
      return { looked: () => looked() };
    };

    it("has its lane to itself, and needs it free", async () => {
      const work = start();
      early(work, "a controller");
      early(work, "b controller");
      ready = { v: ["a controller", "c node"] };
      work.wake("v");
      await settled();
      expect(steps()).toEqual(["a controller", "c node"]);
      ready = {};
      for (const { end } of begun) end(true);
      await settled();
      expect(work.size()).toBe(0);
    });

    it("that looked at what was stored, and stored nothing, waits for a wake-up behind that", async () => {
      const work = start();
      const { looked } = early(work, "a controller");
      ready = { v: ["a controller"] };
      work.wake("v");
      looked();
      await settled();
      begun[0]?.end(false);
      await settled();
      expect(steps()).toEqual(["a controller"]);
      work.wake("v");
      await settled();
      expect(steps()).toEqual(["a controller", "a controller"]);
    });

    it("loses no wake-up that it has not looked behind", async () => {
      const work = start();
      early(work, "a controller");
      ready = { v: ["a controller"] };
      work.wake("v");
      await settled();
      begun[0]?.end(false);
      await settled();
      expect(steps()).toEqual(["a controller", "a controller"]);
    });

    it("that nobody woke leaves no look at the record behind", async () => {
      const work = start();
      let reads = 0;
      reading = () => {
        reads += 1;
      };
      const { looked } = early(work, "a controller");
      looked();
      begun[0]?.end(false);
      await settled();
      expect([reads, work.size()]).toEqual([0, 0]);
    });
  });

  it("W7 begins nothing once it is to end, and is idle when the last step that runs has ended", async () => {
    const work = start();
    ready = { v: ["a controller", "b node"], w: ["c controller"] };
    work.wake("v");
    await settled();
    taking.abort();
    work.wake("w");
    work.begin("x", "d controller", () => "x");
    let idle = false;
    void work.idle().then(() => {
      idle = true;
    });
    begun[0]?.end(true);
    await settled();
    expect([idle, steps()]).toEqual([false, ["a controller", "b node"]]);
    begun[1]?.end(new Error("the store is away"));
    await clock.advance(60_000);
    expect([idle, steps()]).toEqual([true, ["a controller", "b node"]]);
  });
});
