import { expect, test } from "vitest";
import { afterTurn } from "./after-turn.ts";

test("whoever goes on from what has ended goes on before it is told, through as many promises as it takes", async () => {
  const order: string[] = [];
  const told = new Promise<void>((resolve) => {
    afterTurn(() => {
      order.push("told");
      resolve();
    });
  });
  for (let count = 0; count < 50; count += 1) await undefined;
  order.push("went on");
  await told;
  expect(order).toEqual(["went on", "told"]);
});
