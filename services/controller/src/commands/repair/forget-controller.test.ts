import { randomUUID } from "node:crypto";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { beforeEach, describe, expect, it } from "vitest";
import type { Store } from "../../ports.ts";
import { createAuditRecords } from "../../records/audit-records.ts";
import { createControllerGates, type GateWord } from "../../records/controller-gates.ts";
import { createSqliteStore } from "../../store/sqlite/sqlite-store.ts";
import type { Caller } from "../model.ts";
import { forgetControllerCommand } from "./forget-controller.ts";

const clock = createManualClock();
const ids = { uuid: randomUUID, random: () => 0.5 };
const { signal } = new AbortController();
const caller: Caller = { who: "operator/ada" } as Caller;
const word: GateWord = { issuer: "b/1", plugins: ["p", "q"], told: "v1", promised: "", lost: false, missing: [] };
const asked = {
  controller: "b/1",
  evidence: "the host is scrapped",
  reason: "failover",
  dryRun: false,
  confirm: "controller b/1 is over, and no call of it is open at p, q",
  requestId: "r1",
};

let store: Store;
let away: boolean;

beforeEach(async () => {
  away = true;
  store = createSqliteStore({ file: ":memory:", now: clock.now, uuid: randomUUID });
  await gates().tell([{ ...word, issuer: "a/1" }, word], () => false);
});

const gates = () => createControllerGates({ store, clock, ids, signal });
const audit = () => createAuditRecords({ store, ids });
const forget = (over: Partial<typeof asked> = {}) => {
  const words = { ...gates(), isAway: () => away };
  return forgetControllerCommand({ words, audit: audit(), clock })({ ...asked, ...over }, caller);
};
const onRecord = async () => (await gates().read()).words.map(({ issuer }) => issuer);

describe("a controller that is gone for good", () => {
  it("[CW1] is taken off the record by its life, with the word of the person in the same commit", async () => {
    const { auditId } = await forget();
    expect(await onRecord()).toEqual(["a/1"]);
    const kept = { verb: "ForgetController", evidence: asked.evidence, subject: { controller: "b/1" } };
    expect(await audit().get(auditId)).toMatchObject(kept);
    expect((await forget()).auditId).toBe(auditId);
  });

  it("is told what it would mean first, and stays without the words of that", async () => {
    const { confirmWith, effects } = await forget({ dryRun: true, confirm: "" });
    expect([confirmWith, effects[1]]).toEqual([asked.confirm, expect.stringContaining("p, q")]);
    await expect(forget({ confirm: "yes" })).rejects.toMatchObject({ reason: "INVALID_ARGUMENT" });
    await expect(forget({ evidence: "", reason: "", controller: "" })).rejects.toMatchObject({
      violations: [{ field: "controller" }, { field: "evidence" }, { field: "reason" }],
    });
    expect(await onRecord()).toEqual(["a/1", "b/1"]);
  });

  it("[CW3] stays while the store is not vetted: what it saw may be lost", async () => {
    const { runId } = await store.identity();
    await store.beginVetting(runId, { gen: 9, uid: "v9" });
    await expect(forget()).rejects.toMatchObject({ reason: "STORE_UNVETTED" });
    expect(await onRecord()).toEqual(["a/1", "b/1"]);
  });

  it("stays when it still speaks, and one without a word is named", async () => {
    away = false;
    await expect(forget()).rejects.toMatchObject({ reason: "REPAIR_NOT_APPLICABLE", metadata: { state: "there" } });
    const other = forget({ controller: "c/1" });
    await expect(other).rejects.toMatchObject({ metadata: { controller: "c/1", state: "on no record" } });
  });
});
