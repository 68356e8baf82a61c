import fc from "fast-check";
import { expect, test } from "vitest";
import { createManualClock } from "./manual-clock.ts";
import { createPace } from "./pace.ts";

const never = new AbortController().signal;
const turns = async (): Promise<void> => {
  for (let n = 0; n < 10; n += 1) await Promise.resolve();
};

test("P1 each take begins when what was taken before has had its time, in the order of asking", async () => {
  const amounts = fc.array(fc.integer({ min: 0, max: 50 }), { minLength: 1, maxLength: 20 });
  await fc.assert(
    fc.asyncProperty(amounts, async (wanted) => {
      const clock = createManualClock();
      const pace = createPace({ clock, perSecond: 100 });
      const began: [number, number][] = [];
      const start = clock.monotonic();
      for (const [n, amount] of wanted.entries())
        void Promise.resolve(pace.take(amount, never)).then(() => began.push([n, clock.monotonic() - start]));
      for (let at = 0; at <= 10 * 50 * 20; at += 10) {
        await turns();
        await clock.advance(10);
      }
      expect(pace.waiting()).toBe(0);
      expect(began.map(([n]) => n)).toEqual(wanted.map((_, n) => n));
      let before = 0;
      for (const [n, at] of began) {
        expect(at).toBe(before);
        before += (wanted[n] ?? 0) * 10;
      }
    }),
    { numRuns: 30 },
  );
});

test("P2 a caller that gave up waits no more, and those behind it keep their turn", async () => {
  const clock = createManualClock();
  const pace = createPace({ clock, perSecond: 1 });
  const given = new AbortController();
  expect(pace.take(1, never)).toBeUndefined();
  const waits = [pace.take(1, given.signal), pace.take(1, never)];
  let through = false;
  void waits[1]?.then(() => {
    through = true;
  });
  given.abort(new Error("enough"));
  await expect(waits[0]).rejects.toThrow("enough");
  expect(pace.waiting()).toBe(1);
  await clock.advance(1_000);
  await turns();
  expect(through).toBe(false);
  await clock.advance(1_000);
  await waits[1];
  expect(pace.waiting()).toBe(0);
});
