/**
 * Takes permits and releases. One lane per volume, different volumes in parallel; the domain judges, the drive acts.
 *
 * M1 One run at a time per volume, held until its calls have ended, however long the caller waits.
 * M2 A call leaves only after its intent is as safe as record-survival.ts asks (I4), and an answer that proves something only after its
 *    record.
 * M3 Nothing is retried here: what halted is owed in the journal, and the controller sends the same message again.
 * M4 Two records of one piece of storage are never held here at the same time (I1).
 * M5 While the journal waits for room, an order is refused at once: nothing is begun, and the same order later goes on.
 */
import { compareEpochs, type Epoch, zeroEpoch } from "@holdfast/model/epoch";
import type { Vetting } from "@holdfast/model/vetting";
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import type { Logger } from "@holdfast/shared/log/logger";
import type { ExpandResult, Halt, Inventory, PublishResult, ReleaseResult } from "../domain/answer-types.ts";
import { judgePermit, judgeRelease, type Standing } from "../domain/judge-order.ts";
import { type MountView, strays } from "../domain/mounts.ts";
import type { HostPaths } from "../domain/paths.ts";
import type { HeldClaim, PermitFacts, VolumeRef } from "../domain/types.ts";
import type { ExpandOrder } from "../domain/volume-figures.ts";
import { isAtRest } from "../domain/volume-machine.ts";
import type { Failpoint } from "../failpoints.ts";
import type {
  DeadMounts,
  HostDirs,
  Ledger,
  MountTable,
  NodePlugins,
  PermitContents,
  PermitOrder,
  ReleaseOrder,
  TokenSource,
} from "../ports.ts";
import { changedHalt, endWords, orphanHalt, pluginAwayHalt, refuseFull } from "./halts.ts";
import { takeInventory } from "./inventory.ts";
import type { LingeringMounts } from "./lingering-mounts.ts";
import { createLostMounts } from "./lost-mounts.ts";
import { adoptedFacts, adoptedRecord, factsOf, namesOf, storageOf } from "./order-facts.ts";
import { createPlaceCheck, isFound, nothingFound, type PlaceCheck } from "./place-check.ts";
import { heldByOther, publishAnswer } from "./publish-answer.ts";
import { optionFailure, type SecureMount } from "./secure-mount.ts";
import { tellEnd } from "./tell-end.ts";
import { createVolumeDrive } from "./volume-drive.ts";
import { createExpander } from "./volume-expander.ts";
import { createVolumeRun, type VolumeRun } from "./volume-run.ts";

export interface VolumeManagerOptions {
  readonly node: string;
  readonly ledger: Ledger;
  readonly plugins: NodePlugins;
  readonly mounts: MountTable;
  readonly dirs: HostDirs;
  readonly paths: HostPaths;
  /** Salted hash of a text, for digests. */
  readonly hash: (text: string) => string;
  readonly failpoint: Failpoint;
  readonly log: Logger;
  readonly quarantined: () => boolean;
  readonly secure: SecureMount;
  readonly deadMounts: DeadMounts;
  readonly lingering: LingeringMounts;
  readonly tokens: Pick<TokenSource, "tokens">;
  /** Names of the mount options that may be asked for. */
  readonly allowedOptions: readonly string[];
  /** Mounts that nothing explains were there at the start: no permit is journalled before its place is known to be free. */
  readonly orphansAtStart: boolean;
  /** The agent's life: aborted when calls to plugins have to be given up. */
  readonly signal: AbortSignal;
}

export interface VolumeManager {
  /** `caller` ends the wait for the lane, never a run. */
  publish(order: PermitOrder, caller: AbortSignal): Promise<PublishResult>;
  release(order: ReleaseOrder, caller: AbortSignal): Promise<ReleaseResult>;
  expand(order: ExpandOrder, caller: AbortSignal): Promise<ExpandResult>;
  /** A controller has the release of this claim on record: nobody has to be told of it any more. */
  forget(ref: VolumeRef, claimUid: string): Promise<void>;
  /** What is published and missing, or on one of these mounts, is in doubt from now on. Answers the claims. */
  lose(ref: VolumeRef, dead: ReadonlySet<number>): Promise<readonly HeldClaim[]>;
  inventory(): Promise<Inventory>;
  /** While it runs no order is followed for the volume that has this `publish` directory. `wait` ends the wait for the lane. */
  alone<T>(publish: string, wait: AbortSignal, act: () => Promise<T>): Promise<T>;
  /** What is wrong with a volume, since its last order. */
  halts(): ReadonlyMap<string, Halt>;
}

