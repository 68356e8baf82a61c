/**
 * The volumes that Docker may ask about, from memory. dockerd asks every plugin about every name, also those of its own volumes, and waits.
 *
 * KV1 An answer about one name never waits longer than `patienceMs`, whatever controllers do; without their word a name that is not in
 *     memory is not there.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { linkSignals, waitFor } from "@holdfast/shared/async/signals";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { FoundVolume, HostVolumes } from "../host-volumes/host-volumes.ts";

export interface KnownVolumes {
  get(id: string, signal: AbortSignal): Promise<FoundVolume | undefined>;
  /** As controllers have them, or as they are remembered while none answers. */
  list(signal: AbortSignal): Promise<readonly FoundVolume[]>;
  learn(volume: FoundVolume): void;
  forget(id: string): void;
  /** Fills the memory as soon as a controller answers. */
  warm(): Promise<void>;
}

export interface KnownVolumesOptions {
  readonly volumes: Pick<HostVolumes, "find" | "list">;
  /** The ids that the journal knows mounts of. */
  readonly mounted: () => readonly string[];
  readonly clock: Clock;
  /** The agent's life. */
  readonly signal: AbortSignal;
}

const patienceMs = 40;
const askMs = 5_000;
const retryMs = 2_000;

export function createKnownVolumes({ volumes, mounted, clock, signal: life }: KnownVolumesOptions): KnownVolumes {
  const known = new Map<string, FoundVolume>();
  /** Of an earlier life of the agent. */
  const remembered = (id: string): FoundVolume | undefined =>
    mounted().includes(id)
      ? { id, plugin: "", state: "AVAILABLE", bytes: 0n, trouble: "", createdAt: 0, holders: [] }
      : undefined;

  const asked = async (id: string, signal: AbortSignal): Promise<FoundVolume | undefined> => {
    // An answer that comes too late is there for the next question.
    const late = volumes.find(id, askMs, life).then((found) => {
      if (found !== undefined) known.set(id, found);
      return found;
    });
    const until = linkSignals(signal);
    const cancel = clock.timer(patienceMs, () => until.abort(new DOMException("the wait is over", "TimeoutError")));
    try {
      return await waitFor(late, until.signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!until.signal.aborted && !isHoldfastError(error)) throw error;
      return undefined; // KV1
    } finally {
      cancel();
      until.dispose();
    }
  };

  const refresh = async (signal: AbortSignal): Promise<void> => {
    const found = await volumes.list(signal);
    known.clear();
    for (const volume of found) known.set(volume.id, volume);
  };

  return {
    get: async (id, signal) => known.get(id) ?? remembered(id) ?? (await asked(id, signal)),
    async list(signal) {
      try {
        await refresh(signal);
      } catch (error) {
        if (!isHoldfastError(error)) throw error;
      }
      const unheard = mounted().flatMap((id) => (known.has(id) ? [] : (remembered(id) ?? [])));
      return [...known.values(), ...unheard];
    },
    learn: (volume) => void known.set(volume.id, volume),
    forget: (id) => void known.delete(id),
    async warm() {
      for (;;) {
        try {
          return await refresh(life);
        } catch {
          await clock.sleep(retryMs, life);
        }
      }
    },
  };
}
