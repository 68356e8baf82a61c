import { describe, expect, it } from "vitest";
import type { Moment } from "./moment.ts";
import {
  afterCall,
  assigned,
  type CallEnd,
  type CallSite,
  dropsOpenCall,
  endOf,
  givenTo,
  inherited,
  mayBeOpen,
  seatOfCall,
  storedAnew,
  takenOver,
} from "./open-call.ts";

const at: Moment = { now: 7_000, issuer: "c1/2", opId: "next", random: 0.5, retry: { baseMs: 1, capMs: 2 } };
const mine: CallSite = { issuer: "c1/2", opId: "op" };
const seat = (via: string) => ({ via });
const of = (intent?: CallSite) => (intent === undefined ? {} : { intent });

describe("how an attempt leaves its call", () => {
  it("is open unless the outcome says otherwise: a status of the plugin, or nothing that was sent", () => {
    const failure = { reason: "X", message: "x", advice: "again" } as const;
    expect(endOf({ kind: "done", value: undefined })).toBe("ended");
    expect(endOf({ kind: "unknown", failure })).toBe("open");
    expect(endOf({ kind: "refused", failure: { ...failure, call: "ended" } })).toBe("ended");
    expect(endOf({ kind: "unknown", failure: { ...failure, call: "not-sent" } })).toBe("not-sent");
  });

  const given = of({ ...mine, via: "a" });
  const left = of({ ...mine, via: "a", openSince: 5, uncertainSince: 5 });
  it.each([
    ["ended", given, of(mine)],
    ["ended", left, of({ ...mine, uncertainSince: 5 })],
    ["not-sent", given, of(mine)],
    ["not-sent", left, left],
    ["open", given, of({ ...mine, via: "a", openSince: 7_000, uncertainSince: 7_000 })],
    ["open", left, left],
    ["open", of(mine), of(mine)],
  ] as const)("O1 O3 %s", (end, before, after) => {
    expect(afterCall(before, end, at)).toEqual(after);
    expect(mayBeOpen(afterCall(before, end, at))).toBe(after.intent !== undefined && "via" in after.intent);
  });
});

describe("who goes on with a call", () => {
  it("the life that takes an intent without an instance, which doubts what another life wrote", () => {
    expect(assigned(of(mine), "op", seat("b"), at)).toEqual(of({ ...mine, opId: "next", via: "b" }));
    const others = assigned(of({ issuer: "c2/1", opId: "op" }), "op", seat("b"), at);
    expect(others).toEqual(of({ issuer: "c1/2", opId: "next", via: "b", uncertainSince: 7_000 }));
    const taken = of({ ...mine, via: "a" });
    expect(assigned(taken, "op", seat("b"), at)).toBe(taken);
    expect(assigned(of(mine), "another", seat("b"), at)).toEqual(of(mine));
  });

  it("the next life of a controller: at the same instance, and as one that may have left", () => {
    const before = of({ issuer: "c1/1", opId: "op", via: "a" });
    const doubt = { openSince: 7_000, uncertainSince: 7_000 };
    const after = { issuer: "c1/2", opId: "next", via: "a", ...doubt, beyondGate: true as const };
    expect(inherited(before, "op", seat("a"), at)).toEqual(of(after));
    expect(inherited(before, "another", seat("a"), at)).toBe(before);
  });

  it("another life at a gate that compares the calls of both, with the life of that gate", () => {
    const before = of({ issuer: "c9/1", opId: "op", via: "a", gate: "g1" });
    const doubt = { openSince: 7_000, uncertainSince: 7_000 };
    expect(inherited(before, "op", { via: "a", gate: "g1" }, at)).toEqual(
      of({ issuer: "c1/2", opId: "next", via: "a", gate: "g1", ...doubt }),
    );
    expect(inherited(before, "op", { via: "a", gate: "g2" }, at)).toEqual(
      of({ issuer: "c1/2", opId: "next", via: "a", gate: "g2", ...doubt, beyondGate: true }),
    );
    expect(inherited(before, "op", { via: "b", gate: "g2" }, at)).toBe(before);
    expect(afterCall(before, "ended", at)).toEqual(of({ issuer: "c9/1", opId: "op" }));
  });

  it("O4 its own life, which stores an attempt anew: under another id, as doubtful as before", () => {
    const before = of({ ...mine, via: "a" });
    const left = (end: CallEnd, opId = "op") => ({ opId, end });
    expect(storedAnew(before, left("not-sent"), seat("a"), at)).toEqual(of({ ...mine, opId: "next", via: "a" }));
    const doubt = { openSince: 7_000, uncertainSince: 7_000 };
    expect(storedAnew(before, left("open"), seat("a"), at)).toEqual(of({ ...mine, opId: "next", via: "a", ...doubt }));
    const open = { ...mine, via: "a", openSince: 5, uncertainSince: 3 };
    for (const end of ["not-sent", "open"] as const)
      expect(storedAnew(of(open), left(end), seat("a"), at)).toEqual(of({ ...open, opId: "next" }));
    const others = of({ issuer: "c2/1", opId: "op", via: "a" });
    for (const kept of [of(mine), others, of()]) expect(storedAnew(kept, left("not-sent"), seat("a"), at)).toBe(kept);
    expect(storedAnew(before, left("not-sent", "another"), seat("a"), at)).toBe(before);
    expect(dropsOpenCall(before, storedAnew(before, left("open"), seat("a"), at), left("open"))).toBe(false);
  });

  it("O6 keeps the incarnation of the node at which its gate is, for as long as it has that gate", () => {
    const at1 = { via: "a", gate: "g1", gateEpoch: 1 };
    const open = of({ ...mine, ...at1, openSince: 5 });
    expect(seatOfCall("a", at1)).toEqual(at1);
    const next = { via: "a", gate: "g2", gateEpoch: 2 };
    expect(storedAnew(open, { opId: "op", end: "open" }, next, at).intent).toMatchObject({ ...next, beyondGate: true });
    expect(storedAnew(open, { opId: "op", end: "open" }, { via: "a" }, at).intent).not.toHaveProperty("gateEpoch");
    expect(afterCall(open, "ended", at).intent).not.toHaveProperty("gateEpoch");
  });

  it("O5 says that a life of its gate which is over may have the call, until the call has ended", () => {
    const gate = (name: string) => ({ via: "a", gate: name });
    const open = of({ ...mine, ...gate("g1"), openSince: 5 });
    const moved = storedAnew(open, { opId: "op", end: "open" }, gate("g2"), at);
    expect(moved.intent).toMatchObject({ ...gate("g2"), beyondGate: true });
    expect(storedAnew(open, { opId: "op", end: "open" }, gate("g1"), at).intent).not.toHaveProperty("beyondGate");
    const unsent = of({ ...mine, ...gate("g1") });
    const again = storedAnew(unsent, { opId: "op", end: "not-sent" }, gate("g2"), at);
    expect(again.intent).not.toHaveProperty("beyondGate");
    const back = storedAnew(moved, { opId: "next", end: "open" }, gate("g2"), { ...at, opId: "third" });
    expect(back.intent).toMatchObject({ beyondGate: true });
    expect(afterCall(back, "ended", at).intent).not.toHaveProperty("beyondGate");
  });

  it("anybody after a person's word, with the doubt, and under another id than the answer that may still come", () => {
    expect(takenOver(of({ issuer: "c9/1", opId: "op", via: "a", openSince: 3 }), at)).toEqual(
      of({ issuer: "c9/1", opId: "next", uncertainSince: 7_000 }),
    );
    const none = of(mine);
    expect(takenOver(none, at)).toBe(none);
  });
});

