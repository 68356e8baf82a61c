/** Enrolment, renewal and revocation, by controllers that share one store. */
import { randomUUID, X509Certificate } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import type { Identity } from "@holdfast/shared/grpc/identity";
import { createIssuing, createRoot, issuingTtlMs, leafTtlMs } from "@holdfast/shared/trust/authority";
import { writeCredentials } from "@holdfast/shared/trust/credential-dir";
import { isUnfit, readLeaf } from "@holdfast/shared/trust/leaf";
import { generateKey, makeRequest } from "@holdfast/shared/trust/make-certificate";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { NodeRecord } from "../../domain/node/node.ts";
import { createAuditRecords } from "../../records/audit-records.ts";
import { createDenialRecords } from "../../records/trust/denial-records.ts";
import { createTokenRecords } from "../../records/trust/token-records.ts";
import { createSqliteStore } from "../../store/sqlite/sqlite-store.ts";
import { createIssuingDirectory } from "../../trust/issuing-directory.ts";
import type { Caller } from "../model.ts";
import { createTrustCommands } from "./trust-commands.ts";

const caller: Caller = { who: "operator/ada", why: "test" };
const nobody: Caller = { who: "anonymous", why: "Enrol" };
const minute = 60_000;

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), "hf-trust-"));
});
afterEach(() => rmSync(dir, { recursive: true }));

const rig = async (formats = 4) => {
  // Certificates count in whole seconds of the real time.
  const clock = createManualClock({ now: Math.floor(Date.now() / 1_000) * 1_000 });
  const ids = { uuid: randomUUID, random: () => 0.5 };
  const store = createSqliteStore({
    file: ":memory:",
    now: clock.now,
    uuid: randomUUID,
    formats: { oldest: 1, newest: formats },
  });
  const root = await createRoot("td.test", clock.now());
  const renewAuthority = async (ttlMs = issuingTtlMs) =>
    writeCredentials(dir, await createIssuing(root, ttlMs, clock.now()));
  await renewAuthority();
  const nodes = new Map<string, Partial<NodeRecord>>();
  const controller = (more: { readonly trustDomain?: undefined | string; readonly directory?: undefined } = {}) => {
    const { trustDomain, directory } = { trustDomain: "td.test", directory: dir, ...more };
    const deps = { store, clock, ids, signal: new AbortController().signal };
    const denials = createDenialRecords(deps);
    const trust = createTrustCommands({
      authority: createIssuingDirectory({ directory, trustDomain: () => trustDomain, now: clock.now }),
      tokens: createTokenRecords(deps),
      denials,
      readNode: async (name) => {
        const record = nodes.get(name);
        return record === undefined ? undefined : { record: record as NodeRecord };
      },
      audit: createAuditRecords({ store, ids }),
      store,
      clock,
    });
    return { ...trust, denials };
  };
  const audits = async () => {
    const records = await createAuditRecords({ store, ids }).list(
      { namespace: "", volume: "", verb: "" },
      { limit: 99 },
    );
    return records.records.map(({ verb, who, subject }) => `${verb} ${who} ${subject.node ?? subject.certificate}`);
  };
  return { clock, store, nodes, controller, audits, renewAuthority };
};

const requestOf = (key = generateKey()) => makeRequest(key);
const leafOf = (certificate: string) => {
  const leaf = readLeaf(new X509Certificate(certificate).raw);
  if (isUnfit(leaf)) throw new Error(leaf.wrong);
  return leaf;
};
/** As the server reads the caller of a connection. */
const callerBy = (certificate: string, role: Identity["role"] = "node", name = "node-a") => {
  const { id, ...leaf } = leafOf(certificate);
  return { role, name, certificate: { ...leaf, trustDomain: id.trustDomain, fingerprint: "" } };
};
const nodeA = { trustDomain: "td.test", role: "node", name: "node-a" };

