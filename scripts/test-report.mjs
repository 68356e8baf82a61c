// What one run of vitest says, read from its JSON report; and what may be run once more.

/** More files than this are no bad luck. */
const mostFilesAgain = 8;

/**
 * A property that found a counterexample, or an invariant that did not hold, has found a fault, however rarely:
 * no later run makes that good.
 */
const neverForgiven = /Property failed after|Counterexample:|\[I\d+\]|invariant/i;

/** @returns undefined for a run without a report */
export function readReport(text) {
  let json;
  try {
    json = JSON.parse(text);
  } catch {
    return undefined;
  }
  const files = json.testResults.map((file) => {
    const of = (...states) => file.assertionResults.filter((test) => states.includes(test.status));
    const failures = of("failed").map((test) => ({
      test: test.fullName,
      message: (test.failureMessages ?? []).join("\n"),
    }));
    // A file that cannot be loaded has no tests to count: it counts as one failure.
    const broken = file.status === "failed" && failures.length === 0;
    return {
      name: file.name,
      passed: of("passed").length,
      skipped: of("skipped", "pending", "todo", "disabled").length,
      failures: broken ? [{ test: "(the file itself)", message: file.message ?? "" }] : failures,
    };
  });
  return { files };
}

export function countsOf(report) {
  const sum = (pick) => (report?.files ?? []).reduce((total, file) => total + pick(file), 0);
  return {
    passed: sum((file) => file.passed),
    failed: sum((file) => file.failures.length),
    skipped: sum((file) => file.skipped),
  };
}

const failuresOf = (report) =>
  report.files.flatMap((file) => file.failures.map((failure) => ({ file: file.name, ...failure })));

/**
 * A machine under load can fail a test of whole systems that finds no fault. Such a test has one more chance, alone, and is named.
 *
 * @returns the files to run once more; undefined where the first run stands
 */
export function secondTry(report) {
  if (report === undefined) return undefined;
  const failed = report.files.filter((file) => file.failures.length > 0);
  if (failed.length === 0 || failed.length > mostFilesAgain || failed.length === report.files.length) return undefined;
  if (failuresOf(report).some(({ message }) => neverForgiven.test(message))) return undefined;
  return failed.map((file) => file.name);
}

/** The first run, with what the second one says in place of the files that it ran. */
export function withSecondTry(first, second) {
  const again = new Map((second?.files ?? []).map((file) => [file.name, file]));
  return { files: first.files.map((file) => again.get(file.name) ?? file) };
}

/** Which tests failed once and passed then, with the first line of why: for people, who should mend them. */
export function passedLater(first, merged) {
  const still = new Set(failuresOf(merged).map(({ file, test }) => `${file}\n${test}`));
  return failuresOf(first)
    .filter(({ file, test }) => !still.has(`${file}\n${test}`))
    .map(({ file, test, message }) => `${file}: ${test}: ${message.split("\n")[0]}`);
}

/** @returns {string[]} one line each: the files that cost most, from the log that cpu-of-test-files.mjs writes */
export function costliestFiles(log, most = 12) {
  const seconds = new Map();
  for (const [, cost, file] of log.matchAll(/^(\S+) (.+)$/gm))
    seconds.set(file, (seconds.get(file) ?? 0) + Number(cost));
  const sorted = [...seconds].sort(([, a], [, b]) => b - a);
  return sorted.slice(0, most).map(([file, cost]) => `${cost.toFixed(1).padStart(7)} s  ${file}`);
}