export function createVolumeManager(options: VolumeManagerOptions): VolumeManager {
  const { ledger, plugins, mounts, dirs, paths, hash, failpoint, log, quarantined, signal, deadMounts } = options;
  const lanes = createKeyedLanes();
  const drive = createVolumeDrive(options);
  const lose = createLostMounts({ ledger, mounts });
  const halts = new Map<string, Halt>();
  /** The mounts before the first call for a volume, until its first publication. */
  const firstViews = new Map<string, MountView>();
  /** M4: which record holds a piece of storage. */
  const holders = new Map<string, string>();
  for (const volume of ledger.volumes())
    if (!isAtRest(volume)) holders.set(storageOf(volume.ref), volume.ref.volumeUid);

  const laneOf = (ref: VolumeRef): string => paths.of(ref.plugin, ref.externalId).publish;
  const standing = (ref: VolumeRef, sender?: Vetting): Standing => ({
    agent: ledger.agent(),
    quarantined: quarantined(),
    volume: ledger.volume(ref.volumeUid),
    sender,
  });

  const expand = createExpander({ plugins, mounts, dirs, standing, signal });

  const settle = async (run: VolumeRun, ref: VolumeRef, halt: Halt | undefined): Promise<void> => {
    await run.finish();
    if (isAtRest(run.volume())) {
      holders.delete(storageOf(ref));
      firstViews.delete(ref.volumeUid);
    }
    if (halt === undefined) halts.delete(ref.volumeUid);
    else {
      halts.set(ref.volumeUid, halt);
      log.warn("a volume cannot go on now", { ...namesOf(ref), reason: halt.reason, detail: halt.message });
    }
  };

  /** Whatever is thrown, the volume is known to be in doubt afterwards, not in the middle of a step. */
  const guarded = async <T>(run: VolumeRun, act: () => Promise<T>): Promise<T> => {
    try {
      return await act();
    } catch (error) {
      run.giveUp();
      throw error;
    }
  };

  const publishInLane = async (order: PermitOrder, caller: AbortSignal): Promise<PublishResult> => {
    const { ref, claim, contents } = order;
    const facts = factsOf(order, paths.of(ref.plugin, ref.externalId), hash);
    const other = holders.get(storageOf(ref));
    if (other !== undefined && other !== ref.volumeUid) return heldByOther(ledger.volume(other), ref); // M4
    const judged = judgePermit(standing(ref, order.vetting), facts, claim.oldestLiveEpoch);
    const run = createVolumeRun(ledger, ledger.volume(ref.volumeUid));
    const place = placeOf(ref, facts);
    switch (judged.kind) {
      case "refused":
        return judged;
      case "not-mounted":
        return { ...judged, message: endWords(ref, judged.failure), epoch: facts.epoch };
      case "changed":
        return { kind: "uncertain", halt: changedHalt(ref, facts) };
      case "repeat":
        return guarded(run, () => mountAndAnswer(run, facts, contents, caller, place));
      case "new": {
        const failure = optionFailure(order, options.allowedOptions, log);
        const atOnce = failure !== undefined || options.orphansAtStart;
        const halt = await takePermit(run, ref, facts, judged.floor, atOnce ? place : undefined);
        if (halt !== undefined) return { kind: "uncertain", halt };
        if (failure !== undefined) run.note({ type: "release-intent", claimUid: claim.claimUid, failure });
        return guarded(run, () => mountAndAnswer(run, facts, contents, caller, place));
      }
    }
  };

  const placeOf = (ref: VolumeRef, facts: PermitFacts): PlaceCheck =>
    createPlaceCheck({ ref, facts, paths, volume: ledger.volume(ref.volumeUid), firstViews });

  /** Can it be done at all? `place`: what is there is looked at now, and not beside the intent of the first call. */
  const takePermit = async (
    run: VolumeRun,
    ref: VolumeRef,
    facts: PermitFacts,
    floor: Epoch,
    place: PlaceCheck | undefined,
  ): Promise<Halt | undefined> => {
    refuseFull(ledger.fullBecause());
    const stages = plugins.get(ref.plugin)?.stages();
    if (stages === undefined) return pluginAwayHalt(ref, "its plugin is not there");
    if (stages === "unknown") return pluginAwayHalt(ref, "its plugin has not said yet whether it stages volumes");
    const found = place === undefined ? nothingFound : place.judge(await mounts.look(false));
    if (!isFound(found)) return found;
    holders.set(storageOf(ref), ref.volumeUid);
    run.note({
      type: "permit",
      ref,
      facts,
      floor,
      stageNeeded: stages === "yes",
      stagePath: paths.of(ref.plugin, ref.externalId).staging,
      found,
    });
    return undefined;
  };

  const mountAndAnswer = async (
    run: VolumeRun,
    facts: PermitFacts,
    contents: PermitContents,
    caller: AbortSignal,
    place: PlaceCheck,
  ): Promise<PublishResult> => {
    const { ref } = run.volume();
    const context = {
      paths: paths.of(ref.plugin, ref.externalId),
      attempt: contents.attempt,
      epoch: facts.epoch,
      late: () => caller.aborted,
    };
    const first = { place, firstView: () => firstViews.get(ref.volumeUid) };
    const end = await drive.mount(run, facts.claimUid, contents, first, context);
    await settle(run, ref, end.kind === "halted" ? end.halt : undefined);
    if (end.kind === "published") firstViews.delete(ref.volumeUid);
    const answer = await publishAnswer(end, facts, contents, ref, { dirs, expand });
    if (end.kind !== "halted") tellEnd(log, `claim ${end.kind}`, ref, facts);
    failpoint("agent.publish.before-answer");
    return answer;
  };

  const releaseInLane = async (order: ReleaseOrder, caller: AbortSignal): Promise<ReleaseResult> => {
    const { ref, claimUid, epoch } = order;
    const judged = judgeRelease(standing(ref, order.vetting), order);
    if (judged.kind === "refused") return judged;
    if (judged.kind === "released") return { kind: "released", epoch };
    const run = createVolumeRun(ledger, ledger.volume(ref.volumeUid));
    if (judged.kind === "unseen") {
      const answer = await releaseUnseen(run, order, caller);
      if (answer !== undefined) return answer;
    } else if (run.volume().claims[claimUid]?.goal === "mounted") run.note({ type: "release-intent", claimUid });
    const late = () => caller.aborted || order.unasked === true;
    const context = { paths: paths.of(ref.plugin, ref.externalId), epoch, late, attempt: order.attempt };
    const halt = await guarded(run, async () => {
      const end = await drive.release(run, claimUid, context);
      await settle(run, ref, end);
      return end;
    });
    if (halt !== undefined) return { kind: "pending", halt };
    tellEnd(log, "claim released", ref, order);
    failpoint("agent.release.before-answer");
    return { kind: "released", epoch, ...options.lingering.takeUnmounted(claimUid) };
  };

  /** A permit that never came: dead from now on; but whatever a lost journal left mounted is undone first (I2). */
  const releaseUnseen = async (
    run: VolumeRun,
    order: ReleaseOrder,
    caller: AbortSignal,
  ): Promise<ReleaseResult | undefined> => {
    const { ref, claimUid, epoch } = order;
    const volumePaths = paths.of(ref.plugin, ref.externalId);
    const target = volumePaths.target(claimUid);
    const view = await mounts.look(false);
    const known = ledger.volume(ref.volumeUid);
    const held = known !== undefined && !isAtRest(known);
    const free = !held && [undefined, ref.volumeUid].includes(holders.get(storageOf(ref)));
    const [stray] = free ? strays(view, volumePaths, [target]) : [];
    const staged = free && stray === undefined && view.under(volumePaths.staging).length > 0;
    if (staged || view.under(target).length > 0) {
      const stages = held ? "yes" : (plugins.get(ref.plugin)?.stages() ?? "unknown");
      if (stages === "unknown") return { kind: "pending", halt: pluginAwayHalt(ref, "its plugin is not there") };
      holders.set(storageOf(ref), ref.volumeUid);
      const facts = adoptedFacts(order, target, ledger.agent().nodeEpoch);
      run.note(adoptedRecord(ref, facts, stages === "yes", volumePaths, view));
      return undefined;
    }
    // Nothing of this claim is left, but whoever was told "released" may detach the volume from under the others.
    if (stray !== undefined) return { kind: "pending", halt: orphanHalt(ref, stray.path) };
    failpoint("agent.dead.before-journal");
    if (compareEpochs(epoch, known?.floor ?? zeroEpoch) > 0) {
      await run.commit({ type: "dead", ref, claimUid, epoch, late: caller.aborted }); // I4
    }
    failpoint("agent.dead.after-journal");
    return { kind: "released", epoch };
  };

  const inLane = async <T>({ ref }: { ref: VolumeRef }, caller: AbortSignal, act: () => Promise<T>): Promise<T> => {
    refuseFull(ledger.waitsBecause()); // M5
    return await lanes.run(laneOf(ref), caller, act); // M1
  };

  const allHalts = () => new Map([...deadMounts.halts(), ...halts]);
  return {
    publish(order, caller) {
      failpoint("agent.permit.received");
      return inLane(order, caller, () => publishInLane(order, caller));
    },
    release(order, caller) {
      failpoint("agent.release.received");
      return inLane(order, caller, () => releaseInLane(order, caller));
    },
    expand: (order, caller) => lanes.run(laneOf(order.ref), caller, () => expand(order)), // M1
    forget: (ref, claimUid) =>
      lanes.run(laneOf(ref), signal, async () => {
        const known = ledger.volume(ref.volumeUid);
        const run = createVolumeRun(ledger, known);
        if (known?.dead.some((one) => one.claimUid === claimUid && one.late))
          await run.commit({ type: "forgotten", claimUid });
      }),
    inventory: async () => takeInventory(await mounts.look(false), paths, ledger, allHalts(), options.node),
    alone: (publish, wait, act) => lanes.run(publish, wait, act),
    lose: (ref, dead) => lanes.run(laneOf(ref), signal, () => lose(ref, dead)), // M1
    halts: allHalts,
  };
}
