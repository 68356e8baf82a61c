/**
 * Several controllers on one store and one plugin: how they share its calls, and what a claim costs all of them together.
 *
 * It is judged beside as many controllers that share nothing, each with a store, a plugin and nodes of its own, asked as much at the
 * same time: the same work costs more CPU where more processes use the cores, whoever they are.
 */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Claim, ClaimServiceDefinition, ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import { withIdentity } from "@holdfast/shared/grpc/identity";
import { type Backend, createBackend } from "@holdfast/sim-plugin/backend/backend";
import { createSimPlugin } from "@holdfast/sim-plugin/sim-plugin";
import { createChannel, createClient } from "nice-grpc";
import { startProcess } from "../test/harness/managed-process.ts";
import { createVolume, namespace, patience, volumeName } from "./product.ts";
import { cpuTimesOf } from "./support/cpu.ts";
import { startFakeAgents } from "./support/fake-agents.ts";
import { run } from "./support/load.ts";

export interface SharedPlan {
  /** Claimed, then released, in a round. */
  readonly volumes: number;
  readonly rounds: number;
  /** Before that, for each controller: all processes are to be equally warm, and the shares settled. */
  readonly warmUpRounds: number;
}

/** Which controllers the requests go to; `apart`: each has a cell for itself. */
export type Asked = "all" | "first" | "apart";

/** Of one number of controllers. */
export interface Shared {
  readonly asked: Asked;
  /** Of the calls that claims and releases made, by controller. */
  readonly shares: readonly number[];
  readonly claimsPerSecond: number;
  /** Of all controllers together, for a claim and its release. */
  readonly cpuMs: number;
}

const nodes = 50;
/** For each controller: one that is asked less at a time works on smaller batches, whoever shares the work with it. */
const inFlight = 32;
const identity = { "*": { metadata: withIdentity(undefined, { role: "scheduler", name: "bench" }) } };

type Stop = () => unknown;

const startController = async (dir: string, store: string, name: string, backend: Backend, stops: Stop[]) => {
  const pluginDir = path.join(dir, name);
  await mkdir(pluginDir, { mode: 0o700 });
  const socket = path.join(pluginDir, "sim.sock");
  const plugin = await createSimPlugin({ role: "controller", socket, instance: name, backend });
  stops.push(() => plugin.close());
  const controller = startProcess({
    name,
    command: [process.execPath, path.resolve(import.meta.dirname, "../services/controller/src/main.ts")],
    env: {
      HOLDFAST_LISTEN: "127.0.0.1:0",
      HOLDFAST_AGENT_LISTEN: "127.0.0.1:0",
      HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
      HOLDFAST_STATE_DIR: path.join(dir, `${name}-state`),
      HOLDFAST_PLUGIN_DIR: pluginDir,
      HOLDFAST_STORE: store,
      HOLDFAST_ID: name,
    },
  });
  stops.push(() => controller.kill("SIGTERM"));
  const line = await controller.line((each) => each["message"] === "ready", "its line `ready`");
  const channel = createChannel(String(line["address"]));
  stops.push(() => channel.close());
  return {
    pid: controller.pid,
    agents: String(line["agents"]),
    claims: createClient(ClaimServiceDefinition, channel, identity),
    volumes: createClient(VolumeServiceDefinition, channel, identity),
  };
};

const allIn = (claims: readonly Claim[], wanted: ClaimState): void => {
  for (const { state, waitingFor, lastError } of claims)
    if (state !== wanted)
      throw new Error(`a claim ended in state ${state}: ${JSON.stringify({ waitingFor, lastError })}`);
};

interface Side {
  /** Claims and releases everything; how long the claims took, in seconds. */
  round(): Promise<number>;
  cpuMs(): Promise<number>;
  /** Attaches and detaches since the last time it was asked, by controller. */
  calls(): readonly number[];
}

