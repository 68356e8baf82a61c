import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { expect, test } from "vitest";
import type { HeldClaim, VolumeState } from "../domain/types.ts";
import type { VolumeMeasure } from "../domain/volume-figures.ts";
import type { WorkloadState } from "../domain/workload-machine.ts";
import type { Held } from "./held-claims.ts";
import { createWorkloadStats } from "./workload-stats.ts";

const state: WorkloadState = {
  namespace: "ns",
  workload: "web",
  phase: "claimed",
  digest: "",
  volumes: ["own", "both", "away"].map((alias) => ({ alias, volume: `vol-${alias}`, readOnly: false, places: [] })),
  claimUids: { own: "1", both: "2", away: "3" },
};
const held = (claimUid: string, volumeUid: string, phase: HeldClaim["phase"] = "published"): Held => ({
  volume: { ref: { volumeUid } } as VolumeState,
  claim: { facts: { claimUid }, phase } as HeldClaim,
});
const usage = [{ unit: "bytes", total: 10n, used: 4n, available: 6n }] as const;
const error = { reason: "DEADLINE_EXCEEDED", message: "it hangs", method: "NodeGetVolumeStats", code: "", at: 7 };

test("each volume by the one measurement that is shared; what cannot be measured says why and hides no other", async () => {
  const clock = createManualClock();
  const asked: string[] = [];
  const measures: Record<string, VolumeMeasure> = {
    o: { volumeUid: "o", figures: { usage }, measuredAt: 5, sharedBy: 1 },
    b: { volumeUid: "b", figures: { usage: [] }, sharedBy: 2, error },
  };
  const stats = createWorkloadStats({
    held: { of: () => [held("1", "o"), held("2", "b"), held("3", "a", "unsure"), held("4", "other")] },
    measure: async (volumeUid) => {
      asked.push(volumeUid);
      return measures[volumeUid];
    },
    clock,
  });
  expect(await stats.of(state)).toEqual([
    { alias: "own", volume: "vol-own", shared: false, figures: { usage }, measuredAt: 5 },
    { alias: "both", volume: "vol-both", shared: true, figures: { usage: [] }, error },
    {
      alias: "away",
      volume: "vol-away",
      shared: false,
      error: {
        reason: "MOUNT_MISSING",
        message: "volume ns/vol-away is not mounted for workload web",
        method: "",
        code: "",
        at: clock.now(),
      },
    },
  ]);
  expect(asked).toEqual(["o", "b"]);
});
