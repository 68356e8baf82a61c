import type { CallOrder } from "@holdfast/model/call-order";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { sample } from "../../../test/support/full.ts";
import { createOrderGate, judgeOrder } from "./order-gate.ts";

const order = (sequence: number, opId = `op-${sequence}`, gen = 1): CallOrder => ({ gen, sequence, opId });
const none = { gen: 0, sequence: 0 };

describe("what becomes of an order, by what is known of its subject", () => {
  const open = { highest: order(5), method: "A", open: true };
  const ended = { ...open, open: false };
  const answered = { ...ended, final: { answer: "done" } };
  const dropped = { ...ended, final: {} };
  const raised = { highest: order(5, ""), method: undefined, open: false };
  const unknown = undefined;
  it.each([
    ["G1 above nothing", unknown, none, order(1), "may-run"],
    ["G5 above the floor", unknown, order(5), order(6), "may-run"],
    ["G5 at the floor", unknown, order(5), order(5), "stale"],
    ["G5 below the floor", unknown, order(5), order(4), "stale"],
    ["G5 below the floor by its sequence, in a later generation", unknown, order(5), order(1, "op", 2), "may-run"],
    ["G1 above one that is open", open, none, order(6), "may-run"],
    ["G1 above one that has its answer", answered, none, order(6), "may-run"],
    ["G1 in a later generation", answered, none, order(1, "op", 2), "may-run"],
    ["G1 above, for an operation that was stored anew", answered, none, order(6, "op-5"), "may-run"],
    ["G2 the same, which is open", open, none, order(5), "may-run"],
    ["G2 the same, which ended without a final answer", ended, none, order(5), "may-run"],
    ["G2 the same, which has its answer", answered, none, order(5), "answered"],
    ["G2 the same, whose answer is not kept", dropped, none, order(5), "stale"],
    ["G3 below one that is open", open, none, order(4), "stale"],
    ["G3 below one that ended without a final answer", ended, none, order(4), "stale"],
    ["G3 below one that has its answer", answered, none, order(4), "stale"],
    ["G3 below, for the same operation", answered, none, order(4, "op-5"), "stale"],
    ["G3 equal, for another operation", ended, none, order(5, "another"), "stale"],
    ["G3 equal, for another operation that has its answer", answered, none, order(5, "another"), "stale"],
    ["G6 above one that it was raised to", raised, none, order(6), "may-run"],
    ["G6 equal to one that it was raised to", raised, none, order(5), "stale"],
    ["G6 equal to one that it was raised to, without an operation", raised, none, order(5, ""), "stale"],
    ["G6 below one that it was raised to", raised, none, order(4), "stale"],
  ] as const)("%s", (_what, mark, floor, asked, verdict) => {
    const judged = judgeOrder({ mark, floor, newestGen: 1 }, "A", asked);
    expect(judged.kind).toBe(verdict);
    if (judged.kind === "answered") expect(judged.answer).toBe("done");
  });

  it("G3 equal, but another call: it is no repeat", () => {
    for (const mark of [open, ended, answered])
      expect(judgeOrder({ mark, floor: none, newestGen: 1 }, "B", order(5)).kind).toBe("stale");
  });

  it("G4 of an older generation: stale, whatever is known", () => {
    for (const mark of [unknown, open, ended, answered])
      expect(judgeOrder({ mark, floor: none, newestGen: 2 }, "A", order(9)).kind).toBe("stale");
  });
});

interface Arrival {
  readonly subject: string;
  readonly order: CallOrder;
  readonly end: "done" | "unknown" | "stays open";
}

const arrivals = fc.array(
  fc.record({
    subject: fc.constantFrom("a", "b", "c"),
    order: fc
      .record({
        gen: fc.constantFrom(1, 1, 1, 2),
        sequence: fc.integer({ min: 1, max: 8 }),
        by: fc.constantFrom("", "x"),
      })
      // One commit stores one intent: another operation under the same number is what must never be.
      .map(({ gen, sequence, by }) => ({ gen, sequence, opId: `op-${gen}-${sequence}${by}` })),
    end: fc.constantFrom("done" as const, "done" as const, "unknown" as const, "stays open" as const),
  }),
  { maxLength: 40 },
);

