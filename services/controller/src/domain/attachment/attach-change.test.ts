import { describe, expect, it } from "vitest";
import type { Change } from "../change.ts";
import type { Claim } from "../claim/claim.ts";
import { attachmentRecord, claimRecord, failureWith, momentAt, volumeRecord } from "../testing/record-fixtures.ts";
import type { Intent, VolumeRecord } from "../volume/volume.ts";
import { attachAbandoned, attachAnswered, detachAnswered, detached, detachStarted } from "./attach-change.ts";

const epoch = { gen: 1, ctr: 9 };
const at = momentAt(5_000);
const intentTo = (op: Intent["op"], changes: Partial<Intent> = {}): Intent => ({
  op,
  node: "n1",
  epoch,
  issuer: "controller/1",
  opId: "op-1",
  ...changes,
});
const waiting = (uid: string, changes: Partial<Claim> = {}): Claim =>
  claimRecord(uid, { state: "ATTACHING", epoch: { gen: 1, ctr: 5 }, ...changes });
const attaching = (claims: readonly Claim[], intent: Partial<Intent> = {}): VolumeRecord =>
  volumeRecord(claims, [attachmentRecord("n1", { state: "ATTACHING" })], { intent: intentTo("attach", intent) });
const leaving = (uid: string, changes: Partial<Claim> = {}): Claim => waiting(uid, { state: "DETACHING", ...changes });
const detaching = (claims: readonly Claim[], changes: Partial<VolumeRecord> = {}): VolumeRecord =>
  volumeRecord(claims, [attachmentRecord("n1", { state: "DETACHING" })], { intent: intentTo("detach"), ...changes });

/** What of a change a reader has to compare: claims, attachments, the intent, and who ended how. */
const told = ({ volume, ended }: Change) => ({
  claims: Object.values(volume?.claims ?? {}).map((c) => `${c.uid} ${c.state}`),
  attachments: Object.values(volume?.attachments ?? {}).map((a) => `${a.node} ${a.state}`),
  intent: volume?.intent === undefined ? "none" : `${volume.intent.op} ${volume.intent.node}`,
  ended: ended.map((t) => `${t.uid} ${t.state}${t.failure === undefined ? "" : ` ${t.failure.reason}`}`),
});

const allDetaching = (...uids: string[]) => ({
  claims: uids.map((uid) => `${uid} DETACHING`),
  attachments: ["n1 DETACHING"],
  intent: "detach n1",
  ended: [],
});

const done = (value = {}) => ({ kind: "done", value }) as const;

describe("attached", () => {
  it("offers every claim that waited for the one call, with what the call gave", () => {
    const change = attachAnswered(attaching([waiting("a"), waiting("b")]), "n1", done({ lun: "4" }), at);
    expect(told(change)).toEqual({
      claims: ["a OFFERED", "b OFFERED"],
      attachments: ["n1 ATTACHED"],
      intent: "none",
      ended: [],
    });
    expect(change.volume?.attachments["n1"]?.publishContext).toEqual({ lun: "4" });
  });

  it("[I5] nobody wants it any more: its undo is owed at once", () => {
    const change = attachAnswered(attaching([waiting("a", { goal: "released" })]), "n1", done(), at);
    expect(told(change)).toEqual(allDetaching("a"));
  });

  it("one of two wants it: the other just ends", () => {
    const change = attachAnswered(attaching([waiting("a", { goal: "released" }), waiting("b")]), "n1", done(), at);
    expect(told(change)).toEqual({
      claims: ["b OFFERED"],
      attachments: ["n1 ATTACHED"],
      intent: "none",
      ended: ["a RELEASED"],
    });
  });

  it.each([
    [
      "another node's intent",
      volumeRecord([], [attachmentRecord("n1")], { intent: intentTo("attach", { node: "n2" }) }),
    ],
    ["no intent", volumeRecord([waiting("a")], [attachmentRecord("n1", { state: "ATTACHING" })])],
    ["a detach under way", detaching([leaving("a")])],
  ])("says nothing over %s", (_, volume) => {
    expect(attachAnswered(volume, "n1", done(), at).volume).toBe(volume);
  });
});

