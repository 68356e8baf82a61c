/**
 * Snapshots of a backend against the records. One that no record stands for has to be there in two complete listings before it is
 * written down: its own record may just not have heard of it, or of its deletion. Nothing is deleted here (T3).
 */

import type { ListedSnapshot } from "../../domain/listing.ts";
import { type OrphanFinding, snapshotOrphan } from "../../domain/repair/orphan.ts";
import type { CutRecord } from "../../domain/snapshot/snapshot.ts";
import { volumeKey } from "../../domain/volume/volume.ts";
import type { BackendListings } from "../../ports.ts";
import { type OrphanRecords, orphanIdOf } from "../../records/orphan-records.ts";
import { pagesOf } from "../../records/pages-of.ts";
import type { CutIndex } from "../../records/snapshot-codec.ts";
import type { CutRecords } from "../../records/snapshot-records.ts";
import { readListing } from "./two-way-listing.ts";

export interface SnapshotPassDeps {
  readonly cuts: Pick<CutRecords, "list">;
  readonly orphans: OrphanRecords;
  readonly listings: Pick<BackendListings, "can" | "snapshots">;
}

export interface SnapshotsCompared {
  readonly suspects: ReadonlySet<string>;
  readonly orphans: number;
  readonly gap?: { readonly reason: string; readonly message: string };
}

const listing = { pageSize: 500, maxPages: 20_000, maxRestarts: 3 } as const;
const lookups = 32;
const maxSuspects = 10_000;
const external: CutIndex = "snapshot-external";

export const snapshotOwner = async (
  { cuts }: Pick<SnapshotPassDeps, "cuts">,
  plugin: string,
  externalId: string,
): Promise<CutRecord | undefined> =>
  (await cuts.list(external, `${plugin}/${externalId}`, { limit: 1, whole: true })).cuts[0]?.record;

/** It may have been cut, and not all that it has at the backend is on record: its own id, or those of a group's snapshots. */
const isUnnamed = (record: CutRecord): boolean =>
  record.externalId === "" || (record.kind === "group" && record.members.some(({ externalId }) => externalId === ""));

/** A snapshot or a group of the plugin of which something may be at the backend that no record names yet. */
export const beingCut = async (
  { cuts }: Pick<SnapshotPassDeps, "cuts">,
  plugin: string,
): Promise<CutRecord | undefined> => {
  for (const index of ["snapshot-unsettled", "group-unsettled"] as const) {
    for await (const page of pagesOf((after) => cuts.list(index, "all", { after, limit: 200, whole: true }))) {
      const found = page.cuts.find(({ record: r }) => r.plugin === plugin && isUnnamed(r));
      if (found !== undefined) return found.record;
    }
  }
  return undefined;
};

export const compareSnapshots = async (
  deps: SnapshotPassDeps,
  plugin: string,
  suspectedBefore: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<SnapshotsCompared> => {
  const { orphans, listings } = deps;
  let unowned = new Map<string, ListedSnapshot>();
  const steps = readListing({ ...listing, ask: (page) => listings.snapshots(plugin, page, undefined, signal) });
  for await (const step of steps) {
    signal.throwIfAborted();
    if (step.kind === "broken") return { suspects: suspectedBefore, orphans: 0, gap: step.failure };
    if (step.kind === "anew") unowned = new Map();
    if (step.kind !== "page") continue;
    for (let at = 0; at < step.entries.length; at += lookups)
      await Promise.all(
        step.entries.slice(at, at + lookups).map(async (listed) => {
          if (unowned.size >= maxSuspects) return;
          if ((await snapshotOwner(deps, plugin, listed.externalId)) === undefined)
            unowned.set(listed.externalId, listed);
        }),
      );
  }

  const suspects = new Set<string>();
  const present = new Set<string>();
  const cutting = await beingCut(deps, plugin);
  for (const listed of unowned.values()) {
    if ((await snapshotOwner(deps, plugin, listed.externalId)) !== undefined) continue;
    const key = `snapshot ${listed.externalId}`;
    suspects.add(key);
    const maybe =
      cutting === undefined
        ? ""
        : `; it may be what was cut for ${cutting.kind} ${volumeKey(cutting)}, which is not known yet`;
    const finding: OrphanFinding = snapshotOrphan(plugin, listed, maybe);
    const proved = suspectedBefore.has(key) || (await orphans.get(orphanIdOf(finding))) !== undefined;
    if (proved) present.add((await orphans.found(finding)).id);
  }
  for await (const orphan of orphans.of(plugin))
    if (orphan.kind === "snapshot" && !present.has(orphan.id) && unowned.size < maxSuspects)
      await orphans.gone(orphan.id);
  return { suspects, orphans: present.size };
};
