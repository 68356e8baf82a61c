import { describe, expect, it } from "vitest";
import { attachmentRecord, claimRecord, failureWith, momentAt, volumeRecord } from "../testing/record-fixtures.ts";
import { growthTo, mustNotRepeat } from "./growth.ts";
import { growthAnswered } from "./growth-change.ts";

const at = momentAt(5_000);
const volume = volumeRecord([claimRecord("a", { node: "n1", state: "ACTIVE" })], [attachmentRecord("n1")]);
const owed = { ...volume, growth: growthTo(volume, 9, 0, false, 1_000) };
const answered = (
  before: typeof owed,
  kind: "refused" | "unknown",
  failure: ReturnType<typeof failureWith>,
): typeof owed => growthAnswered(before, "n1", 9, { kind, failure }, at).volume as typeof owed;

describe("growth that a node was refused beside its users", () => {
  it.each(["wait", "block"] as const)(
    "keeps the reason why nothing is repeated when a call of another controller has no certain answer (%s)",
    (advice) => {
      const refused = answered(owed, "refused", failureWith("block", { code: "FAILED_PRECONDITION" }));
      const after = answered(refused, "unknown", failureWith(advice, { code: "UNAVAILABLE" }));
      expect(mustNotRepeat(after, "n1")).toBe(true);
      expect(after.growth?.nodes["n1"]).toMatchObject({
        uncertainSince: at.now,
        blocked: { reason: "EXPAND_IN_USE" },
      });
    },
  );
});
