/**
 * The start, before anything is served: what the journal holds meets what the kernel shows. Nothing is mounted or
 * unmounted here; that is for whoever knows what is wanted.
 */
import type { Orphan } from "../domain/answer-types.ts";
import type { VolumeEvent } from "../domain/events.ts";
import type { HostPaths } from "../domain/paths.ts";
import { lostIntents } from "../domain/record-survival.ts";
import type { VolumeState } from "../domain/types.ts";
import { applyEvent, isAtRest, isFault } from "../domain/volume-machine.ts";
import type { Ledger, MountTable } from "../ports.ts";
import { findOrphans } from "./inventory.ts";

export interface Recovered {
  readonly rebooted: boolean;
  /** Volumes that are not at rest. */
  readonly held: number;
  /** Of these, the publications that the mount table does not show. */
  readonly missing: number;
  readonly orphans: readonly Orphan[];
}

export async function recoverVolumes(options: {
  readonly ledger: Ledger;
  readonly mounts: MountTable;
  readonly paths: HostPaths;
  readonly bootId: string;
}): Promise<Recovered> {
  const { ledger, mounts, paths, bootId } = options;
  const before = ledger.agent().bootId;
  const sameBoot = before === bootId;
  // Before the boot is: a start that ends in between finds the same.
  if (!sameBoot && ledger.damage === undefined) await recordLost(ledger);
  const view = await mounts.look(false);
  let held = 0;
  let missing = 0;
  for (const volume of [...ledger.volumes()]) {
    if (isAtRest(volume)) continue;
    held += 1;
    const here = new Set(view.under(volume.stage.path).map((line) => line.id));
    const after = inDoubt(volume, sameBoot, here);
    missing += Object.values(after.claims).filter(
      (claim) => claim.phase === "published" && view.at(claim.facts.target).length === 0,
    ).length;
    ledger.keep(after);
  }
  if (!sameBoot && ledger.damage === undefined) await ledger.commitAgent({ type: "boot", bootId });
  return { rebooted: before !== "" && !sameBoot, held, missing, orphans: findOrphans(view, paths, ledger.volumes()) };
}

async function recordLost(ledger: Ledger): Promise<void> {
  for (const volume of [...ledger.volumes()]) {
    const lost = lostIntents(volume);
    if (lost.length > 0) await ledger.commit(lost, lost.reduce(applied, volume));
  }
}

function applied(volume: VolumeState, event: VolumeEvent): VolumeState {
  const after = applyEvent(volume, event);
  if (isFault(after)) throw new Error(`volume ${volume.ref.volumeUid}: ${after.fault}`);
  return after;
}

/**
 * A stage is certain only if this boot's kernel still shows what it had made, or anything where nothing was published from it yet; a stage
 * that shows nothing never is.
 */
function inDoubt(volume: VolumeState, sameBoot: boolean, here: ReadonlySet<number>): VolumeState {
  const { shown } = volume.stage;
  const stageSeen = sameBoot && here.size > 0 && shown.every((id) => here.has(id));
  return applied(volume, { type: "recovered", stageSeen, sameBoot });
}
