import { setImmediate as turn } from "node:timers/promises";
import type { Vetting } from "@holdfast/model/vetting";
import type { Clock } from "@holdfast/shared/async/clock";
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import type { Logger } from "@holdfast/shared/log/logger";
import { createTracing, type Tracing } from "@holdfast/shared/tracing";
import type { AgentGateway } from "../../agent-ports.ts";
import { planSteps, type Step } from "../../domain/steps.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import type { ControllerPlugins, Ids, Nodes, StoreGate } from "../../ports.ts";
import type { LearnedLimits } from "../../records/attachment/learned-limits.ts";
import type { Told } from "../../records/change-feed.ts";
import { createGrantFacts } from "../../records/grant-facts.ts";
import { pagesOf } from "../../records/pages-of.ts";
import { refOfKey } from "../../records/volume/volume-codec.ts";
import type { VolumeRecords } from "../../records/volume/volume-records.ts";
import type { Failpoint } from "../failpoints.ts";
import { createNodeWatch } from "../node/node-watch.ts";
import { giveBack } from "../owed/give-back.ts";
import { type CallSlots, createCallSlots, type SlotGuard } from "../plugin/call-slots.ts";
import { type CallRights, createCallRights } from "../plugin/call-turn.ts";
import type { PluginDrivers } from "../plugin/plugin-drivers.ts";
import { createLateAttaches } from "../steps/late-attaches.ts";
import { leadReleases } from "../steps/lead-releases.ts";
import type { LedPermits, LedReleases } from "../steps/led-permits.ts";
import { owedVolumes, type StepDeps } from "../steps/step-run.ts";
import { runStep, stepId } from "../steps/steps.ts";
import { type DueSource, runDueLoop } from "./due-loop.ts";
import { createEarlySteps } from "./early-steps.ts";
import { createKeyedWork } from "./keyed-work.ts";
import { tracedStep } from "./step-trace.ts";
import { createWakeLater } from "./wake-later.ts";

export interface ReconcilerDeps {
  readonly records: VolumeRecords;
  readonly plugins: ControllerPlugins;
  readonly agents: AgentGateway;
  readonly nodes: Nodes;
  readonly gate: StoreGate;
  readonly learned: Pick<LearnedLimits, "learn" | "forget">;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** Aborted before `signal`: from then on nothing is begun, and what runs is brought to its end. */
  readonly taking?: AbortSignal;
  readonly tracing?: Tracing;
  readonly failpoint?: Failpoint;
  /** Who of several controllers calls which plugin; without it this one calls them all. */
  readonly drivers?: PluginDrivers | undefined;
  /** This controller, in this life, and which lives of its own are proved to be over. */
  readonly lives: Parameters<typeof createCallRights>[0];
  /** What bounds the calls of each plugin. */
  readonly guard: SlotGuard;
  /** The store's format knows claims whose permit may have left ahead. */
  readonly leads?: StepDeps["leads"] | undefined;
  readonly sent?: StepDeps["sent"] | undefined;
  /** The store's format has bars. */
  readonly bars?: CallRights["bars"] | undefined;
}

export interface Reconciler {
  /** Something may have to be done for the volume. Commits of this process wake by themselves. */
  wake(key: string, hurry?: boolean): void;
  /** Something of the volume was committed by another controller, or by a former life of this one. */
  learned(key: string, told: Pick<Told, "plugin" | "untaken" | "anyone">): void;
  /** Events of other controllers may have been missed: takes up what they left. Rejects when the store does not tell. */
  missed(): Promise<void>;
  /** The node's agent can be asked from here. */
  linked(node: string): void;
  /** Resolves when everything that is owed has been taken up; runs until the signal. */
  start(): Promise<void>;
  /** Resolves when nothing runs and nothing is ready. */
  idle(): Promise<void>;
  /** Once `taking` is aborted: resolves when no step runs any more, and what never left is nobody's. */
  end(): Promise<void>;
  /** Volumes that are being worked on. */
  size(): number;
  /** Calls of the plugin that wait for their turn. */
  callsWaiting(plugin: string): number;
  /** Shared with whoever else calls the plugins: what bounds a plugin's calls bounds all of them. */
  readonly slots: CallSlots;
}

/** A record, and what the store was vetted as when it was read. */
interface Planned {
  readonly volume: VolumeRecord;
  readonly vetting: Vetting;
  readonly stored?: StepDeps["stored"];
}

const pageSize = 500;
const claimGivenUp = "CLAIM_ABANDONED";

/**
 * The one that acts. Handlers write what is wanted; this takes up what is owed, one step at a time per lane of a volume, always storing before
 * the effect and the outcome after it. Events only wake it; starting is taking up everything that is not settled.
 */
