/** What both halves of a comparison with a backend work with. */
import { createHash } from "node:crypto";
import type { Clock } from "@holdfast/shared/async/clock";
import type { Logger } from "@holdfast/shared/log/logger";
import type { ListedVolume } from "../../domain/listing.ts";
import { type OrphanFinding, storageOrphan } from "../../domain/repair/orphan.ts";
import { type VolumeRef, volumeKey } from "../../domain/volume/volume.ts";
import type { BackendListings, Nodes, StoreGate } from "../../ports.ts";
import type { OrphanRecords } from "../../records/orphan-records.ts";
import type { CutRecords } from "../../records/snapshot-records.ts";
import type { VolumeRecords } from "../../records/volume/volume-records.ts";
import type { VolumeScan } from "../../records/volume/volume-scan.ts";

export interface TwoWayDeps {
  readonly records: Pick<VolumeRecords, "owner" | "change" | "get">;
  readonly scan: VolumeScan;
  readonly orphans: OrphanRecords;
  readonly cuts: Pick<CutRecords, "list">;
  readonly listings: BackendListings;
  readonly nodes: Pick<Nodes, "list">;
  readonly gate: Pick<StoreGate, "state">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/** 48 bits of an id: two that fall together hide a missing row from this pass, and never invent one. */
export const mark = (id: string): number => createHash("sha256").update(id).digest().readUIntBE(0, 6);

/** A volume whose attachment at a node was not shown. */
export interface MissingPair {
  readonly ref: VolumeRef;
  readonly uid: string;
  readonly node: string;
}

export const pairKey = ({ ref, uid, node }: MissingPair): string => `pair ${volumeKey(ref)} ${uid} ${node}`;

/** So many of each kind are followed in one pass; the rest is found by later ones. */
export const maxSuspects = 10_000;

/** What one pass has gathered. */
export interface Gathered {
  readonly plugin: string;
  /** Of the listing that counts. */
  readonly before: number;
  readonly seen: Set<number>;
  readonly missing: Map<string, MissingPair>;
  readonly unowned: Map<string, ListedVolume>;
  readonly found: Map<string, OrphanFinding>;
  pages: number;
}

export const marked = ({ seen }: Gathered, externalId: string): boolean => seen.has(mark(externalId));

export const storageDetail = async (
  { scan }: Pick<TwoWayDeps, "scan">,
  plugin: string,
  listed: ListedVolume,
  before: number,
): Promise<OrphanFinding | undefined> => {
  const last = await scan.lastOwner({ plugin, externalId: listed.externalId });
  if (last === undefined) return storageOrphan(plugin, listed, "no record of the last seven days stood for it");
  // Its end is too young for the listing to know of it (T2).
  if (last.deletedAt >= before) return undefined;
  const was = `it was volume ${volumeKey(last)} (${last.uid}) until ${new Date(last.deletedAt).toISOString()}`;
  if (last.forgotten === true) return storageOrphan(plugin, listed, `${was}, whose record was forgotten by repair`);
  if (last.kept === true) return storageOrphan(plugin, listed, `${was}, whose storage was kept on purpose`);
  return storageOrphan(plugin, listed, `${was}; the plugin answered DeleteVolume with OK and lists it still`);
};
