/** What a complete listing lacks, or has and nobody knows, is looked at once more before anything follows from it (T1, T2). */

import { reattachWanted } from "../../domain/attachment/owed-change.ts";
import { noChange } from "../../domain/change.ts";
import { mayBeJudged, type Orphan, type OrphanFinding, recordOrphan } from "../../domain/repair/orphan.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import { orphanIdOf } from "../../records/orphan-records.ts";
import {
  type Gathered,
  type MissingPair,
  marked,
  maxSuspects,
  pairKey,
  storageDetail,
  type TwoWayDeps,
} from "./two-way-facts.ts";

interface SuspectsOptions {
  /** Of the complete listing before. */
  readonly before: ReadonlySet<string>;
  /** How often in a row each pair was made again, and still is not shown. */
  readonly redriven: Map<string, number>;
  readonly signal: AbortSignal;
}

export interface SuspectsSettled {
  /** What nobody has proved yet; one more complete listing that agrees is the proof. */
  readonly suspects: ReadonlySet<string>;
  readonly orphans: number;
  readonly redriven: number;
}

/** Looks at single volumes in one pass: a listing that lacks everything must not become as many calls. */
const maxLooks = 1_000;
/** A plugin that answers OK and never shows the pair lies with one or the other: it is not asked for ever. */
const maxRedrives = 2;

export const settleSuspects = async (
  deps: TwoWayDeps,
  all: Gathered,
  { before: suspectedBefore, redriven, signal }: SuspectsOptions,
): Promise<SuspectsSettled> => {
  const { records, scan, orphans, listings, log } = deps;
  const { plugin, before } = all;
  const single = listings.can(plugin).single === "yes";
  const suspects = new Set<string>();
  const present = new Set<string>();
  let made = 0;
  let looks = 0;

  const suspect = (key: string): void => {
    if (suspects.size < maxSuspects) suspects.add(key);
  };
  const found = async (finding: OrphanFinding): Promise<void> => {
    if (present.size < maxSuspects) present.add((await orphans.found(finding)).id);
  };

  /** A complete listing before this one agreed, or somebody has proved it already. */
  const provedBefore = async (key: string, finding: OrphanFinding): Promise<boolean> => {
    suspect(key);
    return suspectedBefore.has(key) || (await orphans.get(orphanIdOf(finding))) !== undefined;
  };

  /** undefined = the plugin cannot tell. */
  const lookAt = async (externalId: string) => {
    if (!single || looks >= maxLooks) return undefined;
    looks += 1;
    const answer = await listings.volume(plugin, externalId, signal);
    return answer.kind === "done" ? { listed: answer.value } : undefined;
  };

  /** Storage that nobody knows; not while some record's storage has no name yet, unless it was there before as well. */
  const settleStorage = async (): Promise<void> => {
    const making = await scan.beingMade(plugin);
    for (const listed of all.unowned.values()) {
      signal.throwIfAborted();
      const key = `storage ${listed.externalId}`;
      if ((await records.owner({ plugin, externalId: listed.externalId })) !== undefined) {
        all.unowned.delete(listed.externalId);
        continue;
      }
      const finding = await storageDetail(deps, plugin, listed, before);
      if (finding === undefined) continue;
      if (making !== undefined && !(await provedBefore(key, finding))) continue;
      const maybe =
        making === undefined
          ? ""
          : `; it may be what CreateVolume for ${volumeKey(making)} made, which is not known yet`;
      await found({ ...finding, detail: `${finding.detail}${maybe}` });
    }
  };

  const settleRecord = async (volume: VolumeRecord): Promise<void> => {
    if (volume.state !== "AVAILABLE" || volume.externalId === "" || !mayBeJudged(volume, before)) return;
    if (marked(all, volume.externalId) || !listings.tells(volume)) return;
    const key = `record ${volumeKey(volume)} ${volume.uid}`;
    const look = await lookAt(volume.externalId);
    if (look?.listed !== undefined) return; // it is there, whatever the listing says
    if (look === undefined && !(await provedBefore(key, recordOrphan(volume)))) return;
    const now = (await records.get(volume))?.volume;
    if (now?.uid === volume.uid && mayBeJudged(now, before)) await found(recordOrphan(now));
  };

  const isMissing = async (volume: VolumeRecord, pair: MissingPair, key: string): Promise<boolean> => {
    const nodeId = volume.attachments[pair.node]?.nodeId ?? "";
    const look = await lookAt(volume.externalId);
    const nodes = look?.listed?.publishedNodes;
    if (nodes !== undefined) return !nodes.includes(nodeId);
    if (suspectedBefore.has(key)) return true;
    suspect(key);
    return false;
  };

  const settlePair = async (pair: MissingPair): Promise<void> => {
    const volume = (await records.get(pair.ref))?.volume;
    if (volume?.uid !== pair.uid || !mayBeJudged(volume, before)) return;
    const key = pairKey(pair);
    if (!(await isMissing(volume, pair, key))) return;
    const times = redriven.get(key) ?? 0;
    if (times >= maxRedrives) {
      log.warn("a plugin answers that it attached a volume, and never lists it as attached", {
        volume: volumeKey(pair.ref),
        node: pair.node,
        plugin,
      });
      return;
    }
    const { changed } = await records.change(pair.ref, (v, at) =>
      v.uid === pair.uid && mayBeJudged(v, before) ? reattachWanted(v, pair.node, at) : noChange(v),
    );
    if (!changed) return;
    redriven.set(key, times + 1);
    made += 1;
    log.warn("the backend has lost an attachment that claims hold; it is made again", {
      volume: volumeKey(pair.ref),
      node: pair.node,
      plugin,
    });
  };

  /** Not found now, and that is because it is explained or gone, not because nobody could judge it. */
  const isOver = async (orphan: Orphan): Promise<boolean> => {
    switch (orphan.kind) {
      case "storage":
        return !all.unowned.has(orphan.externalId) && all.unowned.size < maxSuspects;
      case "attachment":
      case "record": {
        const volume = (await records.get({ namespace: orphan.namespace, id: orphan.volume }))?.volume;
        if (volume?.externalId !== orphan.externalId || mayBeJudged(volume, before)) return true;
        const nodes = (await lookAt(orphan.externalId))?.listed?.publishedNodes;
        return orphan.kind === "attachment" && nodes !== undefined && !nodes.includes(orphan.driverNodeId);
      }
      case "mount":
      case "snapshot":
        return false;
    }
  };

  for (const finding of all.found.values()) await found(finding);
  await settleStorage();
  for await (const volumes of scan.pages(plugin))
    for (const volume of volumes) {
      signal.throwIfAborted();
      await settleRecord(volume);
    }
  for (const pair of all.missing.values()) await settlePair(pair);
  for await (const orphan of orphans.of(plugin))
    if (!present.has(orphan.id) && (await isOver(orphan))) await orphans.gone(orphan.id);
  return { suspects, orphans: present.size, redriven: made };
};
