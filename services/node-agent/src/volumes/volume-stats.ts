/**
 * How full the volumes here are, and how they are: their condition and health as this node's half of the plugin sees them.
 *
 * S1 One NodeGetVolumeStats at a time per volume, however many workloads share it and ask; its answer serves them all.
 * S2 Every question ends by its deadline, whatever the file system does: a hung one is asked through its plugin only.
 * S3 A volume that missed its deadline is left alone for a while, each time for longer: a plugin has few threads to lose.
 */
import type { VolumeHealthEntry } from "@holdfast/model/health";
import type { Clock } from "@holdfast/shared/async/clock";
import { createLimiter } from "@holdfast/shared/async/limiter";
import type { Logger } from "@holdfast/shared/log/logger";
import { seenAt } from "../domain/mounts.ts";
import type { HeldClaim, VolumeState } from "../domain/types.ts";
import type { MeasureError, VolumeFigures, VolumeMeasure } from "../domain/volume-figures.ts";
import type { Ledger, MountTable, NodePlugins } from "../ports.ts";
import { callHalt, nameVolume, pluginAwayHalt } from "./halts.ts";
import { namesOf } from "./order-facts.ts";

export interface VolumeStats {
  /** Never rejects for what the volume is like: that is its `error`. Undefined: nothing of it is published here. */
  volumeStats(volumeUid: string): Promise<VolumeMeasure | undefined>;
  /** Uids of all volumes that are published here. */
  published(): readonly string[];
}

export interface VolumeStatsOptions {
  readonly ledger: Pick<Ledger, "volume" | "volumes">;
  readonly plugins: NodePlugins;
  readonly mounts: Pick<MountTable, "look">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly deadlineMs: number;
  /** How old figures may be before the plugin is asked again. */
  readonly maxAgeMs: number;
  readonly signal: AbortSignal;
}

interface Sample {
  readonly figures: VolumeFigures;
  readonly measuredAt?: number;
  readonly error?: MeasureError;
  readonly health?: readonly VolumeHealthEntry[];
  /** By the monotonic clock. */
  readonly takenAt: number;
  /** Deadlines missed one after the other. */
  readonly missed: number;
}

const maxAtOnce = 16;
const longestPauseMs = 300_000;

export function createVolumeStats(options: VolumeStatsOptions): VolumeStats {
  const { ledger, plugins, mounts, clock, log, deadlineMs, maxAgeMs, signal } = options;
  const limiter = createLimiter({ name: "volume statistics", limit: maxAtOnce, maxQueued: Number.POSITIVE_INFINITY });
  const samples = new Map<string, Sample>();
  const asking = new Map<string, Promise<Sample>>();

  const failed = (before: Sample | undefined, error: Omit<MeasureError, "at">): Sample => ({
    figures: before?.figures ?? { usage: [] },
    ...(before?.measuredAt === undefined ? {} : { measuredAt: before.measuredAt }),
    error: { ...error, at: clock.now() },
    takenAt: clock.monotonic(),
    missed: error.code === "DEADLINE_EXCEEDED" ? (before?.missed ?? 0) + 1 : 0,
  });

  const measure = async (volume: VolumeState, { facts }: HeldClaim): Promise<Sample> => {
    const { ref, stage } = volume;
    const { target } = facts;
    const before = samples.get(ref.volumeUid);
    const plugin = plugins.get(ref.plugin);
    if (plugin === undefined) return failed(before, pluginAwayHalt(ref, "its plugin is not there"));
    const mounted = seenAt(await mounts.look(false), target) !== undefined;
    // Of what is being taken away by now nothing is asked: its unpublish may have left.
    if (!mounted || ledger.volume(ref.volumeUid)?.claims[facts.claimUid]?.phase !== "published") {
      const message = `${nameVolume(ref)}: nothing is mounted at ${target}`;
      return failed(before, { reason: "MOUNT_MISSING", message, method: "", code: "" });
    }
    const place = { ref, target, stagingPath: stage.needed ? stage.path : "" };
    const answer = await plugin.stats(place, deadlineMs, signal); // S2
    // One that hung is not asked a second thing. S3
    const hung = answer.kind !== "done" && answer.failure.code === "DEADLINE_EXCEEDED";
    const health = hung ? undefined : await plugin.health(place, deadlineMs, signal);
    const told = health === undefined ? {} : { health };
    if (answer.kind === "done") {
      return { figures: answer.value, measuredAt: clock.now(), takenAt: clock.monotonic(), missed: 0, ...told };
    }
    const sample = failed(before, callHalt(ref, answer.failure));
    log.warn("a volume could not be measured", { ...namesOf(ref), code: answer.failure.code, missed: sample.missed });
    return { ...sample, ...told };
  };

  const isFresh = (sample: Sample): boolean => {
    const pause = sample.missed === 0 ? maxAgeMs : Math.min(longestPauseMs, deadlineMs * 2 ** sample.missed); // S3
    return clock.monotonic() - sample.takenAt < pause;
  };

  /** S1 */
  const sampleOf = (volume: VolumeState, claim: HeldClaim): Promise<Sample> => {
    const { volumeUid } = volume.ref;
    const known = samples.get(volumeUid);
    if (known !== undefined && isFresh(known)) return Promise.resolve(known);
    const under = asking.get(volumeUid);
    if (under !== undefined) return under;
    const asked = limiter
      .run(signal, () => measure(volume, claim))
      .then((sample) => {
        samples.set(volumeUid, sample);
        return sample;
      })
      .finally(() => asking.delete(volumeUid));
    asking.set(volumeUid, asked);
    return asked;
  };

  return {
    async volumeStats(volumeUid) {
      const volume = ledger.volume(volumeUid);
      const [claim, ...others] = publishedOf(volume);
      if (volume === undefined || claim === undefined) {
        samples.delete(volumeUid);
        return undefined;
      }
      const { figures, measuredAt, error, health } = await sampleOf(volume, claim);
      return {
        volumeUid,
        figures,
        sharedBy: others.length + 1,
        ...(measuredAt === undefined ? {} : { measuredAt }),
        ...(error === undefined ? {} : { error }),
        ...(health === undefined ? {} : { health }),
      };
    },
    published: () =>
      [...ledger.volumes()].filter((volume) => publishedOf(volume).length > 0).map(({ ref }) => ref.volumeUid),
  };
}

const publishedOf = (volume: VolumeState | undefined): readonly HeldClaim[] =>
  Object.values(volume?.claims ?? {}).filter(({ phase }) => phase === "published");
