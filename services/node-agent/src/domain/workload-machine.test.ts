import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  afterBoot,
  applyWorkload,
  noWorkloads,
  type WorkloadRecord,
  type WorkloadState,
  workloadKey,
  workloadPhases,
  workloadTable,
} from "./workload-machine.ts";

const name = { namespace: "ns", workload: "web" };
const volumes = [{ alias: "data", volume: "vol", readOnly: false, places: [] }];
const records: Readonly<Record<WorkloadRecord["type"], WorkloadRecord>> = {
  wanted: { ...name, type: "wanted", digest: "d", volumes },
  claimed: { ...name, type: "claimed", claimUids: { data: "uid-1" } },
  failed: { ...name, type: "failed", failure: { reason: "PLUGIN_REFUSED", alias: "data", volume: "vol" } },
  "release-wanted": { ...name, type: "release-wanted" },
  "restart-wanted": { ...name, type: "restart-wanted", since: 5, reason: "MOUNT_LOST" },
  restarted: { ...name, type: "restarted" },
  gone: { ...name, type: "gone" },
};
const fold = (...types: WorkloadRecord["type"][]): WorkloadState | undefined =>
  types.reduce((book, type) => applyWorkload(book, records[type]), noWorkloads)[workloadKey(name)];

test("its way from the wish to the claims, with all that an answer needs", () => {
  expect(fold("wanted")).toEqual({ ...name, phase: "wanted", digest: "d", volumes, claimUids: {} });
  expect(fold("wanted", "claimed")).toMatchObject({ phase: "claimed", volumes, claimUids: { data: "uid-1" } });
  expect(fold("wanted", "claimed", "gone")).toBeUndefined();
});

test("[W22] what failed is known by its reason until it is undone", () => {
  const { failure } = records.failed as Extract<WorkloadRecord, { type: "failed" }>;
  expect(fold("wanted", "claimed", "failed")).toMatchObject({
    phase: "undoing",
    failure,
    claimUids: { data: "uid-1" },
  });
});

test("a release of what is not known is kept until it is done: its record may have been lost", () => {
  expect(fold("release-wanted")).toMatchObject({ ...name, phase: "releasing", volumes: [], claimUids: {} });
});

test("the first death of a mount is the one that is told, until the workload was restarted", () => {
  const first = fold("wanted", "claimed", "restart-wanted");
  expect(first?.restart).toEqual({ since: 5, reason: "MOUNT_LOST" });
  const book = { [workloadKey(name)]: first as WorkloadState };
  const again = applyWorkload(book, { ...name, type: "restart-wanted", since: 9, reason: "OTHER" });
  expect(again[workloadKey(name)]?.restart).toEqual({ since: 5, reason: "MOUNT_LOST" });
  expect(fold("wanted", "claimed", "restart-wanted", "restarted")).not.toHaveProperty("restart");
});

test("a reboot ends every process: none has to be restarted", () => {
  const book = { [workloadKey(name)]: fold("wanted", "claimed", "restart-wanted") as WorkloadState };
  expect(afterBoot(book)[workloadKey(name)]).toEqual(fold("wanted", "claimed"));
});

describe("of any sequence of records", () => {
  const anyRecords = fc.array(fc.constantFrom(...Object.values(records)), { maxLength: 12 });

  test("[Z2] on its way out it stays there until it is gone", () => {
    fc.assert(
      fc.property(anyRecords, (sequence) => {
        let book = noWorkloads;
        for (const record of sequence) {
          const before = book[workloadKey(name)]?.phase;
          book = applyWorkload(book, record);
          const after = book[workloadKey(name)]?.phase;
          if (before === "releasing") expect([undefined, "releasing"]).toContain(after);
          if (before === "undoing") expect([undefined, "undoing", "releasing"]).toContain(after);
          if (after === undefined && before !== undefined) expect(record.type).toBe("gone");
        }
      }),
    );
  });

  test("other workloads are not touched", () => {
    fc.assert(
      fc.property(anyRecords, (sequence) => {
        const other = applyWorkload(noWorkloads, { ...records.wanted, workload: "other" } as WorkloadRecord);
        const book = sequence.reduce(applyWorkload, other);
        expect(book["ns/other"]).toEqual(other["ns/other"]);
      }),
    );
  });

  test("the table has a row for every phase", () => {
    expect(Object.keys(workloadTable).sort()).toEqual(["none", ...workloadPhases].sort());
  });
});
