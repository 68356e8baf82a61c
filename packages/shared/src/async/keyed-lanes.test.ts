import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createKeyedLanes } from "./keyed-lanes.ts";

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

describe("keyed lanes", () => {
  test("one at a time per key, in order; no key waits for another; nothing is kept", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ key: fc.constantFrom("a", "b", "c"), turns: fc.nat(3), fails: fc.boolean() }), {
          minLength: 1,
          maxLength: 20,
        }),
        async (jobs) => {
          const lanes = createKeyedLanes();
          const running = new Map<string, number>();
          const order: Record<string, number[]> = {};
          const results = await Promise.allSettled(
            jobs.map(({ key, turns, fails }, index) =>
              lanes.run(key, undefined, async () => {
                running.set(key, (running.get(key) ?? 0) + 1);
                expect(running.get(key)).toBe(1); // L1
                order[key] = [...(order[key] ?? []), index];
                for (let i = 0; i < turns; i += 1) await turn();
                running.set(key, 0);
                if (fails) throw new Error("job");
                return index;
              }),
            ),
          );
          expect(results.map(({ status }) => status)).toEqual(
            jobs.map(({ fails }) => (fails ? "rejected" : "fulfilled")),
          );
          for (const indices of Object.values(order)) expect(indices).toEqual(indices.toSorted((x, y) => x - y));
          expect(lanes.size()).toBe(0); // L3
        },
      ),
      { numRuns: 50 },
    );
  });

  test("aborted waiters reject with the reason, never run, and do not hold up the rest", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.boolean(), { minLength: 1, maxLength: 12 }), fc.boolean(), async (aborted, late) => {
        const lanes = createKeyedLanes();
        let finish: () => void = () => undefined;
        const first = lanes.run("k", undefined, () => new Promise<void>((resolve) => (finish = resolve)));
        const ran: number[] = [];
        const controllers = aborted.map(() => new AbortController());
        const waiters = controllers.map(({ signal }, index) =>
          lanes.run("k", signal, async () => {
            ran.push(index);
          }),
        );
        const settled = Promise.allSettled(waiters);
        await turn();
        // Late: in the same turn in which the lane is handed over.
        if (late) finish();
        for (const [index, controller] of controllers.entries()) {
          if (aborted[index]) controller.abort(new Error(`r${index}`));
        }
        finish();
        await first;
        const results = await settled;
        results.forEach((result, index) => {
          if (aborted[index])
            expect(result).toMatchObject({ status: "rejected", reason: { message: `r${index}` } }); // L2
          else expect(result.status).toBe("fulfilled");
        });
        expect(ran).toEqual(aborted.flatMap((was, index) => (was ? [] : [index])));
        expect(lanes.size()).toBe(0);
      }),
    );
  });

  test("an aborted signal does not interrupt what runs: the key stays held until it has settled", async () => {
    const lanes = createKeyedLanes();
    const controller = new AbortController();
    let finish: () => void = () => undefined;
    const running = lanes.run("k", controller.signal, () => new Promise<void>((resolve) => (finish = resolve)));
    controller.abort();
    await turn();
    expect(lanes.size()).toBe(1);
    let second = false;
    const next = lanes.run("k", undefined, async () => {
      second = true;
    });
    await turn();
    expect(second).toBe(false);
    expect(lanes.waiting("k")).toBe(1);
    finish();
    await running;
    await next;
    expect(second).toBe(true);
  });

  test("an abort at any moment around the hand-over: what has not begun by then never begins", async () => {
    for (let moment = 0; moment < 20; moment += 1) {
      const lanes = createKeyedLanes();
      const controller = new AbortController();
      const first = lanes.run("k", undefined, async () => undefined);
      let begunAborted = false;
      const second = lanes.run("k", controller.signal, async () => {
        begunAborted = controller.signal.aborted;
      });
      const abort = (async () => {
        for (let i = 0; i < moment; i += 1) await undefined;
        controller.abort();
      })();
      await Promise.allSettled([first, second, abort]);
      expect([moment, begunAborted]).toEqual([moment, false]);
      expect(lanes.size()).toBe(0);
    }
  });

  test("a signal aborted before rejects at once and takes no turn", async () => {
    const lanes = createKeyedLanes();
    const reason = new Error("before");
    await expect(lanes.run("k", AbortSignal.abort(reason), async () => 1)).rejects.toBe(reason);
    expect(lanes.size()).toBe(0);
  });
});
