import { expect, test } from "vitest";
import { tombstoneOf } from "../../domain/change.ts";
import type { FinalClaimState } from "../../domain/claim/claim.ts";
import { claimRecord, volumeRecord } from "../../domain/testing/record-fixtures.ts";
import { encodeClaimTombstone, tombstoneTtlMs } from "./volume-codec.ts";

const ended = (reason?: string, state: FinalClaimState = "FAILED") => {
  const claim = claimRecord("c1", reason === undefined ? {} : { failure: { reason, message: "" } });
  return encodeClaimTombstone(tombstoneOf(volumeRecord(), claim, state, 5)).ttlMs;
};

test("a tombstone is kept for seven days, and for ever when a person's word stood for the proof of the agent", () => {
  expect(ended()).toBe(tombstoneTtlMs);
  expect(ended("PLUGIN_REFUSED")).toBe(tombstoneTtlMs);
  expect(ended("CLAIM_ABANDONED")).toBeUndefined();
  expect(ended("VOLUME_FORGOTTEN")).toBeUndefined();
  expect(ended("NODE_FENCED", "FENCED")).toBeUndefined();
});
