import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { beforeEach, expect, test } from "vitest";
import { createOrderLane, type OrderLane } from "./order-lane.ts";

let clock: ReturnType<typeof createManualClock>;
let lane: OrderLane;
let running: string[];
let ends: Map<string, PromiseWithResolvers<void>>;

beforeEach(() => {
  clock = createManualClock();
  lane = createOrderLane({ node: "n1", clock, aloneMs: 1_000 });
  running = [];
  ends = new Map();
});

const never = new AbortController().signal;
const turns = async (): Promise<void> => {
  for (let n = 0; n < 20; n += 1) await Promise.resolve();
};
/** Sends an order that runs until the test ends it. */
const send = async (order: string): Promise<void> => {
  const sent = lane.run(order, never, async () => {
    const end = Promise.withResolvers<void>();
    ends.set(order, end);
    running.push(order);
    try {
      await end.promise;
    } finally {
      running.splice(running.indexOf(order), 1);
    }
  });
  sent.catch(() => undefined);
  await turns();
};
const fail = async (order: string, reason: string): Promise<void> => {
  ends.get(order)?.reject(new HoldfastError({ kind: "unavailable", reason, message: "" }));
  await turns();
};
const answer = async (order: string): Promise<void> => {
  ends.get(order)?.resolve();
  await turns();
};
const lose = async (order: string): Promise<void> => {
  await send(order);
  await fail(order, "STREAM_ENDED");
};

test("OL1 an order that was in flight at two stream ends in a row goes alone", async () => {
  await lose("a");
  await send("a");
  await send("b");
  expect(running).toEqual(["a", "b"]);
  await fail("a", "STREAM_ENDED");
  await send("a");
  expect(running).toEqual(["b"]);
  await send("c");
  await answer("b");
  expect(running).toEqual(["a"]);
  await answer("a");
  await send("d");
  expect(running).toEqual(["c", "d"]);
  await send("a");
  expect(running).toEqual(["c", "d", "a"]);
});

test.each([
  ["an answer", answer],
  ["another failure", (order: string) => fail(order, "AGENT_STARTING")],
] as const)("OL1 two ends with %s between them are not in a row", async (_what, end) => {
  await lose("a");
  await send("a");
  await end("a");
  await lose("a");
  await send("b");
  await send("a");
  expect(running).toEqual(["b", "a"]);
});

test("OL1 an order that was not sent is as suspicious as before", async () => {
  await lose("a");
  await lose("a");
  await send("a");
  await fail("a", "NOT_SENT");
  await send("b");
  await send("a");
  expect(running).toEqual(["b"]);
});

test("OL2 it keeps the others back for no longer than a while", async () => {
  await lose("a");
  await lose("a");
  await send("a");
  await send("b");
  expect(running).toEqual(["a"]);
  await clock.advance(1_000);
  await turns();
  expect(running).toEqual(["a", "b"]);
});

test("at most 64 are in flight, and at most 4096 wait", async () => {
  for (let n = 0; n < 64 + 4096; n += 1) void lane.run(String(n), never, () => new Promise(() => undefined));
  expect(lane.load()).toEqual({ running: 64, waiting: 4096 });
  await expect(lane.run("one more", never, async () => undefined)).rejects.toMatchObject({ reason: "OVERLOADED" });
});
