import { compareEpochs, type Epoch } from "@holdfast/model/epoch";
import type { Logger } from "@holdfast/shared/log/logger";
import { noChange } from "../domain/change.ts";
import type { Claim } from "../domain/claim/claim.ts";
import { publicationLost, released } from "../domain/claim/claim-change.ts";
import { permitLives } from "../domain/claim/claim-machine.ts";
import type { ClaimNews } from "../domain/claim/claim-news.ts";
import type { NodeRecord } from "../domain/node/node.ts";
import { speaksFor } from "../domain/node/pending-life.ts";
import type { VolumeRecord } from "../domain/volume/volume.ts";
import type { VolumeRecords } from "../records/volume/volume-records.ts";

/** One claim of which an agent speaks. */
export interface ReportedClaim extends Reported {
  readonly epoch: Epoch;
}

interface Reported {
  readonly namespace: string;
  readonly volume: string;
  readonly volumeUid: string;
  readonly claimUid: string;
}

/** What an agent says of a claim that it holds; without a claim's uid of the volume on its node. */
export interface ReportedNews extends Reported, ClaimNews {
  readonly epoch?: Epoch;
}

/** Who speaks: the node, and the life of its journal in which it said so. */
export interface Reporter {
  readonly node: string;
  readonly nodeEpoch: number;
  /** The process that speaks. */
  readonly instance: string;
}

/** What agents tell unasked, or again because its answer may have been lost. */
export interface Acknowledgements {
  /** The uids of those whose release is durable here, so that the agent may forget them. */
  released(reporter: Reporter, claims: readonly ReportedClaim[]): Promise<readonly string[]>;
  lost(reporter: Reporter, claims: readonly (ReportedClaim & { readonly reason?: string })[]): Promise<void>;
}

/** The claim as the record has it, if it is the very life and grant that the agent speaks of. */
const meant = (volume: VolumeRecord, node: NodeRecord, report: ReportedClaim): Claim | undefined => {
  const claim = volume.uid === report.volumeUid ? volume.claims[report.claimUid] : undefined;
  if (claim?.epoch === undefined || claim.node !== node.name || !speaksFor(node, claim)) return undefined;
  return compareEpochs(claim.epoch, report.epoch) === 0 ? claim : undefined;
};

export const createAcknowledgements = ({
  records,
  nodeOf,
  log,
}: {
  readonly records: Pick<VolumeRecords, "change">;
  /** The node as it is registered now. */
  readonly nodeOf: (node: string) => NodeRecord | undefined;
  readonly log: Logger;
}): Acknowledgements => {
  /** I2: what a former life, or a life that was not admitted, says proves nothing of the permits of this life. */
  const speaker = ({ node, nodeEpoch, instance }: Reporter): NodeRecord | undefined => {
    const record = nodeOf(node);
    return record?.nodeEpoch === nodeEpoch && record.instance === instance ? record : undefined;
  };

  return {
    async released(reporter, claims) {
      const { node } = reporter;
      const forgotten: string[] = [];
      for (const report of claims) {
        const ref = { namespace: report.namespace, id: report.volume };
        const { volume } = await records.change(ref, (found, at) => {
          const record = speaker(reporter);
          return record === undefined || meant(found, record, report) === undefined
            ? noChange(found)
            : released(found, report.claimUid, at);
        });
        const record = speaker(reporter);
        if (record === undefined) {
          log.warn("a life that is not the registered one tells of a release; it is not taken", {
            node,
            claim: report.claimUid,
          });
          continue;
        }
        const left = volume === null ? undefined : meant(volume, record, report);
        // A claim whose permit may still be sent keeps the agent's memory that this epoch is over.
        if (left === undefined || !permitLives[left.state]) forgotten.push(report.claimUid);
        else log.warn("an agent tells of a release that the record cannot take yet", { node, claim: report.claimUid });
      }
      return forgotten;
    },

    async lost(reporter, claims) {
      for (const report of claims)
        await records.change({ namespace: report.namespace, id: report.volume }, (found, at) => {
          const record = speaker(reporter);
          return record === undefined || meant(found, record, report) === undefined
            ? noChange(found)
            : publicationLost(found, report.claimUid, at, report.reason);
        });
    },
  };
};
