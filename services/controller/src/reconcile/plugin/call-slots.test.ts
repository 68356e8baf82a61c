import { createManualClock } from "@holdfast/shared/async/manual-clock";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createCallSlots, mostOverdue, type SlotGuard, type SlotRequest } from "./call-slots.ts";

const never = new AbortController().signal;
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

const held = () => {
  let open: () => void = () => undefined;
  const promise = new Promise<void>((resolve) => {
    open = () => resolve();
  });
  return { promise, open };
};

/** A guard of fixed bounds, whose valve can be turned. */
const bounds = (limit = 64, change: Partial<SlotGuard> = {}) => {
  const listeners = new Set<(plugin: string) => void>();
  const running = new Map<string, number>();
  let shut = false;
  const guard: SlotGuard = {
    allows: (plugin, via) => !shut && (running.get(`${plugin} ${via}`) ?? 0) < limit,
    aside: () => false,
    repeatsAtOnce: () => Math.max(1, Math.floor(limit / 2)),
    perNode: () => 1,
    exclusive: () => false,
    overdueMs: () => Number.POSITIVE_INFINITY,
    started(plugin, via) {
      const at = `${plugin} ${via}`;
      running.set(at, (running.get(at) ?? 0) + 1);
      return () => void running.set(at, (running.get(at) ?? 0) - 1);
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    ...change,
  };
  const valve = (open: boolean): void => {
    shut = !open;
    for (const listener of listeners) listener("p");
  };
  return { guard, valve };
};
const slotsWith = (limit?: number, change?: Partial<SlotGuard>, clock = createManualClock()) =>
  createCallSlots(bounds(limit, change).guard, clock);

const make = (node?: string): SlotRequest => ({ plugin: "p", kind: "make", node });
const remove = (node?: string): SlotRequest => ({ plugin: "p", kind: "remove", node });

describe("call slots", () => {
  it("X36: let one attach or detach of a pair run, and others of the plugin beside it; other plugins are none of its business", async () => {
    const slots = slotsWith();
    const gate = held();
    const started: string[] = [];
    const start = (name: string, request: SlotRequest) =>
      slots.run(request, never, async () => {
        started.push(name);
        await gate.promise;
      });
    const all = [
      start("attach n1", make("n1")),
      start("detach n1", remove("n1")),
      start("attach n2", make("n2")),
      start("create", make()),
      start("other plugin", { plugin: "q", kind: "make", node: "n1" }),
    ];
    await turn();
    expect([...started].sort()).toEqual(["attach n1", "attach n2", "create", "other plugin"]);
    gate.open();
    await Promise.all(all);
    expect(started.at(-1)).toBe("detach n1");
    expect(slots.size()).toBe(0);
  });

  it("let attaches go first, and every fifth turn go to a detach", async () => {
    const slots = slotsWith(1);
    const gate = held();
    const order: string[] = [];
    const all = [slots.run(make(), never, () => gate.promise)];
    for (let i = 0; i < 3; i += 1) all.push(slots.run(remove(), never, async () => void order.push("remove")));
    for (let i = 0; i < 10; i += 1) all.push(slots.run(make(), never, async () => void order.push("make")));
    gate.open();
    await Promise.all(all);
    expect(order.slice(0, 4)).toEqual(["make", "make", "make", "make"]);
    expect(order.indexOf("remove")).toBe(4);
    expect(order.filter((o) => o === "remove")).toHaveLength(3);
  });

  it("reject an aborted waiter, hand its turn on, and free the slot of a call that threw", async () => {
    const slots = slotsWith(1);
    const gate = held();
    const first = slots.run(make(), never, () => gate.promise);
    const controller = new AbortController();
    const second = slots.run(make(), controller.signal, async () => "ran");
    const third = slots.run(make(), never, async () => {
      throw new Error("failed");
    });
    const fourth = slots.run(make(), never, async () => "ran");
    controller.abort(new Error("enough"));
    await expect(second).rejects.toThrow("enough");
    gate.open();
    await first;
    await expect(third).rejects.toThrow("failed");
    expect(await fourth).toBe("ran");
    expect(slots.size()).toBe(0);
  });

  it("never pass their bounds, and everybody has a turn", async () => {
    const request = fc.record({
      kind: fc.constantFrom("make" as const, "remove" as const),
      node: fc.constantFrom(undefined, "n1", "n2"),
      turns: fc.nat(3),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(request, { maxLength: 30 }),
        fc.integer({ min: 1, max: 4 }),
        async (requests, limit) => {
          const slots = slotsWith(limit);
          let running = 0;
          let most = 0;
          const nodes = new Map<string, number>();
          await Promise.all(
            requests.map(({ kind, node, turns }) =>
              slots.run({ plugin: "p", kind, node }, never, async () => {
                running += 1;
                most = Math.max(most, running);
                if (node !== undefined) {
                  nodes.set(node, (nodes.get(node) ?? 0) + 1);
                  expect(nodes.get(node)).toBe(1);
                }
                for (let n = 0; n < turns; n += 1) await Promise.resolve();
                if (node !== undefined) nodes.set(node, 0);
                running -= 1;
              }),
            ),
          );
          expect(most).toBeLessThanOrEqual(limit);
          expect(slots.size()).toBe(0);
        },
      ),
      { numRuns: 200 },
    );
  });

  it("[S1] start nothing while the guard allows nothing, and go on as soon as it does", async () => {
    const { guard, valve } = bounds(1);
    const slots = createCallSlots(guard, createManualClock());
    valve(false);
    const order: string[] = [];
    const all = ["a", "b"].map((name) => slots.run(make(), never, async () => void order.push(name)));
    await turn();
    expect([order, slots.waiting("p")]).toEqual([[], 2]);
    valve(true);
    await Promise.all(all);
    expect([order, slots.size()]).toEqual([["a", "b"], 0]);
  });

  it("[S2] a call that takes far too long keeps its slot and frees its node, for so many and no more", async () => {
    const clock = createManualClock();
    const slots = slotsWith(64, { overdueMs: () => 1_000 }, clock);
    const gate = held();
    const started: number[] = [];
    const all = Array.from({ length: mostOverdue + 3 }, (_, n) =>
      slots.run({ ...make("n1"), method: "ControllerPublishVolume" }, never, async () => {
        started.push(n);
        await gate.promise;
      }),
    );
    await turn();
    expect(started).toEqual([0]);
    await clock.advance(999);
    expect(started).toEqual([0]);
    await clock.advance(1);
    expect(started).toEqual([0, 1]);
    await clock.advance(60_000);
    expect(started).toHaveLength(mostOverdue + 1);
    gate.open();
    await Promise.all(all);
    expect([started.length, slots.size(), clock.pending()]).toEqual([mostOverdue + 3, 0, 0]);
  });

  it("[S4] one that is not wanted any more leaves without running, and nobody loses a turn", async () => {
    const slots = slotsWith(1);
    const gate = held();
    const first = slots.run(make(), never, () => gate.promise);
    let wanted = true;
    const ran: string[] = [];
    const unwanted = slots.runIfWanted(
      { ...make(), subject: "default/data" },
      async () => wanted,
      never,
      async () => ran.push("unwanted"),
    );
    const after = slots.run(make(), never, async () => void ran.push("after"));
    slots.recheck("default/data");
    await turn();
    expect(slots.waiting("p")).toBe(2);
    wanted = false;
    slots.recheck("default/other");
    slots.recheck("default/data");
    expect(await unwanted).toBeUndefined();
    gate.open();
    await Promise.all([first, after]);
    expect([ran, slots.size()]).toEqual([["after"], 0]);
  });

  it("[S5] what is tried again holds at most half of the slots, so that what works goes on", async () => {
    const slots = slotsWith(4);
    const gate = held();
    const hanging = Array.from({ length: 10 }, (_, n) =>
      slots.run({ ...make(`n${n}`), repeat: true }, never, () => gate.promise),
    );
    await turn();
    const fresh: number[] = [];
    await Promise.all(
      Array.from({ length: 20 }, (_, n) => slots.run(make(`m${n}`), never, async () => void fresh.push(n))),
    );
    expect([fresh.length, slots.waiting("p")]).toEqual([20, 8]);
    gate.open();
    await Promise.all(hanging);
  });

  it("[S6] of an exclusive method one call runs at a time, on whatever node; others run beside it", async () => {
    const slots = slotsWith(64, { exclusive: (_plugin, method) => method === "CreateSnapshot" });
    let now = 0;
    let most = 0;
    const one = (): Promise<void> =>
      slots.run({ ...make(), method: "CreateSnapshot" }, never, async () => {
        now += 1;
        most = Math.max(most, now);
        await turn();
        now -= 1;
      });
    const gate = held();
    const beside = slots.run({ ...make(), method: "CreateVolume" }, never, () => gate.promise);
    await Promise.all([one(), one(), one()]);
    expect(most).toBe(1);
    gate.open();
    await beside;
    expect(slots.size()).toBe(0);
  });

  it("[S7] calls at one instance keep none of another waiting: neither for a slot, nor a node, a share or a method", async () => {
    const slots = slotsWith(2, { exclusive: () => true });
    const gate = held();
    const at = (via: string, fn: () => Promise<void>) =>
      slots.run({ ...make("n1"), via, method: "ControllerPublishVolume", repeat: true }, never, fn);
    const hung = [at("a", () => gate.promise), at("a", () => gate.promise)];
    await turn();
    await at("b", turn);
    expect([slots.size(), slots.waiting("p")]).toEqual([1, 1]);
    gate.open();
    await Promise.all(hung);
    expect(slots.size()).toBe(0);
  });

  it("[S8] as soon as an instance is aside nothing waits for it any more, be it for a slot, for its node or for the guard", async () => {
    let aside = false;
    const { guard, valve } = bounds(1, { aside: (_plugin, via) => aside && via === "a" });
    const slots = createCallSlots(guard, createManualClock());
    const gate = held();
    const started: string[] = [];
    const start = (name: string, via: string, node: string): Promise<void> =>
      slots
        .at(async () => via)
        .run(make(node), never, async () => {
          started.push(name);
          await gate.promise;
        });
    const all = [start("hung", "a", "n1"), start("same node", "a", "n1"), start("other node", "a", "n2")];
    await turn();
    expect(started).toEqual(["hung"]);
    aside = true;
    valve(false);
    await turn();
    expect(started).toEqual(["hung", "same node", "other node"]);
    all.push(start("later", "a", "n1"));
    const elsewhere = start("elsewhere", "b", "n1");
    await turn();
    expect([started.at(-1), slots.waiting("p")]).toEqual(["later", 1]);
    valve(true);
    gate.open();
    await Promise.all([...all, elsewhere]);
    expect(slots.size()).toBe(0);
  });

  it("W17: a hundred attaches of one plugin on fifty nodes run fifty at a time, one a node", async () => {
    const slots = slotsWith();
    const rounds: number[] = [];
    let now = 0;
    const all = Array.from({ length: 100 }, (_, n) =>
      slots.run(make(`n${n % 50}`), never, async () => {
        now += 1;
        await turn();
        rounds.push(now);
        now -= 1;
      }),
    );
    await Promise.all(all);
    expect(Math.max(...rounds)).toBe(50);
  });
});
