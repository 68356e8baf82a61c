// What each test file costs: a setup file of vitest that writes one line a file, which `npm test` reads at the end.
import { appendFileSync } from "node:fs";
import path from "node:path";
import { afterAll, expect } from "vitest";
import { cpuSeconds } from "./cpu-time.mjs";
import { root } from "./paths.mjs";

const log = process.env.TEST_CPU_LOG;

if (log !== undefined && process.env.HOLDFAST_MUTANT === undefined) {
  // The hook that is registered first runs last: the processes of the file's own hooks have ended by then.
  afterAll(() => {
    const now = cpuSeconds() ?? 0;
    const file = path.relative(root, expect.getState().testPath ?? "");
    // Files that share a worker pay from the end of the file before; the first one pays for the start of the worker.
    appendFileSync(log, `${(now - (globalThis.cpuOfFilesBefore ?? 0)).toFixed(2)} ${file}\n`);
    globalThis.cpuOfFilesBefore = now;
  });
}
