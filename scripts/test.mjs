// `npm test` and `npm run test:full`: vitest, and one plain last line read back from vitest's own report.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { startClock } from "./cpu-time.mjs";
import { bin, root } from "./paths.mjs";
import { runChild } from "./run-child.mjs";
import { costliestFiles, countsOf, passedLater, readReport, secondTry, withSecondTry } from "./test-report.mjs";

/** @returns {Promise<number>} 0 only when something ran and nothing failed */
export async function testTask({ node, env, args, full }) {
  const folder = mkdtempSync(path.join(os.tmpdir(), "holdfast-report-"));
  const cpuLog = path.join(folder, "cpu.log");
  const clock = startClock();
  const driver = args.length === 0 && process.getuid?.() === 0 ? buildDriver(env) : undefined;
  const run = async (name, more) => {
    const file = path.join(folder, `${name}.json`);
    const exitCode = await runChild(
      node,
      [path.join(bin, "vitest"), "run", "--reporter=default", "--reporter=json", `--outputFile.json=${file}`, ...more],
      { env: { ...env, TEST_CPU_LOG: cpuLog, ...(full ? { HOLDFAST_FULL: "1" } : {}) } },
    );
    return { exitCode, report: readReport(textOf(file)) };
  };
  try {
    const end = await runAndRepeat(run, { args, full, ci: env.CI === "true" });
    await driver;
    for (const line of costliestFiles(textOf(cpuLog))) console.log(line);
    return summarize(end, clock());
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Beside the tests, which are long at work before the first that needs it: that one waits for the end, or says why there is none. */
const buildDriver = (env) =>
  runChild("bash", [path.join(root, "test/support/host-path-driver.sh"), "build"], { env, stdio: "ignore" }).catch(
    () => undefined,
  );

/** One run, and a second one of the files that failed. In CI the first run stands: the second only says which failures repeat. */
async function runAndRepeat(run, { args, full, ci }) {
  const first = await run("first", args);
  if (first.exitCode === 0 || stopped(first.exitCode)) return first;
  if (!full && !ci && outsideOfTests(first.report)) {
    console.log("\nFAILED ONCE outside of every test: all of it runs once more\n");
    return run("again", args);
  }
  const files = secondTry(first.report);
  if (files === undefined) return first;
  console.log(`\nfailed, and run once more, alone:\n${files.map((file) => `  ${file}`).join("\n")}\n`);
  const second = await run("second", [...files.map((file) => path.relative(root, file)), "--no-file-parallelism"]);
  const report = withSecondTry(first.report, second.report);
  for (const line of passedLater(first.report, report)) console.log(`FAILED ONCE, passed when run again: ${line}`);
  return ci ? first : { exitCode: second.exitCode, report };
}

/** An error that belongs to no test, or a worker that died: the report cannot say which file to run again. */
const outsideOfTests = (report) => report === undefined || countsOf(report).failed === 0;

/** Somebody asked the run to stop: nothing is run again. */
const stopped = (exitCode) => exitCode > 128;

function textOf(file) {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

function summarize({ exitCode, report }, cpuLine) {
  const { passed, failed, skipped } = countsOf(report);
  if (report === undefined) console.log("vitest ended without a report");
  else if (passed + failed === 0) console.log("no test ran: that is a failure");
  else if (exitCode !== 0 && failed === 0)
    console.log("every test passed, yet vitest failed: an error outside of a test stands above");
  if (cpuLine !== undefined) console.log(cpuLine);
  console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
  if (exitCode !== 0) return exitCode;
  return failed > 0 || passed === 0 ? 1 : 0;
}
