/** Docker's volume driver over a model host, its journal and controllers that a test leads. */
import type { AccessMode } from "@holdfast/model/access";
import { createMemoryLogger, type MemoryLogger } from "@holdfast/shared/log/logger";
import { type AbandonedIds, createAbandonedIds } from "../docker/abandoned-ids.ts";
import { createKnownVolumes, type KnownVolumes } from "../docker/known-volumes.ts";
import { createMountIds, type MountIds } from "../docker/mount-ids.ts";
import { createVolumeDriver, type VolumeDriver } from "../docker/volume-driver.ts";
import type { WantedVolume } from "../domain/wanted-volume.ts";
import type { FoundVolume, HostVolumes } from "../host-volumes/host-volumes.ts";
import { createSoleClaims } from "../host-volumes/sole-claims.ts";
import type { MountTable } from "../ports.ts";
import { away, startWorkloadRig, type WorkloadRig } from "./workload-rig.ts";

export const dockerNamespace = "docker";

/** The volumes of controllers. */
export interface FakeVolumes extends HostVolumes {
  readonly there: Map<string, FoundVolume>;
  readonly made: WantedVolume[];
  away: boolean;
}

export const foundVolume = (id: string, change: Partial<FoundVolume> = {}): FoundVolume => ({
  ...{ id, plugin: "model", state: "AVAILABLE", bytes: 0n, trouble: "", createdAt: 0, holders: [] },
  ...change,
});

export interface DockerRig {
  readonly base: WorkloadRig;
  readonly volumes: FakeVolumes;
  driver(): VolumeDriver;
  ids(): MountIds;
  known(): KnownVolumes;
  abandoned(): AbandonedIds;
  /** Which dockerd is there. */
  daemon: string;
  /** Mounts, with what controllers and the host do for it. */
  mount(name: string, id: string): Promise<string>;
  /** Grants what was asked for, if anything was. */
  grant(mode?: AccessMode): Promise<void>;
  restart(): Promise<void>;
  lookingFrom(scope: MountTable["scope"]): { readonly log: MemoryLogger; readonly abandoned: AbandonedIds };
}

export async function startDockerRig(): Promise<DockerRig> {
  const base = await startWorkloadRig();
  const volumes = createFakeVolumes();
  let life = new AbortController();
  const begin = () => {
    const { clock } = base;
    const [log, signal, namespace] = [createMemoryLogger(), life.signal, dockerNamespace];
    const ledger = base.ledger();
    const workloads = base.workloads();
    const ids = createMountIds({ ledger, workloads, namespace, node: "n1", signal });
    const mounted = () => ids.volumes().map(([volume]) => volume);
    const known = createKnownVolumes({ volumes, mounted, clock, signal });
    const daemon = async () => rig.daemon;
    const common = { ids, workloads, daemon, clock, log, signal };
    const templates = async () => ({});
    const claims = createSoleClaims({ volumesIn: () => volumes, workloads, clock, signal });
    const driver = createVolumeDriver({ ...common, namespace, volumes, known, claims, templates, waitMs: 60_000 });
    const { mounts } = base.agent.host;
    const lookingFrom = (scope: MountTable["scope"]) => {
      const own = createMemoryLogger();
      const looks = { ...common, mounts: { ...mounts, scope }, rootDir: "/hf", log: own };
      return { log: own, abandoned: createAbandonedIds(looks) };
    };
    return { ids, known, driver, lookingFrom, ...lookingFrom("host") };
  };
  const rig: DockerRig = {
    base,
    volumes,
    daemon: "d1",
    driver: () => parts.driver,
    ids: () => parts.ids,
    known: () => parts.known,
    abandoned: () => parts.abandoned,
    lookingFrom: (scope) => parts.lookingFrom(scope),
    async mount(name, id) {
      const mounting = parts.driver.mount(name, id, life.signal);
      mounting.catch(() => undefined);
      await rig.grant();
      return (await mounting).mountpoint;
    },
    async grant(mode) {
      await base.settle();
      for (const { uid, state } of base.claims.known.values()) {
        if (state !== "ATTACHING") continue;
        await base.claims.permit(uid, mode);
        base.claims.set(uid, { state: "ACTIVE" });
      }
    },
    async restart() {
      life.abort(new Error("the process is gone"));
      life = new AbortController();
      await base.restart();
      parts = begin();
    },
  };
  let parts = begin();
  return rig;
}

function createFakeVolumes(): FakeVolumes {
  const there = new Map<string, FoundVolume>();
  const made: WantedVolume[] = [];
  const answer = async <T>(value: () => T): Promise<T> => {
    if (fake.away) throw away;
    return value();
  };
  const fake: FakeVolumes = {
    there,
    made,
    away: false,
    make: (volume) =>
      answer(() => {
        made.push(volume);
        const found = there.get(volume.id) ?? foundVolume(volume.id, { plugin: volume.plugin });
        there.set(volume.id, found);
        return found;
      }),
    remove: (id) => answer(() => void there.delete(id)),
    find: (id) => answer(() => there.get(id)),
    list: () => answer(() => [...there.values()]),
  };
  return fake;
}
