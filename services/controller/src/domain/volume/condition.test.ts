import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { believedAfter, type ConditionSource, type Heard, hear, nothingHeard, worstOf } from "./condition.ts";
import type { VolumeCondition } from "./volume-sample.ts";

const bad = { abnormal: true, message: "disk is failing" };
const good = { abnormal: false, message: "" };
const after = (...said: readonly (VolumeCondition | undefined)[]): Heard => said.reduce(hear, nothingHeard);

describe("what one source has said", () => {
  it.each([
    ["once abnormal", [bad], false],
    ["twice abnormal", [bad, bad], true],
    ["abnormal, normal, abnormal", [bad, good, bad], false],
    ["abnormal, and twice normal", [bad, bad, good, good], true],
    ["abnormal, and three times normal", [bad, bad, good, good, good], false],
    ["[C68] abnormal, and then nothing", [bad, bad, undefined, undefined, undefined, undefined], true],
    ["[C68] abnormal once, nothing, abnormal", [bad, undefined, bad], true],
  ] as const)("%s", (_, said, abnormal) => {
    expect(after(...said).settled.abnormal).toBe(abnormal);
  });

  it("tells of another trouble at once", () => {
    expect(after(bad, bad, { abnormal: true, message: "worse" }).settled.message).toBe("worse");
  });

  it("never turns more often than it was said often enough", () => {
    const said = fc.array(fc.constantFrom(bad, good, undefined), { maxLength: 60 });
    fc.assert(
      fc.property(said, (all) => {
        let state = nothingHeard;
        let row = 0;
        let last: boolean | undefined;
        for (const one of all) {
          const next = hear(state, one);
          if (one !== undefined) {
            row = one.abnormal === last ? row + 1 : 1;
            last = one.abnormal;
          }
          if (next.settled.abnormal !== state.settled.abnormal) {
            expect(one?.abnormal).toBe(next.settled.abnormal);
            expect(row).toBeGreaterThanOrEqual(next.settled.abnormal ? believedAfter.abnormal : believedAfter.normal);
          }
          state = next;
        }
      }),
      { seed: 20_261_122, numRuns: 500 },
    );
  });
});

describe("[C68] [O51] the worst of what several say", () => {
  const heard = (entries: Readonly<Partial<Record<ConditionSource, VolumeCondition>>>) =>
    new Map(Object.entries(entries).map(([source, said]) => [source as ConditionSource, after(said, said)]));

  it("is abnormal if one says so, in the order of the names", () => {
    expect(worstOf(heard({ "node n2": bad, backend: good, "node n1": { abnormal: true, message: "slow" } }))).toEqual({
      "node n1": "slow",
      "node n2": "disk is failing",
    });
    expect(worstOf(heard({ "node n2": good, backend: good }))).toEqual({});
  });
});
