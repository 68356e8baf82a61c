import { WatchKind } from "@holdfast/shared/gen/holdfast/v1/common";
import {
  type Modification,
  type NodeExpansion,
  type Volume,
  VolumeChangeState,
  VolumeState,
} from "@holdfast/shared/gen/holdfast/v1/volume";
import { CliFailure } from "../../frame/cli-failure.ts";
import type { Context } from "../../frame/context.ts";
import { exitCodes } from "../../frame/exit-code.ts";
import { blockedFailure, overFailure } from "../stuck-failure.ts";
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
  /** What it waits for, when that is a change of the volume and not the volume. */
  readonly part?: {
    /** For people: "the expansion". */
    readonly what: string;
    of(volume: Volume): VolumeChange | undefined;
    /** The command that asks for another one, for when it was refused. */
    readonly other: string;
  };
}

interface VolumeChange extends Pick<Modification, "state" | "blocked" | "lastError"> {
  readonly nodes?: readonly Pick<NodeExpansion, "blocked">[];
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

const failIfStuck = (ref: VolumeRef, volume: Volume | undefined, { part }: VolumeGoal): void => {
  if (volume === undefined) return;
  const what = `volume ${volumeName(ref)}`;
  const explain = `holdfast volume explain ${ref.id} --namespace ${ref.namespace}`;
  if (volume.state === VolumeState.VOLUME_STATE_FAILED)
    throw overFailure(what, "FAILED", volume.lastError, [
      explain,
      `holdfast volume delete ${ref.id} --namespace ${ref.namespace}`,
    ]);
  const awaited = part?.of(volume);
  const ofPart = `${part?.what ?? ""} of ${what}`;
  if (awaited?.state === VolumeChangeState.VOLUME_CHANGE_STATE_REFUSED)
    throw overFailure(ofPart, "REFUSED", awaited.lastError, [part?.other ?? "", explain]);
  if (volume.blocked !== undefined) throw blockedFailure(what, volume.blocked, explain);
  const stuck = [awaited, ...(awaited?.nodes ?? [])].find((one) => one?.blocked !== undefined);
  if (stuck?.blocked !== undefined) throw blockedFailure(ofPart, stuck.blocked, explain);
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
      failIfStuck(ref, volume, goal);
      return undefined;
    },
    look: `holdfast volume explain ${ref.id} --namespace ${ref.namespace}`,
    stop: goal.stop,
  });