export const createReconciler = (deps: ReconcilerDeps): Reconciler => {
  const { records, plugins, nodes, gate, guard, drivers, clock, ids, log, signal, taking = signal } = deps;
  const slots = createCallSlots(guard, clock);
  const tracing = deps.tracing ?? createTracing("@holdfast/controller");
  const wakeLater = createWakeLater(clock, (key) => wake(key));
  const sent = deps.sent ?? (() => turn());
  const early = createEarlySteps({
    issuer: deps.lives.issuer,
    ...{ gate, clock, sent },
    begin(volume, step, over) {
      const { vetting } = gate.state();
      work.begin(volumeKey(volume), step, (looked) => ({
        volume,
        vetting,
        async stored() {
          const became = await over;
          looked();
          return became;
        },
      }));
    },
  });
  const stepDeps = {
    ...deps,
    taking,
    rights: createCallRights(deps.lives, drivers, plugins, deps.bars ?? (() => true)),
    wakeLater: wakeLater.after,
    factsOf: createGrantFacts({ nodes, plugins, gate, records }),
    slots,
    failpoint: deps.failpoint ?? (() => undefined),
    unstored: new Map<string, string>(),
    lateAttaches: createLateAttaches(clock),
    led: new WeakMap() as LedPermits,
    ledReleases: new WeakMap() as LedReleases,
    leads: deps.leads ?? (() => true),
    sent,
    validating: createKeyedLanes(),
  };

  /** A step may give the call to an instance before it asks for a slot. */
  const slotsOf = (volume: VolumeRecord): CallSlots =>
    slots.at(async () => volume.intent?.via ?? (await records.recent(volume))?.volume.intent?.via);

  /** Of a shared store another controller may have moved the record on in the due queue when this one looks there. */
  const readyNow = (volume: VolumeRecord, now: number, hurry: boolean): readonly Step[] => {
    const { ready, next } = planSteps(volume, now, hurry);
    if (drivers !== undefined && next !== undefined) wakeLater.after(next - now, volumeKey(volume));
    return ready;
  };

  const work = createKeyedWork<Planned, Step>({
    what: "volume",
    async read(key) {
      const { vetting } = gate.state();
      const found = await records.recent(refOfKey(key));
      return found && { volume: found.volume, vetting };
    },
    ready: ({ volume }, now, hurry) => readyNow(volume, now, hurry),
    laneOf: ({ lane }) => lane,
    idOf: stepId,
    clock,
    random: ids.random,
    log,
    taking,
    run: ({ volume, vetting, stored }, step) =>
      tracedStep(
        tracing,
        volume,
        step,
        clock.now(),
        (traceId) => runStep({ ...stepDeps, stored, slots: slotsOf(volume) }, step, { volume, vetting, traceId }),
        async () => (await records.recent(volume))?.volume,
      ),
  });
  const wake = work.wake;
  const watch = createNodeWatch({ ...deps, wake });

  const wakeUnsettled = async (plugin?: string, hurry = true): Promise<void> => {
    const pages = pagesOf((after) => records.list("volume-unsettled", "all", { after, limit: pageSize }));
    for await (const { volumes } of pages)
      for (const { volume } of volumes)
        if (plugin === undefined || volume.plugin === plugin) wake(volumeKey(volume), hurry);
  };

  const inBackground = (what: string, task: Promise<unknown>): void => {
    task.catch((error: unknown) => {
      if (!signal.aborted) log.error(`${what} ended`, { error });
    });
  };

  const wakeAll = (): void => inBackground("taking up everything", wakeUnsettled());

  let { open, vetting } = gate.state();
  const gateChanged = (): void => {
    const [was, before] = [open, vetting];
    ({ open, vetting } = gate.state());
    // What is remembered may be of a history that is over, and nothing is to be ordered by it under the vetting of the next one.
    if (was !== open || before !== vetting) records.forgetAll();
    // Open before and after, it opened for some plugins.
    if (!open) return;
    inBackground("taking up what waited for the store", wakeUnsettled());
    watch.all();
  };

  const idle = async (): Promise<void> => {
    await watch.idle();
    await work.idle();
  };

  return {
    wake,
    learned(key, { plugin, untaken, anyone }) {
      if (anyone || (untaken && plugin !== undefined && drivers?.drives(plugin, key) === true)) wake(key);
    },
    missed: () => wakeUnsettled(undefined, false),
    linked: watch.linked,
    async start() {
      signal.throwIfAborted();
      const releases = [
        records.onCommit(({ keys, related, ended, reminded }) => {
          // Without its proof: the node may still have it mounted, and nothing but its inventory tells.
          for (const { node, failure } of ended) if (failure?.reason === claimGivenUp) watch.doubt(node);
          for (const key of keys) {
            slots.recheck(key);
            wake(key, reminded);
          }
          for (const key of related) wake(key);
        }),
        records.onLead((before, after, { leads, over }) => {
          early.storing(before, after, over);
          return leads ? leadReleases(stepDeps, before, after) : undefined;
        }),
        records.slots.onRoom((keys, refusedBefore) => {
          for (const key of keys) wake(key, refusedBefore);
        }),
        nodes.onChange(watch.changed),
        drivers?.onGrown((plugin) => inBackground("taking up the calls of a plugin", wakeUnsettled(plugin))) ??
          (() => undefined),
        plugins.onChange((plugin) => inBackground("taking up what waited for a plugin", wakeUnsettled(plugin))),
        gate.onChange(gateChanged),
      ];
      signal.addEventListener(
        "abort",
        () => {
          for (const release of releases) release();
          wakeLater.stop();
        },
        { once: true },
      );
      inBackground("the due queue", runDueLoop({ records: dueVolumes(records), clock, log, signal, wake, wakeAll }));
      await wakeUnsettled();
      watch.all();
    },
    idle,
    async end() {
      await idle();
      await giveBack(owedVolumes(stepDeps), async (key) => (await records.current(refOfKey(key)))?.volume);
    },
    size: work.size,
    callsWaiting: slots.waiting,
    slots,
  };
};

const dueVolumes = (records: VolumeRecords): DueSource => ({
  ...records,
  reschedule: (key) => records.reschedule(refOfKey(key)),
});
