// `npm run check`: every static rule of this repository. All steps run, so that one visit shows every fault.
import path from "node:path";
import { baselineProblem } from "./api-baseline.mjs";
import { startClock } from "./cpu-time.mjs";
import { bin } from "./paths.mjs";
import { runChild } from "./run-child.mjs";

const steps = [
  { name: "types", command: "tsc", args: ["--noEmit", "-p", "tsconfig.json"] },
  {
    name: "format and lint",
    command: "biome",
    args: ["ci", "--error-on-warnings", ...(process.stdout.isTTY ? [] : ["--colors=off"])],
  },
  { name: "dead code and dependencies", command: "knip", args: [] },
  { name: "architecture", command: "vitest", args: ["run", "test/architecture.test.ts"] },
  {
    // Pages that name tests and metrics: a title that is changed, or a metric that is added, is found before it is committed.
    name: "pages that name tests",
    command: "vitest",
    args: [
      "run",
      "test/node/differences.test.ts",
      "test/controller/conformance-page.test.ts",
      "test/metrics-page.test.ts",
      "test/error-reasons.test.ts",
      "test/documents/pages.test.ts",
    ],
  },
  { name: "pages made from the code", command: "node", args: ["scripts/docs/main.ts", "--check"] },
  { name: "protocol style", command: "buf", args: ["lint"] },
  { name: "protocol compatibility", command: "buf", args: ["breaking", "--against", "proto/baseline.binpb"] },
];

/** @returns {Promise<number>} 0 when every step passed */
export async function checkTask({ env, args }) {
  const failed = [];
  const clock = startClock();
  for (const { name, command, args: own } of steps) {
    if (args.length > 0 && !args.some((wanted) => name.includes(wanted))) continue;
    console.log(`\n── ${name}: ${command} ${own.join(" ")}`);
    if ((await runChild(path.join(bin, command), own, { env })) !== 0) failed.push(name);
  }
  const problem = baselineProblem();
  if (problem !== undefined) {
    console.log(`\n── protocol baseline\n${problem}`);
    failed.push("protocol baseline");
  }
  console.log(`\n${clock() ?? ""}`);
  console.log(failed.length === 0 ? "check: everything holds" : `check: failed: ${failed.join(", ")}`);
  return failed.length === 0 ? 0 : 1;
}
