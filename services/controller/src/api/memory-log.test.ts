import fc from "fast-check";
import { expect, it } from "vitest";
import { createMemoryLog } from "./memory-log.ts";

it("tells who was away of exactly what changed, each once and in order, or that it no longer knows", () => {
  const key = fc.constantFrom("a", "b", "c", "d");
  fc.assert(
    fc.property(fc.array(key, { maxLength: 60 }), fc.integer({ min: 1, max: 10 }), fc.nat(60), (keys, kept, away) => {
      const log = createMemoryLog("life", kept);
      let from = 0;
      for (const [n, one] of keys.entries()) {
        if (n === away) from = log.version();
        log.note(one);
      }
      const missed = keys.slice(from);
      const told = log.since(from);
      if (told === undefined) {
        // Only what is older than what has to be kept may be forgotten.
        expect(missed.length).toBeGreaterThan(kept);
        return;
      }
      const last = [...new Set(missed.toReversed())].toReversed();
      expect(told.map((one) => one.key)).toEqual(last);
      // Each position is one to go on from: what stands behind it comes then, and nothing else.
      for (const [n, one] of told.entries()) expect(log.since(one.at)).toEqual(told.slice(n + 1));
    }),
  );
});

it("knows nothing of positions that it never gave, and ends a wait with the next change", async () => {
  const log = createMemoryLog("life");
  expect(log.since(1)).toBeUndefined();
  const wait = log.wait(log.version(), new AbortController().signal);
  log.note("a");
  await wait;
  const stop = new AbortController();
  const aborted = log.wait(log.version(), stop.signal);
  stop.abort(new Error("enough"));
  await expect(aborted).rejects.toThrow("enough");
});
