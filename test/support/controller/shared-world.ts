/**
 * The world of volumes and claims with a second controller over the same store, backend and hosts. Each makes the calls of its share, and
 * goes on with those of the other while that one is held to be away; whether it is, the test says. The second can be stopped and goes on.
 */

import { randomUUID } from "node:crypto";
import { type Sharer, sharerOf } from "@holdfast/controller/domain/plugin/call-shares";
import type { Commit } from "@holdfast/controller/domain/store-types";
import type { VolumeRecord } from "@holdfast/controller/domain/volume/volume";
import type { PluginDrivers } from "@holdfast/controller/reconcile/plugin/plugin-drivers";
import { controllerOf } from "@holdfast/controller/records/sharer-records";
import { readVolumeBody } from "@holdfast/controller/records/volume/volume-body";
import { createSqliteStore } from "@holdfast/controller/store/sqlite/sqlite-store";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { heardBy } from "./controller-process.ts";
import type { FakeBackend } from "./fake-backend.ts";
import { createHalting, type Halting } from "./halting.ts";
import { createStoreOfLife } from "./store-of-life.ts";
import { createWorld, plugin, type World } from "./world.ts";

/** Their shares of three volumes, "a" to "c", are two and one. */
export const controllerIds = ["c1", "other"] as const;
export type ControllerId = (typeof controllerIds)[number];

/** The plugin does what it was asked for, whether or not the controller runs that hears its answer. */
const answersTo = (halting: Halting, backend: FakeBackend, called: () => void): FakeBackend => {
  const counted = async <T>(answer: Promise<T>): Promise<T> => {
    called();
    return await halting.through(answer);
  };
  return {
    ...backend,
    createVolume: (...asked) => counted(backend.createVolume(...asked)),
    publish: (...asked) => counted(backend.publish(...asked)),
    unpublish: (...asked) => counted(backend.unpublish(...asked)),
    quiesce: (...asked) => halting.through(backend.quiesce(...asked)),
  };
};

export type SharedWorld = Awaited<ReturnType<typeof createSharedWorld>>;

export const createSharedWorld = async (options: {
  readonly nodes: readonly string[];
  readonly random: () => number;
}) => {
  const manual = createManualClock();
  const inner = createSqliteStore({ file: ":memory:", now: manual.now, uuid: randomUUID });
  const halting = createHalting(manual);
  const away = new Set<string>();
  const grown = new Set<(plugin: string) => void>();
  const violations: string[] = [];
  /** How often a controller went on with a call of the other, at the gate that has it and behind a bar. */
  const takenOver = { atItsGate: 0, behindBar: 0 };
  const calls = { second: 0 };
  const worlds: World[] = [];
  const known = new Map<string, VolumeRecord>();

  const isAway = (issuer: string): boolean =>
    away.has(controllerOf(issuer)) || !worlds.some((one) => one.issuer === issuer);
  const driversOf = (self: ControllerId): PluginDrivers => {
    const drives = (_plugin: string, key: string): boolean => {
      const there = controllerIds.filter((id) => id === self || !away.has(id));
      return (
        sharerOf(
          there.map((id): Sharer => ({ id, asked: 0 })),
          key,
        ) === self
      );
    };
    return {
      drives,
      keeps: drives,
      isAway,
      shareOf: (_plugin, allowed) => allowed,
      onGrown(listener) {
        grown.add(listener);
        return () => grown.delete(listener);
      },
      reconsider: () => undefined,
      run: () => new Promise<never>(() => undefined),
      leave: async () => undefined,
      signOff: async () => undefined,
    };
  };

  const saw = ({ writes }: Commit): void => {
    for (const { ref, body } of writes) {
      if (ref.kind !== "volume" || body === null) continue;
      const [before, after] = [known.get(ref.key)?.intent, readVolumeBody(body)];
      known.set(ref.key, after);
      const { intent, bars } = after;
      if (before?.via === undefined || intent === undefined || intent.opId === before.opId) continue;
      if (controllerOf(intent.issuer) === controllerOf(before.issuer)) continue;
      const barred = bars.some(({ opId }) => opId === before.opId);
      if (!barred && (intent.op !== before.op || intent.via !== before.via)) continue;
      if (!isAway(before.issuer)) violations.push(`a call of ${before.issuer}, which is there, was taken over`);
      takenOver[barred ? "behindBar" : "atItsGate"] += 1;
    }
  };
  const storeOf = (id: ControllerId, signal: AbortSignal, its: Halting) =>
    createStoreOfLife({
      inner,
      id,
      signal,
      halting: its,
      fates: { lose: [], doom: new Map() },
      saw,
    });

  const { signal } = new AbortController();
  const first = await createWorld({
    ...options,
    store: storeOf("c1", signal, createHalting(manual)),
    drivers: driversOf("c1"),
    beside: { manual },
  });
  worlds.push(first);
  const { nodes, gate, agents, backend, rests } = first;
  backend.refuseStale();
  const second = await createWorld({
    id: "other",
    store: storeOf("other", signal, halting),
    drivers: driversOf("other"),
    beside: {
      manual,
      clock: halting.clock,
      ids: first.ids,
      nodes,
      gate,
      agents: { ...agents, ...heardBy(halting, agents) },
      backend: answersTo(halting, backend, () => {
        calls.second += 1;
      }),
      rests,
      stopped: () => halting.stopped,
    },
  });
  worlds.push(second);

  return {
    first,
    second,
    takenOver,
    calls,
    violations: () => [...first.violations(), ...violations],
    get stopped() {
      return halting.stopped;
    },
    stop: halting.stop,
    goOn: halting.goOn,
    /** The others believe it, whether or not it is true. */
    setAway(id: ControllerId, is: boolean) {
      if (is) away.add(id);
      else away.delete(id);
      for (const told of [...grown]) told(plugin);
    },
    async restartSecond() {
      second.kill();
      halting.goOn();
      await second.restart();
    },
    async close() {
      second.kill();
      halting.goOn();
      await second.close();
      await first.close();
      await inner.close();
    },
  };
};
