import { maxGenerationStep } from "@holdfast/model/vetting";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { nothingOfDocker } from "./docker-book.ts";
import { leapOfEpoch, leapOfGeneration, maxGrantStep } from "./epoch-steps.ts";
import { judgePermit, type Standing } from "./judge-order.ts";
import { emptyRegistry } from "./plugin-registry.ts";
import type { PermitFacts, VolumeState } from "./types.ts";
import { noWorkloads } from "./workload-machine.ts";

const highest = Number.MAX_SAFE_INTEGER;
const anyNumber = fc.oneof(fc.nat(1_000), fc.maxSafeNat(), fc.constantFrom(highest, maxGenerationStep, maxGrantStep));

const permit = (gen: number, ctr: number): PermitFacts => ({
  claimUid: "a",
  workload: "w",
  alias: "data",
  epoch: { gen, ctr },
  nodeEpoch: 3,
  accessMode: "SINGLE_NODE_WRITER",
  attachmentMode: "FILE_SYSTEM",
  readOnly: false,
  fsType: "",
  digest: "d",
  target: "/t",
});
const standing = (promisedGen: number, volume?: Partial<VolumeState>): Standing => ({
  agent: {
    nodeEpoch: 3,
    clusterUid: "c",
    promisedGen,
    promisedTo: "",
    bootId: "b",
    plugins: emptyRegistry,
    workloads: noWorkloads,
    docker: nothingOfDocker,
  },
  quarantined: false,
  volume: volume && {
    ref: { namespace: "n", volume: "v", volumeUid: "u", externalId: "x", plugin: "p" },
    floor: { gen: 0, ctr: 0 },
    dead: [],
    stage: { phase: "unstaged", needed: true, path: "/s", shown: [], marks: [], before: [] },
    claims: {},
    ...volume,
  },
});
const judged = (now: Standing, facts: PermitFacts) => judgePermit(now, facts, facts.epoch);

describe("numbers that never fall rise by bounded steps", () => {
  test.each([
    [0, maxGenerationStep, false],
    [0, maxGenerationStep + 1, true],
    [7, maxGenerationStep + 7, false],
    [7, maxGenerationStep + 8, true],
    [0, highest, true],
    [5, 1, false],
  ])("promised %d, asked %d", (known, asked, leaps) => {
    expect(leapOfGeneration(known, asked) !== undefined).toBe(leaps);
  });

  test("a permit at the bound is new, and one above it is refused, of a volume that was never here and of one that was", () => {
    const refused = { kind: "refused", reason: "EPOCH_LEAP" };
    expect(judged(standing(0), permit(1, maxGrantStep))).toMatchObject({ kind: "new" });
    expect(judged(standing(0), permit(1, maxGrantStep + 1))).toMatchObject(refused);
    expect(judged(standing(1), permit(maxGenerationStep + 1, 1))).toMatchObject({ kind: "new" });
    expect(judged(standing(1), permit(maxGenerationStep + 2, 1))).toMatchObject(refused);
    const seen = standing(1, { floor: { gen: 1, ctr: 10 } });
    expect(judged(seen, permit(1, maxGrantStep + 10))).toMatchObject({ kind: "new" });
    expect(judged(seen, permit(1, maxGrantStep + 11))).toMatchObject(refused);
    // What was held under an earlier generation says nothing of the counter in this one.
    expect(judged(seen, permit(2, maxGrantStep + 1))).toMatchObject(refused);
  });

  test("what is held under such an epoch already is made so again: a bound takes no mount away", () => {
    const facts = permit(1, highest);
    const held = { facts, phase: "published", goal: "mounted", mountId: 1 } as const;
    expect(judged(standing(1, { claims: { a: held } }), facts)).toEqual({ kind: "repeat" });
  });

  test("after any sequence of orders the next true generation and the next true grant are still followed", () => {
    const order = fc.record({ gen: anyNumber, ctr: anyNumber, promise: fc.boolean() });
    fc.assert(
      fc.property(fc.array(order, { maxLength: 40 }), (orders) => {
        let promised = 1;
        let floor = { gen: 1, ctr: 1 };
        for (const { gen, ctr, promise } of orders) {
          if (promise) {
            if (leapOfGeneration(promised, gen) === undefined) promised = Math.max(promised, gen);
          } else {
            const answer = judged(standing(promised, { floor }), permit(gen, ctr));
            if (answer.kind === "new") floor = answer.floor;
          }
        }
        const gen = Math.max(promised, floor.gen) + 1;
        expect(gen).toBeLessThanOrEqual(1 + 41 * maxGenerationStep);
        expect(leapOfGeneration(promised, gen)).toBeUndefined();
        const next = { gen: Math.max(promised, floor.gen), ctr: floor.gen >= promised ? floor.ctr + 2 : 1 };
        expect(Number.isSafeInteger(next.ctr)).toBe(true);
        expect(leapOfEpoch(promised, { floor, claims: {} }, next)).toBeUndefined();
        expect(judged(standing(promised, { floor }), permit(next.gen, next.ctr))).toMatchObject({ kind: "new" });
      }),
      { numRuns: 300 },
    );
  });
});
