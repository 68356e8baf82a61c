import { expect, it } from "vitest";
import { createCallOrders } from "./call-orders.ts";

const intent = (opId: string, issuer = "c1/1") => ({ opId, issuer });
const at = (sequence: number) => ({ gen: 2, sequence });

it("the place of an intent is that of the last commit that stored it, until a commit drops it", () => {
  const orders = createCallOrders("c1/1");
  orders.note("v", intent("a"), at(5));
  expect(orders.of("v", "a")).toEqual({ gen: 2, sequence: 5, opId: "a" });
  orders.note("v", intent("a"), at(7));
  expect(orders.of("v", "a")).toEqual({ gen: 2, sequence: 7, opId: "a" });
  orders.note("v", intent("b"), at(8));
  expect([orders.of("v", "a"), orders.of("v", "b")?.sequence]).toEqual([undefined, 8]);
  orders.note("v", undefined, at(9));
  expect(orders.of("v", "b")).toBeUndefined();
});

it("P1 there is none of another life's intent, of one that was forgotten, and of one that no commit was heard of", () => {
  const orders = createCallOrders("c1/1");
  orders.note("v", intent("a", "c2/1"), at(5));
  orders.note("w", intent("b"), at(6));
  orders.forget("w");
  expect([orders.of("v", "a"), orders.of("w", "b"), orders.of("x", "c")]).toEqual([undefined, undefined, undefined]);
});

it("P2 the intents of a set have one id and a place each: one that ends takes no other with it", () => {
  const orders = createCallOrders("c1/1");
  for (const key of ["v", "w"]) orders.note(key, intent("a"), at(5));
  orders.note("v", undefined, at(6));
  expect([orders.of("v", "a"), orders.of("w", "a")?.sequence]).toEqual([undefined, 5]);
});
