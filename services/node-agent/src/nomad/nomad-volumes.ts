/**
 * Nomad's dynamic host volumes on this host: what each operation of its plugin means for the volumes and claims of this node.
 *
 * NV1 One claim stands for a volume for as long as Nomad has it here. The request that was answered last is answered again from this host
 *     alone: Nomad repeats it at each start of its client, and never a second time.
 * NV2 What another workload has or waits for is not deleted, and before that is known nothing is unmounted. That Nomad made it is the
 *     controller's to judge, by the label; of any other volume Nomad has no claim.
 * NV3 Each operation ends within the time that its caller waits.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import { type NomadRequest, nomadVolume } from "../domain/nomad-volume.ts";
import type { FoundVolume, HostVolumes } from "../host-volumes/host-volumes.ts";
import { type ClaimedVolume, otherHolders, type SoleClaims } from "../host-volumes/sole-claims.ts";
import { heldByOthers, noFileSystem, notMade } from "../host-volumes/still-held.ts";

export const madeByNomad = "nomad";

/** As it is answered; the plugin brings the last one with the next request. */
export interface NomadVolume {
  readonly path: string;
  readonly bytes: number;
  /** Of which request. */
  readonly asked: string;
}

export interface NomadVolumes {
  create(
    request: NomadRequest,
    last: NomadVolume | undefined,
    waitMs: number,
    signal: AbortSignal,
  ): Promise<NomadVolume>;
  remove(request: Pick<NomadRequest, "namespace" | "id">, waitMs: number, signal: AbortSignal): Promise<void>;
}

export interface NomadVolumesOptions {
  readonly node: string;
  readonly volumesIn: (namespace: string) => HostVolumes;
  readonly claims: SoleClaims;
  /** Salted hash of a text. */
  readonly hash: (text: string) => string;
  readonly clock: Clock;
}

const askMs = 2_000;
const growMs = 30_000;

export function createNomadVolumes({ node, volumesIn, claims, hash, clock }: NomadVolumesOptions): NomadVolumes {
  const nameOf = ({ namespace, id }: Pick<NomadRequest, "namespace" | "id">) => ({
    namespace,
    workload: `nomad@${node}:${id}`,
  });

  return {
    async create(request, last, waitMs, signal) {
      const until = clock.monotonic() + waitMs;
      const wanted = nomadVolume(request);
      if ("faults" in wanted) throw invalidArgument(wanted.faults);
      const { namespace, id } = request;
      const name = nameOf(request);
      const { capacityMin, capacityMax, parameters } = request;
      const asked = hash(JSON.stringify([namespace, id, request.name, capacityMin, capacityMax, parameters]));
      const here = await claims.find(name);
      if (here?.ready === true && last?.asked === asked) return { ...last, path: pathOf(request, here) }; // NV1
      const volumes = volumesIn(namespace);
      const left = () => Math.max(0, Math.floor(until - clock.monotonic()));
      const { requiredBytes } = wanted.volume;
      const made = await claims.reaching(left(), signal, () =>
        volumes.make(wanted.volume, Math.min(growMs, left()), signal),
      );
      if (made.state === "FAILED") throw notMade(namespace, made, deleteCommand(request));
      const path = pathOf(request, await claims.mounted({ name, volume: id, until, waitMs }, left(), signal));
      // The size of a volume that was made for this claim is known only now.
      const now = (await volumes.find(id, askMs, signal).catch(() => undefined)) ?? made;
      if (now.bytes < requiredBytes) throw tooSmall(namespace, now, requiredBytes);
      return { path, bytes: Number(now.bytes), asked };
    },

    async remove(request, waitMs, signal) {
      const until = clock.monotonic() + waitMs;
      const left = () => Math.max(0, Math.floor(until - clock.monotonic()));
      const { namespace, id } = request;
      const volumes = volumesIn(namespace);
      const name = nameOf(request);
      const found = await claims.reaching(left(), signal, () => volumes.find(id, askMs, signal));
      const others = otherHolders(found, name);
      if (others.length > 0) throw heldByOthers(namespace, id, others); // NV2
      await claims.release({ name, volume: id }, Math.floor(left() / 2), signal);
      await claims.reaching(left(), signal, () => volumes.remove(id, left(), signal));
    },
  };
}

const pathOf = ({ namespace, id }: NomadRequest, { mounts: [mount] }: ClaimedVolume): string => {
  if (mount === undefined || mount.device !== undefined) throw noFileSystem(namespace, id, "Nomad");
  return mount.hostPath;
};

const deleteCommand = ({ namespace, id }: NomadRequest): string =>
  `nomad volume delete -type host -namespace ${namespace} ${id}`;

const tooSmall = (namespace: string, { id, bytes, trouble }: FoundVolume, wanted: bigint): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "VOLUME_NOT_AVAILABLE",
    message: `volume ${namespace}/${id} has ${bytes} bytes and not the ${wanted} that Nomad asks for${trouble === "" ? "" : `: ${trouble}`}; holdfast volume explain ${id} --namespace ${namespace} says how it goes on, then repeat`,
    metadata: { namespace, volume: id, state: "AVAILABLE" },
  });
