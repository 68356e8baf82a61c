// `npm test` and `npm run test:full`: vitest, and one plain last line read back from vitest's own report.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { bin } from "./paths.mjs";
import { runChild } from "./run-child.mjs";

/** @returns {Promise<number>} 0 only when something ran and nothing failed */
export async function testTask({ node, env, args, full }) {
  const folder = mkdtempSync(path.join(os.tmpdir(), "holdfast-report-"));
  const report = path.join(folder, "report.json");
  try {
    const exitCode = await runChild(
      node,
      [
        path.join(bin, "vitest"),
        "run",
        "--reporter=default",
        "--reporter=json",
        `--outputFile.json=${report}`,
        ...args,
      ],
      { env: { ...env, ...(full ? { HOLDFAST_FULL: "1" } : {}) } },
    );
    return summarize(report, exitCode);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function summarize(report, exitCode) {
  const counted = readCounts(report);
  const { passed, failed, skipped } = counted ?? { passed: 0, failed: 0, skipped: 0 };
  if (counted === undefined) console.log("vitest ended without a report");
  else if (passed + failed === 0) console.log("no test ran: that is a failure");
  else if (exitCode !== 0 && failed === 0)
    console.log("every test passed, yet vitest failed: an error outside of a test stands above");
  console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
  if (exitCode !== 0) return exitCode;
  return failed > 0 || passed === 0 ? 1 : 0;
}

function readCounts(report) {
  let json;
  try {
    json = JSON.parse(readFileSync(report, "utf8"));
  } catch {
    return undefined;
  }
  // A file that cannot be loaded has no tests to count: it counts as one failure.
  const broken = json.testResults.filter(
    (file) => file.status === "failed" && !file.assertionResults.some((test) => test.status === "failed"),
  );
  return {
    passed: json.numPassedTests,
    failed: json.numFailedTests + broken.length,
    skipped: json.numPendingTests + json.numTodoTests,
  };
}
