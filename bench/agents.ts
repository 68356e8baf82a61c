import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type ManagedProcess, startProcess } from "../test/harness/managed-process.ts";
import { loadVolumes } from "./scale-load.ts";
import { openBenchStore } from "./support/bench-store.ts";
import { type ProcessFigures, processFigures } from "./support/process-figures.ts";
import type { BenchRedis } from "./support/redis.ts";

export interface AgentsPlan {
  readonly agents: number;
  /** Held on each. */
  readonly claims: number;
  /** How long the fleet is watched while it does nothing but change a little. */
  readonly idleSeconds: number;
}

export interface AgentStreams extends AgentsPlan {
  /** From the first dial to the last answered registration, and what it took of the controller's CPU. */
  readonly storm: { readonly ms: number; readonly cpuMs: number; readonly dialledAgain: number };
  readonly rssPerStream: number;
  /** Of one core, while 1 % of the agents change in a minute. */
  readonly idleCpu: number;
  /** All streams end at once, and the fleet comes back. */
  readonly ended: { readonly cpuMs: number };
}

const repo = path.resolve(import.meta.dirname, "..");

const startController = async (url: string, dir: string): Promise<{ process: ManagedProcess; agents: string }> => {
  const controller = startProcess({
    name: "controller",
    command: [process.execPath, "--disable-sigusr1", path.join(repo, "services/controller/src/main.ts")],
    env: {
      PATH: process.env["PATH"] ?? "",
      HOLDFAST_STORE: url,
      HOLDFAST_CELL: "bench",
      HOLDFAST_STATE_DIR: path.join(dir, "c-state"),
      HOLDFAST_PLUGIN_DIR: path.join(dir, "c-plugins"),
      HOLDFAST_LISTEN: "127.0.0.1:0",
      HOLDFAST_AGENT_LISTEN: "127.0.0.1:0",
      HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
      HOLDFAST_LOG_LEVEL: "info",
    },
  });
  const line = await controller.line((one) => one["message"] === "ready", "its line `ready`");
  return { process: controller, agents: String(line["agents"]) };
};

const pause = (seconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, seconds * 1_000));

/** Until what a storm leaves to do is done: a second in which the controller takes less than a tenth of a core. */
const quiet = async (pid: number): Promise<ProcessFigures> => {
  for (let before = await processFigures(pid); ; ) {
    await pause(1);
    const now = await processFigures(pid);
    if (now.cpuMs - before.cpuMs < 100) return now;
    before = now;
  }
};

export const measureAgentStreams = async (plan: AgentsPlan, redis: BenchRedis): Promise<AgentStreams> => {
  const dir = await mkdtemp(path.join(tmpdir(), "hf-agents-"));
  const stops: (() => Promise<unknown>)[] = [];
  try {
    const store = await openBenchStore(redis.url, path.join(dir, "loader"));
    await loadVolumes(store, { volumes: plan.agents * plan.claims, nodes: plan.agents });
    await store.close();
    const { process: controller, agents } = await startController(redis.url, dir);
    stops.push(() => controller.kill("SIGTERM"));
    const { pid } = controller;
    const before = await quiet(pid);
    const fleet = startProcess({
      name: "fleet",
      command: [
        process.execPath,
        path.join(import.meta.dirname, "fleet-main.ts"),
        agents,
        ...[plan.agents, plan.claims].map(String),
      ],
    });
    stops.push(() => fleet.kill("SIGTERM"));
    const linked = await fleet.line((one) => one["message"] === "linked", "its line `linked`");
    const storm = await processFigures(pid);
    const settled = await quiet(pid);
    await pause(plan.idleSeconds);
    const idle = await processFigures(pid);
    await fleet.kill("SIGKILL");
    const ended = await quiet(pid);
    return {
      ...plan,
      storm: { ms: Number(linked["ms"]), cpuMs: storm.cpuMs - before.cpuMs, dialledAgain: Number(linked["retried"]) },
      rssPerStream: (settled.rssBytes - before.rssBytes) / plan.agents,
      idleCpu: (idle.cpuMs - settled.cpuMs) / (plan.idleSeconds * 1_000),
      ended: { cpuMs: ended.cpuMs - idle.cpuMs },
    };
  } finally {
    for (const stop of stops.reverse()) await stop();
    await rm(dir, { recursive: true, force: true });
  }
};
