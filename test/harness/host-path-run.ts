/**
 * Lives of volumes on csi-driver-host-path, on two nodes at once, in which the driver, the agent or a controller is killed again and again:
 * each time while the driver works on a call, and each of the three once in every method that changes something, on each node.
 */

import { createSeededRandom, type SeededRandom } from "../local-driver/seeded-random.ts";
import type { Cluster } from "./cluster.ts";
import { cureAsTold } from "./host-path-cure.ts";
import { liveThrough, type Part } from "./host-path-life.ts";
import { lifecycleErrors, otherErrors, type RecordedMethod, recordedMethods } from "./host-path-log.ts";
import { type HostPathNode, type HostPathWorld, hostPathPlugin } from "./host-path-world.ts";
import { waitsFor } from "./late-victims.ts";
import { loopsUnder } from "./loop-files.ts";
import { nodes } from "./node-local.ts";
import { mountsUnder } from "./scenario.ts";
import { until } from "./until.ts";

const targets = ["driver", "agent", "controller"] as const;
type Target = (typeof targets)[number];

interface Kill {
  readonly target: Target;
  readonly node: HostPathNode;
  readonly method: RecordedMethod;
  /** All that the driver had begun and not answered. */
  readonly underWay: readonly string[];
}

export interface HostPathFigures {
  readonly seed: number;
  readonly seconds: number;
  readonly kills: readonly Kill[];
  /** Calls that left no record: a driver that died in NodePublishVolume knows of no mount, and NodeUnpublishVolume then writes nothing. */
  readonly skipped: readonly string[];
  readonly calls: Readonly<Record<string, number>>;
  readonly lifecycleErrors: readonly string[];
  readonly otherErrors: readonly string[];
  readonly leaks: readonly string[];
  /** What a killed driver left and never told anybody: no call of CSI reaches it. */
  readonly driversOwn: readonly string[];
  /** What was blocked, what Explain said, and what was done then, as it said; it went on. */
  readonly cured: readonly string[];
  /** What stood still for a minute and was not cured. */
  readonly stuck: readonly string[];
}

