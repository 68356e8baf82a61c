/** The steps towards a mount: stage once, publish per claim, then look at both. */
import type { MountLine } from "@holdfast/model/mountinfo";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Halt } from "../domain/answer-types.ts";
import type { VolumeRecord } from "../domain/events.ts";
import { type MountView, marksUnder, seenAt } from "../domain/mounts.ts";
import { isUnder } from "../domain/paths.ts";
import type { MountMark } from "../domain/types.ts";
import type { Failpoint } from "../failpoints.ts";
import type {
  CallFailure,
  HostDirs,
  MountOrder,
  MountTable,
  NodePlugin,
  PermitContents,
  PublishTokens,
  TokenSource,
} from "../ports.ts";
import { callHalt, failureOf, noTokensHalt, notSeenHalt } from "./halts.ts";
import { type Found, isFound, type PlaceCheck } from "./place-check.ts";
import type { Secured, SecureMount } from "./secure-mount.ts";
import type { VolumeRun } from "./volume-run.ts";

/** What a run needs to make calls. */
export interface StepTools {
  readonly plugin: NodePlugin;
  readonly mounts: MountTable;
  readonly dirs: HostDirs;
  readonly failpoint: Failpoint;
  /** The agent's own life: a caller that goes away does not stop a call. */
  readonly signal: AbortSignal;
  readonly secure: SecureMount;
  /** The mounts as they were before the first call for this volume, if this process saw them. */
  readonly firstView: () => MountView | undefined;
  readonly tokens: Pick<TokenSource, "tokens">;
  /** Owed before the first call for a permit. */
  readonly place: PlaceCheck;
  /** Told when the plugin refused for certain, with its own words, which the journal does not keep. */
  readonly onRefused: (failure: CallFailure) => void;
  /** Told why a publication that the plugin made is not good enough. */
  readonly onInsecure: (why: string) => void;
}

/** Undefined: done, go on. */
export type StepEnd = Promise<Halt | undefined>;

export async function stageStep(run: VolumeRun, claimUid: string, contents: PermitContents, tools: StepTools): StepEnd {
  const { plugin, dirs, failpoint, mounts, signal } = tools;
  let clear = run.volume().stage.phase === "unstaged";
  failpoint("agent.stage.before-journal");
  const order = orderOf(run, claimUid, contents);
  // What follows a stage is known: both intents are one sync.
  const along = phaseOf(run, claimUid) === "permitted" ? [{ type: "publish-intent", claimUid } as const] : [];
  const written = run.commit({ type: "stage-intent" }, ...along); // I4
  if (tools.place.owed()) {
    const found = await foundInPlace(tools, written);
    if (!isFound(found)) {
      if (run.volume().stage.phase === "staging") run.note({ type: "stage-refused" });
      notPublished(run, claimUid);
      return found;
    }
    if (found.stage) run.see({ type: "stage-unknown" });
    if (found.target) run.see({ type: "publish-unknown", claimUid });
    clear &&= !found.stage;
  }
  await written;
  failpoint("agent.stage.after-journal");
  // What is mounted there shows the volume's own owner and mode, and to look at it may take for ever: only the plugin may.
  const covered = !clear && (await mounts.look(false)).at(order.stagingPath).length > 0;
  if (!covered) await dirs.makeStaging(order.stagingPath);
  failpoint("agent.stage.after-mkdir");
  run.staleView();
  const result = await plugin.stage(order, signal);
  failpoint("agent.stage.after-call");
  if (result.kind === "done") {
    // One look serves this and the publication that follows: what it shows is recorded with that.
    run.note({ type: "staged", shown: [], marks: [], before: [] });
    return undefined;
  }
  const phase = run.volume().stage.phase;
  if (phase === "staging" && (await surelyNot(result, order.stagingPath, mounts))) run.note({ type: "stage-refused" });
  else if (result.failure.sent) run.see({ type: "stage-unknown" });
  notPublished(run, claimUid);
  return refusedOrHalt(run, claimUid, result, tools);
}

