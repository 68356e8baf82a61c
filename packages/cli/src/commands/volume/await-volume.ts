import { WatchKind } from "@holdfast/shared/gen/holdfast/v1/common";
import { type Volume, VolumeState } from "@holdfast/shared/gen/holdfast/v1/volume";
import { CliFailure } from "../../frame/cli-failure.ts";
import type { Context } from "../../frame/context.ts";
import { exitCodes } from "../../frame/exit-code.ts";
import { lastErrorText } from "../resource-words.ts";
import { volumeName, volumeStates } from "./volume-words.ts";

export interface VolumeRef {
  readonly namespace: string;
  readonly id: string;
}

interface Seen {
  /** As it is now; as it was last when it is gone. */
  readonly volume: Volume | undefined;
  readonly gone: boolean;
  readonly line: string;
}

export interface VolumeGoal {
  /** For people: "to be made". */
  readonly doing: string;
  reached(volume: Volume | undefined, gone: boolean): boolean;
  readonly stop: string;
}

/** The first sentence of its explanation: what it waits for. */
const findingOf = async ({ clients }: Context, ref: VolumeRef, signal: AbortSignal): Promise<string | undefined> => {
  try {
    return (await clients.volumes.explainVolume(ref, { signal })).findings[0];
  } catch {
    return undefined; // it may be gone already: the watch says so
  }
};

async function* watchVolume(context: Context, ref: VolumeRef, signal: AbortSignal): AsyncIterable<Seen> {
  let volume: Volume | undefined;
  const filter = { namespace: ref.namespace, idPrefix: ref.id };
  for await (const message of context.clients.volumes.watchVolumes({ filter }, { signal })) {
    if (message.kind === WatchKind.WATCH_KIND_SYNCED) {
      if (volume === undefined) yield { volume, gone: true, line: "it is not there" };
      continue;
    }
    if (message.volume?.id !== ref.id) continue;
    volume = message.volume;
    const gone = message.kind === WatchKind.WATCH_KIND_REMOVED;
    const finding = gone ? "it is gone" : await findingOf(context, ref, signal);
    yield { volume, gone, line: `${volumeName(ref)} ${volumeStates.of(volume.state)}${finding ? `: ${finding}` : ""}` };
  }
}

const failIfStuck = (ref: VolumeRef, volume: Volume | undefined): void => {
  const explain = `holdfast volume explain ${ref.id} --namespace ${ref.namespace}`;
  if (volume?.state === VolumeState.VOLUME_STATE_FAILED)
    throw new CliFailure({
      exitCode: exitCodes.failed,
      reason: volume.lastError?.reason ?? "FAILED",
      message: `volume ${volumeName(ref)} is FAILED: ${lastErrorText(volume.lastError)}`,
      next: [explain, `holdfast volume delete ${ref.id} --namespace ${ref.namespace}`],
    });
  if (volume?.blocked !== undefined)
    throw new CliFailure({
      exitCode: exitCodes.blocked,
      reason: volume.blocked.reason,
      message: `volume ${volumeName(ref)} is blocked: ${volume.blocked.message}`,
      details: volume.blocked.missingProof === "" ? [] : [`missing proof: ${volume.blocked.missingProof}`],
      next: [...(volume.blocked.clearWith === "" ? [] : [volume.blocked.clearWith]), explain],
    });
};

/** Until the goal, with the volume as it is then; a volume that failed or is blocked ends the wait with words. */
export const awaitVolume = (
  context: Context,
  ref: VolumeRef,
  goal: VolumeGoal,
): Promise<{ volume: Volume | undefined }> =>
  context.wait({
    what: `volume ${volumeName(ref)} ${goal.doing}`,
    watch: (signal) => watchVolume(context, ref, signal),
    line: ({ line }) => line,
    settled: ({ volume, gone }) => {
      if (goal.reached(volume, gone)) return { volume: gone ? undefined : volume };
      if (gone)
        throw new CliFailure({
          exitCode: exitCodes.notFound,
          reason: "VOLUME_NOT_FOUND",
          message: `volume ${volumeName(ref)} went away meanwhile`,
        });
      failIfStuck(ref, volume);
      return undefined;
    },
    look: `holdfast volume explain ${ref.id} --namespace ${ref.namespace}`,
    stop: goal.stop,
  });
