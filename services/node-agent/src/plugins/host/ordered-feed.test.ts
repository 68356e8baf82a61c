import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createOrderedFeed } from "./ordered-feed.ts";

const never = new AbortController().signal;

async function take<T>(items: AsyncGenerator<{ readonly item: T }, void>, count: number): Promise<T[]> {
  const taken: T[] = [];
  while (taken.length < count) {
    const next = await items.next();
    if (next.done === true) break;
    taken.push(next.value.item);
  }
  return taken;
}

describe("an ordered feed", () => {
  test("W13 a reader that never reads holds up neither who publishes nor who reads", async () => {
    const feed = createOrderedFeed<number>();
    const slow = feed.after(0, never);
    await Promise.all([slow.next(), Promise.resolve(feed.publish(0))]);
    const quick = feed.after(0, never);
    for (let number = 1; number < 500; number += 1) feed.publish(number);
    expect(await take(quick, 500)).toEqual(Array.from({ length: 500 }, (_, number) => number));
    expect(await take(slow, 499)).toEqual(Array.from({ length: 499 }, (_, number) => number + 1));
  });

  test("F1 whoever is too far behind is told so, and never skips", async () => {
    const feed = createOrderedFeed<number>(3);
    const slow = feed.after(0, never);
    for (let number = 0; number < 4; number += 1) feed.publish(number);
    await expect(slow.next()).rejects.toMatchObject({ kind: "out_of_range", reason: "EVENTS_TRIMMED" });
    expect(() => feed.check(5)).toThrow("not kept any more");
    expect(() => feed.check(-1)).toThrow("not kept any more");
    expect(await take(feed.after(1, never), 3)).toEqual([1, 2, 3]);
  });

  test("an ended feed gives what it has and ends; an aborted reader rejects and is forgotten", async () => {
    const feed = createOrderedFeed<string>();
    const stop = new AbortController();
    const waiting = feed.after(0, stop.signal).next();
    expect(feed.readers()).toBe(1);
    stop.abort(new DOMException("enough", "AbortError"));
    await expect(waiting).rejects.toThrow("enough");
    expect(feed.readers()).toBe(0);
    feed.publish("last");
    feed.end();
    expect(await take(feed.after(0, never), 2)).toEqual(["last"]);
  });

  test("any readers at any place see the same order", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(fc.constant("publish" as const), fc.nat({ max: 3 })), { maxLength: 60 }),
        async (acts) => {
          const feed = createOrderedFeed<number>(1_000);
          const readers = Array.from({ length: 4 }, () => ({ items: feed.after(0, never), seen: [] as number[] }));
          let published = 0;
          for (const act of acts) {
            if (act === "publish") {
              feed.publish(published);
              published += 1;
              continue;
            }
            const reader = readers[act];
            if (reader !== undefined && reader.seen.length < published)
              reader.seen.push(...(await take(reader.items, 1)));
          }
          for (const { seen } of readers) expect(seen).toEqual(seen.map((_, at) => at));
        },
      ),
    );
  });
});
