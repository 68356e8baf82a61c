import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Claim } from "../domain/claim/claim.ts";
import type { NodeRecord } from "../domain/node/node.ts";
import {
  attachmentRecord,
  claimRecord,
  momentAt,
  nodeRecord,
  volumeRecord,
} from "../domain/testing/record-fixtures.ts";
import type { VolumeRecord } from "../domain/volume/volume.ts";
import type { VolumeRecords } from "../records/volume/volume-records.ts";
import { createAcknowledgements, type ReportedClaim, type Reporter } from "./acknowledgements.ts";

const epoch = { gen: 1, ctr: 9 };

/** One volume, changed as the records would change it. */
const recordsOf = (start: VolumeRecord | undefined) => {
  let volume: VolumeRecord | null = start ?? null;
  const change: VolumeRecords["change"] = async (_ref, decide) => {
    const before = volume;
    if (volume !== null) volume = decide(volume, momentAt(1_000)).volume;
    return { volume, rev: 1, ended: [], changed: volume !== before };
  };
  return { change, volume: () => volume };
};

const held = (state: Claim["state"], change: Partial<Claim> = {}): VolumeRecord =>
  volumeRecord([claimRecord("c1", { state, epoch, ...change })], [attachmentRecord("n1")]);

const report = (change: Partial<ReportedClaim> = {}): ReportedClaim => ({
  namespace: "ns",
  volume: "data",
  volumeUid: "volume-1",
  claimUid: "c1",
  epoch,
  ...change,
});

let speaksFrom = 0;
const nodeOf = (name: string): NodeRecord => nodeRecord(name, { nodeEpoch: 2, instance: "i1", speaksFrom });

const tell = async (start: VolumeRecord | undefined, reported = report(), reporter: Partial<Reporter> = {}) => {
  const records = recordsOf(start);
  const acknowledgements = createAcknowledgements({ records, nodeOf, log: createMemoryLogger() });
  const forgotten = await acknowledgements.released({ node: "n1", nodeEpoch: 2, instance: "i1", ...reporter }, [
    reported,
  ]);
  return { forgotten, claim: records.volume()?.claims["c1"] };
};

describe("a release that an agent tells of", () => {
  test.each(["OFFERED", "ACTIVE", "RELEASING"] as const)(
    "of a claim that is %s: it leaves, and is forgotten",
    async (state) => {
      expect(await tell(held(state))).toMatchObject({ forgotten: ["c1"], claim: { state: "DETACHING" } });
    },
  );

  test("told again changes nothing and is forgotten again", async () => {
    expect(await tell(held("DETACHING"))).toMatchObject({ forgotten: ["c1"], claim: { state: "DETACHING" } });
    expect(await tell(volumeRecord())).toMatchObject({ forgotten: ["c1"], claim: undefined });
    expect(await tell(undefined)).toMatchObject({ forgotten: ["c1"] });
  });

  test("of a grant that is not offered yet is kept in mind by the agent", async () => {
    expect(await tell(held("ATTACHING"))).toMatchObject({ forgotten: [], claim: { state: "ATTACHING" } });
  });

  test.each([
    ["another life of the volume", { volumeUid: "volume-0" }],
    ["an earlier grant", { epoch: { gen: 1, ctr: 8 } }],
    ["another claim", { claimUid: "c0" }],
  ])("of %s takes nothing away, and is forgotten", async (_what, change) => {
    expect(await tell(held("ACTIVE"), report(change))).toMatchObject({
      forgotten: [report(change).claimUid],
      claim: { state: "ACTIVE" },
    });
  });

  test("[I2] by a former life of the journal takes nothing away, and is not forgotten", async () => {
    expect(await tell(held("ACTIVE"), report(), { nodeEpoch: 1 })).toMatchObject({
      forgotten: [],
      claim: { state: "ACTIVE" },
    });
  });

  test("[I2] by a copy of the state directory takes nothing away, and is not forgotten", async () => {
    const copy = { instance: "i2" };
    expect(await tell(held("ACTIVE"), report(), copy)).toMatchObject({ forgotten: [], claim: { state: "ACTIVE" } });
  });

  test("[I2] of a claim that was granted to an earlier life takes nothing away", async () => {
    speaksFrom = 2;
    onTestFinished(() => {
      speaksFrom = 0;
    });
    expect(await tell(held("ACTIVE", { nodeEpoch: 1 }))).toMatchObject({ claim: { state: "ACTIVE" } });
    expect(await tell(held("ACTIVE", { nodeEpoch: 2 }))).toMatchObject({ claim: { state: "DETACHING" } });
  });

  test("from another node takes nothing away", async () => {
    expect(await tell(held("ACTIVE"), report(), { node: "n2" })).toMatchObject({ claim: { state: "ACTIVE" } });
  });
});

test("a publication that vanished leaves the claim ACTIVE and degraded, once", async () => {
  const records = recordsOf(held("ACTIVE"));
  const acknowledgements = createAcknowledgements({ records, nodeOf, log: createMemoryLogger() });
  await acknowledgements.lost({ node: "n1", nodeEpoch: 2, instance: "i1" }, [report(), report()]);
  expect(records.volume()?.claims["c1"]).toMatchObject({ state: "ACTIVE", degradedSince: 1_000 });
  await acknowledgements.lost({ node: "n1", nodeEpoch: 2, instance: "i1" }, [report({ epoch: { gen: 1, ctr: 1 } })]);
  expect(records.volume()?.claims["c1"]).toMatchObject({ degradedSince: 1_000 });
  const former = recordsOf(held("ACTIVE"));
  const told = createAcknowledgements({ records: former, nodeOf, log: createMemoryLogger() });
  await told.lost({ node: "n1", nodeEpoch: 1, instance: "i1" }, [report()]);
  expect(former.volume()?.claims["c1"]?.degradedSince).toBeUndefined();
});
