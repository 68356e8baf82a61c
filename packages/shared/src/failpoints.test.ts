import fc from "fast-check";
import { expect, test } from "vitest";
import { createFailpoints, parseFailpoints } from "./failpoints.ts";

const names = ["a.b", "c.d-e"] as const;

test("every mistake is told, and what is right is taken", () => {
  const { settings, mistakes } = parseFailpoints(names, "a.b=kill, x=kill ,c.d-e=kill@3,a.b=stop,a.b=kill@0,");
  expect(settings).toEqual([
    { name: "a.b", at: 1 },
    { name: "c.d-e", at: 3 },
  ]);
  expect(mistakes.map((each) => each.split(":")[0])).toEqual(["x=kill", "a.b=stop", "a.b=kill@0"]);
});

test("a place kills once, the n-th time it is passed", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 0, max: 40 }), (at, passes) => {
      const killed: number[] = [];
      let pass = 0;
      const failpoint = createFailpoints([{ name: "a.b", at }], () => killed.push(pass));
      for (pass = 1; pass <= passes; pass += 1) failpoint("a.b");
      expect(killed).toEqual(passes >= at ? [at] : []);
    }),
  );
});
