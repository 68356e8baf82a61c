import { generateKeyPairSync, type KeyObject, randomUUID } from "node:crypto";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { publicJwk } from "@holdfast/shared/trust/jws";
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
  const audited = async () => (await audit.list({ namespace: "", volume: "", verb: "" }, { limit: 9 })).records;
  const verbs = async () => (await audited()).map(({ verb }) => verb);
  return { commands, audited, verbs };
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

const pairOf = (namedCurve = "prime256v1") => generateKeyPairSync("ec", { namedCurve });
const pemOf = (key: KeyObject) => key.export({ format: "pem", type: "spki" }).toString();
const textOf = (jwk: object) => JSON.stringify(jwk);

test("ticket keys are kept as JWKs, each once, and the audit names them by their thumbprints", async () => {
  const { commands, audited } = rig();
  const [ec, rsa] = [pairOf().publicKey, generateKeyPairSync("rsa", { modulusLength: 2048 }).publicKey];
  const ticketKeys = [pemOf(ec), textOf(ec.export({ format: "jwk" })), pemOf(rsa)];
  const kept = await commands.setGrant({ ...asked, ticketKeys }, caller);
  expect(kept.ticketKeys).toEqual([ec, rsa].map((key) => textOf(publicJwk(key) ?? {})).sort());
  await commands.setGrant({ ...asked, ticketKeys: kept.ticketKeys ?? [] }, caller);
  expect(await audited()).toHaveLength(1);
  for (const key of [ec, rsa]) expect(textOf(await audited())).toContain(publicJwk(key)?.kid);
  expect(await commands.setGrant(asked, caller)).toMatchObject({ ticketKeys: [] });
});

test("a private key, a kind of key that signs nothing here and a text that is none are refused, in words that hold nothing of it", async () => {
  const { commands, audited } = rig();
  const { privateKey, publicKey } = pairOf();
  const jwk = publicKey.export({ format: "jwk" });
  const bad = [
    [privateKey.export({ format: "pem", type: "pkcs8" }).toString(), "private key"],
    [textOf(privateKey.export({ format: "jwk" })), "private key"],
    [pemOf(pairOf("secp384r1").publicKey), "P-256"],
    [pemOf(generateKeyPairSync("rsa", { modulusLength: 1024 }).publicKey), "2048"],
    [textOf({ ...jwk, alg: "RS256" }), "alg"],
    [textOf({ ...jwk, use: "enc" }), "use"],
    [textOf({ kty: "oct", k: "c2VjcmV0" }), "private key"],
    ["hello", "PEM"],
  ] as const;
  const failure = await commands
    .setGrant({ ...asked, ticketKeys: bad.map(([text]) => text) }, caller)
    .catch((error: unknown) => error);
  expect(failure).toMatchObject({
    violations: bad.map(([, words], i) => ({
      field: `ticket_keys[${i}]`,
      description: expect.stringContaining(words),
    })),
  });
  const { d = "-" } = privateKey.export({ format: "jwk" });
  expect(textOf(failure as object)).not.toContain(d);
  const two = [`${pemOf(publicKey)}${pemOf(publicKey)}`, textOf({ ...jwk, pad: "x".repeat(5000) })];
  await expect(commands.setGrant({ ...asked, ticketKeys: two }, caller)).rejects.toMatchObject({
    violations: [{ field: "ticket_keys[0]" }, { field: "ticket_keys[1]" }],
  });
  const many = Array.from({ length: 9 }, () => pemOf(publicKey));
  await expect(commands.setGrant({ ...asked, ticketKeys: many }, caller)).rejects.toMatchObject({
    violations: [{ field: "ticket_keys" }],
  });
  expect(await audited()).toEqual([]);
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
