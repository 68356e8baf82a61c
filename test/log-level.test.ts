/** SIGUSR2 of an operator to each running service: every line for a while, and a second one ends it. No restart, and no other signal's work. */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type ManagedProcess, startProcess } from "./harness/managed-process.ts";

const root = path.resolve(import.meta.dirname, "..");
let dir: string;
let running: ManagedProcess | undefined;
beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-log-"));
  await mkdir(path.join(dir, "plugins"), { mode: 0o700 });
});
afterEach(async () => {
  if (running?.running() === true) await running.kill("SIGKILL");
  running = undefined;
  await rm(dir, { recursive: true, force: true });
});

const services: readonly (readonly [name: string, main: string, env: (dir: string) => Record<string, string>])[] = [
  [
    "controller",
    "services/controller/src/main.ts",
    (at) => ({
      HOLDFAST_LISTEN: "127.0.0.1:0",
      HOLDFAST_AGENT_LISTEN: "127.0.0.1:0",
      HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
      HOLDFAST_STATE_DIR: path.join(at, "state"),
      HOLDFAST_PLUGIN_DIR: path.join(at, "plugins"),
    }),
  ],
  [
    "local driver",
    "packages/local-driver/src/main.ts",
    (at) => ({
      HOLDFAST_LOCAL_SOCKET: path.join(at, "csi.sock"),
      HOLDFAST_LOCAL_NODE_ID: "node-a",
      HOLDFAST_LOCAL_STATE_DIR: path.join(at, "state"),
      HOLDFAST_LOCAL_TYPES: "directory",
      HOLDFAST_LOCAL_DEFAULT_TYPE: "directory",
    }),
  ],
];

test.each(services)("the %s tells every line when it is asked, and its own again", async (name, main, env) => {
  running = startProcess({ name, command: [process.execPath, path.join(root, main)], env: env(dir) });
  const ready = await running.line(({ message }) => message === "ready", "ready");
  expect(ready["version"]).toMatch(/^\d+\.\d+\.\d+/);
  running.signal("SIGUSR2");
  const on = await running.line(({ message }) => String(message).includes("every line"), "the switch");
  expect(on).toMatchObject({ level: "warn", for_seconds: 900 });
  running.signal("SIGUSR2");
  await running.line(({ message }) => String(message).includes("HOLDFAST_LOG_LEVEL again"), "its end");
  expect(await running.kill("SIGTERM")).toBe(0);
});
