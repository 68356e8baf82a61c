import type { Claim, ClaimTombstone } from "../../domain/claim/claim.ts";
import type { GrantFactsOf } from "../../records/grant-facts.ts";
import { pagesOf } from "../../records/pages-of.ts";
import type { VersionedVolume } from "../../records/record-cache.ts";
import { workloadValue } from "../../records/volume/volume-codec.ts";
import type { VolumeRecords } from "../../records/volume/volume-records.ts";
import type { ClaimSelection, ClaimView } from "../model.ts";
import { waitingFor } from "./waiting-for.ts";

const pageSize = 200;

/** Volumes on which the workload has claims; a workload has few. */
export const volumesOfWorkload = async (
  records: VolumeRecords,
  namespace: string,
  workload: string,
): Promise<readonly VersionedVolume[]> => {
  const found: VersionedVolume[] = [];
  const value = workloadValue(namespace, workload);
  const pages = pagesOf((after) => records.list("claim-workload", value, { after, limit: pageSize, whole: true }));
  for await (const { volumes } of pages) found.push(...volumes);
  return found;
};

/** Claims of the workload that are over, the latest first; a long history is read to its bound only. */
export const endedOfWorkload = async (
  records: VolumeRecords,
  namespace: string,
  workload: string,
): Promise<readonly ClaimTombstone[]> => {
  const found: ClaimTombstone[] = [];
  const value = workloadValue(namespace, workload);
  for await (const page of pagesOf((after) => records.listEnded("over-workload", value, { after, limit: pageSize }))) {
    found.push(...page.claims);
    if (found.length >= 5_000) break;
  }
  return found.sort((a, b) => b.endedAt - a.endedAt || b.createdAt - a.createdAt);
};

export const livingView = (found: VersionedVolume, claim: Claim, factsOf: GrantFactsOf): ClaimView => ({
  kind: "living",
  claim,
  volume: found.volume,
  rev: found.rev,
  // Asked for by answers; one that is held until the claim has settled asks for the last alone.
  get waitingFor() {
    return waitingFor(found.volume, claim, () => factsOf(found.volume.plugin, claim.node));
  },
});

export const isSelected =
  ({ workload, aliases, claimUids }: ClaimSelection) =>
  (claim: { readonly workload: string; readonly alias: string; readonly uid: string }): boolean =>
    claim.workload === workload &&
    (aliases.length === 0 || aliases.includes(claim.alias)) &&
    (claimUids.length === 0 || claimUids.includes(claim.uid));

const newestFirst = (a: Claim, b: Claim): number =>
  b.createdAt - a.createdAt || Number(b.goal === "active") - Number(a.goal === "active");

/** The newest life of each (volume, alias), or with uids each life that is asked for. */
export const selectViews = async (
  { records, factsOf }: { readonly records: VolumeRecords; readonly factsOf: GrantFactsOf },
  selection: ClaimSelection,
): Promise<readonly ClaimView[]> => {
  const { namespace, workload, aliases, claimUids } = selection;
  const wanted = isSelected(selection);
  const byUid = claimUids.length > 0;
  const views = new Map<string, ClaimView>();
  const seen = new Set<string>();
  for (const found of await volumesOfWorkload(records, namespace, workload))
    for (const claim of Object.values(found.volume.claims).filter(wanted).sort(newestFirst)) {
      const key = byUid ? claim.uid : `${found.volume.id}/${claim.alias}`;
      seen.add(claim.alias);
      if (!views.has(key)) views.set(key, livingView(found, claim, factsOf));
    }
  const missing = byUid
    ? claimUids.some((uid) => !views.has(uid))
    : aliases.length > 0
      ? aliases.some((alias) => !seen.has(alias))
      : views.size === 0;
  if (!missing) return [...views.values()];
  for (const claim of (await endedOfWorkload(records, namespace, workload)).filter(wanted)) {
    if (!byUid && seen.has(claim.alias)) continue;
    const key = byUid ? claim.uid : `${claim.volume}/${claim.alias}`;
    if (!views.has(key)) views.set(key, { kind: "over", claim });
  }
  return [...views.values()];
};
