/** Takes a claim step by step to where it should be, until it is there or cannot go on now. */
import type { MountLine } from "@holdfast/model/mountinfo";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Halt } from "../domain/answer-types.ts";
import { nextStep, type Step } from "../domain/next-step.ts";
import type { MountFailure } from "../domain/types.ts";
import type { Failpoint } from "../failpoints.ts";
import type {
  DeadMounts,
  HostDirs,
  MountTable,
  NodePlugin,
  NodePlugins,
  PermitContents,
  TokenSource,
} from "../ports.ts";
import { endWords, nameVolume, noEndHalt, pluginAwayHalt } from "./halts.ts";
import type { LingeringMounts } from "./lingering-mounts.ts";
import { publishStep, type StepTools, stageStep, verifyStep } from "./mount-steps.ts";
import { type ReleaseContext, releaseStep, unpublishStep, unstageStep } from "./release-steps.ts";
import type { SecureMount } from "./secure-mount.ts";
import type { VolumeRun } from "./volume-run.ts";

export interface VolumeDriveOptions {
  readonly plugins: NodePlugins;
  readonly mounts: MountTable;
  readonly dirs: HostDirs;
  readonly failpoint: Failpoint;
  readonly signal: AbortSignal;
  readonly secure: SecureMount;
  readonly deadMounts: Pick<DeadMounts, "clear">;
  readonly lingering: LingeringMounts;
  readonly tokens: Pick<TokenSource, "tokens">;
}

export type MountEnd =
  | { readonly kind: "published"; readonly line: MountLine }
  /** The plugin refused; all is undone and RELEASED is journalled. */
  | { readonly kind: "ended"; readonly failure: MountFailure; readonly message: string }
  | { readonly kind: "halted"; readonly halt: Halt };

export interface VolumeDrive {
  mount(
    run: VolumeRun,
    claimUid: string,
    contents: PermitContents,
    first: Pick<StepTools, "firstView" | "place">,
    context: ReleaseContext,
  ): Promise<MountEnd>;
  /** Undefined: released. */
  release(run: VolumeRun, claimUid: string, context: ReleaseContext): Promise<Halt | undefined>;
}

/** More steps than any way has; a mount that vanishes as soon as it is made must not keep the lane for ever. */
const maxSteps = 16;

export function createVolumeDrive(options: VolumeDriveOptions): VolumeDrive {
  const { plugins, mounts, dirs, failpoint, signal, secure, deadMounts, lingering, tokens } = options;

  type Way = { readonly claimUid: string; readonly context: ReleaseContext; readonly forward: Forward | undefined };
  type Forward = Pick<StepTools, "firstView" | "place" | "onRefused" | "onInsecure"> & {
    readonly contents: PermitContents;
  };

  const withPlugin = (run: VolumeRun, act: (plugin: NodePlugin) => Promise<Halt | undefined>) => {
    const { ref } = run.volume();
    const plugin = plugins.get(ref.plugin);
    if (plugin === undefined) return Promise.resolve(pluginAwayHalt(ref, "its plugin is not there"));
    return act(plugin);
  };

  const going = (run: VolumeRun, way: Way, step: typeof stageStep) =>
    withPlugin(run, (plugin) => {
      const { forward } = way;
      if (forward === undefined) throw new Error("a release needs no stage");
      return step(run, way.claimUid, forward.contents, {
        ...{ plugin, mounts, dirs, failpoint, signal, secure, tokens },
        ...forward,
      });
    });

  const undoTools = (plugin: NodePlugin, { claimUid: claim, context: { attempt } }: Way) => {
    const cause = attempt === undefined ? { claim } : { claim, attempt };
    return { plugin, mounts, dirs, failpoint, signal, cause, lingering };
  };

  const steps: Record<Exclude<Step, "verify">, (run: VolumeRun, way: Way) => Promise<Halt | undefined>> = {
    stage: (run, way) => going(run, way, stageStep),
    publish: (run, way) => going(run, way, publishStep),
    unpublish: (run, way) => withPlugin(run, (plugin) => unpublishStep(run, way.claimUid, undoTools(plugin, way))),
    unstage: (run, way) => withPlugin(run, (plugin) => unstageStep(run, way.context.paths, undoTools(plugin, way))),
    release: (run, way) => releaseStep(run, way.claimUid, way.context, { mounts, dirs, failpoint }),
    none: (run) => Promise.reject(new Error(`${nameVolume(run.volume().ref)}: no step leads on`)),
  };

  const perform = async (step: Exclude<Step, "verify">, run: VolumeRun, way: Way): Promise<Halt | undefined> => {
    try {
      return await steps[step](run, way);
    } catch (error) {
      if (!isHoldfastError(error)) throw error;
      // A directory that is not as it has to be: nothing was called yet.
      const stop = { message: `${nameVolume(run.volume().ref)}: ${error.message}`, method: "", code: "" };
      const { reason, metadata } = error;
      return reason === "HOST_PATH_UNSAFE"
        ? { ...stop, reason, blocked: { missingProof: "a safe directory", clearWith: metadata["cure"] ?? "" } }
        : { ...stop, reason };
    }
  };

  return {
    async mount(run, claimUid, contents, first, context) {
      let failure: MountFailure | undefined = run.volume().claims[claimUid]?.failure;
      let words = "";
      const onRefused: StepTools["onRefused"] = (it) => {
        words = `${nameVolume(run.volume().ref)}: ${it.method} answered ${it.code}: ${it.message}`;
      };
      const onInsecure: StepTools["onInsecure"] = (why) => {
        words = `${nameVolume(run.volume().ref)}: ${why}`;
      };
      const dead = await deadMounts.clear(run.volume());
      if (dead !== undefined) return { kind: "halted", halt: dead };
      const way: Way = { claimUid, context, forward: { contents, ...first, onRefused, onInsecure } };
      for (let count = 0; count < maxSteps; count += 1) {
        const claim = run.volume().claims[claimUid];
        if (claim === undefined && failure !== undefined) {
          return { kind: "ended", failure, message: words === "" ? endWords(run.volume().ref, failure) : words };
        }
        failure = claim?.failure;
        const step = nextStep(run.volume(), claimUid);
        if (step === "verify") {
          const line = await verifyStep(run, claimUid, mounts);
          if (line !== undefined) return { kind: "published", line };
          continue;
        }
        const halt = await perform(step, run, way);
        if (halt !== undefined) return { kind: "halted", halt };
      }
      return { kind: "halted", halt: noEndHalt(run.volume().ref) };
    },

    async release(run, claimUid, context) {
      const way: Way = { claimUid, context, forward: undefined };
      for (let count = 0; count < maxSteps; count += 1) {
        if (run.volume().claims[claimUid] === undefined) return undefined;
        const step = nextStep(run.volume(), claimUid);
        if (step === "verify") throw new Error("a release verifies by its own step");
        const halt = await perform(step, run, way);
        if (halt !== undefined) return halt;
      }
      return noEndHalt(run.volume().ref);
    },
  };
}
