import { randomUUID } from "node:crypto";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { beforeEach, describe, expect, test } from "vitest";
import { onRecordMs } from "../../domain/controller-roster.ts";
import type { Store } from "../../ports.ts";
import { createAuditRecords } from "../../records/audit-records.ts";
import { createRosterRecords, type RosterRecords, rosterRef } from "../../records/roster-records.ts";
import { createSqliteStore } from "../../store/sqlite/sqlite-store.ts";
import { take } from "../../store/test-commits.ts";
import type { Caller } from "../model.ts";
import { createUpgradeCommands } from "./upgrade-commands.ts";

const clock = createManualClock();
const ids = { uuid: randomUUID, random: () => 0.5 };
const { signal } = new AbortController();
const caller: Caller = { who: "operator/ada" } as Caller;
const old = { id: "old", version: "0.1.0", formats: { oldest: 1, newest: 1 } };
const own = { id: "own", version: "0.2.0", formats: { oldest: 1, newest: 2 } };
const confirm = "every controller of this cell reads format 2, and a backup from before is kept";
const asked = { reason: "all are new", dryRun: false, confirm, requestId: "" };

let store: Store;
let roster: RosterRecords;

beforeEach(() => {
  // As a release that knew format 1 alone left it.
  store = createSqliteStore({ file: ":memory:", now: clock.now, uuid: randomUUID, formats: old.formats });
  roster = createRosterRecords({ store, clock, ids, signal });
});

const commands = (over: { readonly roster?: RosterRecords; readonly store?: Store } = {}) => {
  const audit = createAuditRecords({ store, ids });
  return createUpgradeCommands({ roster, store, audit, clock, formats: own.formats, ...over });
};
const audits = async () =>
  (await createAuditRecords({ store, ids }).list({ namespace: "", volume: "", verb: "" }, { limit: 9 })).records;

describe("status", () => {
  test("tells the format, what this controller reads, and who is on record", async () => {
    await roster.tell(old);
    await clock.advance(1_000);
    await roster.tell(own);
    const { format, newest, controllers } = await commands().status();
    expect([format, newest, controllers.map(({ id, formats }) => [id, formats.newest])]).toEqual([
      1,
      2,
      [
        ["own", 2],
        ["old", 1],
      ],
    ]);
  });
});

describe("finish", () => {
  test("U1 is refused while a controller on record cannot read the format: it is named, with the cure", async () => {
    await roster.tell(own);
    await roster.tell(old);
    await clock.advance(120_000);
    await expect(commands().finish(asked, caller)).rejects.toMatchObject({
      reason: "UPGRADE_BLOCKED",
      message: expect.stringMatching(
        /old \(0\.1\.0\) reads format 1, seen 2m ago\. Start the newer release there; .* off the record 60m/,
      ),
    });
    await expect(commands().finish({ ...asked, dryRun: true, confirm: "" }, caller)).rejects.toMatchObject({
      reason: "UPGRADE_BLOCKED",
    });
    expect((await store.identity()).format).toBe(1);
    await clock.advance(onRecordMs);
    await commands().finish(asked, caller);
    expect((await store.identity()).format).toBe(2);
  });

  test("U1 a controller that comes between judgement and commit is judged too", async () => {
    await roster.tell(own);
    const late: RosterRecords = {
      ...roster,
      async raise(...args) {
        await roster.tell(old);
        return await roster.raise(...args);
      },
    };
    await expect(commands({ roster: late }).finish(asked, caller)).rejects.toMatchObject({ reason: "UPGRADE_BLOCKED" });
    expect((await store.identity()).format).toBe(1);
    expect(await audits()).toEqual([]);
  });

  test("says first what it means, and does nothing without the words", async () => {
    await roster.tell(own);
    const dry = await commands().finish({ ...asked, dryRun: true, confirm: "" }, caller);
    expect(dry).toMatchObject({ dryRun: true, auditId: "", confirmWith: confirm });
    await expect(commands().finish({ ...asked, confirm: "yes" }, caller)).rejects.toMatchObject({ kind: "invalid" });
    await expect(commands().finish({ ...asked, reason: "" }, caller)).rejects.toMatchObject({ kind: "invalid" });
    expect((await store.identity()).format).toBe(1);
  });

  test("U2 stores the word with the format in one commit, and tells watchers", async () => {
    await roster.tell(own);
    const head = await store.head();
    const { auditId } = await commands().finish(asked, caller);
    expect(store.format()).toBe(2);
    expect(await audits()).toMatchObject([
      { id: auditId, verb: "FinishUpgrade", who: "operator/ada", confirmed: confirm, subject: { format: "2" } },
    ]);
    expect(await take(store, head, 1)).toMatchObject([{ type: "audit", ref: rosterRef }]);
  });

  test("U2 a commit that is refused leaves neither", async () => {
    await roster.tell(own);
    const refusing: Store = {
      ...store,
      commit: () =>
        Promise.reject(new HoldfastError({ kind: "unavailable", reason: "STORE_UNAVAILABLE", message: "down" })),
    };
    const broken = createRosterRecords({ store: refusing, clock, ids, signal });
    await expect(commands({ roster: broken }).finish(asked, caller)).rejects.toMatchObject({
      reason: "STORE_UNAVAILABLE",
    });
    expect([store.format(), await audits()]).toEqual([1, []]);
  });

  test("U3 finished twice is finished once: by its request, by a lost answer, and by the format itself", async () => {
    await roster.tell(own);
    const losing: Store = {
      ...store,
      async commit(commit) {
        await store.commit(commit);
        throw new HoldfastError({ kind: "unavailable", reason: "STORE_OUTCOME_UNKNOWN", message: "lost" });
      },
    };
    const lost = createRosterRecords({ store: losing, clock, ids, signal });
    const request = { ...asked, requestId: "r-1" };
    const first = await commands({ roster: lost }).finish(request, caller);
    expect(await commands().finish(request, caller)).toEqual(first);
    await expect(commands().finish(asked, caller)).rejects.toMatchObject({ reason: "REPAIR_NOT_APPLICABLE" });
    expect(await audits()).toHaveLength(1);
  });
});

test("controllers that tell of themselves at once are all on record", async () => {
  await Promise.all(["a", "b", "c", "d"].map((id) => roster.tell({ ...own, id })));
  expect((await roster.read()).controllers.map(({ id }) => id).sort()).toEqual(["a", "b", "c", "d"]);
});
