import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createSendQueue, type QueuedFrame } from "./send-queue.ts";

const frameOf = (size: number, taken?: number[]): QueuedFrame => ({
  bytes: new Uint8Array(size),
  onTaken: () => taken?.push(size),
});
const next = (queue: ReturnType<typeof createSendQueue>) => queue.frames[Symbol.asyncIterator]().next();

test("[Q1] what does not fit is told so, in bytes and in number, and fits again when something has left", async () => {
  const queue = createSendQueue({ maxBytes: 10, maxFrames: 3 });
  expect([queue.push(frameOf(6)), queue.push(frameOf(5)), queue.push(frameOf(4))]).toEqual([true, false, true]);
  expect([queue.bytes(), queue.count(), queue.isFull()]).toEqual([10, 2, true]);
  await next(queue);
  expect(queue.push(frameOf(1))).toBe(true);
  expect(queue.push(frameOf(1))).toBe(true);
  expect([queue.push(frameOf(1)), queue.count()]).toEqual([false, 3]);
  queue.pushAlways(frameOf(100));
  expect(queue.count()).toBe(4);
});

test("[Q2] what was taken out is not sent, and what was handed over cannot be taken out", async () => {
  const queue = createSendQueue({ maxBytes: 100, maxFrames: 100 });
  const taken: number[] = [];
  const [first, second, third] = [frameOf(1, taken), frameOf(2, taken), frameOf(3, taken)];
  for (const frame of [first, second, third]) queue.push(frame);
  expect(queue.remove(second)).toBe(true);
  expect((await next(queue)).value?.length).toBe(1);
  expect(taken).toEqual([1]);
  expect(queue.remove(first)).toBe(false);
  expect((await next(queue)).value?.length).toBe(3);
  expect([queue.bytes(), queue.count()]).toEqual([0, 0]);
  // Who waits already is handed the next one at once.
  const waiting = next(queue);
  const late = frameOf(4, taken);
  queue.push(late);
  expect(queue.remove(late)).toBe(false);
  expect((await waiting).value?.length).toBe(4);
});

describe("[Q3] end()", () => {
  test("wakes who waits, and leaves nothing", async () => {
    const queue = createSendQueue({ maxBytes: 100, maxFrames: 100 });
    const waiting = next(queue);
    queue.end();
    expect((await waiting).done).toBe(true);
    expect((await next(queue)).done).toBe(true);
    expect([queue.push(frameOf(1)), queue.bytes(), queue.count()]).toEqual([false, 0, 0]);
  });

  test("drops what was not taken", async () => {
    const queue = createSendQueue({ maxBytes: 100, maxFrames: 100 });
    const taken: number[] = [];
    queue.push(frameOf(1, taken));
    queue.end();
    expect((await next(queue)).done).toBe(true);
    expect(taken).toEqual([]);
  });

  test("who leaves the iterator takes nothing more", async () => {
    const queue = createSendQueue({ maxBytes: 100, maxFrames: 100 });
    const iterator = queue.frames[Symbol.asyncIterator]();
    const waiting = iterator.next();
    await iterator.return?.();
    expect((await waiting).done).toBe(true);
    queue.push(frameOf(1));
    expect(queue.count()).toBe(1);
  });
});

test("[Q2] the order is that of arrival, whatever is taken out between", async () => {
  const steps = fc.array(fc.oneof(fc.constant("take"), fc.constant("push"), fc.nat(50)), { maxLength: 300 });
  await fc.assert(
    fc.asyncProperty(steps, async (script) => {
      const queue = createSendQueue({ maxBytes: 1e9, maxFrames: 1e9 });
      const model: QueuedFrame[] = [];
      let size = 0;
      for (const step of script) {
        if (step === "push") {
          size += 1;
          const frame = frameOf(size);
          model.push(frame);
          queue.push(frame);
        } else if (step === "take") {
          if (model.length > 0) expect((await next(queue)).value).toBe(model.shift()?.bytes);
        } else {
          const [gone] = model.splice(Number(step), 1);
          if (gone !== undefined) expect(queue.remove(gone)).toBe(true);
        }
        expect(queue.bytes()).toBe(model.reduce((sum, { bytes }) => sum + bytes.length, 0));
      }
    }),
  );
});
