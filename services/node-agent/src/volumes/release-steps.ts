/** The steps towards nothing: unpublish, unstage after the last, look, and only then the proof. */
import { accessRules } from "@holdfast/model/access";
import type { Epoch } from "@holdfast/model/epoch";
import { leftovers, type MountView, marksUnder } from "../domain/mounts.ts";
import { isLast, leavesWithStage } from "../domain/next-step.ts";
import type { VolumePaths } from "../domain/paths.ts";
import type { MountMark } from "../domain/types.ts";
import type { MountTable, NodePlugin, UndoCause } from "../ports.ts";
import { leftoverHalt, orphanHalt } from "./halts.ts";
import type { LingeringMounts } from "./lingering-mounts.ts";
import { idsBefore, type StepEnd, type StepTools } from "./mount-steps.ts";
import type { VolumeRun } from "./volume-run.ts";

type UndoTools = Pick<StepTools, "dirs" | "failpoint" | "mounts" | "signal"> & {
  readonly plugin: NodePlugin;
  readonly cause: UndoCause;
  readonly lingering: LingeringMounts;
};

export async function unpublishStep(run: VolumeRun, claimUid: string, tools: UndoTools): StepEnd {
  const { plugin, dirs, failpoint, mounts, signal, cause, lingering } = tools;
  failpoint("agent.unpublish.before-journal");
  const along = leavesWithStage(run.volume(), claimUid) ? [{ type: "unstage-intent" } as const] : [];
  await run.commit({ type: "unpublish-intent", claimUid }, ...along); // I4
  failpoint("agent.unpublish.after-journal");
  const { ref, claims } = run.volume();
  const target = claims[claimUid]?.facts.target ?? "";
  const undone = { ref, claimUid, path: target, method: "NodeUnpublishVolume" } as const;
  run.staleView();
  const result = await plugin.unpublish(ref, target, signal, cause);
  failpoint("agent.unpublish.after-call");
  if (result.kind !== "done" && result.failure.advice !== "check-mounts") {
    run.see({ type: "unpublish-unknown", claimUid });
    return await lingering.failed(undone, result.failure);
  }
  let view = (await dirs.vacate(target)) ? undefined : await mounts.look(false);
  failpoint("agent.unpublish.after-verify");
  if (view !== undefined && view.under(target).length > 0) {
    const halt = await lingering.stays(undone, codeOf(result));
    if (halt !== undefined) {
      run.see({ type: "unpublish-unknown", claimUid });
      return halt;
    }
    view = await mounts.look(false);
  }
  lingering.over(target);
  if (view !== undefined) {
    run.setView(view, false);
    await dirs.removeTarget(target);
  }
  failpoint("agent.unpublish.after-rmdir");
  run.note({ type: "unpublished", claimUid });
  return undefined;
}

export async function unstageStep(run: VolumeRun, volumePaths: VolumePaths, tools: UndoTools): StepEnd {
  const { plugin, dirs, failpoint, mounts, signal, cause, lingering } = tools;
  // "NodeUnstageVolume comes after every NodeUnpublishVolume": those of a lost journal too.
  if (run.volume().stage.marks.length === 0 || !(await dirs.vacate(volumePaths.publish))) {
    const staged = await viewOf(run, mounts, false);
    const [stray] = staged.under(volumePaths.publish);
    if (stray !== undefined) return orphanHalt(run.volume().ref, stray.path);
    const marks = marksUnder(staged, [run.volume().stage.path]);
    run.stageShows({ marks, before: idsBefore(run, undefined, staged, marks.filter(isNewTo(run))) });
  }
  failpoint("agent.unstage.before-journal");
  const intended = run.volume().stage.phase === "unstaging";
  await (intended ? run.ready() : run.commit({ type: "unstage-intent" })); // I4
  failpoint("agent.unstage.after-journal");
  const { ref, stage } = run.volume();
  const undone = { ref, claimUid: cause.claim, path: stage.path, method: "NodeUnstageVolume" } as const;
  run.staleView();
  const result = await plugin.unstage(ref, stage.path, signal, cause);
  failpoint("agent.unstage.after-call");
  if (result.kind !== "done" && result.failure.advice !== "check-mounts") {
    run.see({ type: "unstage-unknown" });
    return await lingering.failed(undone, result.failure);
  }
  const everywhere = isSingleNode(run);
  let view = await mounts.look(everywhere);
  if (view.under(stage.path).length > 0) {
    const halt = await lingering.stays(undone, codeOf(result));
    if (halt !== undefined) {
      run.see({ type: "unstage-unknown" });
      return halt;
    }
    view = await mounts.look(everywhere);
  }
  lingering.over(stage.path);
  run.setView(view, everywhere);
  run.note({ type: "unstaged" });
  return undefined;
}

