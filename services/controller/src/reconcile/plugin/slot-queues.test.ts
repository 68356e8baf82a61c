import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createSlotQueues, fairness, type Place, slotClasses } from "./slot-queues.ts";

interface Waiter extends Place {
  readonly id: number;
}

const place = fc.record({ kind: fc.constantFrom(...slotClasses), queue: fc.constantFrom("n1", "n2", "n3", "n4") });
const anyone = (): boolean => true;

describe("whose turn it is", () => {
  it("[Q1] makers first, and after so many of them one of the others", () => {
    const queues = createSlotQueues<Waiter>();
    for (let id = 0; id < 10; id += 1) queues.add({ id, kind: "make", queue: "n1" });
    queues.add({ id: 100, kind: "remove", queue: "n1" });
    queues.add({ id: 200, kind: "look", queue: "n1" });
    const order = Array.from({ length: 12 }, () => queues.take(anyone)?.id);
    expect(order).toEqual([0, 1, 2, 3, 200, 100, 4, 5, 6, 7, 8, 9]);
  });

  it("[Q2] [Q3] queues take turns, and each keeps the order of coming", () => {
    const queues = createSlotQueues<Waiter>();
    for (let id = 0; id < 4; id += 1) queues.add({ id, kind: "make", queue: "busy" });
    queues.add({ id: 10, kind: "make", queue: "other" });
    expect(Array.from({ length: 5 }, () => queues.take(anyone)?.id)).toEqual([0, 10, 1, 2, 3]);
  });

  it("[Q4] is passed on by a queue whose first cannot go, and that one does not lose it", () => {
    const queues = createSlotQueues<Waiter>();
    for (const [id, queue] of ["a", "b", "a", "b"].entries()) queues.add({ id, kind: "make", queue });
    expect(queues.take(({ queue }) => queue !== "a")?.id).toBe(1);
    expect(queues.take(anyone)?.id).toBe(0);
    expect(queues.take(() => false)).toBeUndefined();
    expect(queues.size()).toBe(2);
  });

  /**
   * Bounded overtaking. Somebody that can go is passed by at most `fairness` of higher classes between two turns of its class, and
   * within its class by one of each other queue for each that is before it in its own.
   */
  it("no one starves: whoever can go is overtaken a bounded number of times, whatever else comes", () => {
    fc.assert(
      fc.property(
        fc.array(place, { maxLength: 60 }),
        place,
        fc.array(place, { minLength: 1 }),
        (before, mine, late) => {
          const queues = createSlotQueues<Waiter>();
          for (const [id, where] of before.entries()) queues.add({ ...where, id });
          queues.add({ ...mine, id: -1 });
          const ahead = before.filter(({ kind, queue }) => kind === mine.kind && queue === mine.queue).length;
          const bound = (fairness + slotClasses.length) * 4 * (ahead + 1);
          let turns = 0;
          for (let found = queues.take(anyone); found?.id !== -1 && turns <= bound; found = queues.take(anyone)) {
            // Somebody else comes after each turn: without an end, as far as the one who waits can tell.
            queues.add({ ...(late[turns % late.length] ?? mine), id: 1_000 + turns });
            turns += 1;
          }
          expect(turns).toBeLessThanOrEqual(bound);
        },
      ),
      { numRuns: 300 },
    );
  });

  it("everyone that was added is taken once, or removed once", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(place, fc.boolean()), { maxLength: 60 }), (all) => {
        const queues = createSlotQueues<Waiter>();
        const waiters = all.map(([where, stays], id) => ({ ...where, id, stays }));
        for (const waiter of waiters) queues.add(waiter);
        for (const waiter of waiters.filter(({ stays }) => !stays)) {
          expect(queues.remove(waiter)).toBe(true);
          expect(queues.remove(waiter)).toBe(false);
        }
        const taken: number[] = [];
        for (let one = queues.take(anyone); one !== undefined; one = queues.take(anyone)) taken.push(one.id);
        expect(taken.sort((a, b) => a - b)).toEqual(waiters.filter(({ stays }) => stays).map(({ id }) => id));
        expect(queues.size()).toBe(0);
      }),
    );
  });
});
