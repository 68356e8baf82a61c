/**
 * What agents say of the claims that they hold, put on the claims. Each report has all that the agent says: what an earlier one had and
 * this one has not is over. What a life before, or another controller, was told last is found among what is blocked.
 */
import { compareEpochs } from "@holdfast/model/epoch";
import { foldChanges, noChange } from "../domain/change.ts";
import { type ClaimNews, newsTold } from "../domain/claim/claim-news.ts";
import type { NodeRecord } from "../domain/node/node.ts";
import { speaksFor } from "../domain/node/pending-life.ts";
import type { VolumeRecord, VolumeRef } from "../domain/volume/volume.ts";
import { pagesOf } from "../records/pages-of.ts";
import type { VolumeRecords } from "../records/volume/volume-records.ts";
import type { ReportedNews, Reporter } from "./acknowledgements.ts";

export interface ToldNews {
  take(reporter: Reporter, news: readonly ReportedNews[]): Promise<void>;
}

const pageSize = 200;

export const createToldNews = ({
  records,
  nodeOf,
}: {
  readonly records: Pick<VolumeRecords, "change" | "list">;
  readonly nodeOf: (node: string) => NodeRecord | undefined;
}): ToldNews => {
  /** By node: the volumes of which the life that speaks has said something. */
  const told = new Map<string, { readonly instance: string; readonly volumes: Map<string, VolumeRef> }>();

  const standing = async (node: string): Promise<Map<string, VolumeRef>> => {
    const found = new Map<string, VolumeRef>();
    const pages = pagesOf((after) => records.list("volume-blocked", "all", { after, limit: pageSize }));
    for await (const { volumes } of pages)
      for (const { volume } of volumes)
        if (Object.values(volume.claims).some((claim) => claim.node === node && claim.ailing !== undefined))
          found.set(volume.uid, { namespace: volume.namespace, id: volume.id });
    return found;
  };

  /** All that is said of each claim of the volume on that node, of each whose life and grant is meant. */
  const newsOf = (
    volume: VolumeRecord,
    record: NodeRecord,
    news: readonly ReportedNews[],
  ): ReadonlyMap<string, ClaimNews> => {
    const here = Object.values(volume.claims).filter(
      (claim) => claim.node === record.name && claim.epoch !== undefined && speaksFor(record, claim),
    );
    return new Map(
      here.map((claim, i) => {
        const its = news.filter(
          ({ volumeUid, claimUid, epoch }) =>
            volumeUid === volume.uid &&
            (claimUid === "" ? i === 0 : claimUid === claim.uid) &&
            (epoch === undefined || claim.epoch === undefined || compareEpochs(epoch, claim.epoch) === 0),
        );
        const ailing = its.find((one) => one.ailing !== undefined)?.ailing;
        const call = its.find((one) => one.call !== undefined)?.call;
        return [claim.uid, { ...(ailing && { ailing }), ...(call && { call }) }];
      }),
    );
  };

  return {
    async take(reporter, news) {
      const { node, nodeEpoch, instance } = reporter;
      const known = told.get(node);
      const before = known?.instance === instance ? known.volumes : await standing(node);
      const now = new Map(news.map(({ namespace, volume, volumeUid }) => [volumeUid, { namespace, id: volume }]));
      told.set(node, { instance, volumes: now });
      for (const ref of new Map([...before, ...now]).values())
        await records.change(ref, (found, at) => {
          const record = nodeOf(node);
          if (record?.nodeEpoch !== nodeEpoch || record.instance !== instance) return noChange(found);
          return foldChanges(found, [...newsOf(found, record, news)], (v, [uid, one]) => newsTold(v, uid, one, at));
        });
    },
  };
};
