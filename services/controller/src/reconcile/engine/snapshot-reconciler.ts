import type { Clock } from "@holdfast/shared/async/clock";
import type { Logger } from "@holdfast/shared/log/logger";
import { createTracing, type Tracing } from "@holdfast/shared/tracing";
import { type CutRecord, cutKey, refOfCutKey } from "../../domain/snapshot/snapshot.ts";
import { type CutStep, planCut } from "../../domain/snapshot/snapshot-steps.ts";
import type { ControllerPlugins, Ids, Nodes, SnapshotPlugins, StoreGate } from "../../ports.ts";
import type { Told } from "../../records/change-feed.ts";
import { pagesOf } from "../../records/pages-of.ts";
import type { CutRecords } from "../../records/snapshot-records.ts";
import type { Failpoint } from "../failpoints.ts";
import { giveBack } from "../owed/give-back.ts";
import type { CallSlots } from "../plugin/call-slots.ts";
import { type CallRights, createCallRights } from "../plugin/call-turn.ts";
import type { PluginDrivers } from "../plugin/plugin-drivers.ts";
import { owedCuts, runCutStep } from "../steps/steps-snapshot.ts";
import { runDueLoop } from "./due-loop.ts";
import { createKeyedWork } from "./keyed-work.ts";
import { tracedCutStep } from "./step-trace.ts";
import { createWakeLater } from "./wake-later.ts";

export interface SnapshotReconcilerDeps {
  readonly cuts: CutRecords;
  readonly plugins: Pick<ControllerPlugins, "onChange" | "instance" | "seek" | "quiesce"> & SnapshotPlugins;
  readonly gate: StoreGate;
  readonly clock: Clock;
  readonly nodes: Pick<Nodes, "get">;
  readonly ids: Ids;
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** Aborted before `signal`: from then on nothing is begun, and what runs is brought to its end. */
  readonly taking?: AbortSignal;
  /** Shared with the volumes' own work: a plugin has one bound for all its calls. */
  readonly slots: CallSlots;
  /** Who of several controllers calls which plugin; without it this one calls them all. */
  readonly drivers?: PluginDrivers | undefined;
  /** This controller, in this life, and which lives of its own are proved to be over. */
  readonly lives: Pick<CallRights, "issuer" | "isFormerLife">;
  /** The store's format has bars. */
  readonly bars?: CallRights["bars"] | undefined;
  readonly tracing?: Tracing;
  readonly failpoint?: Failpoint;
}

export interface SnapshotReconciler {
  /** Another controller committed something of it. */
  learnOf(key: string, told: Pick<Told, "plugin" | "untaken" | "anyone">): void;
  /** Events of other controllers may have been missed: takes up what they left. Rejects when the store does not tell. */
  missed(): Promise<void>;
  /** Resolves when everything that is owed has been taken up; runs until the signal. */
  start(): Promise<void>;
  /** Resolves when nothing runs and nothing is ready. */
  idle(): Promise<void>;
  /** Once `taking` is aborted: resolves when no step runs any more, and what never left is nobody's. */
  end(): Promise<void>;
  /** Snapshots and groups that are being worked on. */
  size(): number;
}

const pageSize = 500;
const unsettled = ["snapshot-unsettled", "group-unsettled"] as const;

/** Acts for snapshots and groups, as the reconciler does for volumes: stores before it calls, and again what was answered. */
export const createSnapshotReconciler = (deps: SnapshotReconcilerDeps): SnapshotReconciler => {
  const { cuts, plugins, gate, drivers, clock, ids, log, signal, taking = signal } = deps;
  const tracing = deps.tracing ?? createTracing("@holdfast/controller");
  const wakeLater = createWakeLater(clock, (key) => work.wake(key));
  const stepDeps = {
    ...deps,
    taking,
    failpoint: deps.failpoint ?? (() => undefined),
    unstored: new Map<string, string>(),
    rights: createCallRights(deps.lives, drivers, plugins, deps.bars ?? (() => true)),
    wakeLater: wakeLater.after,
  };
  /** A step may give the call to an instance before it asks for a slot. */
  const slotsOf = (record: CutRecord): CallSlots =>
    deps.slots.at(async () => record.intent?.via ?? (await cuts.get(record))?.record.intent?.via);
  const work = createKeyedWork<CutRecord, CutStep>({
    what: "snapshot",
    read: async (key) => (await cuts.get(refOfCutKey(key)))?.record,
    ready: (record, now, hurry) => {
      const steps = planCut(record, now, hurry);
      const next = Math.min(...steps.map(({ at }) => at).filter((at) => at > now));
      // Of a shared store another controller may have moved the record on in the due queue when this one looks there.
      if (drivers !== undefined && Number.isFinite(next)) wakeLater.after(next - now, cutKey(record));
      return steps.filter(({ at }) => at <= now);
    },
    laneOf: ({ lane }) => lane,
    idOf: (step) => (step.do === "lift" ? step.lane : step.do),
    clock,
    random: ids.random,
    log,
    taking,
    run: (record, step) =>
      tracedCutStep(
        tracing,
        record,
        step,
        clock.now(),
        (traceId) => runCutStep({ ...stepDeps, slots: slotsOf(record) }, record, step, traceId),
        async () => (await cuts.get(record))?.record,
      ),
  });

  const wakeUnsettled = async (plugin?: string, hurry = true): Promise<void> => {
    for (const index of unsettled)
      for await (const page of pagesOf((after) => cuts.list(index, "all", { after, limit: pageSize })))
        for (const { record } of page.cuts)
          if (plugin === undefined || record.plugin === plugin) work.wake(cutKey(record), hurry);
  };

  const inBackground = (what: string, task: Promise<unknown>): void => {
    task.catch((error: unknown) => {
      if (!signal.aborted) log.error(`${what} ended`, { error });
    });
  };

  let open = gate.state().open;
  const gateChanged = (): void => {
    const was = open;
    open = gate.state().open;
    if (open && !was) inBackground("taking up snapshots that waited for the store", wakeUnsettled());
  };

  return {
    learnOf(key, { plugin, untaken, anyone }) {
      if (anyone || (untaken && plugin !== undefined && drivers?.drives(plugin, key) === true)) work.wake(key);
    },
    missed: () => wakeUnsettled(undefined, false),
    async start() {
      signal.throwIfAborted();
      const releases = [
        cuts.onCommit(({ key }) => work.wake(key)),
        plugins.onChange((plugin) => inBackground("taking up snapshots of a plugin", wakeUnsettled(plugin))),
        gate.onChange(gateChanged),
        drivers?.onGrown((plugin) => inBackground("taking up snapshots of a plugin", wakeUnsettled(plugin))) ??
          (() => undefined),
      ];
      signal.addEventListener(
        "abort",
        () => {
          for (const release of releases) release();
          wakeLater.stop();
        },
        { once: true },
      );
      const wakeAll = (): void => inBackground("taking up every snapshot", wakeUnsettled());
      const loop = runDueLoop({ records: cuts, clock, log, signal, wake: work.wake, wakeAll });
      inBackground("the due queue of snapshots", loop);
      await wakeUnsettled();
    },
    idle: work.idle,
    async end() {
      await work.idle();
      await giveBack(owedCuts(stepDeps), async (key) => (await cuts.get(refOfCutKey(key)))?.record);
    },
    size: work.size,
  };
};