interface Run extends Arrival {
  readonly at: number;
}

/** Calls as they would be made: one of a subject at a time, none beside one that stays open. */
const run = (all: readonly Arrival[], maxSubjects?: number) => {
  const gate = createOrderGate<string>(maxSubjects === undefined ? {} : { maxSubjects });
  const open = new Set<string>();
  const runs: Run[] = [];
  const answers: { readonly arrival: Arrival; readonly answer: string }[] = [];
  for (const [at, arrival] of all.entries()) {
    const { subject, order: asked, end } = arrival;
    const judged = gate.judge(subject, "A", asked);
    if (judged.kind === "answered") answers.push({ arrival, answer: judged.answer });
    if (judged.kind !== "may-run" || open.has(subject)) continue;
    gate.passed(subject, "A", asked);
    runs.push({ ...arrival, at });
    if (end === "stays open") open.add(subject);
    else gate.ended(subject, end === "done" ? { answer: `${subject} ${asked.opId}` } : undefined);
  }
  return { runs, answers };
};

const bySubject = (runs: readonly Run[]) => [...Map.groupBy(runs, ({ subject }) => subject).values()];
const isAbove = (a: CallOrder, b: CallOrder) => (a.gen === b.gen ? a.sequence > b.sequence : a.gen > b.gen);
const numRuns = sample(20_000, 500);

describe("whatever arrives, in whatever order and however often", () => {
  it.each([undefined, 1, 2])("G1 G3 calls of a subject run in the order of their attempts (%s remembered)", (most) => {
    fc.assert(
      fc.property(arrivals, (all) => {
        for (const runs of bySubject(run(all, most).runs))
          for (const [at, { order: later }] of runs.entries())
            for (const { order: earlier } of runs.slice(0, at)) expect(isAbove(earlier, later)).toBe(false);
      }),
      { numRuns },
    );
  });

  it.each([undefined, 1, 2])(
    "G2 none runs again after its final answer, and that is what it gets (%s remembered)",
    (most) => {
      fc.assert(
        fc.property(arrivals, (all) => {
          const { runs, answers } = run(all, most);
          for (const mine of bySubject(runs))
            for (const { order: done } of mine.filter(({ end }) => end === "done"))
              expect(
                mine.filter(
                  (one) => one.order.gen === done.gen && one.order.sequence === done.sequence && one.end === "done",
                ),
              ).toHaveLength(1);
          for (const { arrival, answer } of answers) expect(answer).toBe(`${arrival.subject} ${arrival.order.opId}`);
        }),
        { numRuns },
      );
    },
  );

  it("G4 none runs after one of a later generation has come, for whatever subject", () => {
    fc.assert(
      fc.property(arrivals, (all) => {
        for (const { at, order: ran } of run(all).runs)
          expect(all.slice(0, at).every(({ order: before }) => before.gen <= ran.gen)).toBe(true);
      }),
      { numRuns },
    );
  });

  it.each([undefined, 1, 2])(
    "G1 one above all that came runs, unless a call of its subject is open (%s remembered)",
    (most) => {
      fc.assert(
        fc.property(arrivals, fc.constantFrom("a", "b", "c"), (all, subject) => {
          const newest = { subject, order: order(9, "newest", 2), end: "done" } as const;
          const { runs } = run([...all, newest], most);
          const stuck = runs.some((one) => one.subject === subject && one.end === "stays open");
          expect(runs.at(-1)?.at === all.length).toBe(!stuck);
        }),
        { numRuns },
      );
    },
  );
});

describe("whatever arrives after a subject was raised", () => {
  it.each([undefined, 1, 2])("G6 runs only with an order above that one (%s remembered)", (most) => {
    const raises = fc.record({
      subject: fc.constantFrom("a", "b"),
      at: fc.nat(39),
      sequence: fc.integer({ min: 1, max: 8 }),
    });
    fc.assert(
      fc.property(arrivals, fc.array(raises, { maxLength: 5 }), (all, wanted) => {
        const gate = createOrderGate<string>(most === undefined ? {} : { maxSubjects: most });
        const raised = new Map<string, CallOrder>();
        for (const [at, { subject, order: asked }] of all.entries()) {
          for (const one of wanted.filter((raise) => raise.at === at))
            if (gate.raise(one.subject, order(one.sequence)) === undefined)
              raised.set(one.subject, order(one.sequence));
          if (gate.judge(subject, "A", asked).kind !== "may-run") continue;
          const least = raised.get(subject);
          if (least !== undefined) expect(isAbove(asked, least)).toBe(true);
          gate.passed(subject, "A", asked);
          gate.ended(subject, { answer: "done" });
        }
      }),
      { numRuns },
    );
  });
});

