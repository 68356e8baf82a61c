/**
 * A record as states hold it: without what no decision about safety reads (times, counts of attempts, words for people), and without what
 * is the same in every record of the model.
 */
import type { Claim } from "../../../services/controller/src/domain/claim/claim.ts";
import { noAttempts } from "../../../services/controller/src/domain/outcome.ts";
import type { Expansion } from "../../../services/controller/src/domain/size/expansion.ts";
import type { Step } from "../../../services/controller/src/domain/steps.ts";
import { claimRecord, volumeRecord } from "../../../services/controller/src/domain/testing/record-fixtures.ts";
import type { Modification } from "../../../services/controller/src/domain/volume/modification.ts";
import type { Attachment, Bar, Intent, VolumeRecord } from "../../../services/controller/src/domain/volume/volume.ts";
import { canonicalText } from "../search/canonical-text.ts";

/** What of a record differs from the first one. */
export interface PlainRecord extends Partial<Omit<VolumeRecord, "claims" | "attachments" | "intent" | "bars">> {
  readonly claims: Readonly<Record<string, Partial<Claim>>>;
  readonly attachments: Readonly<Record<string, Attachment>>;
  readonly intent?: Intent;
  readonly bars: VolumeRecord["bars"];
  /** The record has ended. */
  readonly gone?: true;
}

export const goneRecord: PlainRecord = { claims: {}, attachments: {}, bars: [], gone: true };

const firstRecord = volumeRecord([], [], { epoch: { gen: 1, ctr: 0 } });
export const firstClaim = (uid: string, node: string): Claim =>
  claimRecord(uid, { node, accessMode: "SINGLE_NODE_WRITER" });

const differing = <T extends object>(value: T, from: T): Partial<T> =>
  Object.fromEntries(
    Object.entries(value).filter(([name, member]) => canonicalText(member) !== canonicalText(Reflect.get(from, name))),
  ) as Partial<T>;

const plainClaim = ({ blocked: _b, publication: _p, ...claim }: Claim): Partial<Claim> => ({
  ...differing(
    {
      ...claim,
      attempts: noAttempts,
      updatedAt: 0,
      stateSince: 0,
      ...(claim.activeAt === undefined ? {} : { activeAt: 0 }),
      ...(claim.failure === undefined ? {} : { failure: failed }),
    },
    firstClaim(claim.uid, claim.node),
  ),
  node: claim.node,
});

const plainAttachment = ({ publishContext: _c, owed, ...attachment }: Attachment): Attachment => ({
  ...attachment,
  publishContext: {},
  ...(owed === undefined ? {} : { owed: { why: owed.why, since: 0, attempts: noAttempts } }),
});

const plainBar = ({ attachment, ...bar }: Bar): Bar => ({
  ...bar,
  ...(attachment === undefined ? {} : { attachment: plainAttachment(attachment) }),
  since: 0,
  attempts: noAttempts,
});

const failed = { reason: "FAILED", message: "" };

const plainWish = <W extends Expansion | Modification>({ blocked: _b, failure, ...wish }: W) => ({
  ...wish,
  attempts: noAttempts,
  since: 0,
  ...(failure === undefined ? {} : { failure: failed }),
});

/** The epoch of an intent is for people. */
const plainIntent = (intent: Intent): Intent => ({ ...intent, epoch: { gen: 1, ctr: 0 } });

const eachValue = <T, U>(map: Readonly<Record<string, T>>, change: (value: T, key: string) => U): Record<string, U> =>
  Object.fromEntries(Object.entries(map).map(([key, value]) => [key, change(value, key)]));

export const plainRecord = ({
  blocked: _b,
  intent,
  claims,
  attachments,
  bars,
  expansion,
  modification,
  failure,
  ...record
}: VolumeRecord): PlainRecord => ({
  ...differing<object>({ ...record, attempts: noAttempts, updatedAt: 0 }, firstRecord),
  ...(failure === undefined ? {} : { failure: failed }),
  ...(expansion === undefined ? {} : { expansion: plainWish(expansion) }),
  ...(modification === undefined ? {} : { modification: plainWish(modification) }),
  claims: eachValue(claims, plainClaim),
  attachments: eachValue(attachments, plainAttachment),
  ...(intent === undefined ? {} : { intent: plainIntent(intent) }),
  bars: bars.map(plainBar),
});

export const wholeRecord = (plain: PlainRecord): VolumeRecord => ({
  ...firstRecord,
  ...plain,
  claims: eachValue(plain.claims, (claim, uid) => ({ ...firstClaim(uid, claim.node ?? ""), ...claim })),
});

/** What of the record a step and its call read: the claim that it is for, and the pair. A bar may be of any pair. */
export const recordFor = (record: PlainRecord, step: Step): PlainRecord => {
  const uid = "uid" in step ? step.uid : "";
  const bar = "bar" in step ? record.bars.find(({ opId }) => opId === step.bar) : undefined;
  if (bar !== undefined) return { ...record, claims: {} };
  const node = "node" in step ? step.node : "";
  const { [node]: attachment } = record.attachments;
  // The answer of an attach is for all claims of the pair.
  const claims = Object.entries(record.claims).filter(
    ([name, claim]) => name === uid || (step.do === "attach" && claim.node === node),
  );
  return {
    ...record,
    bars: [],
    claims: Object.fromEntries(claims),
    attachments: attachment === undefined ? {} : { [node]: attachment },
  };
};
