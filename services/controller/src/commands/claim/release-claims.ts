import { type Change, foldChanges, noChange } from "../../domain/change.ts";
import type { Claim } from "../../domain/claim/claim.ts";
import { releaseWanted } from "../../domain/claim/claim-change.ts";
import type { Moment } from "../../domain/moment.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import { createGrantFacts } from "../../records/grant-facts.ts";
import type { VersionedVolume } from "../../records/record-cache.ts";
import type { ChangeResult, DecideMany } from "../../records/volume/volume-decisions.ts";
import type { VolumeRecords } from "../../records/volume/volume-records.ts";
import type { CommandDeps } from "../command-deps.ts";
import type { Caller, ClaimView, Commands, ReleaseClaimsInput } from "../model.ts";
import { endedOfWorkload, isSelected, livingView, volumesOfWorkload } from "./claim-views.ts";
import { traceOf } from "./create-claims.ts";
import { validateSelection } from "./validate-claims.ts";

const releaseAll = (volume: VolumeRecord, claims: readonly Claim[], trace: Claim["trace"], at: Moment): Change =>
  // Asked already: the first request's trace and attempts go on.
  foldChanges(volume, claims, (found, claim) =>
    claim.goal === "released" ? noChange(found) : releaseWanted(found, claim.uid, trace, at),
  );

/**
 * Over all volumes on which the workload has claims. Those that are known here will do if the commit itself finds no others; the
 * store is asked for them when it does, when some of them are not meant, or when nothing is written.
 */
const storeRelease = async (
  records: VolumeRecords,
  { namespace, workload }: ReleaseClaimsInput,
  wanted: (claim: Claim) => boolean,
  decide: DecideMany,
  by: Caller,
): Promise<readonly ChangeResult[]> => {
  const meant = (found: readonly VersionedVolume[]) =>
    found.map(({ volume }) => volume).filter(({ claims }) => Object.values(claims).some(wanted));
  const options = { by, leads: true } as const;
  const known = records.knownOf(namespace, workload);
  const refs = meant(known);
  if (refs.length > 0 && refs.length === known.length) {
    const results = await records.changeAlone({ namespace, workload }, refs, decide, options);
    if (results?.some(({ changed }) => changed)) return results;
  }
  const all = meant(await volumesOfWorkload(records, namespace, workload));
  return all.length === 0 ? [] : await records.changeMany(all, decide, options);
};

/** Wants the claims gone, all of them in one commit. What is gone already, or never was, is no error. */
export const releaseClaimsCommand =
  (deps: CommandDeps): Commands["releaseClaims"] =>
  async (input, caller) => {
    const { records, clock } = deps;
    validateSelection(input);
    const wanted = isSelected(input);
    const factsOf = createGrantFacts(deps);
    const trace = traceOf(caller, clock.now());
    const decide: DecideMany = (volumes, at) =>
      volumes.map((volume) =>
        volume === undefined ? undefined : releaseAll(volume, Object.values(volume.claims).filter(wanted), trace, at),
      );
    const results = await storeRelease(records, input, wanted, decide, caller);
    // Asked again: what is owed is tried now, and not when its own pause is over.
    for (const { volume, changed } of results) if (!changed && volume !== null) records.remind(volume);
    const views = results.flatMap(({ volume, rev, ended }): readonly ClaimView[] => [
      ...(volume === null
        ? []
        : Object.values(volume.claims)
            .filter(wanted)
            .map((claim) => livingView({ volume, rev }, claim, factsOf))),
      ...ended.map((claim): ClaimView => ({ kind: "over", claim })),
    ]);
    const answered = new Set(views.map((v) => v.claim.uid));
    const aliases = new Set(views.map((v) => v.claim.alias));
    const missing =
      input.claimUids.some((uid) => !answered.has(uid)) || input.aliases.some((alias) => !aliases.has(alias));
    if (!missing) return views;
    // A repeated release is answered from what the claims left behind: the asked lives, or the newest of each alias.
    const over: ClaimView[] = [];
    for (const claim of (await endedOfWorkload(records, input.namespace, input.workload)).filter(wanted)) {
      if (answered.has(claim.uid) || (input.claimUids.length === 0 && aliases.has(claim.alias))) continue;
      aliases.add(claim.alias);
      over.push({ kind: "over", claim });
    }
    return [...views, ...over];
  };
