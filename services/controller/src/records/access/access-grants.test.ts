import { randomUUID } from "node:crypto";
import { systemClock } from "@holdfast/shared/async/clock";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { AccessGrantRecord } from "../../domain/access/access-grant.ts";
import type { AuditedAs } from "../../domain/repair/audit.ts";
import type { Store } from "../../ports.ts";
import { createSqliteStore } from "../../store/sqlite/sqlite-store.ts";
import { createDamagedRecords } from "../damaged-records.ts";
import { type AccessGrants, createAccessGrants } from "./access-grants.ts";

let store: Store;
let here: AccessGrants;
let there: AccessGrants;

const signal = new AbortController().signal;
const ids = { uuid: () => randomUUID(), random: Math.random };
const on = (over: Store): AccessGrants =>
  createAccessGrants({ store: over, clock: systemClock, ids, signal, damages: createDamagedRecords() });

beforeEach(() => {
  store = createSqliteStore({ file: ":memory:", now: Date.now, uuid: ids.uuid });
  [here, there] = [on(store), on(store)];
});
afterEach(() => store.close());

const grant = (scheduler: string, ...namespaces: readonly string[]): AccessGrantRecord => ({
  ...{ scheduler, namespaces, plugins: [], secretRoots: [], createdAt: 1, updatedAt: 1 },
  changedBy: { who: "operator/ada", why: "SetGrant: as ordered" },
});
const word = (id = randomUUID() as string): AuditedAs => ({
  id,
  entry: {
    ...{ verb: "SetGrant", who: "operator/ada", reason: "as ordered", evidence: "", confirmed: "", effects: [] },
    ...{ risks: [], requestId: "", traceId: "", subject: { scheduler: "shop" } },
  },
});
const damage = async (scheduler: string): Promise<void> => {
  const ref = { kind: "grant", key: scheduler } as const;
  const rev = (await store.get(ref))?.rev ?? 0;
  const indexes = [{ index: "grant-all", value: "all" }];
  const writes = [{ ref, expectedRev: rev, body: '{"scheduler":', indexes, due: [] }];
  await store.commit({ opId: randomUUID(), writes, events: [], requiresVetted: false });
};

test("[AG1] a grant counts where it was made once it is stored, and elsewhere once it was heard of", async () => {
  await here.change("shop", () => grant("shop", "shop"), word());
  expect(here.of("shop")?.namespaces).toEqual(["shop"]);
  expect([there.of("shop"), there.any()]).toEqual([undefined, false]);
  await there.learnOf("shop");
  expect([there.of("shop")?.namespaces, there.any()]).toEqual([["shop"], true]);
  await there.change("shop", () => null, word());
  await here.learnOf("shop");
  expect([here.of("shop"), here.any()]).toEqual([undefined, false]);
});

test("[AG1] a commit that fails changes nothing here", async () => {
  const failing = on({ ...store, commit: () => Promise.reject(new Error("the store is away")) });
  await expect(failing.change("shop", () => grant("shop", "shop"), word())).rejects.toThrow("away");
  expect(failing.of("shop")).toBeUndefined();
});

test("the word of the person is stored with the change, and the event tells of both", async () => {
  const from = await store.head();
  await here.change("shop", () => grant("shop", "shop"), word("a-1"));
  expect((await store.get({ kind: "audit", key: "a-1" }))?.body).toContain("as ordered");
  const types: string[] = [];
  for await (const { type } of store.watch(from, signal)) if (types.push(type) === 2) break;
  expect(types).toEqual(["grant", "audit"]);
});

test("[AG2] a record that cannot be read grants nothing, and keeps no other one from being read", async () => {
  for (const name of ["bank", "shop"]) await here.change(name, () => grant(name, name), word());
  await damage("bank");
  await there.load();
  expect([there.of("bank"), there.of("shop")?.namespaces, there.any()]).toEqual([undefined, ["shop"], true]);
  await expect(here.learnOf("bank")).rejects.toMatchObject({ reason: "RECORD_DAMAGED" });
  expect(here.of("bank")).toBeUndefined();
});

test("what was removed while nobody listened is gone after the next look", async () => {
  for (const name of ["bank", "shop"]) await here.change(name, () => grant(name, name), word());
  await there.load();
  await here.change("bank", () => null, word());
  await there.load();
  expect([there.of("bank"), there.of("shop")?.namespaces]).toEqual([undefined, ["shop"]]);
});

test("a look that fails is told, and what was heeded before is heeded still", async () => {
  let away = false;
  const list: Store["list"] = (query) => (away ? Promise.reject(new Error("the store is away")) : store.list(query));
  const grants = on({ ...store, list });
  await grants.change("shop", () => grant("shop", "shop"), word());
  away = true;
  await expect(grants.load()).rejects.toThrow("away");
  expect(grants.of("shop")?.namespaces).toEqual(["shop"]);
});
