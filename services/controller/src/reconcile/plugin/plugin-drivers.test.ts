import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { defaultProfile } from "../../domain/plugin/plugin-profile.ts";
import type { Store } from "../../ports.ts";
import { createSharerRecords } from "../../records/sharer-records.ts";
import { createSqliteStore } from "../../store/sqlite/sqlite-store.ts";
import { createPluginDrivers, expiryMs, type PluginDrivers, renewMs } from "./plugin-drivers.ts";

const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

const keys = Array.from({ length: 400 }, (_, n) => `default/data-${n}`);

const build = () => {
  const clock = createManualClock();
  let uuids = 0;
  const uuid = () => {
    uuids += 1;
    return `00000000-0000-4000-8000-${uuids.toString(16).padStart(12, "0")}`;
  };
  const ids = { uuid, random: () => 0.5 };
  const store = createSqliteStore({ file: ":memory:", now: clock.now, uuid });
  stops.push(() => store.close());
  const start = (issuer: string, profile: Partial<typeof defaultProfile> = {}) => {
    const stop = new AbortController();
    stops.push(() => stop.abort(new Error("over")));
    const state = { reaches: true, away: false, held: undefined as Promise<void> | undefined };
    const grown: string[] = [];
    const own: Pick<Store, "get" | "list" | "commit"> = {
      list: store.list,
      async get(ref) {
        if (state.away) throw new Error("the store is away");
        const found = await store.get(ref);
        await state.held;
        return found;
      },
      commit: store.commit,
    };
    const drivers = createPluginDrivers({
      sharers: createSharerRecords({ store: own, clock, ids, signal: new AbortController().signal }),
      issuer,
      isFormerLife: (life) => life !== issuer && life.split("/")[0] === issuer.split("/")[0] && life < issuer,
      reachable: () => (state.reaches ? ["p"] : []),
      allowed: () => ({ ...defaultProfile, ...profile }),
      clock,
      log: createMemoryLogger(),
      signal: stop.signal,
    });
    drivers.onGrown((plugin) => void grown.push(plugin));
    void drivers.run().catch(() => undefined);
    return { issuer, drivers, state, grown, kill: () => stop.abort(new Error("killed")) };
  };
  return { clock, start };
};

type Controller = ReturnType<ReturnType<typeof build>["start"]>;

/** Whose each key is, by all of them: every key has to be that of one controller. */
const expectOneEach = (controllers: readonly Controller[]): void => {
  for (const key of keys)
    expect([key, controllers.filter(({ drivers }) => drivers.drives("p", key)).length]).toEqual([key, 1]);
};

const expectBalance = (controllers: readonly Controller[]): void => {
  expectOneEach(controllers);
  for (const { drivers } of controllers) {
    const mine = keys.filter((key) => drivers.drives("p", key)).length;
    expect(mine).toBeGreaterThanOrEqual((0.6 * keys.length) / controllers.length);
    expect(mine).toBeLessThanOrEqual((1.4 * keys.length) / controllers.length);
  }
};

const ownOf = ({ drivers }: Controller): ReadonlySet<string> => new Set(keys.filter((key) => drivers.drives("p", key)));

const asks = (drivers: PluginDrivers, times: number): void => {
  for (const key of keys.slice(0, times)) drivers.keeps("p", key);
};