describe("attachRefused", () => {
  const failure = failureWith("fail", { reason: "PLUGIN_REFUSED" });

  it("certain: the claims end with the reason, no call is owed", () => {
    expect(
      told(attachAnswered(attaching([waiting("a"), waiting("b")]), "n1", { kind: "refused", failure }, at)),
    ).toEqual({
      claims: [],
      attachments: [],
      intent: "none",
      ended: ["a FAILED PLUGIN_REFUSED", "b FAILED PLUGIN_REFUSED"],
    });
  });

  it.each([
    ["an attempt without certain answer", { uncertainSince: 1_000 }],
    ["an attempt of a controller that died before it could tell", { issuer: "controller/0" }],
  ])("[I5] after %s it proves nothing: the undo is owed, for all of them", (_, intent) => {
    const change = attachAnswered(
      attaching([waiting("a"), waiting("b")], intent),
      "n1",
      { kind: "refused", failure },
      at,
    );
    expect(told(change)).toEqual(allDetaching("a", "b"));
    expect(Object.values(change.volume?.claims ?? {}).map((c) => c.failure?.reason)).toEqual([
      "PLUGIN_REFUSED",
      "PLUGIN_REFUSED",
    ]);
  });
});

describe("attachUnknown", () => {
  it.each([
    ["again", 5_000],
    ["wait", 5_000],
    ["check-absence", 5_000],
  ] as const)("advice %s: in doubt since %s, and the same call again", (advice, since) => {
    const change = attachAnswered(
      attaching([waiting("a")]),
      "n1",
      { kind: "unknown", failure: failureWith(advice) },
      at,
    );
    expect(told(change)).toMatchObject({ claims: ["a ATTACHING"], intent: "attach n1", ended: [] });
    expect(change.volume?.intent?.uncertainSince).toBe(since);
    expect(change.volume?.claims["a"]?.attempts).toMatchObject({ count: 1 });
    expect(change.volume?.claims["a"]?.attempts.nextTry).toBeGreaterThan(at.now);
  });

  it("[I6] says what has to be put right first, where repeating alone does not help", () => {
    const lacking = { reason: "SECRET_NOT_FOUND", message: "secret file:/s is gone", advice: "block" } as const;
    const change = attachAnswered(attaching([waiting("a")]), "n1", { kind: "unknown", failure: lacking }, at);
    expect(change.volume?.claims["a"]).toMatchObject({
      state: "ATTACHING",
      blocked: { since: at.now, reason: "CREDENTIALS_REFUSED", message: "secret file:/s is gone" },
    });
    const again = attachAnswered(
      change.volume as VolumeRecord,
      "n1",
      { kind: "unknown", failure: failureWith("again") },
      at,
    );
    expect(again.volume?.claims["a"]?.blocked).toBeUndefined();
  });

  it("names the release of a claim that stands before its volume is forgotten", () => {
    const gone = failureWith("block", { code: "NOT_FOUND" });
    const change = attachAnswered(attaching([waiting("a")]), "n1", { kind: "unknown", failure: gone }, at);
    expect(change.volume?.claims["a"]?.blocked).toMatchObject({
      reason: "NOT_AT_BACKEND",
      clearWith: expect.stringMatching(/holdfast claim release .*; then: holdfast repair forget-volume /),
    });
  });

  it("keeps the first doubt, also when a later attempt is refused for now", () => {
    const before = attaching([waiting("a")], { uncertainSince: 1_000 });
    for (const advice of ["again", "check-absence"] as const)
      expect(
        attachAnswered(before, "n1", { kind: "unknown", failure: failureWith(advice) }, at).volume?.intent
          ?.uncertainSince,
      ).toBe(1_000);
  });

  it("[I5] nobody wants it: the undo is owed", () => {
    const volume = attaching([waiting("a", { goal: "released" })]);
    expect(told(attachAnswered(volume, "n1", { kind: "unknown", failure: failureWith("again") }, at))).toEqual(
      allDetaching("a"),
    );
  });
});

describe("attachAbandoned", () => {
  it("[I6] two that gave up owe one undo together: none is left behind when it is done", () => {
    const both = attaching([waiting("a", { goal: "released" }), waiting("b", { goal: "released" })]);
    const owed = attachAbandoned(both, "a", at);
    expect(told(owed)).toEqual(allDetaching("a", "b"));
    if (owed.volume === null) throw new Error("the record is gone");
    expect(told(detached(owed.volume, "n1", at))).toEqual({
      claims: [],
      attachments: [],
      intent: "none",
      ended: ["a RELEASED", "b RELEASED"],
    });
  });

  it("another goes on with the attach: this one ends and the intent stays", () => {
    const change = attachAbandoned(attaching([waiting("a", { goal: "released" }), waiting("b")]), "a", at);
    expect(told(change)).toEqual({
      claims: ["b ATTACHING"],
      attachments: ["n1 ATTACHING"],
      intent: "attach n1",
      ended: ["a RELEASED"],
    });
  });

  it("says nothing about a claim that is wanted, or is past it", () => {
    for (const claim of [waiting("a"), leaving("a", { goal: "released" })]) {
      const volume = attaching([claim]);
      expect(attachAbandoned(volume, "a", at).volume).toBe(volume);
    }
  });
});

