/** A publication that the journal holds and the host has no more: from now on it is in doubt, and a permit makes it anew. */
import { seenAt } from "../domain/mounts.ts";
import type { HeldClaim, VolumeRef } from "../domain/types.ts";
import type { Ledger, MountTable } from "../ports.ts";
import { createVolumeRun } from "./volume-run.ts";

export interface LostMountsOptions {
  readonly ledger: Ledger;
  readonly mounts: Pick<MountTable, "look">;
}

/** To be called in the volume's lane: whoever looked before may have seen a mount that is just being made. */
export function createLostMounts({ ledger, mounts }: LostMountsOptions) {
  return async (ref: VolumeRef, dead: ReadonlySet<number>): Promise<readonly HeldClaim[]> => {
    const volume = ledger.volume(ref.volumeUid);
    if (volume === undefined) return [];
    const view = await mounts.look(false);
    const lost = Object.values(volume.claims).filter(({ facts, phase, goal }) => {
      if (phase !== "published" || goal !== "mounted") return false;
      const line = seenAt(view, facts.target);
      return line === undefined || dead.has(line.id);
    });
    if (lost.length === 0) return [];
    const run = createVolumeRun(ledger, volume);
    for (const { facts } of lost) run.see({ type: "mount-lost", claimUid: facts.claimUid });
    await run.finish();
    return lost;
  };
}