describe("who makes the calls of a plugin", () => {
  it("one controller alone makes them all, from its start on", async () => {
    const { clock, start } = build();
    const a = start("a/1");
    expect(ownOf(a).size).toBe(keys.length);
    await clock.advance(3 * renewMs);
    expectOneEach([a]);
    expect(a.grown).toEqual([]);
  });

  it("two and three that come at once, or one after the other, share them", async () => {
    const { clock, start } = build();
    const [a, b] = [start("a/1"), start("b/1")];
    await clock.advance(2 * renewMs);
    expectBalance([a, b]);
    const before = ownOf(a);
    const c = start("c/1");
    await clock.advance(2 * renewMs);
    expectBalance([a, b, c]);
    expect(ownOf(a).isSubsetOf(before)).toBe(true);
  });

  it("[PD2] the share of one that stops moving goes to the others after the expiry, and back when that one comes back", async () => {
    const { clock, start } = build();
    const [a, b, c] = [start("a/1"), start("b/1"), start("c/1")];
    await clock.advance(2 * renewMs);
    const before = ownOf(b);
    a.kill();
    await clock.advance(expiryMs - renewMs);
    expect(ownOf(b)).toEqual(before);
    await clock.advance(2 * renewMs + 1);
    expectBalance([b, c]);
    expect([before.isSubsetOf(ownOf(b)), b.grown, c.grown]).toEqual([true, ["p"], ["p"]]);
    const again = start("a/2");
    await clock.advance(2 * renewMs);
    expectBalance([again, b, c]);
    expect(ownOf(b)).toEqual(before);
  });

  it("[PD2] while the store cannot be read no life ends; a wall clock that jumps ends none either", async () => {
    const { clock, start } = build();
    const [a, b] = [start("a/1"), start("b/1")];
    await clock.advance(2 * renewMs);
    b.state.away = true;
    await clock.advance(10 * expiryMs);
    for (const jump of [-3_600_000, 7_200_000]) clock.setWall(clock.now() + jump);
    expect([b.drivers.isAway("a/1"), a.drivers.isAway("b/1")]).toEqual([false, true]);
    b.state.away = false;
    await clock.advance(2 * renewMs);
    expectBalance([a, b]);
    expect([b.drivers.isAway("a/1"), a.drivers.isAway("b/1")]).toEqual([false, false]);
  });

  it("[PD2] a look that is held up on its way is as old as its beginning", async () => {
    const { clock, start } = build();
    const [, b] = [start("a/1"), start("b/1")];
    await clock.advance(2 * renewMs);
    let letGo: () => void = () => undefined;
    b.state.held = new Promise((resolve) => {
      letGo = resolve;
    });
    await clock.advance(10 * expiryMs);
    b.state.held = undefined;
    letGo();
    await clock.advance(1);
    expect(b.drivers.isAway("a/1")).toBe(false);
  });

  it("[PD3] one that cannot reach the plugin has no share until it can again", async () => {
    const { clock, start } = build();
    const [a, b] = [start("a/1"), start("b/1")];
    await clock.advance(2 * renewMs);
    a.state.reaches = false;
    await clock.advance(2 * renewMs);
    expect([ownOf(a).size, ownOf(b).size, b.grown]).toEqual([0, keys.length, ["p"]]);
    a.state.reaches = true;
    await clock.advance(2 * renewMs);
    expectBalance([a, b]);
    expect(a.grown).toEqual(["p"]);
  });

  it("[PD4] one that hears of a limit which the other has heard of already looks for the calls that were left to it", async () => {
    const { clock, start } = build();
    const [a, b] = [start("a/1", { exclusiveMethods: ["GetCapacity"] }), start("b/1")];
    await clock.advance(2 * renewMs);
    const nobodys = keys.filter((key) => !a.drivers.drives("p", key) && !b.drivers.drives("p", key));
    const both = keys.filter((key) => a.drivers.drives("p", key) && b.drivers.drives("p", key));
    expect(nobodys.length + both.length).toBeGreaterThan(0);
    expect(b.grown).toEqual([]);
    b.drivers.reconsider("p");
    expect(b.grown).toEqual(["p"]);
  });

  it("one that is about to stop leaves its share, and is away only when it has signed off", async () => {
    const { clock, start } = build();
    const [a, b] = [start("a/1"), start("b/1")];
    await clock.advance(2 * renewMs);
    await a.drivers.leave();
    await clock.advance(renewMs);
    expect([ownOf(a).size, ownOf(b).size, b.grown]).toEqual([0, keys.length, ["p"]]);
    await clock.advance(expiryMs);
    expect([ownOf(b).size, b.drivers.isAway("a/1")]).toEqual([keys.length, false]);
    a.kill();
    await a.drivers.signOff();
    await clock.advance(renewMs);
    expect(b.drivers.isAway("a/1")).toBe(true);
  });

  it.each([{ exclusiveMethods: ["CreateVolume"] }, { maxConcurrentCalls: 1 }])(
    "[PD4] with $exclusiveMethods $maxConcurrentCalls one of them makes all calls, whatever they are asked for",
    async (profile) => {
      const { clock, start } = build();
      const both = [start("a/1", profile), start("b/1", profile)];
      for (let n = 0; n < 5; n += 1) {
        for (const { drivers } of both) asks(drivers, 50);
        await clock.advance(renewMs);
      }
      expect(both.map((one) => ownOf(one).size).sort((x, y) => x - y)).toEqual([0, keys.length]);
      expect(both.map(({ drivers }) => drivers.keeps("p", "default/x")).filter(Boolean)).toHaveLength(1);
      const whole = { ...defaultProfile, ...profile };
      expect(both.map(({ drivers }) => drivers.shareOf("p", whole))).toEqual([whole, whole]);
    },
  );

  it("[PD4] limits that can be divided are, among those that share the plugin now", async () => {
    const { clock, start } = build();
    const a = start("a/1");
    const whole = { ...defaultProfile, maxConcurrentCalls: 64, maxConcurrentAttachesPerNode: 2 };
    await clock.advance(renewMs);
    expect(a.drivers.shareOf("p", whole)).toEqual(whole);
    start("b/1");
    start("c/1");
    await clock.advance(2 * renewMs);
    expect(a.drivers.shareOf("p", whole)).toMatchObject({ maxConcurrentCalls: 21, maxConcurrentAttachesPerNode: 1 });
  });

  it("what each is asked for stays with it while all are asked alike, and no longer", async () => {
    const { clock, start } = build();
    const [a, b] = [start("a/1"), start("b/1")];
    const keptBy = ({ drivers }: Controller): number => keys.filter((key) => drivers.keeps("p", key)).length;
    await clock.advance(2 * renewMs);
    for (let n = 0; n < 6; n += 1) {
      for (const { drivers } of [a, b]) asks(drivers, 50);
      await clock.advance(renewMs);
    }
    expect([keptBy(a), keptBy(b)]).toEqual([keys.length, keys.length]);
    // One by one is no reason for another controller to take the call: the key decides there.
    expectBalance([a, b]);
    for (let n = 0; n < 6; n += 1) {
      asks(a.drivers, 400);
      await clock.advance(renewMs);
    }
    expect([keptBy(a), keptBy(b)]).toEqual([ownOf(a).size, ownOf(b).size]);
  });

  it("[CS3] a burst that one of them has counted, and the other not yet, moves nothing", async () => {
    const { clock, start } = build();
    const [a, b] = [start("a/1"), start("b/1")];
    await clock.advance(2 * renewMs);
    for (const { drivers } of [a, b]) asks(drivers, 50);
    await clock.advance(2 * renewMs);
    const ofOther = keys.find((key) => b.drivers.drives("p", key)) ?? "";
    const keptAfter = async (calls: number): Promise<boolean> => {
      asks(a.drivers, calls);
      await clock.advance(renewMs);
      return a.drivers.keeps("p", ofOther);
    };
    expect([await keptAfter(400), await keptAfter(400)]).toEqual([true, false]);
  });

  it("every key is that of one controller that can reach the plugin, soon after whatever happened to whom", async () => {
    const step = fc.oneof(
      fc.record({ who: fc.nat(2), does: fc.constantFrom("reaches", "loses", "loses the store", "finds the store") }),
      fc.record({ waits: fc.integer({ min: 1, max: 4 * renewMs }) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
        const { clock, start } = build();
        const all = ["a/1", "b/1", "c/1"].map((issuer) => start(issuer));
        for (const one of steps) {
          if ("waits" in one) {
            await clock.advance(one.waits);
            continue;
          }
          const { state } = all[one.who] ?? { state: { reaches: true, away: false } };
          if (one.does.includes("store")) state.away = one.does === "loses the store";
          else state.reaches = one.does === "reaches";
        }
        await clock.advance(expiryMs + 3 * renewMs);
        const able = all.filter(({ state }) => state.reaches && !state.away);
        if (able.length > 0) expectOneEach(able);
      }),
      { numRuns: 25 },
    );
  });
});

describe("a life that is away", () => {
  it("[PD5] is one that was never seen in the expiry, stopped, signed off, or was followed by another life", async () => {
    const { clock, start } = build();
    const [a, b] = [start("a/1"), start("b/1")];
    const isAway = (life: string): boolean => a.drivers.isAway(life);
    await clock.advance(renewMs);
    expect(["a/1", "b/1", "z/9", "a/0"].map(isAway)).toEqual([false, false, false, true]);
    await clock.advance(expiryMs);
    expect(["b/1", "z/9"].map(isAway)).toEqual([false, true]);
    b.kill();
    const next = start("b/2");
    await clock.advance(2 * renewMs);
    expect(["b/1", "b/2"].map(isAway)).toEqual([true, false]);
    next.kill();
    await next.drivers.signOff();
    await clock.advance(renewMs);
    expect(isAway("b/2")).toBe(true);
    expectOneEach([a]);
  });
});
