import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import type { Store } from "../../ports.ts";
import { createSqliteStore } from "../../store/sqlite/sqlite-store.ts";
import { atWorkMs, createPluginDrivers, expiryMs, type PluginDrivers, renewMs } from "./plugin-drivers.ts";

const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

const build = (names: readonly string[]) => {
  const clock = createManualClock();
  let uuids = 0;
  const uuid = () => {
    uuids += 1;
    return `00000000-0000-4000-8000-${uuids.toString(16).padStart(12, "0")}`;
  };
  const store = createSqliteStore({ file: ":memory:", now: clock.now, uuid });
  stops.push(() => store.close());
  let calls = 0;
  const counted: Pick<Store, "get" | "commit"> = {
    get: (ref) => {
      calls += 1;
      return store.get(ref);
    },
    commit: (commit) => {
      calls += 1;
      return store.commit(commit);
    },
  };
  const start = (name: string) => {
    const stop = new AbortController();
    stops.push(() => stop.abort(new Error("over")));
    const state = { reaches: true };
    const taken: string[] = [];
    const drivers = createPluginDrivers({
      store: counted,
      ids: { uuid },
      holder: name,
      isFormerLife: (holder) => holder !== name && holder.split("/")[0] === name.split("/")[0],
      reachable: () => (state.reaches ? ["p"] : []),
      clock,
      log: createMemoryLogger(),
      signal: stop.signal,
    });
    drivers.onTaken((plugin) => void taken.push(plugin));
    void drivers.run().catch(() => undefined);
    return { name, drivers, state, taken, kill: () => stop.abort(new Error("killed")) };
  };
  const all = names.map(start);
  const busy = (...some: readonly PluginDrivers[]): void => {
    for (const one of some) {
      one.note("own");
      for (const other of all) if (other.drivers !== one) other.drivers.note("other");
    }
  };
  const driving = (): readonly string[] =>
    all.filter(({ drivers }) => drivers.drives("p", "v")).map(({ name }) => name);
  return { clock, all, busy, driving, calls: () => calls };
};

const two = () => {
  const world = build(["a", "b"]);
  const [a, b] = world.all;
  if (a === undefined || b === undefined) throw new Error("two controllers");
  return { ...world, a, b };
};

describe("who makes the calls of a plugin", () => {
  it("[V2] a controller alone does, and asks the store nothing for it", async () => {
    const { clock, a, b, busy, calls } = two();
    for (let n = 0; n < 20; n += 1) {
      a.drivers.note("own");
      await clock.advance(renewMs);
    }
    expect([a.drivers.drives("p", "v"), calls()]).toEqual([true, 0]);
    // One that only watches keeps out of it too.
    busy(a.drivers);
    await clock.advance(10 * renewMs);
    expect([b.drivers.drives("p", "v"), calls()]).toEqual([true, 0]);
  });

  it("[V4] one of two that both work, and the other as soon as that one is gone or cannot reach the plugin", async () => {
    const { clock, a, b, busy, driving } = two();
    busy(a.drivers, b.drivers);
    await clock.advance(2 * renewMs);
    expect(driving()).toEqual(["a"]);
    a.state.reaches = false;
    await clock.advance(2 * renewMs);
    expect(b.drivers.drives("p", "v")).toBe(true);
    expect(b.taken).toEqual(["p"]);
    a.state.reaches = true;
    await clock.advance(2 * renewMs);
    expect(driving()).toEqual(["b"]);
    b.kill();
    await clock.advance(expiryMs + 2 * renewMs);
    expect(a.drivers.drives("p", "v")).toBe(true);
  });

  it("[V2] when the others are quiet for long the lease is given back", async () => {
    const { clock, a, b, busy, calls } = two();
    busy(a.drivers, b.drivers);
    await clock.advance(3 * renewMs);
    await clock.advance(atWorkMs + renewMs);
    const settled = calls();
    await clock.advance(20 * renewMs);
    expect([a.drivers.drives("p", "v"), b.drivers.drives("p", "v"), calls() - settled]).toEqual([true, true, 0]);
  });

  it("[V5] the next life of the controller that did, at once", async () => {
    const { clock, all, busy } = build(["a/1", "b", "a/2"]);
    const [first, b, next] = all;
    if (first === undefined || b === undefined || next === undefined) throw new Error("three lives");
    for (let n = 0; n < 3; n += 1) {
      busy(first.drivers, b.drivers);
      await clock.advance(renewMs);
    }
    const [holder, other] = first.drivers.holds("p") ? [first, b] : [b, first];
    if (holder === b) return;
    holder.kill();
    busy(next.drivers, other.drivers);
    await clock.advance(renewMs);
    expect([next.drivers.holds("p"), other.drivers.holds("p")]).toEqual([true, false]);
  });

  it("[V3] a wall clock that jumps moves nothing", async () => {
    const { clock, a, b, busy, driving } = two();
    busy(a.drivers, b.drivers);
    await clock.advance(2 * renewMs);
    for (const jump of [-3_600_000, 7_200_000]) {
      clock.setWall(clock.now() + jump);
      await clock.advance(renewMs);
      expect(driving()).toEqual(["a"]);
    }
  });

  it("[V1] at every moment somebody does, whatever happens to whom", async () => {
    const step = fc.oneof(
      fc.record({ who: fc.nat(2), does: fc.constantFrom("works" as const, "reaches" as const, "loses" as const) }),
      fc.record({ waits: fc.integer({ min: 1, max: 4 * renewMs }) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const { clock, all, busy, driving } = build(["a", "b", "c"]);
        for (const one of steps) {
          if ("waits" in one) await clock.advance(one.waits);
          else {
            const found = all[one.who];
            if (found === undefined) continue;
            if (one.does === "works") busy(found.drivers);
            else found.state.reaches = one.does === "reaches";
          }
          const able = all.filter(({ state }) => state.reaches);
          // One that can reach it comes to drive it in bounded time, also when all the others cannot.
          if (able.length === 0) continue;
          busy(...able.map(({ drivers }) => drivers));
          await clock.advance(expiryMs + 3 * renewMs);
          expect(able.some(({ name }) => driving().includes(name))).toBe(true);
        }
      }),
      { numRuns: 25 },
    );
  });
});
