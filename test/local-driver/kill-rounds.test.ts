/**
 * SIGKILL at any moment of random operations. After each, the driver is started again and the same call is repeated, as a CO would: it
 * must answer as if nothing had happened, and the host must show what the model believes, no more and no less.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect } from "vitest";
import { sample } from "../support/full.ts";
import { asRoot } from "./as-root.ts";
import { outcomeOf } from "./call-outcome.ts";
import { volumeProblems, worldProblems } from "./check-world.ts";
import { createDriverProcess, type DriverProcess } from "./driver-process.ts";
import { emptyWorld } from "./empty-world.ts";
import { createModelWorld, type ModelWorld } from "./model-world.ts";
import { nextOperation, type Operation } from "./random-operations.ts";
import { createSeededRandom, type SeededRandom, seedOfRun } from "./seeded-random.ts";
import { stateOnXfs } from "./state-on-disk.ts";

const seed = seedOfRun();
const operations = sample(500, 40);
/** Every operation of the full run is interrupted; a start takes half a second, and the sample has not that much time. */
const killed = sample(1, 0.5);

interface Round {
  readonly driver: DriverProcess;
  readonly world: ModelWorld;
  readonly random: SeededRandom;
  /** How long each kind takes undisturbed, and a start: the moment of a kill is drawn from it. */
  readonly durations: Map<string, number>;
  /** Kind → how many of it were killed before they had answered. */
  readonly unanswered: Map<string, number>;
}

let driver: DriverProcess | undefined;

beforeEach(() => {
  driver = undefined;
});

afterEach(async () => {
  await driver?.remove();
});

const timed = async <T>({ durations }: Round, kind: string, act: () => Promise<T>): Promise<T> => {
  const start = performance.now();
  const result = await act();
  const before = durations.get(kind);
  const took = performance.now() - start;
  durations.set(kind, before === undefined ? took : before * 0.7 + took * 0.3);
  return result;
};

/**
 * Rather early: the first call of a life, from which the duration is known, is slower than those that follow. Some come after the answer:
 * between two calls is a moment too.
 */
const moment = ({ random, durations }: Round, kind: string): number =>
  random.fraction() ** 2 * 1.15 * (durations.get(kind) ?? 40);

const startAgain = async (round: Round): Promise<void> => {
  // A start cleans up after the life of before; that may be interrupted as well.
  if (round.random.chance(0.15)) await round.driver.startAndKill(moment(round, "start"));
  await timed(round, "start", () => round.driver.start());
};

const interrupted = async (round: Round, operation: Operation): Promise<string | undefined> => {
  const { driver: it } = round;
  const first = outcomeOf(operation.call(it.csi()));
  await sleep(moment(round, operation.kind));
  // The channel is closed with the process: what was under way ends as a CO would see it.
  await it.kill();
  const outcome = await first;
  await startAgain(round);
  if (outcome.code === "OK") return outcome.answer.said;
  if (!operation.right.includes(outcome.code)) {
    const before = round.unanswered.get(operation.kind) ?? 0;
    round.unanswered.set(operation.kind, before + 1);
  }
  return undefined;
};

const perform = async (round: Round, operation: Operation): Promise<readonly string[]> => {
  const { driver: it, random } = round;
  let said: string | undefined;
  if (operation.interruptible && random.chance(killed))
    do said = (await interrupted(round, operation)) ?? said;
    while (random.chance(0.1));
  const outcome = await timed(round, operation.kind, () => outcomeOf(operation.call(it.csi())));
  if (!operation.right.includes(outcome.code))
    return [`answered ${outcome.code}${outcome.code === "OK" ? "" : `: ${outcome.details}`}`];
  if (outcome.code !== "OK") return [];
  if (said !== undefined && outcome.answer.said !== said)
    return [`answered ${said} before the kill, and ${outcome.answer.said} after it`];
  outcome.answer.settle();
  return [];
};

const rounds = async (round: Round, count: number): Promise<void> => {
  const done: string[] = [];
  const must = (problems: readonly string[]): void => {
    if (problems.length === 0) return;
    const trail = done.slice(-12).map((what, at) => `${done.length - Math.min(12, done.length) + at + 1}. ${what}`);
    throw new Error(
      `seed ${seed}: after operation ${done.length} of ${count}:\n  ${problems.join("\n  ")}\nwhat was done last:\n  ${trail.join("\n  ")}\nagain: HOLDFAST_SEED=${seed} npx vitest run test/local-driver/kill-rounds.test.ts\n${round.driver.output().slice(-6000)}`,
    );
  };
  for (let at = 0; at < count; at += 1) {
    const operation = await nextOperation(round);
    done.push(operation.what);
    must(await perform(round, operation));
    must(await worldProblems(round.driver, round.world));
    for (const volume of round.world.volumes.values()) must(await volumeProblems(volume));
  }
  done.push("everything unmounted, read once more and deleted");
  must(await emptyWorld(round));
};

interface Setting {
  readonly on: string;
  readonly attaching: boolean;
  readonly prepareState?: (home: string) => Promise<string>;
}

const settings: readonly Setting[] = [
  { on: "a disk that copies", attaching: false },
  { on: "a disk with reflinks, volumes attached first", attaching: true, prepareState: stateOnXfs },
];

for (const { on, attaching, prepareState } of settings)
  asRoot(
    `operations killed at any moment, on ${on}`,
    async () => {
      const count = operations / settings.length;
      console.info(`on ${on}: seed ${seed}, ${count} operations`);
      const env = { HOLDFAST_LOCAL_ATTACH: String(attaching) };
      driver = await createDriverProcess({ env, ...(prepareState === undefined ? {} : { prepareState }) });
      const round: Round = {
        driver,
        world: createModelWorld({ attaching }),
        random: createSeededRandom(seed),
        durations: new Map([["start", 800]]),
        unanswered: new Map(),
      };
      await timed(round, "start", () => round.driver.start());
      await rounds(round, count);
      expect(await driver.leftovers()).toEqual([]);
      const cut = [...round.unanswered].map(([kind, times]) => `${kind} ${times}`);
      console.info(`killed before they had answered: ${cut.join(", ")}`);
      // Otherwise every kill came too late, and nothing was tried.
      expect(cut.length).toBeGreaterThan(0);
    },
    sample(3_600_000, 180_000),
  );
