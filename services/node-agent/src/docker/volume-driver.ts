/**
 * Docker's volume driver: what each call means for the volumes and claims of this host. https://docs.docker.com/engine/extend/plugins_volume
 *
 * VD1 One claim stands for all mounts of a volume on this node, by the same way as every workload of this host.
 * VD2 A mount that was not answered is taken back: dockerd gives back only what it was told of.
 * VD3 Each call ends within what dockerd waits for it.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { invalidArgument, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import { soleIdBeside } from "../domain/docker-book.ts";
import { type VolumeOptions, type VolumeTemplates, wantedVolume } from "../domain/wanted-volume.ts";
import type { FoundVolume, HostVolumes } from "../host-volumes/host-volumes.ts";
import type { ClaimedVolume, SoleClaims } from "../host-volumes/sole-claims.ts";
import { noFileSystem, notMade, stillMounted } from "../host-volumes/still-held.ts";
import type { KnownVolumes } from "./known-volumes.ts";
import type { MountCall, MountIds } from "./mount-ids.ts";
import { mountedHere, soleWriter, volumeNotFound } from "./volume-errors.ts";

export interface ShownVolume {
  readonly volume: FoundVolume;
  /** Empty while it is not mounted here. */
  readonly mountpoint: string;
}

export interface Mounted {
  readonly mountpoint: string;
  /** To be called when dockerd was not told. */
  unheard(): Promise<void>;
}

export interface VolumeDriver {
  create(name: string, options: VolumeOptions, signal: AbortSignal): Promise<void>;
  remove(name: string, signal: AbortSignal): Promise<void>;
  /** The id counts until `unmount`. */
  mount(name: string, id: string, signal: AbortSignal): Promise<Mounted>;
  unmount(name: string, id: string, signal: AbortSignal): Promise<void>;
  get(name: string, signal: AbortSignal): Promise<ShownVolume>;
  path(name: string): Promise<string>;
  list(signal: AbortSignal): Promise<readonly ShownVolume[]>;
}

export interface VolumeDriverOptions {
  readonly namespace: string;
  readonly volumes: HostVolumes;
  readonly known: KnownVolumes;
  readonly ids: MountIds;
  readonly claims: SoleClaims;
  readonly templates: () => Promise<VolumeTemplates>;
  /** The life of dockerd that is there now; empty: not known. */
  readonly daemon: () => Promise<string>;
  /** How long a mount may take. */
  readonly waitMs: number;
  readonly clock: Clock;
  readonly log: Logger;
  /** The agent's life. */
  readonly signal: AbortSignal;
}

/** VD3: dockerd waits for two minutes. */
const makeMs = 60_000;
const removeMs = 30_000;
/** A mount of the same volume waits for it. */
const unmountMs = 20_000;
/** The agent may have started a moment ago. */
const reachMs = 10_000;

export function createVolumeDriver(options: VolumeDriverOptions): VolumeDriver {
  const { namespace, volumes, known, ids, claims, clock, log, signal: life } = options;

  const viewOf = (name: string): Promise<ClaimedVolume | undefined> => claims.find(ids.workloadOf(name));
  const mountpointOf = async (name: string): Promise<string> =>
    ids.of(name).length === 0 ? "" : ((await viewOf(name))?.mounts[0]?.hostPath ?? "");

  const reachingMs = Math.min(reachMs, options.waitMs);
  const reaching = <T>(signal: AbortSignal, ask: () => Promise<T>): Promise<T> =>
    claims.reaching(reachingMs, signal, ask);

  const prepared = async (volume: string, until: number, signal: AbortSignal): Promise<ClaimedVolume> => {
    const claim = { name: ids.workloadOf(volume), volume, until, waitMs: options.waitMs };
    return await claims.mounted(claim, reachingMs, signal).catch((error: unknown) => {
      if (isHoldfastError(error) && error.reason === "VOLUME_NOT_FOUND") known.forget(volume);
      throw error;
    });
  };

  const mountpointFor = async ({ volume, id }: MountCall, until: number, signal: AbortSignal): Promise<string> => {
    const { mounts, claims } = await prepared(volume, until, signal);
    const [mount] = mounts;
    if (mount === undefined || mount.device !== undefined) throw noFileSystem(namespace, volume, "Docker");
    const mode = claims[0]?.accessMode ?? "UNKNOWN";
    if (soleIdBeside(ids.of(volume), id, mode) !== undefined) throw soleWriter(namespace, volume);
    signal.throwIfAborted();
    return mount.hostPath;
  };

  const giveUp = async (call: MountCall): Promise<void> => {
    // An agent that stops leaves it to its next life, to which dockerd turns with the same id.
    if (life.aborted) return;
    await ids.giveUp(call).catch((error: unknown) => {
      log.error("a mount of Docker that failed is not taken back", { volume: call.volume, id: call.id, error });
    });
  };

  return {
    async create(name, asked, signal) {
      const wanted = wantedVolume(name, asked, await options.templates());
      if ("faults" in wanted) throw invalidArgument(wanted.faults);
      const { atOnce } = wanted.volume;
      const volume = await reaching(signal, () => volumes.make(wanted.volume, atOnce ? makeMs : 0, signal));
      known.learn(volume);
      if (volume.state === "FAILED" || (atOnce && volume.state === "CREATING"))
        throw notMade(namespace, volume, `docker volume rm ${volume.id}`);
    },

    async remove(name, signal) {
      const count = ids.of(name).length;
      if (count > 0) throw mountedHere(namespace, name, count);
      await reaching(signal, () => volumes.remove(name, removeMs, signal));
      known.forget(name);
    },

    async mount(name, id, signal) {
      // VD3: also when the unmount before it takes its time.
      const until = clock.monotonic() + options.waitMs;
      const call = await ids.want(name, id, await options.daemon(), signal);
      try {
        const mountpoint = await mountpointFor(call, until, signal);
        await ids.answered(call);
        // VD2: the caller may have gone while that was written.
        signal.throwIfAborted();
        return { mountpoint, unheard: () => giveUp(call) };
      } catch (error) {
        await giveUp(call); // VD2
        throw error;
      }
    },

    async unmount(name, id, signal) {
      const left = await ids.drop(name, [id], unmountMs, signal);
      const [first] = left;
      if (first !== undefined)
        throw stillMounted(namespace, name, first.blocked?.message ?? first.failure?.message ?? "");
    },

    async get(name, signal) {
      const volume = await known.get(name, signal);
      if (volume === undefined) throw volumeNotFound(namespace, name);
      return { volume, mountpoint: await mountpointOf(name) };
    },

    path: mountpointOf,

    async list(signal) {
      const all = await known.list(signal);
      return await Promise.all(all.map(async (volume) => ({ volume, mountpoint: await mountpointOf(volume.id) })));
    },
  };
}
