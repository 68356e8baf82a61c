import { expect, test } from "vitest";
import type { VolumeRecord } from "./events.ts";
import { survivalOf } from "./record-survival.ts";
import type { StagePhase } from "./types.ts";

const intent: VolumeRecord = { type: "publish-intent", claimUid: "c1" };
const stage = (phase: StagePhase, needed = true) => ({
  stage: { phase, needed, path: "/s", shown: [], marks: [], before: [] },
});

test("an intent to publish from a stage goes with the power, as the stage itself is owed on disk; any other one does not", () => {
  expect(survivalOf([{ type: "staged", shown: [], marks: [], before: [] }, intent], stage("staged"))).toBe("process");
  expect(survivalOf([intent], stage("unstaged", false))).toBe("host");
  expect(survivalOf([{ type: "stage-intent" }, intent], stage("staging"))).toBe("host");
});