describe("subjects that are forgotten", () => {
  it("G5 share a floor, and one with an open call is not forgotten", () => {
    const gate = createOrderGate<string>({ maxSubjects: 2 });
    gate.passed("open", "A", order(9));
    gate.passed("b", "A", order(3));
    gate.ended("b");
    const kinds = (subject: string, ...sequences: readonly number[]) =>
      sequences.map((sequence) => gate.judge(subject, "A", order(sequence)).kind);
    expect(kinds("b", 2)).toEqual(["stale"]);
    gate.passed("c", "A", order(5));
    expect(kinds("b", 3, 4)).toEqual(["stale", "may-run"]);
    gate.ended("c", { answer: "done" });
    expect(kinds("open", 8, 9)).toEqual(["stale", "may-run"]);
    gate.passed("d", "A", order(6));
    gate.passed("e", "A", order(7));
    expect(kinds("new", 5, 6)).toEqual(["stale", "may-run"]);
  });
});

describe("G6 a subject that is raised", () => {
  const judge = (gate: ReturnType<typeof createOrderGate<string>>, sequence: number, subject = "a") =>
    gate.judge(subject, "A", order(sequence)).kind;

  it("lets neither its order nor a lower one run, whatever was open or answered, and can be raised again", () => {
    const gate = createOrderGate<string>();
    gate.passed("a", "A", order(5));
    expect(gate.raise("a", order(7))).toBeUndefined();
    gate.ended("a", { answer: "done" });
    expect([5, 7, 8].map((sequence) => judge(gate, sequence))).toEqual(["stale", "stale", "may-run"]);
    gate.passed("b", "A", order(7));
    gate.ended("b", { answer: "done" });
    expect(gate.raise("b", order(7))).toBeUndefined();
    expect(judge(gate, 7, "b")).toBe("stale");
    expect(gate.raise("b", order(7))).toBeUndefined();
  });

  it("stays at a higher order, at a floor that may hold one, and at a later generation", () => {
    const gate = createOrderGate<string>({ maxSubjects: 1 });
    gate.passed("a", "A", order(5));
    expect(gate.raise("a", order(4))).toContain("5 of generation 1");
    expect(judge(gate, 5)).toBe("may-run");
    gate.ended("a");
    gate.passed("b", "A", order(6));
    expect(gate.raise("a", order(4))).toContain("5 of generation 1");
    expect(gate.raise("a", order(5))).toBeUndefined();
    expect(gate.raise("c", order(1, "op", 2))).toBeUndefined();
    expect(gate.raise("e", order(9))).toBe("generation 2 is known");
    expect(judge(gate, 9, "d")).toBe("stale");
  });

  it("G5 leaves its order in the floor when it is forgotten, and is not forgotten while its call is open", () => {
    const gate = createOrderGate<string>({ maxSubjects: 2 });
    gate.passed("open", "A", order(1));
    gate.raise("open", order(9));
    gate.raise("a", order(7));
    gate.raise("b", order(3));
    gate.raise("c", order(4));
    expect([6, 7, 8].map((sequence) => judge(gate, sequence, "new"))).toEqual(["stale", "stale", "may-run"]);
    expect([8, 9, 10].map((sequence) => judge(gate, sequence, "open"))).toEqual(["stale", "stale", "may-run"]);
  });

  it("G4 lets nothing of a generation below the promise leave, whatever waited for it", () => {
    let promised = 1;
    const gate = createOrderGate<string>({ lowestGen: () => promised });
    expect(judge(gate, 5)).toBe("may-run");
    promised = 2;
    expect(judge(gate, 6)).toBe("stale");
    expect(gate.raise("a", order(7))).toBe("generation 2 is known");
    expect(gate.judge("a", "A", order(1, "op", 2)).kind).toBe("may-run");
  });
});
