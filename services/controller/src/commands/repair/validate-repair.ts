import {
  byteLength,
  checkControl,
  checkId,
  checkOptionalId,
  checkString,
  checkWorkload,
  type Violation,
} from "../../domain/limits.ts";
import type { Asked } from "./repair-model.ts";

/** What a person writes about it; a ticket and two sentences. */
const maxTextBytes = 1024;

const checkText = (field: string, text: string, missing: string): readonly Violation[] => [
  ...(text.trim() === "" ? [{ field, description: missing }] : []),
  ...(byteLength(text) > maxTextBytes ? [{ field, description: `is longer than ${maxTextBytes} bytes` }] : []),
  ...checkControl(field, text),
];

export const checkRepair = ({ reason, requestId }: Asked): readonly Violation[] => [
  ...checkText("reason", reason, "is required; it is recorded"),
  ...checkString("request_id", requestId),
];

export const checkEvidence = (evidence: string): readonly Violation[] =>
  checkText("evidence", evidence, "is required: what shows that it is so");

export const checkClaimKey = (key: {
  readonly namespace: string;
  readonly volume: string;
  readonly workload: string;
  readonly alias: string;
  readonly claimUid: string;
}): readonly Violation[] => [
  ...checkId("namespace", key.namespace),
  ...checkId("volume", key.volume),
  ...checkWorkload("workload", key.workload),
  ...checkOptionalId("alias", key.alias),
  ...(key.claimUid === "" ? [{ field: "claim_uid", description: "is required: only this life" }] : []),
];
