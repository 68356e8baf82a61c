/** Kills and stops processes of a cluster, each with a call in flight, and holds up what controllers send to agents. */
import type { BackendClient } from "@holdfast/sim-plugin/backend-client";
import type { SeededRandom } from "../local-driver/seeded-random.ts";
import { clearBarsAt } from "./bar-clearing.ts";
import type { ClearedBar } from "./bar-times.ts";
import type { Victim } from "./late-victims.ts";
import type { LateWay } from "./late-ways.ts";

export interface Disturbed {
  readonly victims: readonly Victim[];
  readonly ways: readonly LateWay[];
  /** Their addresses. */
  readonly controllers: readonly string[];
}

export interface DisturberOptions {
  readonly kills: number;
  readonly stops: number;
  readonly longestStopMs: number;
  /** Controllers that are stopped once something of theirs is held on its way. */
  readonly holds: number;
  /** At once. */
  readonly disturbances: number;
  /** Told what happens. */
  readonly tell?: (line: string) => void;
}

export type Counts = Readonly<Record<string, number>>;

export interface Disturber {
  readonly kills: Counts;
  readonly stops: Counts;
  readonly holds: Counts;
  /** The bars of gates that stayed away, cleared by a person's word. */
  readonly cleared: readonly ClearedBar[];
  /** Until each disturbance was there as often as wanted, spread over the work; then all processes run again. */
  run(): Promise<void>;
  done(): boolean;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
/** A running plugin has read by then what lies in its socket. */
const arrivalMs = 300;
/** What a controller sends piles up for so long before it is stopped. */
const gatherMs = 1_500;
/** Another controller has gone on with a call by then, and the agent has not ended the stream of the first one yet. */
const overtakenMs = 9_500;
/** A gate that stays away for so long is overtaken. */
const awayMs = 12_000;

export const sum = (counts: Counts): number => Object.values(counts).reduce((a, b) => a + b, 0);

export const createDisturber = (
  { inFlight, senderEnded }: Pick<BackendClient, "inFlight" | "senderEnded">,
  { victims, ways, controllers }: Disturbed,
  random: SeededRandom,
  options: DisturberOptions,
  progress: () => number,
): Disturber => {
  const counts = { kill: {}, stop: {}, hold: {} } as Record<"kill" | "stop" | "hold", Record<string, number>>;
  const cleared: ClearedBar[] = [];
  const struck = new Map<Victim, Promise<void>>();
  /** Stopped plugin instances, until they run again. */
  const frozen = new Map<string, Promise<void>>();
  const wanted = { kill: options.kills, stop: options.stops, hold: options.holds } as const;
  const most = sum(wanted);
  const made = (): number => sum(counts.kill) + sum(counts.stop) + sum(counts.hold);

  const note = (how: keyof typeof wanted, name: string): void => {
    options.tell?.(`${how} of the ${name} at ${progress().toFixed(2)} of the work`);
    counts[how][name] = (counts[how][name] ?? 0) + 1;
  };

  const openAt = async (instances: readonly string[]): Promise<readonly number[]> =>
    (await inFlight()).flatMap(({ seq, instance }) => (instances.includes(instance) ? [seq] : []));

  /** A person who sees that the process is gone and the plugin has nothing open any more says so. */
  const attest = async ({ sendsTo }: Victim): Promise<void> => {
    await pause(awayMs);
    while ((await openAt(sendsTo)).length > 0) await pause(100);
    cleared.push(...(await clearBarsAt(controllers, sendsTo)));
  };

  /** What a dead sender left in the socket of a stopped plugin arrives when that one runs again: only then is it known for an orphan. */
  const revive = async (victim: Victim): Promise<void> => {
    await victim.exited();
    await Promise.all(victim.sendsTo.map((instance) => frozen.get(instance)));
    await pause(arrivalMs);
    for (const instance of victim.sendsTo) await senderEnded(instance);
    const away = victim.sendsTo.length > 0 && random.chance(0.6);
    if (away && random.chance(0.5)) await attest(victim);
    // By itself: its next life finds the bars.
    else await pause(away ? awayMs : random.integer(1_000));
    await victim.start();
  };

  /** Stopped first, so that the calls that it has part in stay as they were seen. Undefined: it had none. */
  const strike = async (victim: Victim, how: "kill" | "stop"): Promise<Promise<void>[] | undefined> => {
    const before = await openAt(victim.partIn);
    if (before.length === 0 || (victim.waits !== undefined && !(await victim.waits()))) return undefined;
    const pid = victim.pid();
    process.kill(pid, "SIGSTOP");
    const after = await openAt(victim.partIn);
    if (!after.some((seq) => before.includes(seq))) {
      process.kill(pid, "SIGCONT");
      return undefined;
    }
    note(how, victim.name);
    if (how === "kill") {
      process.kill(pid, "SIGKILL");
      return [revive(victim)];
    }
    const ms = 500 + random.integer(options.longestStopMs - 500);
    const over = pause(ms).then(() => void process.kill(pid, "SIGCONT"));
    const isPlugin = victim.sendsTo.length === 0 && victim.waits === undefined;
    if (isPlugin) for (const instance of victim.partIn) frozen.set(instance, over);
    return [over];
  };

  /** Its orders lie on the way while another controller takes their calls over, and arrive afterwards. */
  const holdUp = async (way: LateWay, controller: Victim): Promise<Promise<void>[] | undefined> => {
    way.hold(true);
    await pause(gatherMs);
    if ((await controller.waits?.()) !== true) {
      way.hold(false);
      return undefined;
    }
    const pid = controller.pid();
    process.kill(pid, "SIGSTOP");
    note("hold", `way of the ${controller.name} to ${way.node}`);
    const arrived = pause(overtakenMs).then(() => way.hold(false));
    return [arrived, arrived.then(() => pause(arrivalMs)).then(() => void process.kill(pid, "SIGCONT"))];
  };

  const strikes = (over: Promise<void>[], hit: readonly Victim[]): true => {
    const all = Promise.all(over).then(() => undefined);
    for (const victim of hit)
      struck.set(
        victim,
        all.finally(() => struck.delete(victim)),
      );
    return true;
  };

  const strikeOne = async (): Promise<boolean> => {
    const due = (["kill", "stop", "hold"] as const).filter((how) => sum(counts[how]) < wanted[how]);
    const how = random.pick(due);
    const free = victims.filter((victim) => !struck.has(victim));
    const named = (name: string) => free.find((victim) => victim.name === name);
    if (how === "hold") {
      for (const way of random.some(ways, ways.length)) {
        const [controller, agent] = [named(`${way.controller} controller`), named(`agent of ${way.node}`)];
        const over = controller && agent && (await holdUp(way, controller));
        if (over !== undefined && controller && agent) return strikes(over, [controller, agent]);
      }
      return false;
    }
    for (const victim of random.some(free, free.length)) {
      const over = await strike(victim, how);
      if (over !== undefined) return strikes(over, [victim]);
    }
    return false;
  };

  const done = (): boolean => made() >= most;

  return {
    kills: counts.kill,
    stops: counts.stop,
    holds: counts.hold,
    cleared,
    done,
    run: async () => {
      const longestGapMs = 8_000;
      let last = performance.now();
      while (!done()) {
        const due = progress() >= (made() + 1) / (most + 1) || performance.now() - last > longestGapMs;
        if (due && struck.size < options.disturbances && (await strikeOne())) last = performance.now();
        else await pause(100);
      }
      await Promise.all(struck.values());
    },
  };
};