export interface HostPathRunOptions {
  readonly seed: number;
  /** On each node; three have every process killed in every method. */
  readonly lives: number;
  /** In which they are killed; in all unless told. */
  readonly methods?: readonly RecordedMethod[];
  readonly tell?: (line: string) => void;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const stillMs = 30_000;
/** A call that nobody answered may arrive for so long, and some more. */
const lateMs = 360_000;
const hopelessMs = 240_000;

const tally = (words: readonly string[]): Readonly<Record<string, number>> => {
  const counts: Record<string, number> = {};
  for (const word of words.toSorted()) counts[word] = (counts[word] ?? 0) + 1;
  return counts;
};

export const runHostPathKills = async (world: HostPathWorld, options: HostPathRunOptions): Promise<HostPathFigures> => {
  const { cluster, sides } = world;
  const began = performance.now();
  const tell = (line: string): void => options.tell?.(`${((performance.now() - began) / 1_000).toFixed(1)} ${line}`);
  const kills: Kill[] = [];
  const skipped: string[] = [];
  const stuck: string[] = [];
  const cured: string[] = [];
  const owed: { readonly what: string; readonly ask: (side: Cluster) => Promise<true | undefined> }[] = [];

  /**
   * The one of two controllers that waits for the plugin. An order to an agent, which then makes a call of its own, cannot be told by its
   * sender: either of them.
   */
  const isSecondMeant = async (random: SeededRandom): Promise<boolean> => {
    const either = random.chance(0.5);
    if (sides.length === 1) return false;
    const asked = [cluster.address, cluster.second.address].map((at) => waitsFor(at, hostPathPlugin)());
    const [first, second] = await Promise.all(asked);
    return first === second ? either : second === true;
  };
  /** One restart of a controller at a time: both lanes kill it. */
  let controllers: Promise<unknown> = Promise.resolve();
  const killController = (random: SeededRandom, between: () => Promise<void>): Promise<void> => {
    const act = async (): Promise<void> => {
      const second = await isSecondMeant(random);
      await (second ? cluster.second.process() : cluster.controller()).kill("SIGKILL");
      await between();
      await (second ? cluster.second.start() : cluster.startController());
    };
    const turn = controllers.then(act);
    controllers = turn.catch(() => undefined);
    return turn;
  };

  const lane = async (node: HostPathNode, index: number): Promise<void> => {
    // The waits take as many numbers as the machine is slow: they may not move the kills.
    const random = createSeededRandom(options.seed + index);
    const waits = createSeededRandom(options.seed + index);
    const driver = world.driver(node);
    let lastOwnKill = performance.now();
    const order = random.some(targets, targets.length);
    const methodsOfRun = options.methods ?? recordedMethods;
    const times = new Map<RecordedMethod, number>();
    /** Another one each time in each method, and in the methods that follow each other. */
    const nextTarget = (method: RecordedMethod): Target => {
      const nth = times.get(method) ?? 0;
      times.set(method, nth + 1);
      return order[(methodsOfRun.indexOf(method) + nth) % order.length] ?? "driver";
    };

    const strike = async (method: RecordedMethod): Promise<void> => {
      const target = nextTarget(method);
      const underWay = driver.underWay();
      kills.push({ target, node, method, underWay });
      tell(`${node}: kill ${target} in ${method} (${underWay.join(", ")})`);
      // What a dead caller asked for is done before its next life begins, or beside it.
      const late = random.chance(0.5);
      if (target === "driver") {
        await driver.kill("as before");
        await pause(random.integer(600));
        await driver.start();
      } else if (target === "agent") {
        await cluster.node(node).agent().kill("SIGKILL");
        if (!late) await driver.letGo();
        await cluster.node(node).startAgent();
      } else
        await killController(random, async () => {
          if (!late) await driver.letGo();
        });
      lastOwnKill = performance.now();
      await driver.letGo();
    };

    const part: Part = async (what, { volume }, methods, ask) => {
      const since = performance.now();
      let [last, said, cure, over, looks] = ["", "", "", false, 0];
      const asked = async () => {
        try {
          for (;;) {
            try {
              const answer = await ask(waits.pick(sides));
              if (answer !== undefined) return answer;
            } catch (error) {
              const text = String(error);
              if (text !== last) tell(`${node}: ${what}: ${text.slice(0, 300)}`);
              last = text;
            }
            const still = performance.now() - Math.max(since, lastOwnKill);
            if (still > stillMs * (looks + 1)) {
              looks += 1;
              // The controller that is asked may have been killed by the other lane.
              const told = await cureAsTold(cluster, driver, volume).catch((error) => ({
                said: String(error),
                done: "",
              }));
              cure ||= told.done;
              said = told.said;
              tell(`${node}: ${what} stands still: ${said} → ${told.done}`);
            }
            if (still > hopelessMs) throw new Error(`${what}: nothing for ${hopelessMs} ms; ${last}; ${said}`);
            await pause(100 + waits.integer(200));
          }
        } finally {
          over = true;
        }
      };
      const due = methods.filter((method) => methodsOfRun.includes(method));
      if (due.length > 0) await driver.arm();
      const answer = asked();
      answer.catch(() => undefined);
      for (let left = due; left.length > 0; ) {
        const method = await driver.catchIn(left, () => over);
        const passed = left.slice(0, method === undefined ? left.length : left.indexOf(method));
        skipped.push(...passed.map((one) => `${what} without a record of ${one}`));
        if (method === undefined) break;
        await strike(method);
        left = left.slice(left.indexOf(method) + 1);
      }
      const found = await answer;
      if (cure !== "") cured.push(`${what}: ${said} → ${cure}`);
      else if (looks > 1) stuck.push(`${what}: ${said}`);
      tell(`${node}: ${what}: done in ${((performance.now() - since) / 1_000).toFixed(1)} s`);
      return found;
    };

    for (let number = 0; number < options.lives; number += 1)
      await liveThrough({
        node,
        block: (number + index) % 2 === 1,
        number,
        part,
        later: (what, ask) => owed.push({ what, ask }),
      });
  };
  await Promise.all(nodes.map(lane));
  for (const { what, ask } of owed) await until(what, () => ask(cluster), lateMs);

  const calls = nodes.flatMap((node) => world.driver(node).calls());
  const leaks: string[] = [];
  const driversOwn: string[] = [];
  for (const node of nodes) {
    const { Volumes, Snapshots, GroupSnapshots } = await world.driver(node).state();
    for (const { VolID, Attached } of Volumes ?? []) leaks.push(`volume ${VolID} of ${node}, attached: ${Attached}`);
    const groups = new Set((GroupSnapshots ?? []).map(({ Id }) => Id));
    for (const { Id, GroupSnapshotID } of Snapshots ?? [])
      (GroupSnapshotID === "" || groups.has(GroupSnapshotID) ? leaks : driversOwn).push(`snapshot ${Id} of ${node}`);
    for (const id of groups) leaks.push(`group ${id} of ${node}`);
    const known = new Set((Volumes ?? []).map(({ VolPath }) => VolPath));
    for (const { device, file } of await loopsUnder(world.driver(node).stateDir))
      (known.has(file) ? leaks : driversOwn).push(`${device} of ${file}`);
  }
  leaks.push(...(await mountsUnder(cluster.dir)).map((line) => `mount ${line}`));
  const records = await cluster.volumes.listVolumes({ filter: { plugin: hostPathPlugin } });
  leaks.push(...records.volumes.map(({ id }) => `record of ${id}`));
  return {
    seed: options.seed,
    seconds: Math.round((performance.now() - began) / 1_000),
    kills,
    skipped,
    calls: tally(calls.map(({ method }) => method)),
    lifecycleErrors: lifecycleErrors(calls),
    otherErrors: Object.entries(tally(otherErrors(calls))).map(([what, times]) => `${times} × ${what}`),
    leaks,
    driversOwn,
    cured,
    stuck,
  };
};

export const killsOf = (
  { kills }: HostPathFigures,
  target: Target,
  methods: readonly RecordedMethod[],
): readonly Kill[] => kills.filter((one) => one.target === target && methods.includes(one.method));

export const killTable = (figures: HostPathFigures): string =>
  [
    ["killed in", ...targets],
    ...recordedMethods.map((method) => [method, ...targets.map((target) => killsOf(figures, target, [method]).length)]),
  ]
    .map((row) => row.join("\t"))
    .join("\n");