export async function publishStep(
  run: VolumeRun,
  claimUid: string,
  contents: PermitContents,
  tools: StepTools,
): StepEnd {
  const { plugin, dirs, failpoint, mounts, signal } = tools;
  const bare = orderOf(run, claimUid, contents);
  const told = contents.wantsTokens === true ? await tokensFor(bare, tools) : undefined;
  if (told !== undefined && "halt" in told) {
    notPublished(run, claimUid);
    return told.halt;
  }
  failpoint("agent.publish.before-journal");
  const order = { ...bare, ...told };
  const { target } = order.facts;
  const intended = phaseOf(run, claimUid) === "publishing";
  const written = intended ? run.ready() : run.commit({ type: "publish-intent", claimUid }); // I4
  if (tools.place.owed()) {
    const found = await foundInPlace(tools, written);
    if (!isFound(found)) {
      notPublished(run, claimUid);
      return found;
    }
    if (found.target) run.see({ type: "publish-unknown", claimUid });
  }
  await written;
  failpoint("agent.publish.after-journal");
  await dirs.makeParent(target);
  if (order.facts.attachmentMode === "FILE_SYSTEM") await dirs.makeTarget(target);
  failpoint("agent.publish.after-mkdir");
  run.staleView();
  const result = await plugin.publish(order, signal);
  failpoint("agent.publish.after-call");
  if (result.kind === "done") {
    const view = await mounts.look(false);
    failpoint("agent.publish.after-verify");
    const line = seenAt(view, target);
    if (line === undefined) {
      seeStage(run, tools, view);
      run.see({ type: "publish-unknown", claimUid });
      return notSeenHalt(order.ref, target);
    }
    const secured = await tools.secure(order.ref, order.facts, { view, line });
    if (secured.kind === "insecure") {
      seeStage(run, tools, view);
      run.see({ type: "publish-unknown", claimUid });
      return refusedByUs(run, claimUid, secured, tools);
    }
    run.setView(secured.view, false);
    failpoint("agent.published.before-journal");
    await run.commit(publishedRecord(run, claimUid, tools, secured.view, secured.line));
    failpoint("agent.published.after-journal");
    return undefined;
  }
  if (isStageUnseen(run)) seeStage(run, tools, await mounts.look(false));
  if (phaseOf(run, claimUid) === "publishing" && (await surelyNot(result, target, mounts))) {
    run.note({ type: "publish-refused", claimUid });
    // "Left behind when Publish fails" is what some drivers do with the target they made.
    await dirs.removeTarget(target);
  } else if (result.failure.sent) run.see({ type: "publish-unknown", claimUid });
  return refusedOrHalt(run, claimUid, result, tools);
}

const phaseOf = (run: VolumeRun, claimUid: string) => run.volume().claims[claimUid]?.phase;

/** Its intent is written, and no call of it has left. */
function notPublished(run: VolumeRun, claimUid: string): void {
  if (phaseOf(run, claimUid) === "publishing") run.note({ type: "publish-refused", claimUid });
}

/** Before the call: nothing is owed when none are to be had. */
async function tokensFor(
  { ref, facts }: MountOrder,
  { tokens, signal }: StepTools,
): Promise<{ readonly tokens: PublishTokens } | { readonly halt: Halt }> {
  try {
    return { tokens: await tokens.tokens(ref, facts, signal) };
  } catch (error) {
    if (!isHoldfastError(error)) throw error;
    return { halt: noTokensHalt(ref, error) };
  }
}

/** A look while an intent is on its way to the disk: neither waits for the other, and the call that follows waits for both. */
async function foundInPlace({ mounts, place }: StepTools, written: Promise<void>): Promise<Halt | Found> {
  const [view] = await Promise.all([mounts.look(false), written]);
  return place.judge(view);
}

/** Nothing was published from it yet, so that no record says what it shows. */
function isStageUnseen(run: VolumeRun): boolean {
  const { needed, marks } = run.volume().stage;
  return needed && marks.length === 0;
}