describe("enrolment", () => {
  test("[TC2] gives the token's node a certificate for the key of the request, whatever else the request says", async () => {
    const { controller, audits, store } = await rig();
    const one = controller();
    const { token, pin } = await one.createNodeToken({ node: "node-a", ttlMs: undefined }, caller);
    expect(token).toMatch(/^[0-9a-f]{32}$/);
    expect(pin).toMatch(/^sha256:[0-9a-f]{64}$/);
    const { certificate, node } = await one.enrol({ token, node: "", request: await requestOf() }, nobody);
    expect(node).toBe("node-a");
    expect(leafOf(certificate).id).toEqual(nodeA);
    expect((await audits()).sort()).toEqual(["CreateNodeToken operator/ada node-a", "Enrol anonymous node-a"]);
    // Only the hash is stored.
    const { records } = await store.list({ index: "audit-all", value: "all", limit: 9 });
    expect(JSON.stringify(records)).not.toContain(token);
  });

  test("[TC1] a token is used once: replayed, with the same request or another, it is refused", async () => {
    const { controller } = await rig();
    const one = controller();
    const { token } = await one.createNodeToken({ node: "node-a", ttlMs: undefined }, caller);
    const request = await requestOf();
    await one.enrol({ token, node: "node-a", request }, nobody);
    const refused = { reason: "TOKEN_REFUSED", metadata: { why: "used", node: "node-a" } };
    await expect(one.enrol({ token, node: "node-a", request }, nobody)).rejects.toMatchObject(refused);
    await expect(one.enrol({ token, node: "", request: await requestOf() }, nobody)).rejects.toMatchObject(refused);
  });

  test("[TC1] of two controllers that are asked at once one signs", async () => {
    const { controller } = await rig();
    const [one, other] = [controller(), controller()];
    for (let round = 0; round < 8; round += 1) {
      const { token } = await one.createNodeToken({ node: "node-a", ttlMs: undefined }, caller);
      const asked = await Promise.all([requestOf(), requestOf(), requestOf()]);
      const ends = await Promise.allSettled(
        asked.map((request, i) => [one, other, one][i]?.enrol({ token, node: "", request }, nobody)),
      );
      expect(ends.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
      for (const end of ends)
        if (end.status === "rejected")
          expect(end.reason).toMatchObject({ reason: "TOKEN_REFUSED", metadata: { why: "used" } });
    }
  });

  test("a token that ended, of another node, or that is none is refused, and a wrong node does not use it up", async () => {
    const { controller, clock } = await rig();
    const one = controller();
    const request = await requestOf();
    const why = (reason: string) => ({ reason: "TOKEN_REFUSED", metadata: { why: reason } });
    const { token } = await one.createNodeToken({ node: "node-a", ttlMs: 5 * minute }, caller);
    await expect(one.enrol({ token, node: "node-b", request }, nobody)).rejects.toMatchObject(why("other-node"));
    await expect(one.enrol({ token: "0".repeat(32), node: "", request }, nobody)).rejects.toMatchObject(why("unknown"));
    await expect(one.enrol({ token: `${token}0`, node: "", request }, nobody)).rejects.toMatchObject(why("unknown"));
    await clock.advance(5 * minute);
    await expect(one.enrol({ token, node: "node-a", request }, nobody)).rejects.toMatchObject(why("ended"));
  });

  test("a request that proves no key leaves the token for another one", async () => {
    const { controller } = await rig();
    const one = controller();
    const { token } = await one.createNodeToken({ node: "node-a", ttlMs: undefined }, caller);
    for (const request of ["", "x".repeat(9_000), (await requestOf()).replace(/A/g, "B")])
      await expect(one.enrol({ token, node: "", request }, nobody)).rejects.toMatchObject({
        reason: "INVALID_ARGUMENT",
      });
    await expect(one.enrol({ token, node: "", request: await requestOf() }, nobody)).resolves.toHaveProperty(
      "certificate",
    );
  });

  test("[TC3] a token from before the fence of its node is refused, one from after it is taken", async () => {
    const { controller, nodes, clock } = await rig();
    const one = controller();
    const { token } = await one.createNodeToken({ node: "node-a", ttlMs: undefined }, caller);
    await clock.advance(minute);
    const fence = { kind: "power-off", who: "operator/ada", evidence: "off", since: clock.now() } as const;
    nodes.set("node-a", { state: "QUARANTINED", fence });
    const request = await requestOf();
    await expect(one.enrol({ token, node: "", request }, nobody)).rejects.toMatchObject({
      metadata: { why: "fenced" },
    });
    await clock.advance(minute);
    const later = await one.createNodeToken({ node: "node-a", ttlMs: undefined }, caller);
    await expect(one.enrol({ token: later.token, node: "", request }, nobody)).resolves.toHaveProperty("certificate");
  });

  test("bounds of a token, and of its node's name", async () => {
    const { controller } = await rig();
    const one = controller();
    const wrong = { reason: "INVALID_ARGUMENT" };
    await expect(one.createNodeToken({ node: "node-a", ttlMs: 15 * minute + 1 }, caller)).rejects.toMatchObject(wrong);
    await expect(one.createNodeToken({ node: "node-a", ttlMs: 0 }, caller)).rejects.toMatchObject(wrong);
    await expect(one.createNodeToken({ node: "Node/A", ttlMs: undefined }, caller)).rejects.toMatchObject(wrong);
  });

  test("is off without an authority, or with one of another trust domain, and the cure is named", async () => {
    const { controller } = await rig();
    const off = (words: string) => ({
      kind: "precondition",
      reason: "ENROLMENT_OFF",
      message: expect.stringContaining(words),
    });
    const asked = { node: "a", ttlMs: undefined };
    const without = controller({ directory: undefined });
    await expect(without.createNodeToken(asked, caller)).rejects.toMatchObject(off("set HOLDFAST_CA_DIR to what"));
    const plain = controller({ trustDomain: undefined });
    await expect(plain.createNodeToken(asked, caller)).rejects.toMatchObject(off("set HOLDFAST_TLS_DIR"));
    const other = controller({ trustDomain: "prod.test" });
    const words = "is one of trust domain td.test, and this is prod.test";
    await expect(other.createNodeToken(asked, caller)).rejects.toMatchObject(off(words));
  });

  test("is off when the authority ended, and on again once it was renewed, without a restart", async () => {
    const { controller, clock, renewAuthority } = await rig();
    const one = controller();
    const { token } = await one.createNodeToken({ node: "a", ttlMs: undefined }, caller);
    await renewAuthority(5 * minute);
    await clock.advance(6 * minute);
    const request = await requestOf();
    await expect(one.enrol({ token, node: "", request }, nobody)).rejects.toMatchObject({
      reason: "ENROLMENT_OFF",
      message: expect.stringMatching(/ended at .*renew it with `holdfast ca renew`/),
    });
    await renewAuthority();
    await expect(one.enrol({ token, node: "", request }, nobody)).resolves.toHaveProperty("certificate");
  });

  test("where an earlier release may read the store, no token is made and nothing is denied", async () => {
    const { controller } = await rig(3);
    const refused = { reason: "UPGRADE_UNFINISHED", message: expect.stringContaining("holdfast upgrade finish") };
    await expect(controller().createNodeToken({ node: "a", ttlMs: undefined }, caller)).rejects.toMatchObject(refused);
    const revoked = { subject: "node/a", reason: "x", endsAt: undefined, requestId: "" };
    await expect(controller().revoke(revoked, caller)).rejects.toMatchObject(refused);
  });
});

describe("renewal", () => {
  const enrolled = async (parts: Awaited<ReturnType<typeof rig>>, name = "node-a") => {
    const one = parts.controller();
    const { token } = await one.createNodeToken({ node: name, ttlMs: undefined }, caller);
    const { certificate } = await one.enrol({ token, node: "", request: await requestOf() }, nobody);
    return { one, certificate };
  };

  test("[TC2] gives the caller another certificate of the same name, whose key is that of the request", async () => {
    const parts = await rig();
    const { one, certificate } = await enrolled(parts);
    await parts.clock.advance(16 * 60 * minute);
    const key = generateKey();
    const renewed = await one.renew(await requestOf(key), callerBy(certificate));
    expect(leafOf(renewed.certificate).id).toEqual(nodeA);
    const [old, next] = [leafOf(certificate), leafOf(renewed.certificate)];
    expect(next.serial).not.toBe(old.serial);
    expect(next.notAfter).toBe(parts.clock.now() + leafTtlMs);
  });

  test("[TC3] of a node that is fenced is refused with the way out, and goes on once it is READY", async () => {
    const parts = await rig();
    const { one, certificate } = await enrolled(parts);
    const by = callerBy(certificate);
    const request = await requestOf();
    for (const state of ["FENCING", "QUARANTINED"] as const) {
      parts.nodes.set("node-a", { state });
      await expect(one.renew(request, by)).rejects.toMatchObject({
        reason: "RENEWAL_REFUSED",
        message: expect.stringContaining("holdfast node status node-a"),
        metadata: { node: "node-a" },
      });
    }
    parts.nodes.set("node-a", { state: "READY" });
    await expect(one.renew(request, by)).resolves.toHaveProperty("certificate");
  });

  test.each([
    ["operator", "ada", "holdfast ca issue operator/"],
    ["controller", "c-1", "it renews its own by its HOLDFAST_CA_DIR"],
  ] as const)("[TC4] is not for a certificate of %s/%s", async (role, name, words) => {
    const parts = await rig();
    const { one, certificate } = await enrolled(parts);
    await expect(one.renew(await requestOf(), callerBy(certificate, role, name))).rejects.toMatchObject({
      reason: "RENEWAL_REFUSED",
      message: expect.stringContaining(words),
    });
    const renewed = await one.renew(await requestOf(), callerBy(certificate, "scheduler", "nomad"));
    expect(leafOf(renewed.certificate).id).toMatchObject({ role: "scheduler", name: "nomad" });
  });

  test("needs a certificate of this trust domain", async () => {
    const parts = await rig();
    const { one, certificate } = await enrolled(parts);
    const by = callerBy(certificate);
    const request = await requestOf();
    const refused = { reason: "RENEWAL_REFUSED" };
    await expect(one.renew(request, { role: "node", name: "node-a" })).rejects.toMatchObject(refused);
    const foreign = { ...by, certificate: { ...by.certificate, trustDomain: "prod.test" } };
    await expect(one.renew(request, foreign)).rejects.toMatchObject(refused);
    await expect(one.renew("x", by)).rejects.toMatchObject({ reason: "INVALID_ARGUMENT" });
  });
});

describe("revocation", () => {
  const revoke = (subject: string, more: { readonly endsAt?: number; readonly requestId?: string } = {}) => ({
    subject,
    reason: "laptop stolen",
    endsAt: more.endsAt,
    requestId: more.requestId ?? "",
  });

  test("by serial, in any form in which a person has it, is stored once and known to each controller that looks", async () => {
    const { controller, audits, clock } = await rig();
    const [one, other] = [controller(), controller()];
    const denial = await one.revoke(revoke("00:0a:bc:01"), caller);
    expect(denial).toMatchObject({ subject: "0ABC01", who: "operator/ada", endsAt: clock.now() + issuingTtlMs });
    expect(one.denials.of("0ABC01")).toBeDefined();
    expect(other.denials.of("0ABC01")).toBeUndefined();
    await other.denials.learnOf("0ABC01");
    expect(other.denials.of("0ABC01")).toBeDefined();
    await clock.advance(minute);
    expect((await other.revoke(revoke("000abc01"), caller)).at).toBe(denial.at);
    expect(await audits()).toEqual(["Revoke operator/ada 0ABC01"]);
    const third = controller();
    await third.denials.load();
    expect((await third.listRevoked({ after: undefined, size: 9 })).items).toEqual([denial]);
    expect(third.denials.of("0ABC01")).toEqual(denial);
  });

  test("by name holds whoever has renewed meanwhile, and what is issued later is taken", async () => {
    const { controller, clock } = await rig();
    const one = controller();
    const { token } = await one.createNodeToken({ node: "node-a", ttlMs: undefined }, caller);
    const before = await one.enrol({ token, node: "", request: await requestOf() }, nobody);
    const { at } = await one.revoke(revoke("node/node-a"), caller);
    const again = await one.createNodeToken({ node: "node-a", ttlMs: undefined }, caller);
    const after = await one.enrol({ token: again.token, node: "", request: await requestOf() }, nobody);
    const [old, next] = [leafOf(before.certificate).notBefore, leafOf(after.certificate).notBefore];
    expect([Number(old) <= at, Number(next) > at, clock.now() - Number(next) < 1_001]).toEqual([true, true, true]);
  });

  test("an entry goes when its certificate has ended, from memory and from the store", async () => {
    const { controller, clock } = await rig();
    const one = controller();
    await one.revoke(revoke("000000AB", { endsAt: clock.now() + 60 * minute }), caller);
    await clock.advance(119 * minute);
    expect(one.denials.of("AB")).toBeDefined();
    await clock.advance(2 * minute);
    expect(one.denials.of("AB")).toBeUndefined();
    const other = controller();
    await other.denials.load();
    expect((await other.listRevoked({ after: undefined, size: 9 })).items).toEqual([]);
  });

  test("the same request again answers the first, and each mistake is told at once", async () => {
    const { controller, audits, clock } = await rig();
    const one = controller();
    await one.revoke(revoke("node/node-a", { requestId: "r1" }), caller);
    await clock.advance(minute);
    await one.revoke(revoke("node/node-a", { requestId: "r1" }), caller);
    expect(await audits()).toHaveLength(1);
    const wrong = { subject: "node/A", reason: "", endsAt: clock.now(), requestId: "" };
    await expect(one.revoke(wrong, caller)).rejects.toMatchObject({
      violations: [{ field: "subject" }, { field: "ends_at" }, { field: "reason" }],
    });
    await expect(one.revoke(revoke("ada"), caller)).rejects.toMatchObject({ reason: "INVALID_ARGUMENT" });
    await expect(one.revoke(revoke("00000000"), caller)).rejects.toMatchObject({ reason: "INVALID_ARGUMENT" });
  });

  test("[DN2] an entry that cannot be read denies, and no certificate is issued past it", async () => {
    const { controller, store } = await rig();
    const write = { ref: { kind: "denial", key: "node/node-a" }, expectedRev: 0, body: "{}", due: [] } as const;
    await store.commit({
      ...{ opId: "x", events: [], requiresVetted: false },
      writes: [{ ...write, indexes: [{ index: "denial-all", value: "all" }] }],
    });
    const one = controller();
    await one.denials.load();
    expect(one.denials.of("node/node-a")).toBeDefined();
    const { token } = await one.createNodeToken({ node: "node-a", ttlMs: undefined }, caller);
    await expect(one.enrol({ token, node: "", request: await requestOf() }, nobody)).rejects.toMatchObject({
      reason: "RECORD_DAMAGED",
    });
  });
});