export interface ReleaseContext {
  readonly paths: VolumePaths;
  /** The epoch asked for. */
  readonly epoch: Epoch;
  /** Which push of the order, for traces. */
  readonly attempt?: number | undefined;
  /** Nobody is left to hear the answer. */
  readonly late: () => boolean;
}

/** "Verify before RELEASED": the answer lets a controller detach, so that nothing of the volume may be mounted (I2). */
export async function releaseStep(
  run: VolumeRun,
  claimUid: string,
  context: ReleaseContext,
  tools: Pick<StepTools, "dirs" | "failpoint" | "mounts">,
): StepEnd {
  const { dirs, failpoint } = tools;
  const { ref, stage, claims } = run.volume();
  const target = claims[claimUid]?.facts.target ?? "";
  const last = isLast(run.volume(), claimUid);
  const view = await viewOf(run, tools.mounts, last && isSingleNode(run));
  const [left] = leftovers(view, {
    paths: last ? [context.paths.staging, context.paths.publish] : [target],
    marks: stage.marks,
    before: stage.before,
    singleNode: last && isSingleNode(run),
  });
  failpoint("agent.released.after-verify");
  if (left !== undefined) return leftoverHalt(ref, left);
  failpoint("agent.released.before-journal");
  // The stage is gone: whoever waited for that is released too, and told of it as soon as a controller listens.
  for (const other of last ? waitingForStage(run, claimUid) : []) run.note({ type: "released", late: true, ...other });
  const written = run.commit({ type: "released", claimUid, epoch: context.epoch, late: context.late() }); // I4: before the answer
  const { staging, publish } = context.paths;
  // Empty directories, which the disk need not be waited for.
  await Promise.all([written, ...(last ? [staging, publish].map(dirs.removeDirectory) : [])]);
  failpoint("agent.released.after-journal");
  return undefined;
}

/** Claims on their way out that have nothing mounted any more: kept only because the stage could not go. */
function waitingForStage(run: VolumeRun, claimUid: string) {
  return Object.values(run.volume().claims)
    .filter(({ facts, goal }) => goal === "released" && facts.claimUid !== claimUid)
    .map(({ facts }) => ({ claimUid: facts.claimUid, epoch: facts.epoch }));
}

/** One look serves all that follows it, as long as no call came in between. */
async function viewOf(run: VolumeRun, mounts: MountTable, everywhere: boolean): Promise<MountView> {
  return run.freshView(everywhere) ?? (await mounts.look(everywhere));
}

/** What was there first of a mark that is known was told when it was learned. */
function isNewTo(run: VolumeRun) {
  const { marks } = run.volume().stage;
  return (mark: MountMark): boolean => !marks.some(({ device, root }) => device === mark.device && root === mark.root);
}

/** By the modes of whoever holds it; marks are looked for on the whole host only for these. */
function isSingleNode(run: VolumeRun): boolean {
  return Object.values(run.volume().claims).some((claim) => !accessRules[claim.facts.accessMode].manyNodes);
}

const codeOf = (result: { readonly kind: string; readonly failure?: { readonly code: string } }): string =>
  result.failure?.code ?? "OK";
