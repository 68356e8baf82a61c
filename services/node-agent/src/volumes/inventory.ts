/** What the journal and the mount table know together. */
import type { Halt, Inventory, Orphan } from "../domain/answer-types.ts";
import type { MountView } from "../domain/mounts.ts";
import type { HostPaths } from "../domain/paths.ts";
import type { VolumeState } from "../domain/types.ts";
import { isAtRest } from "../domain/volume-machine.ts";
import type { Ledger } from "../ports.ts";
import { damagedHalt } from "./halts.ts";

export function takeInventory(
  view: MountView,
  paths: HostPaths,
  { volumes, damage }: Pick<Ledger, "volumes" | "damage">,
  halts: ReadonlyMap<string, Halt>,
  node: string,
): Inventory {
  const listed = [...volumes()].map((state) => {
    const halt = damage === undefined ? halts.get(state.ref.volumeUid) : damagedHalt(state.ref, damage, node);
    return halt === undefined ? { state } : { state, halt };
  });
  return {
    volumes: listed,
    orphans: findOrphans(
      view,
      paths,
      listed.map(({ state }) => state),
    ),
  };
}

/** Mounts under the agent's root that no record explains: what a lost journal, or somebody else, left there. */
export function findOrphans(view: MountView, paths: HostPaths, volumes: Iterable<VolumeState>): readonly Orphan[] {
  const explained = new Set<string>();
  for (const volume of volumes) {
    if (isAtRest(volume)) continue;
    explained.add(volume.stage.path);
    for (const { facts } of Object.values(volume.claims)) explained.add(facts.target);
  }
  const orphans: Orphan[] = [];
  for (const line of view.under(paths.root)) {
    // The root may itself be a mount: that is how it is made shared.
    if (line.path === paths.root) continue;
    const owner = line.path.split("/").slice(0, depthOf(line.path, paths)).join("/");
    if (!explained.has(owner)) orphans.push({ path: line.path, mountId: line.id });
  }
  return orphans;
}

/** Components of the path that name a staging directory or a target; a mount may lie below either. */
function depthOf(path: string, { root, stagingDir }: HostPaths): number {
  const base = root.split("/").length;
  return path.startsWith(`${stagingDir}/`) ? base + 2 : base + 3;
}