/** Where no `published` follows, the undo looks for that all the same. */
function seeStage(run: VolumeRun, tools: StepTools, view: MountView): void {
  if (!isStageUnseen(run)) return;
  const marks = marksUnder(view, [run.volume().stage.path]);
  run.stageShows({ marks, before: idsBefore(run, tools.firstView(), view, marks) });
}

/** The journal says published: is it there? */
export async function verifyStep(run: VolumeRun, claimUid: string, mounts: MountTable): Promise<MountLine | undefined> {
  const target = run.volume().claims[claimUid]?.facts.target ?? "";
  const view = run.freshView(false) ?? (await mounts.look(false));
  const line = seenAt(view, target);
  if (line === undefined) {
    run.staleView();
    run.see({ type: "mount-lost", claimUid });
  }
  return line;
}

function publishedRecord(
  run: VolumeRun,
  claimUid: string,
  tools: StepTools,
  view: MountView,
  line: MountLine,
): VolumeRecord {
  const { stage, claims } = run.volume();
  const target = claims[claimUid]?.facts.target ?? line.path;
  const marks = marksUnder(view, stage.needed ? [stage.path, target] : [target]);
  const before = idsBefore(run, tools.firstView(), view, marks);
  const shown = stage.needed ? view.under(stage.path).map(({ id }) => id) : [];
  return { type: "published", claimUid, mountId: line.id, shown, marks, before };
}

/** Which of the mounts with these marks are not ours: they were there first. */
export function idsBefore(
  run: VolumeRun,
  firstView: MountView | undefined,
  now: MountView,
  marks: readonly MountMark[],
): readonly number[] {
  const ours = ownPaths(run);
  // A restart between the first call and its answer loses the first view; what lies outside of our paths now was not
  // made by a plugin that was given our paths.
  const view = firstView ?? now;
  return view
    .sharing(marks)
    .filter((line) => !ours.some((path) => isUnder(line.path, path)))
    .map((line) => line.id);
}

function ownPaths(run: VolumeRun): readonly string[] {
  const { stage, claims } = run.volume();
  return [stage.path, ...Object.values(claims).map((claim) => claim.facts.target)];
}

export function orderOf(run: VolumeRun, claimUid: string, contents: PermitContents): MountOrder {
  const { ref, stage, claims } = run.volume();
  const claim = claims[claimUid];
  if (claim === undefined) throw new Error(`claim ${claimUid} is not held`);
  return { ref, facts: claim.facts, contents, stagingPath: stage.needed ? stage.path : "" };
}

type NotDone = { readonly kind: "refused" | "unknown"; readonly failure: CallFailure };

/**
 * This very call changed nothing: it was never sent, or the plugin said so and the kernel agrees. A driver that mounts and
 * then fails at the owner or the mode refuses too, and ALREADY_EXISTS says itself that something is there.
 */
async function surelyNot({ kind, failure }: NotDone, path: string, mounts: MountTable): Promise<boolean> {
  if (!failure.sent) return true;
  if (kind !== "refused" || failure.code === "ALREADY_EXISTS") return false;
  return (await mounts.look(false)).under(path).length === 0;
}

/** The plugin did what it could, and it is not enough: undone as if it had refused. */
function refusedByUs(
  run: VolumeRun,
  claimUid: string,
  { failure, message }: Extract<Secured, { kind: "insecure" }>,
  tools: StepTools,
): undefined {
  tools.onInsecure(message);
  run.note({ type: "release-intent", claimUid, failure });
}

/** Refused for good: the claim ends, what may be there is undone first. Everything else is asked again. */
function refusedOrHalt(run: VolumeRun, claimUid: string, result: NotDone, tools: StepTools): Halt | undefined {
  const { failure } = result;
  if (result.kind === "refused" && failure.advice === "fail") {
    tools.onRefused(failure);
    run.note({ type: "release-intent", claimUid, failure: failureOf(failure) });
    return undefined;
  }
  const { ref, claims } = run.volume();
  return callHalt(ref, failure, claims[claimUid]?.facts);
}
