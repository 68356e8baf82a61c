/**
 * One volume of a program of this host, claimed for this node by a workload of its own.
 *
 * SC1 A wait that is over names who holds the volume, as controllers see it.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { type HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { WorkloadName } from "../domain/workload-machine.ts";
import type { WorkloadManager } from "../workloads/workload-manager.ts";
import type { WorkloadView } from "../workloads/workload-views.ts";
import type { FoundVolume, HostVolumes, VolumeHolder } from "./host-volumes.ts";
import { stillHeld, stillMounted } from "./still-held.ts";

export type ClaimedVolume = Pick<WorkloadView, "mounts" | "claims" | "ready">;

export interface SoleClaim {
  readonly name: WorkloadName;
  readonly volume: string;
  /** Of the clock's monotonic time. */
  readonly until: number;
  /** How long it is waited for, in words. */
  readonly waitMs: number;
}

export interface SoleClaims {
  /** Repeats what no controller has answered until one may be expected to. */
  reaching<T>(ms: number, signal: AbortSignal, ask: () => Promise<T>): Promise<T>;
  mounted(claim: SoleClaim, reachMs: number, signal: AbortSignal): Promise<ClaimedVolume>;
  /** As the journal and the mount table have it; undefined: nothing is claimed. */
  find(name: WorkloadName): Promise<ClaimedVolume | undefined>;
  /** Gives it back, and rejects while it is still mounted here. */
  release(claim: Pick<SoleClaim, "name" | "volume">, waitMs: number, signal: AbortSignal): Promise<void>;
}

/** Who else has, or waits for, the volume. */
export const otherHolders = (found: FoundVolume | undefined, { workload }: WorkloadName): readonly VolumeHolder[] =>
  (found?.holders ?? []).filter((holder) => holder.workload !== workload);

export interface SoleClaimsOptions {
  readonly volumesIn: (namespace: string) => Pick<HostVolumes, "find">;
  readonly workloads: Pick<WorkloadManager, "prepare" | "find" | "release">;
  readonly clock: Clock;
  /** The agent's life. */
  readonly signal: AbortSignal;
}

const retryMs = 250;
const askMs = 2_000;

export function createSoleClaims({ volumesIn, workloads, clock, signal: life }: SoleClaimsOptions): SoleClaims {
  const order = ({ name, volume }: SoleClaim) => ({
    ...name,
    claims: [{ alias: volume, volume, readOnly: false, capability: undefined }],
    volumes: [{ alias: volume, volume, readOnly: false, places: [] }],
    replaces: [],
    requestId: "",
    queued: true,
    // The program has no ticket of a scheduler: a namespace that takes tickets is not one of it.
    ticket: "",
  });

  const reaching: SoleClaims["reaching"] = async (ms, signal, ask) => {
    const until = clock.monotonic() + ms;
    for (;;) {
      try {
        return await ask();
      } catch (error) {
        const away = isHoldfastError(error) && error.reason === "CONTROLLER_UNAVAILABLE";
        if (!away || clock.monotonic() >= until) throw error;
        await clock.sleep(retryMs, signal);
      }
    }
  };

  /** SC1 */
  const withHolders = async (claim: SoleClaim, error: HoldfastError): Promise<HoldfastError> => {
    const { namespace } = claim.name;
    const found = await volumesIn(namespace)
      .find(claim.volume, askMs, life)
      .catch(() => undefined);
    const holders = otherHolders(found, claim.name);
    return holders.length === 0 ? error : stillHeld(namespace, claim.volume, holders, claim.waitMs);
  };

  return {
    reaching,
    async release({ name, volume }, waitMs, signal) {
      const [left] = await workloads.release({ ...name, ticket: "" }, waitMs, signal);
      if (left !== undefined)
        throw stillMounted(name.namespace, volume, left.blocked?.message ?? left.failure?.message ?? "");
    },
    find: (name) => workloads.find(name),
    async mounted(claim, reachMs, signal) {
      const left = () => Math.max(0, claim.until - clock.monotonic());
      try {
        return await reaching(reachMs, signal, () => workloads.prepare(order(claim), left(), signal));
      } catch (error) {
        throw isHoldfastError(error) && error.kind === "deadline" ? await withHolders(claim, error) : error;
      }
    },
  };
}
