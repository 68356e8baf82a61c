import { nameOf } from "../domain/name-of.ts";
import type { Host } from "../ports.ts";
import { createCutSnapshots } from "./cut-snapshots.ts";

/** At the start, before the first call: what a killed life left of groups that it had not finished making or deleting. Says what it did. */
export async function recoverGroups(host: Pick<Host, "state">): Promise<readonly string[]> {
  const done: string[] = [];
  for (const snapshot of createCutSnapshots(host).remains()) {
    await host.state.snapshots.remove(snapshot.id);
    done.push(`deleted ${nameOf(snapshot)}: its group ${snapshot.groupId} does not exist`);
  }
  return done;
}
