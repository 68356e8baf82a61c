import { createManualClock } from "@holdfast/shared/async/manual-clock";
import type { AuditFields } from "@holdfast/shared/audit/audit-chain";
import { AuditUnwritable } from "@holdfast/shared/audit/audit-trail";
import { expect, test } from "vitest";
import type { AuditEntry } from "../domain/repair/audit.ts";
import { type Act, createActAudit } from "./act-audit.ts";

const act: Act = {
  verb: "PutSecret",
  method: "/holdfast.v1.SecretService/PutSecret",
  who: "scheduler/s1",
  serial: undefined,
  subject: { namespace: "shop", secret: "array" },
  reason: "",
  request: "r1",
  traceId: undefined,
};

const rig = () => {
  const lines: AuditFields[] = [];
  const stored: AuditEntry[] = [];
  const disk = { fails: true };
  const trail = {
    async commit(fields: AuditFields) {
      if (disk.fails) throw new AuditUnwritable("/audit", "ENOSPC");
      lines.push(fields);
    },
  };
  const records = {
    newId: () => `id-${stored.length}`,
    async write(_id: string, entry: AuditEntry) {
      stored.push(entry);
    },
    get: async () => undefined,
  };
  const clock = createManualClock();
  const acts = createActAudit({ trail, reads: trail, records, self: "controller/c1", clock, traceId: () => undefined });
  return { acts, lines, stored, disk, clock };
};

test("[AA3] the store takes 10,000 records while the file fails, then acts are refused, until the file can be written", async () => {
  const { acts, stored, disk, clock } = rig();
  for (let n = 0; n < 10_000; n += 1) await acts.begin(act);
  expect(stored).toHaveLength(10_000);
  await expect(acts.begin(act)).rejects.toMatchObject({ reason: "AUDIT_UNAVAILABLE" });
  expect(stored).toHaveLength(10_000);
  disk.fails = false;
  await acts.begin(act);
  disk.fails = true;
  await acts.begin(act);
  expect(stored).toHaveLength(10_001);
  expect(clock.pending()).toBe(0);
});

test("what nobody has checked yet is cut, and indexes no record of the store", async () => {
  const { acts, lines, stored, disk } = rig();
  const long = "x".repeat(100_000);
  const odd = { ...act, subject: { namespace: long, volume: "../data", secret: "" }, reason: long, request: long };
  await acts.begin(odd);
  expect(stored[0]?.subject).toEqual({});
  disk.fails = false;
  await acts.begin(odd);
  for (const kept of [stored[0], lines[0]]) expect(JSON.stringify(kept).length).toBeLessThan(5_000);
  expect(lines[0]?.["subject"]).toEqual({ namespace: `${"x".repeat(1_024)}…`, volume: "../data" });
});
