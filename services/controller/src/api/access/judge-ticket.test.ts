/** Tickets as a node brings them, held against the grants that operators set: all but the wire is real. */
import { createHmac, randomUUID } from "node:crypto";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { claimVolumeId } from "@holdfast/shared/claim-volume-id";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { AgentLinkServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import type { Identity } from "@holdfast/shared/grpc/identity";
import { beforeEach, describe, expect, test } from "vitest";
import { signTicket, ticketPair } from "../../../../../test/support/workload-ticket.ts";
import { wireAccess } from "../../access-wiring.ts";
import { createAccessCommands } from "../../commands/access/access-commands.ts";
import { createAccessGrants } from "../../records/access/access-grants.ts";
import { createAuditRecords } from "../../records/audit-records.ts";
import { createSqliteStore } from "../../store/sqlite/sqlite-store.ts";

const [pair, other, rsa] = [ticketPair(), ticketPair(), ticketPair("rsa")];
const certificate = { trustDomain: "t", serial: "01", notBefore: 0, notAfter: 1, fingerprint: "f" };
const [n1, n2] = ["n1", "n2"].map((name): Identity => ({ role: "node", name, certificate })) as [Identity, Identity];
const start = 1_800_000_000_000;
const seconds = start / 1000;
const claims = { namespace: "shop", workload: "web", node: "n1", volumes: ["data", "logs"], exp: seconds + 600 };
const asked = { namespace: "shop", workload: "web", node: "n1", claimUids: [] as string[], ticket: "" };
const data = [{ volume: "data", alias: "data" }];

const rig = async () => {
  const clock = createManualClock({ now: start });
  const ids = { uuid: randomUUID, random: () => 0.5 };
  const store = createSqliteStore({ file: ":memory:", now: clock.now, uuid: randomUUID });
  const accessGrants = createAccessGrants({ store, clock, ids, signal: new AbortController().signal });
  const commands = createAccessCommands({ accessGrants, audit: createAuditRecords({ store, ids }), store, clock });
  const grant = (scheduler: string, namespaces: readonly string[], ticketKeys: readonly string[]) =>
    commands.setGrant(
      { scheduler, namespaces, plugins: ["*"], secretRoots: [], ticketKeys, reason: "r", requestId: "" },
      { who: "operator/ada", why: "SetGrant" },
    );
  const wire = (nodeNamespaces: readonly string[]) =>
    wireAccess("certificates", accessGrants, { nodeNamespaces, clock }).access;
  const call =
    (nodeNamespaces: readonly string[]) =>
    (method: "RequestClaims" | "ReleaseClaims", request: object, node = n1): unknown => {
      try {
        const path = `/${AgentLinkServiceDefinition.fullName}/${method}`;
        return wire(nodeNamespaces).admitFirst(path, node, { ...asked, ...request });
      } catch (error) {
        if (!isHoldfastError(error)) throw error;
        return error.reason === "TICKET_REFUSED" ? error.metadata["why"] : error.reason;
      }
    };
  const ask = call([]);
  const asks = (ticket: string, request: object = {}) => ask("RequestClaims", { claims: data, ticket, ...request });
  const releases = (ticket: string, request: object = {}) => ask("ReleaseClaims", { ticket, ...request });
  return { clock, store, accessGrants, grant, call, ask, asks, releases };
};

let world: Awaited<ReturnType<typeof rig>>;
beforeEach(async () => {
  world = await rig();
  await world.grant("nomad", ["shop", "web"], [pair.pem, rsa.pem]);
});
const signed = (change: object = {}, by = pair, header: object = {}) =>
  signTicket(by, { ...claims, ...change }, header);

describe("[TK2] with a ticket a node may ask for", () => {
  test.each([
    ["ES256", pair],
    ["RS256", rsa],
  ] as const)("the claims of its workload, and gives them back, also twice: %s", async (_alg, by) => {
    const ticket = await signed({}, by);
    const times = [1, 2];
    // Also after the release: it holds until its end.
    expect(times.map(() => [world.asks(ticket), world.releases(ticket)])).toEqual(
      times.map(() => [undefined, undefined]),
    );
  });

  test("fewer volumes than it names, and those that templates of its claims make", async () => {
    const made = claimVolumeId("web", "scratch");
    const brought = [{ volume: "", alias: "scratch", template: {} }];
    expect(world.asks(await signed({ volumes: ["data", made] }), { claims: [...data, ...brought] })).toBeUndefined();
    expect(world.asks(await signed(), { claims: brought })).toBe("volume");
  });

  test("nothing but giving back, when it names no volumes", async () => {
    const ticket = await signed({ volumes: [] });
    expect([world.asks(ticket), world.releases(ticket)]).toEqual(["volume", undefined]);
  });
});

describe("refused is a ticket", () => {
  test.each<[string, object, string]>([
    ["that has ended", { exp: seconds }, "ended"],
    ["for more than an hour", { exp: seconds + 3631 }, "time"],
    ["without an end", { exp: undefined }, "form"],
    ["whose end is a text", { exp: `${seconds + 60}` }, "form"],
    ["whose time has not come", { nbf: seconds + 31 }, "time"],
    ["for another node", { node: "n2" }, "node"],
    ["for another workload", { workload: "web2" }, "workload"],
    ["for another namespace", { namespace: "web" }, "namespace"],
    ["for no namespace", { namespace: undefined }, "namespace"],
  ])("%s", async (_what, change, why) => {
    const ticket = await signed(change);
    expect([world.asks(ticket), world.releases(ticket)]).toEqual([why, why]);
  });

  test("for other volumes, or for one text of them", async () => {
    expect(world.asks(await signed({ volumes: ["logs"] }))).toBe("volume");
    expect(world.asks(await signed({ volumes: "data" }))).toBe("form");
    expect(world.asks(await signed({ volumes: undefined }))).toBe("form");
    const two = [...data, { volume: "bank", alias: "b" }];
    expect(world.asks(await signed(), { claims: two })).toBe("volume");
  });

  test("that another node brings, in its own name or in that of the first", async () => {
    const ticket = await signed();
    expect(world.ask("RequestClaims", { claims: data, ticket, node: "n2" }, n2)).toBe("node");
    expect(world.ask("RequestClaims", { claims: data, ticket }, n2)).toBe("PERMISSION_DENIED");
  });

  test("until its end and not longer", async () => {
    const ticket = await signed();
    await world.clock.advance(599_999);
    expect(world.asks(ticket)).toBeUndefined();
    await world.clock.advance(1);
    expect(world.asks(ticket)).toBe("ended");
  });

  test("of a key that is not in a grant of the namespace", async () => {
    expect(world.asks(await signed({}, other))).toBe("signature");
    await world.grant("other", ["bank"], [other.pem]);
    expect(world.asks(await signed({}, other))).toBe("signature");
    await world.grant("other", ["bank", "shop"], [other.pem]);
    expect(world.asks(await signed({}, other))).toBeUndefined();
  });

  test("of a key that the grant has no more, from the next call on", async () => {
    const [byFirst, bySecond] = [await signed(), await signed({}, rsa)];
    await world.grant("nomad", ["shop", "web"], [rsa.pem]);
    expect([world.asks(byFirst), world.asks(bySecond)]).toEqual(["signature", undefined]);
  });

  test("of algorithm none, of another one than its key's, or of an HMAC with the public key", async () => {
    const [head = "", body = ""] = (await signed()).split(".");
    const none = Buffer.from(JSON.stringify({ typ: "holdfast-ticket+jwt", alg: "none" })).toString("base64url");
    for (const signature of ["", "AA", head]) expect(world.asks(`${none}.${body}.${signature}`)).toBe("signature");
    expect(world.asks(await signed({}, pair, { alg: "RS256" }))).toBe("signature");
    expect(world.asks(await signed({}, rsa, { alg: "ES256" }))).toBe("signature");
    const hs = Buffer.from(JSON.stringify({ typ: "holdfast-ticket+jwt", alg: "HS256" })).toString("base64url");
    for (const secret of [pair.pem, rsa.pem]) {
      const mac = createHmac("sha256", secret).update(`${hs}.${body}`).digest("base64url");
      expect(world.asks(`${hs}.${body}.${mac}`)).toBe("signature");
    }
  });

  test("that is another JWT of the same key, such as an identity token, or longer than any", async () => {
    for (const typ of ["JWT", undefined]) expect(world.asks(await signed({}, pair, { typ }))).toBe("form");
    expect(world.asks(await signed({ pad: "x".repeat(8192) }))).toBe("form");
  });

  test("[TK3] in words that say what to do, and hold nothing of it", async () => {
    const ticket = await signed({ workload: "hidden-name" });
    const path = `/${AgentLinkServiceDefinition.fullName}/RequestClaims`;
    const ask = () =>
      wireAccess("certificates", world.accessGrants, { clock: world.clock }).access.admitFirst(path, n1, {
        ...{ ...asked, claims: data, ticket },
      });
    expect(ask).toThrow(/workload shop\/web on node n1 .*not for this workload.* scheduler signs.* PrepareWorkload/);
    expect(ask).not.toThrow(/hidden-name/);
    for (const part of ticket.split(".")) expect(ask).not.toThrow(part);
  });
});

describe("[TK1] without a ticket", () => {
  test("nothing is asked where a grant has keys, whatever HOLDFAST_NODE_NAMESPACES says", () => {
    const open = world.call(["*"]);
    for (const call of [world.ask, open]) {
      expect(call("RequestClaims", { claims: data })).toBe("TICKET_REQUIRED");
      expect(call("ReleaseClaims", {})).toBe("TICKET_REQUIRED");
    }
    expect(open("RequestClaims", { claims: data, namespace: "bank" })).toBeUndefined();
  });

  test("lives are named as before", () => {
    expect(world.asks("", { claimUids: ["u1"], claims: [] })).toBeUndefined();
    expect(world.releases("", { claimUids: ["u1"] })).toBeUndefined();
  });

  test("where no grant has keys the setting decides, and a ticket is refused", async () => {
    await world.grant("nomad", ["shop", "web"], []);
    const ticket = await signed();
    const open = world.call(["shop"]);
    expect([world.asks(""), world.asks(ticket)]).toEqual(["PERMISSION_DENIED", "no-keys"]);
    expect(open("RequestClaims", { claims: data })).toBeUndefined();
    expect(open("RequestClaims", { claims: data, ticket })).toBe("no-keys");
    expect(open("ReleaseClaims", { ticket })).toBe("no-keys");
  });
});

test("[AG3] while a grant cannot be read nothing is asked without a ticket: it may be the one that has keys", async () => {
  const ticket = await signed();
  const { accessGrants, store, call } = world;
  await world.grant("other", ["bank"], []);
  const ref = { kind: "grant", key: "other" } as const;
  const before = await store.get(ref);
  const indexes = [{ index: "grant-all", value: "all" }];
  const writes = [{ ref, expectedRev: before?.rev ?? 0, body: "{}", indexes, due: [] }];
  await store.commit({ opId: randomUUID(), writes, events: [], requiresVetted: false });
  await accessGrants.load();
  const open = call(["*"]);
  expect(open("RequestClaims", { claims: data, namespace: "bank" })).toBe("RECORD_DAMAGED");
  expect(open("ReleaseClaims", { namespace: "bank" })).toBe("RECORD_DAMAGED");
  expect(world.asks(ticket)).toBeUndefined();
});