const startCell = async (
  store: string,
  count: number,
  volumes: number,
  asked: Exclude<Asked, "apart">,
  stops: Stop[],
): Promise<Side> => {
  const dir = await mkdtemp(path.join(tmpdir(), "hfb-"));
  stops.push(() => rm(dir, { recursive: true, force: true }));
  const backend = createBackend();
  const names = Array.from({ length: count }, (_, n) => `c${n}`);
  const controllers = await Promise.all(names.map((name) => startController(dir, store, name, backend, stops)));
  const [first] = controllers;
  if (first === undefined) throw new Error("there is no controller");
  const at = (index: number) => (asked === "all" ? controllers[index % count] : undefined) ?? first;
  const agents = await startFakeAgents(
    controllers.map((controller) => controller.agents),
    nodes,
  );
  stops.push(agents.stop);
  const indexes = Array.from({ length: volumes }, (_, n) => n);
  const atOnce = inFlight * count;
  await run(indexes, atOnce, async (index) => void (await createVolume(at(index), volumeName(index))));
  return {
    async round() {
      const { seconds } = await run(indexes, atOnce, async (index) => {
        const volume = volumeName(index);
        const node = agents.nodes[index % nodes] ?? "";
        const request = { namespace, workload: `w-${volume}`, node, claims: [{ volume }], waitFor: patience };
        allIn((await at(index).claims.createClaims(request)).claims, ClaimState.CLAIM_STATE_ACTIVE);
      });
      await run(indexes, atOnce, async (index) => {
        const request = { namespace, workload: `w-${volumeName(index)}`, waitFor: patience };
        allIn((await at(index).claims.releaseClaims(request)).claims, ClaimState.CLAIM_STATE_RELEASED);
      });
      return seconds;
    },
    async cpuMs() {
      const { controllers: used = 0 } = await cpuTimesOf({ pids: { controllers: controllers.map(({ pid }) => pid) } });
      return used;
    },
    calls() {
      const calls = backend.record().filter(({ method }) => /^Controller(Unp|P)ublishVolume$/.test(method));
      backend.clear();
      return names.map((name) => calls.filter(({ instance }) => instance === name).length);
    },
  };
};

/** Cells that share nothing but the machine. */
const together = (cells: readonly Side[]): Side => ({
  round: async () => Math.max(...(await Promise.all(cells.map((cell) => cell.round())))),
  cpuMs: async () => (await Promise.all(cells.map((cell) => cell.cpuMs()))).reduce((sum, used) => sum + used, 0),
  calls: () => cells.flatMap((cell) => cell.calls()),
});

const startSide = async (
  startStore: () => Promise<string>,
  { count, asked }: Setting,
  volumes: number,
  stops: Stop[],
): Promise<Side> => {
  if (asked !== "apart") return startCell(await startStore(), count, volumes, asked, stops);
  const cells: Side[] = [];
  for (let n = 0; n < count; n += 1) {
    const own = Math.floor(((n + 1) * volumes) / count) - Math.floor((n * volumes) / count);
    cells.push(await startCell(await startStore(), 1, own, "all", stops));
  }
  return together(cells);
};

interface Setting {
  readonly count: number;
  readonly asked: Asked;
}

const settings: readonly Setting[] = [
  { count: 1, asked: "all" },
  { count: 2, asked: "all" },
  { count: 3, asked: "all" },
  { count: 2, asked: "apart" },
  { count: 3, asked: "apart" },
  { count: 2, asked: "first" },
  { count: 3, asked: "first" },
];

interface Sum {
  readonly asked: Asked;
  readonly side: Side;
  readonly calls: number[];
  seconds: number;
  cpuMs: number;
}

const measureRound = async (sum: Sum): Promise<void> => {
  const { side } = sum;
  // It was idle while the others had their turn.
  await side.round();
  side.calls();
  const before = await side.cpuMs();
  sum.seconds += await side.round();
  sum.cpuMs += (await side.cpuMs()) - before;
  for (const [n, count] of side.calls().entries()) sum.calls[n] = (sum.calls[n] ?? 0) + count;
};

/** The same number of controllers that share nothing; one has nobody to share with. */
export const apartOf = (all: readonly Shared[], count: number): Shared | undefined =>
  all.find(({ asked, shares }) => shares.length === count && (count === 1 || asked === "apart"));

/** All of them by turns, so that a busy moment of the machine falls on all. */
export const measureSharedControllers = async (
  startStore: () => Promise<string>,
  { volumes, rounds, warmUpRounds }: SharedPlan,
): Promise<readonly Shared[]> => {
  const stops: Stop[] = [];
  try {
    const sums: Sum[] = [];
    for (const setting of settings) {
      const side = await startSide(startStore, setting, volumes, stops);
      const calls = Array.from({ length: setting.count }, () => 0);
      sums.push({ asked: setting.asked, side, calls, seconds: 0, cpuMs: 0 });
    }
    for (let n = 0; n < warmUpRounds; n += 1)
      for (const { side, calls } of sums) for (const _each of calls) await side.round();
    for (let n = 0; n < rounds; n += 1) for (const sum of sums) await measureRound(sum);
    return sums.map(({ asked, calls, seconds, cpuMs }) => {
      const all = calls.reduce((sum, count) => sum + count, 0);
      return {
        asked,
        shares: calls.map((count) => count / all),
        claimsPerSecond: (volumes * rounds) / seconds,
        cpuMs: cpuMs / (volumes * rounds),
      };
    });
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
};