describe("a permit that may have left ahead", () => {
  const marked = (uid: string, changes: Partial<Claim> = {}): Claim => waiting(uid, { ahead: "op-1", ...changes });
  const refused = { kind: "refused", failure: failureWith("fail", { reason: "PLUGIN_REFUSED" }) } as const;
  const left = { attachments: ["n1 ATTACHING"], intent: "attach n1" };

  it("[I2] [PA3] of a claim that is given up: it is recalled, and the attach stays as it is", () => {
    const given = attaching([marked("a", { goal: "released" })]);
    expect(told(attachAbandoned(given, "a", at))).toEqual({ ...left, claims: ["a RELEASING"], ended: [] });
  });

  it("[I2] [PA3] of one whose attach is refused: recalled with its failure, and who only joined the attach ends", () => {
    const change = attachAnswered(attaching([marked("a"), waiting("b")]), "n1", refused, at);
    expect(told(change)).toEqual({ ...left, claims: ["a RELEASING"], ended: ["b FAILED PLUGIN_REFUSED"] });
    expect(change.volume?.claims["a"]).toMatchObject({ goal: "released", failure: { reason: "PLUGIN_REFUSED" } });
  });

  it("[I2] [PA3] of one that is recalled: no undo starts beside it", () => {
    const recalled = waiting("a", { state: "RELEASING", goal: "released" });
    const doubtful = attaching([recalled, waiting("b")], { uncertainSince: 1 });
    const over = { ...left, claims: ["a RELEASING"], ended: ["b FAILED PLUGIN_REFUSED"] };
    expect(told(attachAnswered(doubtful, "n1", refused, at))).toEqual(over);
    const givenUp = attaching([recalled, waiting("b", { goal: "released" })]);
    expect(told(attachAbandoned(givenUp, "b", at))).toEqual({ ...over, ended: ["b RELEASED"] });
  });

  it("[PA3] of one that nobody wants any more when the attach is done: recalled from the attachment", () => {
    const change = attachAnswered(attaching([marked("a", { goal: "released" })]), "n1", done(), at);
    expect(told(change)).toEqual({
      claims: ["a RELEASING"],
      attachments: ["n1 ATTACHED"],
      intent: "none",
      ended: [],
    });
  });
});

describe("detach", () => {
  const failed = failureWith("block", { reason: "DETACH_UNPROVEN", code: "NOT_FOUND" });

  it("[I4] waits for another call of the volume, then gets its intent by itself", () => {
    const busy = detaching([leaving("a")], { intent: intentTo("attach", { node: "n2" }) });
    expect(detachStarted(busy, "n1", at).volume).toBe(busy);
    const { intent: _gone, ...free } = detaching([leaving("a")]);
    expect(detachStarted(free, "n1", at).volume?.intent).toEqual({
      op: "detach",
      node: "n1",
      epoch,
      issuer: "controller/1",
      opId: "op-9",
    });
    const standing = volumeRecord([waiting("a", { state: "ACTIVE" })], [attachmentRecord("n1")]);
    expect(detachStarted(standing, "n1", at).volume).toBe(standing);
  });

  it("done: claims end as they were to end, attachment and intent go", () => {
    const volume = detaching([leaving("a"), leaving("b", { failure: { reason: "X", message: "x" } })]);
    expect(told(detached(volume, "n1", at))).toEqual({
      claims: [],
      attachments: [],
      intent: "none",
      ended: ["a RELEASED", "b FAILED X"],
    });
  });

  it("[I2] said of a node that is not being detached, it means nothing", () => {
    const volume = volumeRecord([waiting("a", { state: "ACTIVE" })], [attachmentRecord("n1")]);
    expect(detached(volume, "n1", at).volume).toBe(volume);
    expect(detachAnswered(volume, "n1", { kind: "unknown", failure: failed }, at).volume).toBe(volume);
  });

  it("[I5] not known: everything stays, and says why", () => {
    const change = detachAnswered(detaching([leaving("a")]), "n1", { kind: "unknown", failure: failed }, at);
    expect(told(change)).toEqual(allDetaching("a"));
    expect(change.volume?.claims["a"]).toMatchObject({
      blocked: { since: at.now, reason: "DETACH_UNPROVEN" },
      attempts: { count: 1 },
    });
  });
});
