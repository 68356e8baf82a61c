/**
 * A workload as it is now: what its runner asked for, what the ledger holds for it, and what the mount table shows.
 *
 * Y1 Ready means seen: every claim is published in the ledger and its target is a mount point at this moment (I3).
 */
import { type MountView, seenAt } from "../domain/mounts.ts";
import type { HeldClaim, VolumeRef } from "../domain/types.ts";
import type { Propagation, WorkloadName, WorkloadState, WorkloadVolume } from "../domain/workload-machine.ts";
import type { HostDirs, MountTable } from "../ports.ts";
import { publishedDevice } from "../volumes/published-device.ts";
import type { BlockSeen, ClaimSeen, DeviceSeen, FailureSeen } from "./controller-claims.ts";
import type { Held, HeldClaims } from "./held-claims.ts";

/** What to give a container. */
export interface MountRow {
  readonly alias: string;
  readonly volume: string;
  readonly container: string;
  readonly hostPath: string;
  readonly path: string;
  readonly readOnly: boolean;
  readonly propagation: Propagation;
  readonly device?: DeviceSeen;
}

export interface WorkloadView extends WorkloadName {
  readonly mounts: readonly MountRow[];
  readonly claims: readonly ClaimSeen[];
  readonly ready: boolean;
  readonly restart?: { readonly since: number; readonly reason: string };
}

export interface WorkloadViewsOptions {
  readonly held: HeldClaims;
  readonly mounts: Pick<MountTable, "look">;
  readonly dirs: Pick<HostDirs, "deviceNumber">;
  /** What stopped a volume at its last order, in its own words. */
  readonly haltOf: (ref: VolumeRef) => { readonly blocked?: BlockSeen; readonly failure?: FailureSeen } | undefined;
  /** What a controller last said of a claim. */
  readonly toldOf: (claimUid: string) => ClaimSeen | undefined;
}

export interface WorkloadViews {
  of(state: WorkloadState): Promise<WorkloadView>;
  /** By the ledger alone; whether the mounts are seen takes a look. */
  isPublished(state: WorkloadState): boolean;
  /** How the claims stand that are held here, whoever asked for them. */
  held(name: WorkloadName): readonly ClaimSeen[];
}

export function createWorkloadViews(options: WorkloadViewsOptions): WorkloadViews {
  const { held, mounts, dirs, haltOf, toldOf } = options;

  const isMounted = ({ goal, phase }: HeldClaim): boolean => goal === "mounted" && phase === "published";

  const deviceAt = async (view: MountView, { facts }: HeldClaim): Promise<DeviceSeen | undefined> => {
    if (facts.attachmentMode !== "BLOCK_DEVICE") return undefined;
    const line = seenAt(view, facts.target);
    return line && publishedDevice(line, dirs);
  };

  const claimSeen = ({ volume, claim }: Held, seen: boolean, device: DeviceSeen | undefined): ClaimSeen => {
    const { facts, goal, phase } = claim;
    const told = toldOf(facts.claimUid);
    const halt = haltOf(volume.ref);
    const wasActive = told?.state === "ACTIVE" || phase === "published";
    const since = told?.degradedSince;
    return {
      namespace: volume.ref.namespace,
      workload: facts.workload,
      uid: facts.claimUid,
      alias: facts.alias,
      volume: volume.ref.volume,
      state: goal === "released" ? "RELEASING" : wasActive ? "ACTIVE" : "OFFERED",
      accessMode: facts.accessMode,
      attachmentMode: facts.attachmentMode,
      readOnly: facts.readOnly,
      fsType: facts.fsType,
      epoch: facts.epoch,
      hostPath: seen ? facts.target : "",
      waitingFor: told?.waitingFor ?? "",
      ...(device === undefined ? {} : { device }),
      ...(goal === "mounted" && !seen && since !== undefined ? { degradedSince: since } : {}),
      ...(halt?.blocked === undefined ? {} : { blocked: halt.blocked }),
      ...(halt?.failure === undefined ? {} : { failure: halt.failure }),
    };
  };

  const rowsOf = (
    wanted: WorkloadVolume,
    { facts }: HeldClaim,
    device: DeviceSeen | undefined,
  ): readonly MountRow[] => {
    // A runner that names no place still has to learn where the volume is.
    const anywhere = { container: "", path: "", readOnly: false, propagation: "private" } as const;
    return (wanted.places.length === 0 ? [anywhere] : wanted.places).map((place) => ({
      alias: wanted.alias,
      volume: wanted.volume,
      container: place.container,
      hostPath: facts.target,
      path: place.path,
      readOnly: facts.readOnly || wanted.readOnly || place.readOnly,
      propagation: place.propagation,
      ...(device === undefined ? {} : { device }),
    }));
  };

  return {
    async of(state) {
      const here = held.of(state);
      const view = await mounts.look(false);
      const rows: MountRow[] = [];
      const claims: ClaimSeen[] = [];
      const named = new Set<string>();
      let ready = state.phase === "claimed" && state.volumes.length > 0;
      for (const wanted of state.volumes) {
        const uid = state.claimUids[wanted.alias];
        const found = here.find(({ claim }) => claim.facts.claimUid === uid);
        if (uid !== undefined) named.add(uid);
        if (found === undefined) {
          ready = false;
          const told = uid === undefined ? undefined : toldOf(uid);
          if (told !== undefined) claims.push(told);
          continue;
        }
        const seen = isMounted(found.claim) && seenAt(view, found.claim.facts.target) !== undefined; // Y1
        const device = seen ? await deviceAt(view, found.claim) : undefined;
        claims.push(claimSeen(found, seen, device));
        if (seen) rows.push(...rowsOf(wanted, found.claim, device));
        else ready = false;
      }
      // Former lives, and what was claimed for it elsewhere.
      for (const other of here.filter(({ claim }) => !named.has(claim.facts.claimUid)))
        claims.push(claimSeen(other, seenAt(view, other.claim.facts.target) !== undefined, undefined));
      const { namespace, workload, restart } = state;
      return { namespace, workload, mounts: rows, claims, ready, ...(restart === undefined ? {} : { restart }) };
    },
    isPublished(state) {
      const mounted = new Set(held.of(state).flatMap(({ claim }) => (isMounted(claim) ? [claim.facts.claimUid] : [])));
      return state.volumes.every(({ alias }) => mounted.has(state.claimUids[alias] ?? ""));
    },
    held: (name) => held.of(name).map((one) => claimSeen(one, one.claim.phase === "published", undefined)),
  };
}
