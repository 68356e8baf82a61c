import { expect, it } from "vitest";
import { createCallOrders } from "./call-orders.ts";

const intent = (opId: string, issuer = "c1/1") => ({ opId, issuer });
const at = (sequence: number) => ({ gen: 2, sequence });

it("the place of an intent is that of the last commit that stored it, until a commit drops it", () => {
  const orders = createCallOrders("c1/1");
  orders.note(undefined, intent("a"), at(5));
  expect(orders.of("a")).toEqual({ gen: 2, sequence: 5, opId: "a" });
  orders.note(intent("a"), intent("a"), at(7));
  expect(orders.of("a")).toEqual({ gen: 2, sequence: 7, opId: "a" });
  orders.note(intent("a"), intent("b"), at(8));
  expect([orders.of("a"), orders.of("b")?.sequence]).toEqual([undefined, 8]);
  orders.note(intent("b"), undefined, at(9));
  expect(orders.of("b")).toBeUndefined();
});

it("P1 there is none of another life's intent, of one that was forgotten, and of one that no commit was heard of", () => {
  const orders = createCallOrders("c1/1");
  orders.note(undefined, intent("a", "c2/1"), at(5));
  orders.note(undefined, intent("b"), at(6));
  orders.forget("b");
  expect([orders.of("a"), orders.of("b"), orders.of("c")]).toEqual([undefined, undefined, undefined]);
});
