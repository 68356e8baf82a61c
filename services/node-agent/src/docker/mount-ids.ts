/**
 * The ids of Docker's mounts and the one claim of each volume that stands for them.
 *
 * MI1 Decisions about one volume are taken one after the other; an id is journalled before its volume is claimed, and its end before that is
 *     given back (DB1, DB2).
 * MI2 The claim is given back with the last id, and never while one is left.
 * MI3 A call that failed takes back its own id alone, and not when the same id was asked for again meanwhile.
 */
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import type { DockerRecord, MountId } from "../domain/docker-book.ts";
import type { WorkloadName } from "../domain/workload-machine.ts";
import type { Ledger } from "../ports.ts";
import type { ClaimSeen } from "../workloads/controller-claims.ts";
import { journalDamaged, journalFull } from "../workloads/workload-errors.ts";
import type { WorkloadManager } from "../workloads/workload-manager.ts";

/** One call of dockerd that wants a volume mounted. */
export interface MountCall {
  readonly volume: string;
  readonly id: string;
}

export interface MountIds {
  of(volume: string): readonly MountId[];
  /** By volume; also those whose claim is still to be given back. */
  volumes(): readonly (readonly [volume: string, ids: readonly MountId[]])[];
  /** Asked for in this life of the agent. */
  asked(volume: string, id: string): boolean;
  workloadOf(volume: string): WorkloadName;
  want(volume: string, id: string, daemon: string, signal: AbortSignal): Promise<MountCall>;
  answered(call: MountCall): Promise<void>;
  giveUp(call: MountCall): Promise<void>;
  /** Answers what is still mounted of the volume although no id is left. */
  drop(volume: string, ids: readonly string[], waitMs: number, signal: AbortSignal): Promise<readonly ClaimSeen[]>;
}

export interface MountIdsOptions {
  readonly ledger: Pick<Ledger, "agent" | "commitAgent" | "damage" | "fullBecause">;
  readonly workloads: Pick<WorkloadManager, "release">;
  readonly namespace: string;
  readonly node: string;
  /** The agent's life. */
  readonly signal: AbortSignal;
}

export function createMountIds(options: MountIdsOptions): MountIds {
  const { ledger, workloads, namespace, node, signal: life } = options;
  const lanes = createKeyedLanes();
  /** By id, the newest call. */
  const calls = new Map<string, MountCall>();
  const keyOf = (volume: string, id: string): string => `${volume}/${id}`;
  const of = (volume: string): readonly MountId[] => ledger.agent().docker[volume] ?? [];
  const workloadOf = (volume: string): WorkloadName => ({ namespace, workload: `docker@${node}:${volume}` });

  const commit = async (record: DockerRecord): Promise<void> => {
    if (ledger.damage !== undefined) throw journalDamaged(ledger.damage);
    await ledger.commitAgent({ type: "docker", record });
  };

  /** In the lane of the volume. */
  const dropNow = async (volume: string, ids: readonly string[], waitMs: number, signal: AbortSignal) => {
    const known = of(volume).filter(({ id }) => ids.includes(id));
    if (known.length > 0) await commit({ volume, type: "dropped", ids: known.map(({ id }) => id) });
    for (const id of ids) calls.delete(keyOf(volume, id));
    if (ledger.agent().docker[volume]?.length !== 0) return []; // MI2
    const left = await workloads.release({ ...workloadOf(volume), ticket: "" }, waitMs, signal);
    await commit({ volume, type: "settled" });
    return left;
  };

  return {
    of,
    workloadOf,
    volumes: () => Object.entries(ledger.agent().docker),
    asked: (volume, id) => calls.has(keyOf(volume, id)),
    want: (volume, id, daemon, signal) =>
      lanes.run(volume, signal, async () => {
        const known = of(volume).find((one) => one.id === id);
        if (known === undefined) {
          const full = ledger.fullBecause();
          if (full !== undefined) throw journalFull(full);
        }
        const call = { volume, id };
        calls.set(keyOf(volume, id), call);
        if (known?.daemon !== daemon) await commit({ volume, type: "wanted", id, daemon }); // MI1
        return call;
      }),
    answered: ({ volume, id }) =>
      lanes.run(volume, life, async () => {
        if (of(volume).find((one) => one.id === id)?.answered === false) await commit({ volume, type: "answered", id });
      }),
    giveUp: (call) =>
      lanes.run(call.volume, life, async () => {
        if (calls.get(keyOf(call.volume, call.id)) !== call) return; // MI3
        await dropNow(call.volume, [call.id], 0, life);
      }),
    drop: (volume, ids, waitMs, signal) => lanes.run(volume, signal, () => dropNow(volume, ids, waitMs, signal)),
  };
}
