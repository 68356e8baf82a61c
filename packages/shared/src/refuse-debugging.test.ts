import { spawnSync } from "node:child_process";
import path from "node:path";
import { expect, test } from "vitest";
import { refuseDebugging } from "./refuse-debugging.ts";

const root = path.resolve(import.meta.dirname, "../../..");
const lines: unknown[] = [];
const log = { warn: (...line: unknown[]) => void lines.push(line) };
const given = (options: string, execArgv: readonly string[] = []) => ({ env: { NODE_OPTIONS: options }, execArgv });
const closed = undefined;

test.each([
  ["--inspect"],
  ["--inspect=0.0.0.0:9229"],
  ["--enable-source-maps --inspect-brk=0"],
  ["--inspect_wait"],
  ['"--heapsnapshot-signal=SIGUSR2"'],
  ["--heapsnapshot_signal=SIGUSR2"],
  ["--heapsnapshot-near-heap-limit=1"],
  ["--diagnostic-dir=/tmp"],
  ["--report-on-signal"],
  ["--report-uncaught-exception"],
  ["--abort-on-uncaught-exception"],
])("%s is refused in NODE_OPTIONS and on the command line", (options) => {
  expect(() => refuseDebugging(false, given(options), log, closed)).toThrow(
    /NODE_OPTIONS has --.*HOLDFAST_DEBUG_RUNTIME/,
  );
  const argument = options.split(" ").at(-1)?.replaceAll('"', "") ?? "";
  expect(() => refuseDebugging(false, given("", [argument]), log, closed)).toThrow(
    /--\S+ is on the command line of node/,
  );
});

test("all of them are told at once, an open inspector too", () => {
  const all = given("--report-on-signal", ["--inspect-port=1"]);
  expect(() => refuseDebugging(false, all, log, "ws://127.0.0.1:1/x")).toThrow(/3 mistakes[\s\S]*is open at ws:/);
});

test("an operator may allow it, and the log tells it", () => {
  refuseDebugging(true, given("--inspect=0"), log, "ws://127.0.0.1:1/x");
  expect(lines).toEqual([
    [expect.stringContaining("can be read"), { by: ["NODE_OPTIONS has --inspect", expect.stringContaining("ws:")] }],
  ]);
});

test("other options of Node are nobody's business", () => {
  const ours = given("--max-old-space-size=512 --import=data:text/javascript,1 --cpu-prof", ["--disable-sigusr1"]);
  expect(() => refuseDebugging(false, ours, log, closed)).not.toThrow();
  expect(() => refuseDebugging(false, { env: {}, execArgv: [] }, log, closed)).not.toThrow();
});

const settings: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "services/controller": { HOLDFAST_STATE_DIR: "/nonexistent/state" },
  "services/node-agent": { HOLDFAST_NODE: "a", HOLDFAST_STATE_DIR: "/nonexistent/state" },
  "packages/local-driver": {
    HOLDFAST_LOCAL_NODE_ID: "a",
    HOLDFAST_LOCAL_SOCKET: "/nonexistent/local.sock",
    HOLDFAST_LOCAL_STATE_DIR: "/nonexistent/local",
  },
};

test.each(Object.keys(settings))("%s does not start with a heap snapshot by signal", (part) => {
  const { status, stdout } = spawnSync(process.execPath, [path.join(root, part, "src/main.ts")], {
    encoding: "utf8",
    // Without the guard it would start, and stay.
    timeout: 30_000,
    killSignal: "SIGKILL",
    env: { ...settings[part], PATH: process.env["PATH"], NODE_OPTIONS: "--heapsnapshot-signal=SIGUSR2" },
  });
  expect(stdout).toContain("NODE_OPTIONS has --heapsnapshot-signal");
  expect(status).toBe(78);
});
