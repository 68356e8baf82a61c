/**
 * The one engine of all fuzzers: it changes a valid corpus, hands each input to a reader, and lets an oracle that shares no code with the
 * reader judge what was accepted. The same run has to find each of the planted bugs: a fuzzer that finds none of them shows nothing.
 */
import { describe, expect, test } from "vitest";
import { createSeededRandom, type SeededRandom, seedOfRun } from "../local-driver/seeded-random.ts";
import { full, sample } from "../support/full.ts";

export interface Verdict {
  /** It came as far as the code that judges contents, and was not ended by the form of the bytes. */
  readonly reached: boolean;
  readonly accepted: boolean;
  /** Why it should not have been accepted, or what else is wrong. What the reader throws is told by the engine. */
  readonly wrong?: string | undefined;
}

export interface FuzzTarget<Input> {
  next(random: SeededRandom): Input;
  examine(input: Input): Verdict | Promise<Verdict>;
  show(input: Input): string;
}

export interface FuzzTests<Subject, Input> {
  readonly name: string;
  /** Inputs of `npm run test:full`, and of `npm test`. */
  readonly full: number;
  readonly quick: number;
  readonly subject: Subject;
  readonly target: (subject: Subject) => FuzzTarget<Input> | Promise<FuzzTarget<Input>>;
  /** What each does wrong, and the subject with it. */
  readonly planted: readonly (readonly [string, Subject])[];
  /** Inputs within which each of them has to be found. */
  readonly findWithin: number;
}

export interface FuzzReport {
  inputs: number;
  reached: number;
  accepted: number;
  slowestMs: number;
  readonly wrong: string[];
}

/** Ends with the first input that is wrong. */
export const runFuzz = async <Input>(target: FuzzTarget<Input>, seed: number, count: number): Promise<FuzzReport> => {
  const random = createSeededRandom(seed);
  const report: FuzzReport = { inputs: 0, reached: 0, accepted: 0, slowestMs: 0, wrong: [] };
  while (report.inputs < count && report.wrong.length === 0) {
    const input = target.next(random);
    const started = performance.now();
    let verdict: Verdict;
    try {
      const found = target.examine(input);
      verdict = found instanceof Promise ? await found : found;
    } catch (error) {
      const told = error instanceof Error ? (error.stack ?? error.message) : String(error);
      verdict = { reached: true, accepted: false, wrong: `it threw ${told}` };
    }
    report.slowestMs = Math.max(report.slowestMs, Math.round(performance.now() - started));
    if (verdict.wrong !== undefined)
      report.wrong.push(`input ${report.inputs}: ${verdict.wrong}: ${target.show(input).slice(0, 4_000)}`);
    report.inputs += 1;
    if (verdict.reached) report.reached += 1;
    if (verdict.accepted) report.accepted += 1;
  }
  return report;
};

const fullTimeoutMs = 3_600_000;

export const fuzzTests = <Subject, Input>(of: FuzzTests<Subject, Input>): void => {
  const count = sample(of.full, of.quick);
  describe(of.name, () => {
    test(
      `falls over none of ${count} changed inputs, and accepts nothing wrong`,
      async () => {
        const seed = seedOfRun();
        const report = await runFuzz(await of.target(of.subject), seed, count);
        if (full) console.log(JSON.stringify({ fuzzed: of.name, seed, ...report }));
        expect(report.wrong, `HOLDFAST_SEED=${seed}`).toEqual([]);
        expect(report.reached / count, "share that reaches the handler").toBeGreaterThan(0.3);
        expect(report.accepted / count, "share that is accepted").toBeGreaterThan(0.02);
      },
      fullTimeoutMs,
    );

    test.each(of.planted)("is found out when it %s", async (_what, subject) => {
      const report = await runFuzz(await of.target(subject), 7, of.findWithin);
      expect(report.wrong).toHaveLength(1);
    });
  });
};
