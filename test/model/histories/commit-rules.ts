/**
 * The store as it compares commits and vettings: the rules L7 to L9 of library.lua, which no model can load. `redis-store.test.ts` and
 * `redis-loss.test.ts` prove them on a real server.
 */
import type { Vetting } from "@holdfast/model/vetting";
import { grantsOrOffers } from "../../../services/controller/src/domain/claim/grants-or-offers.ts";
import type { StoreIdentity } from "../../../services/controller/src/domain/store-types.ts";
import { wholeRecord } from "../volume/plain-record.ts";
import type { Controller, Meta, Site, StoredVolume } from "./history-types.ts";

export const runIdOf = (run: number): string => `process ${run}`;

/** A store that a controller has seen more of than it has is neither begun nor vetted. */
export const identityOf = ({ run, gen, uid, begun, vetted }: Meta, { ahead }: Controller): StoreIdentity => ({
  clusterUid: "cell",
  format: 1,
  vetting: { gen, uid },
  begun: begun && ahead === undefined,
  runId: runIdOf(run),
  vettedRunId: vetted && ahead === undefined ? runIdOf(run) : "",
  lastVetted: "",
  keptAll: false,
});

/** `behind`: the store has lost what the controller saw. */
export const commitVerdict = (
  { meta, volume }: Site,
  { high, ahead }: Controller,
  after: StoredVolume,
  requiresVetted = false,
): "done" | "unvetted" | "behind" => {
  if (ahead === "unnoticed") return "behind";
  const grants = requiresVetted || grantsOrOffers(wholeRecord(volume.record), wholeRecord(after.record));
  return grants && (!meta.vetted || high !== meta.gen || ahead !== undefined) ? "unvetted" : "done";
};

/** undefined: another process by now, or another vetting was begun. */
export const beginIn = (meta: Meta, runId: string, { gen, uid }: Vetting): Meta | undefined => {
  if (runIdOf(meta.run) !== runId) return undefined;
  return meta.gen >= gen ? meta : { run: meta.run, gen, uid, begun: true, vetted: false };
};

export const markIn = (meta: Meta, runId: string, { gen, uid }: Vetting): Meta | undefined =>
  runIdOf(meta.run) === runId && meta.gen === gen && meta.uid === uid && meta.begun
    ? { ...meta, vetted: true }
    : undefined;
