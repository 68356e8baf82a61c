import { describe, expect, it } from "vitest";
import { judgeVetting, noVetting, showVetting, withPromise } from "./vetting.ts";

const a = { gen: 5, uid: "a" };
const b = { gen: 5, uid: "b" };
const unnamed = { gen: 5, uid: "" };

describe("a generation and the vetting that it was promised to", () => {
  it.each([
    [a, { gen: 4, uid: "a" }, "older"],
    [a, { gen: 6, uid: "b" }, "newer"],
    [a, a, "same"],
    [a, b, "other"],
    [a, unnamed, "same"],
    [unnamed, b, "same"],
    [noVetting, noVetting, "same"],
    [noVetting, a, "newer"],
  ])("%j hears of %j: %s", (promised, sender, verdict) => {
    expect(judgeVetting(promised, sender)).toBe(verdict);
  });

  it("is promised to one vetting only, and never falls", () => {
    expect(withPromise(noVetting, a)).toEqual(a);
    expect(withPromise(a, b)).toEqual(a);
    expect(withPromise(unnamed, b)).toEqual(b);
    expect(withPromise(a, { gen: 4, uid: "c" })).toEqual(a);
    expect(withPromise(a, { gen: 6, uid: "c" })).toEqual({ gen: 6, uid: "c" });
    expect(withPromise(a, unnamed)).toEqual(a);
    // Each order asks for it: what changes nothing is the same, and is written down nowhere.
    for (const one of [noVetting, unnamed, a]) expect(withPromise(one, { ...one })).toBe(one);
  });

  it("is shown with its vetting, where it has one", () => {
    expect([showVetting(a), showVetting(unnamed)]).toEqual(["5 (vetting a)", "5"]);
  });
});
