import { randomUUID } from "node:crypto";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { expect, it } from "vitest";
import { createAuditRecords } from "../../records/audit-records.ts";
import { createQuotaRecords } from "../../records/quota/quota-records.ts";
import { createSqliteStore } from "../../store/sqlite/sqlite-store.ts";
import type { Caller } from "../model.ts";
import { createQuotaCommands } from "./quota-commands.ts";

const caller: Caller = { who: "operator/ada", why: "SetQuota" };

const rig = (newest = 4) => {
  const clock = createManualClock();
  const ids = { uuid: randomUUID, random: () => 0.5 };
  const store = createSqliteStore({
    file: ":memory:",
    now: clock.now,
    uuid: randomUUID,
    formats: { oldest: 1, newest },
  });
  const audit = createAuditRecords({ store, ids });
  const quotas = createQuotaRecords({ store, clock, ids, signal: new AbortController().signal });
  const commands = createQuotaCommands({ quotas, audit, store, clock });
  const audits = async () =>
    (await audit.list({ namespace: "ns", volume: "", verb: "" }, { limit: 9 })).records.map(({ verb, who }) => [
      verb,
      who,
    ]);
  return { commands, audits };
};

const asked = { namespace: "ns", limits: { volumes: 3 }, reason: "as ordered", requestId: "" };

it("where a controller that does not count may write, no quota is set, and the cure is named", async () => {
  const { commands, audits } = rig(3);
  await expect(commands.setQuota(asked, caller)).rejects.toMatchObject({
    kind: "precondition",
    reason: "UPGRADE_UNFINISHED",
    message: expect.stringContaining("holdfast upgrade finish"),
  });
  expect(await audits()).toEqual([]);
  await expect(commands.getQuota("ns")).rejects.toMatchObject({ reason: "QUOTA_NOT_FOUND" });
});

it("the same bounds again, and the same request again, change nothing and are no word of anybody", async () => {
  const { commands, audits } = rig();
  await commands.setQuota(asked, caller);
  const again = await commands.setQuota(asked, caller);
  expect(again.record.limits).toEqual({ volumes: 3 });
  await commands.setQuota({ ...asked, limits: { volumes: 5 }, requestId: "r1" }, caller);
  await commands.setQuota({ ...asked, limits: { volumes: 7 }, requestId: "" }, caller);
  const repeated = await commands.setQuota({ ...asked, limits: { volumes: 5 }, requestId: "r1" }, caller);
  expect(repeated.record.limits).toEqual({ volumes: 7 });
  expect(await audits()).toEqual(Array.from({ length: 3 }, () => ["SetQuota", "operator/ada"]));
  await commands.deleteQuota({ ...asked, requestId: "r2" }, caller);
  await commands.deleteQuota(asked, caller);
  expect(await audits()).toHaveLength(4);
  await expect(commands.setQuota({ ...asked, requestId: "r2" }, caller)).rejects.toMatchObject({
    reason: "REQUEST_ID_REUSED",
  });
});
