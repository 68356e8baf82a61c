import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { full } from "../support/full.ts";
import { plantedLine } from "./mutant-plugin.ts";
import { mutants } from "./mutants.ts";

const root = path.resolve(import.meta.dirname, "../..");
const vitest = path.join(root, "node_modules/vitest/vitest.mjs");

/** `npm run test:full` takes all of them, `npm test` every fourth. */
const sampled = full ? mutants : mutants.filter((_, at) => at % 4 === 0);

const runWith = async (mutant: string, file: string): Promise<{ readonly code: number; readonly output: string }> => {
  const child = spawn(process.execPath, [vitest, "run", "--testTimeout=10000", file], {
    cwd: root,
    env: { ...process.env, HOLDFAST_MUTANT: mutant },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  const [code] = (await once(child, "close")) as [number | null];
  return { code: code ?? 1, output };
};

describe("a planted fault is caught", () => {
  test.each(sampled)("$name, by $caughtBy", { timeout: 120_000 }, async ({ name, caughtBy }) => {
    const { code, output } = await runWith(name, caughtBy);
    expect(output).toContain(`${plantedLine} ${name}`);
    expect(output).toMatch(/Tests .*\d+ failed/);
    expect(code).not.toBe(0);
  });
});
