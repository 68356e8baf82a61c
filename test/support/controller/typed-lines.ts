/** What a block prints, typed by a person: read from its words, and run by the command line against a world whose clock a test moves. */
import { expect } from "vitest";
import { cliRun } from "../../cli/cli-run.ts";

/** The command lines in a text, each up to the end of its clause. */
export const linesOf = (text: string): readonly string[] =>
  [...text.matchAll(/\bholdfast [^,;)]+/g)].map(([line]) => line.trim());

const overrides = /holdfast (?:repair (?!scan|stuck)|node admit)/;

const evidenceOf = (line: string): readonly string[] => (line.includes("forget-volume") ? [] : ["--evidence", "seen"]);

interface Clocked {
  readonly clock: { advance(ms: number): Promise<unknown> };
}

/** As a person types it, who reads the dry run of what overrides a proof and then confirms it. */
export const typedIn = async (
  { clock }: Clocked,
  address: string,
  line: string,
  files: Readonly<Record<string, string>> = {},
): Promise<void> => {
  const said = overrides.test(line) ? ["--reason", "ticket 4711", ...evidenceOf(line)] : [];
  const run = async (more: readonly string[]) => {
    let over = false;
    const ending = cliRun([...line.split(" ").slice(1), ...said, ...more], { address, files }).finally(() => {
      over = true;
    });
    while (!over) await clock.advance(20);
    return await ending;
  };
  const first = await run([]);
  expect(first.code, `${line}: ${first.err}`).toBe(0);
  const confirm = /--confirm (".*")/.exec(first.out)?.[1];
  if (confirm === undefined) return;
  const second = await run(["--confirm", JSON.parse(confirm) as string]);
  expect(second.code, `${line}: ${second.err}`).toBe(0);
};
