/**
 * The numbers from which orders are judged, as the journal holds them: one that is none compares as it likes, so that a floor would be
 * lost or a late order let through. A journal with such a one is damaged.
 */
import type { Epoch } from "@holdfast/model/epoch";
import type { AgentRecord, VolumeRecord } from "./events.ts";
import type { AgentFacts, PermitFacts, VolumeState } from "./types.ts";

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && Number(value) >= 0;
const isEpoch = ({ gen, ctr }: Epoch): boolean => isCount(gen) && isCount(ctr);
const isPermit = ({ epoch, nodeEpoch }: PermitFacts): boolean => isEpoch(epoch) && isCount(nodeEpoch);

const unless = (sound: boolean): string | undefined =>
  sound ? undefined : "a number that orders are judged by is none";

export const recordFault = (record: VolumeRecord | AgentRecord): string | undefined => {
  switch (record.type) {
    case "permit":
      return unless(isPermit(record.facts) && isEpoch(record.floor));
    case "adopted":
      return unless(isPermit(record.facts));
    case "released":
    case "dead":
      return unless(isEpoch(record.epoch));
    case "node-epoch":
      return unless(isCount(record.nodeEpoch));
    case "promised-gen":
      return unless(isCount(record.gen));
    default:
      return undefined;
  }
};

/** Of a file that was rewritten. */
export const volumeFault = ({ floor, dead, claims }: VolumeState): string | undefined =>
  unless(
    isEpoch(floor) &&
      dead.every(({ epoch }) => isEpoch(epoch)) &&
      Object.values(claims).every(({ facts }) => isPermit(facts)),
  );

export const agentFault = ({ nodeEpoch, promisedGen }: AgentFacts): string | undefined =>
  unless(isCount(nodeEpoch) && isCount(promisedGen));