it("O2 a change drops an open call when the intent goes, is another one, or names another instance", () => {
  const open = of({ ...mine, via: "a" });
  expect(dropsOpenCall(open, null)).toBe(true);
  expect(dropsOpenCall(open, {})).toBe(true);
  expect(dropsOpenCall(open, of({ ...mine, opId: "next" }))).toBe(true);
  expect(dropsOpenCall(open, of({ ...mine, via: "b" }))).toBe(true);
  expect(dropsOpenCall(open, of({ ...mine, via: "a", uncertainSince: 1 }))).toBe(false);
  expect(dropsOpenCall(of(mine), null)).toBe(false);
});

it("O2 a change that leaves a bar for the very call drops none", () => {
  const open = of({ ...mine, via: "a", openSince: 5 });
  const elsewhere = of({ issuer: "c1/2", opId: "next", via: "b" });
  expect(dropsOpenCall(open, { ...elsewhere, bars: [{ opId: "op" }] })).toBe(false);
  expect(dropsOpenCall(open, { ...elsewhere, bars: [{ opId: "another" }] })).toBe(true);
  expect(dropsOpenCall(open, { ...elsewhere, bars: [] })).toBe(true);
});

it("O2 O3 news of the call let it go only when they tell that it has ended, or that it never left", () => {
  const given = of({ ...mine, via: "a" });
  const left = of({ ...mine, via: "a", openSince: 5 });
  const news = (end: CallEnd) => ({ opId: "op", end });
  for (const after of [null, of({ ...mine, opId: "next" }), of({ ...mine, opId: "next", via: "b" })]) {
    expect(dropsOpenCall(left, after, news("ended"))).toBe(false);
    expect(dropsOpenCall(left, after, news("open"))).toBe(true);
    expect(dropsOpenCall(left, after, news("not-sent")), "of an earlier attempt that left").toBe(true);
    expect(dropsOpenCall(given, after, news("open"))).toBe(true);
    expect(dropsOpenCall(given, after, news("not-sent"))).toBe(false);
    expect(dropsOpenCall(left, after, { opId: "another", end: "ended" })).toBe(true);
  }
  const inherits = of({ issuer: "c1/3", opId: "next", via: "a", openSince: 5 });
  expect(dropsOpenCall(left, inherits, news("open")), "handed on with its instance").toBe(false);
  expect(dropsOpenCall(left, inherits)).toBe(true);
});

it("an intent that is new in a commit is given its instance there, and no other", () => {
  const fresh = of({ issuer: "c1/2", opId: "next" });
  expect(givenTo(fresh, at, () => seat("a"))).toEqual(of({ issuer: "c1/2", opId: "next", via: "a" }));
  expect(givenTo(fresh, at, () => undefined)).toBe(fresh);
  expect(givenTo(fresh, at, undefined)).toBe(fresh);
  const old = of(mine);
  expect(givenTo(old, at, () => seat("a"))).toBe(old);
});
