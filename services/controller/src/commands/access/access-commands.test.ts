import { randomUUID } from "node:crypto";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { expect, test } from "vitest";
import { createAccessGrants } from "../../records/access/access-grants.ts";
import { createAuditRecords } from "../../records/audit-records.ts";
import { createSqliteStore } from "../../store/sqlite/sqlite-store.ts";
import type { Caller } from "../model.ts";
import { createAccessCommands, type SetGrantInput } from "./access-commands.ts";

const caller: Caller = { who: "operator/ada", why: "SetGrant" };
const asked: SetGrantInput = {
  ...{ scheduler: "nomad", namespaces: ["web", "shop", "web"], plugins: ["*"], secretRoots: ["file:shop"] },
  ...{ reason: "as ordered", requestId: "" },
};

const rig = (newest = 4) => {
  const clock = createManualClock();
  const ids = { uuid: randomUUID, random: () => 0.5 };
  const formats = { oldest: 1, newest };
  const store = createSqliteStore({ file: ":memory:", now: clock.now, uuid: randomUUID, formats });
  const audit = createAuditRecords({ store, ids });
  const accessGrants = createAccessGrants({ store, clock, ids, signal: new AbortController().signal });
  const commands = createAccessCommands({ accessGrants, audit, store, clock });
  const verbs = async () =>
    (await audit.list({ namespace: "", volume: "", verb: "" }, { limit: 9 })).records.map(({ verb }) => verb);
  return { commands, verbs };
};

test("a grant is stored in order, each name once, and the same again is no word of anybody", async () => {
  const { commands, verbs } = rig();
  expect(await commands.setGrant(asked, caller)).toMatchObject({ namespaces: ["shop", "web"], plugins: ["*"] });
  await commands.setGrant({ ...asked, namespaces: ["shop", "web"] }, caller);
  expect(await verbs()).toEqual(["SetGrant"]);
  expect((await commands.listGrants({ size: 10, after: undefined })).items).toHaveLength(1);
});

test("the same request again changes nothing, and under its id nothing else is asked", async () => {
  const { commands, verbs } = rig();
  await commands.setGrant({ ...asked, requestId: "r1" }, caller);
  await commands.setGrant({ ...asked, namespaces: ["other"] }, caller);
  expect(await commands.setGrant({ ...asked, requestId: "r1" }, caller)).toMatchObject({ namespaces: ["other"] });
  await commands.deleteGrant({ ...asked, requestId: "r2" }, caller);
  await commands.deleteGrant(asked, caller);
  expect(await verbs()).toHaveLength(3);
  await expect(commands.deleteGrant({ ...asked, requestId: "r1" }, caller)).rejects.toMatchObject({
    reason: "REQUEST_ID_REUSED",
  });
  await expect(commands.getGrant("nomad")).rejects.toMatchObject({ reason: "GRANT_NOT_FOUND" });
});

test("all that is wrong is said at once, and nothing is stored", async () => {
  const { commands, verbs } = rig();
  const bad: SetGrantInput = {
    ...{ scheduler: "a/b", namespaces: [], plugins: ["*", "sim"], secretRoots: ["file:../etc", "shop"] },
    ...{ reason: " ", requestId: "" },
  };
  await expect(commands.setGrant(bad, caller)).rejects.toMatchObject({
    violations: [
      { field: "scheduler" },
      { field: "namespaces" },
      { field: "plugins" },
      { field: "secret_roots[0]" },
      { field: "secret_roots[1]" },
      { field: "reason" },
    ],
  });
  expect(await verbs()).toEqual([]);
});

test("where a controller that heeds no grants may write, none is set, and the cure is named", async () => {
  const { commands, verbs } = rig(3);
  await expect(commands.setGrant(asked, caller)).rejects.toMatchObject({
    kind: "precondition",
    reason: "UPGRADE_UNFINISHED",
    message: expect.stringContaining("holdfast upgrade finish"),
  });
  expect(await verbs()).toEqual([]);
});
