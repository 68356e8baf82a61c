import { describe, expect, it } from "vitest";
import type { Change } from "../change.ts";
import { attachmentRecord, claimRecord, failureWith, momentAt, volumeRecord } from "../testing/record-fixtures.ts";
import type { VolumeRecord } from "../volume/volume.ts";
import type { Claim } from "./claim.ts";
import {
  memberFailed,
  notMounted,
  offerAgain,
  permitRefused,
  publicationLost,
  published,
  publishUnknown,
  queueTimedOut,
  released,
  releaseUnknown,
  releaseWanted,
} from "./claim-change.ts";
import { permitFor } from "./permit.ts";

const at = momentAt(5_000);
const publication = { hostPath: "/hf/a", mountId: 7, bootId: "boot-1", journalUid: "journal-1" };
const blocked = { since: 1, reason: "MOUNT_HELD", message: "m", missingProof: "p", clearWith: "c" };
const granted = (uid: string, changes: Partial<Claim> = {}) =>
  claimRecord(uid, { state: "OFFERED", epoch: { gen: 1, ctr: 5 }, ...changes });
const on = (claims: readonly Claim[], changes: Partial<VolumeRecord> = {}) =>
  volumeRecord(claims, [attachmentRecord("n1")], changes);
const claimIn = ({ volume }: Change, uid = "a"): Claim => {
  const claim = volume?.claims[uid];
  if (claim === undefined) throw new Error(`${uid} is gone`);
  return claim;
};
const told = ({ volume, ended }: Change) => ({
  claims: Object.values(volume?.claims ?? {}).map((c) => `${c.uid} ${c.state}`),
  attachments: Object.values(volume?.attachments ?? {}).map((a) => `${a.node} ${a.state}`),
  intent: volume?.intent === undefined ? "none" : `${volume.intent.op} ${volume.intent.node}`,
  ended: ended.map((t) => `${t.uid} ${t.state}${t.failure === undefined ? "" : ` ${t.failure.reason}`}`),
});

describe("published", () => {
  it("an offer becomes ACTIVE, once and for all, with what the agent saw", () => {
    const change = published(
      on([granted("a", { blocked, attempts: { count: 3, nextTry: 9_000 } })]),
      "a",
      publication,
      at,
    );
    expect(claimIn(change)).toMatchObject({
      state: "ACTIVE",
      activeAt: 5_000,
      stateSince: 5_000,
      publication,
      attempts: { count: 0, nextTry: 0 },
    });
    expect(claimIn(change)).not.toHaveProperty("blocked");
  });

  it("heals a degraded claim, and keeps when it was active first", () => {
    const degraded = granted("a", { state: "ACTIVE", degradedSince: 3_000, activeAt: 2_000, stateSince: 2_000 });
    const healed = claimIn(published(on([degraded]), "a", publication, at));
    expect(healed).toMatchObject({ state: "ACTIVE", activeAt: 2_000, stateSince: 2_000 });
    expect(healed).not.toHaveProperty("degradedSince");
  });

  it.each(["QUEUED", "ATTACHING", "RELEASING", "DETACHING"] as const)("too late for a claim that is %s", (state) => {
    const volume = on([granted("a", { state })]);
    expect(published(volume, "a", publication, at).volume).toBe(volume);
  });
});

describe("leaving a node", () => {
  const leaving = granted("a", { state: "RELEASING", goal: "released" });
  const proofs: readonly (readonly [string, (volume: VolumeRecord) => Change, string])[] = [
    ["released", (v) => released(v, "a", at), ""],
    [
      "not mounted",
      (v) => notMounted(v, "a", failureWith("fail", { reason: "PLUGIN_REFUSED" }), at),
      " PLUGIN_REFUSED",
    ],
  ];

  it.each(proofs)(
    "[I2] [I4] the last claim, %s: its detach is owed, with its intent in the same record",
    (_, prove) => {
      expect(told(prove(on([leaving])))).toEqual({
        claims: ["a DETACHING"],
        attachments: ["n1 DETACHING"],
        intent: "detach n1",
        ended: [],
      });
    },
  );

  it.each(proofs)("[I2] another holds the node, %s: this one ends, the attachment stays", (_, prove, reason) => {
    expect(told(prove(on([leaving, granted("b", { state: "ACTIVE" })])))).toEqual({
      claims: ["b ACTIVE"],
      attachments: ["n1 ATTACHED"],
      intent: "none",
      ended: [`a ${reason === "" ? "RELEASED" : "FAILED"}${reason}`],
    });
  });

  it("[I4] another call of the volume is in progress: the detach waits for its turn, without an intent of its own", () => {
    const intent = {
      op: "attach",
      node: "n2",
      epoch: { gen: 1, ctr: 9 },
      issuer: "controller/1",
      opId: "op-1",
    } as const;
    const change = released(on([leaving], { intent }), "a", at);
    expect(told(change)).toMatchObject({ attachments: ["n1 DETACHING"], intent: "attach n2" });
    expect(change.volume?.intent).toBe(intent);
  });

  it("a plugin that does not attach: the claim ends at once", () => {
    const volume = volumeRecord([leaving], [attachmentRecord("n1", { needsCalls: false })]);
    expect(told(released(volume, "a", at))).toEqual({
      claims: [],
      attachments: [],
      intent: "none",
      ended: ["a RELEASED"],
    });
  });

  it.each(["claims that wait", "claims elsewhere"])("%s do not keep the attachment", (which) => {
    const other = which === "claims that wait" ? claimRecord("b") : granted("b", { node: "n2", state: "ACTIVE" });
    expect(told(released(on([leaving, other]), "a", at))).toMatchObject({ attachments: ["n1 DETACHING"], ended: [] });
  });
});

describe("releaseWanted", () => {
  it.each([
    ["QUEUED", undefined],
    ["ATTACHING", "ATTACHING"],
    ["OFFERED", "RELEASING"],
    ["ACTIVE", "RELEASING"],
    ["RELEASING", "RELEASING"],
    ["DETACHING", "DETACHING"],
  ] as const)("[I6] at any point: %s to %s", (state, next) => {
    const change = releaseWanted(on([granted("a", { state })]), "a", { parent: "00-1", at: 5_000 }, at);
    expect(change.volume?.claims["a"]?.state).toBe(next);
    if (next === undefined) expect(told(change).ended).toEqual(["a RELEASED"]);
    else expect(claimIn(change)).toMatchObject({ goal: "released", trace: { parent: "00-1", at: 5_000 } });
  });

  it("asked twice keeps the first trace", () => {
    const before = granted("a", { state: "RELEASING", goal: "released", trace: { parent: "00-1", at: 1 } });
    expect(claimIn(releaseWanted(on([before]), "a", { parent: "00-2", at: 2 }, at)).trace?.parent).toBe("00-1");
  });
});

describe("answers that are no proof", () => {
  it("[I2] a release that is not known is asked again", () => {
    const change = releaseUnknown(on([granted("a", { state: "RELEASING" })]), "a", failureWith("block"), blocked, at);
    expect(claimIn(change)).toMatchObject({ state: "RELEASING", blocked, attempts: { count: 1 } });
    expect(told(change)).toMatchObject({ attachments: ["n1 ATTACHED"], intent: "none" });
  });

  it("an offer that is not known is offered again, under its epoch", () => {
    const change = publishUnknown(on([granted("a")]), "a", failureWith("again"), undefined, at);
    expect(claimIn(change)).toMatchObject({ state: "OFFERED", epoch: { gen: 1, ctr: 5 }, attempts: { count: 1 } });
  });

  it("a refused permit lets go of an offer, and fails it once that is proved", () => {
    const failure = failureWith("block", { reason: "FLOOR" });
    const change = permitRefused(on([granted("a")]), "a", failure, blocked, at);
    expect(claimIn(change)).toMatchObject({ state: "RELEASING", goal: "released", failure: { reason: "FLOOR" } });
  });

  it("[I7] a refused permit never tears down what runs: it stays, degraded", () => {
    const change = permitRefused(on([granted("a", { state: "ACTIVE" })]), "a", failureWith("block"), blocked, at);
    expect(claimIn(change)).toMatchObject({ state: "ACTIVE", goal: "active", degradedSince: 5_000, blocked });
    expect(claimIn(change)).not.toHaveProperty("failure");
  });
});

describe("publicationLost and offerAgain", () => {
  it("[I3] offered again at once under the same epoch, degraded since the first loss", () => {
    const before = granted("a", { state: "ACTIVE", attempts: { count: 2, nextTry: 9_000 } });
    const lost = publicationLost(on([before]), "a", at);
    expect(claimIn(lost)).toMatchObject({
      state: "ACTIVE",
      degradedSince: 5_000,
      epoch: { gen: 1, ctr: 5 },
      attempts: { count: 0, nextTry: 0 },
    });
    if (lost.volume === null) throw new Error("the record is gone");
    expect(claimIn(publicationLost(lost.volume, "a", momentAt(8_000))).degradedSince).toBe(5_000);
  });

  it("only an offer that waits for its next try is hurried, and keeps its count", () => {
    const waiting = on([granted("a", { attempts: { count: 4, nextTry: 60_000 } })]);
    expect(claimIn(offerAgain(waiting, "a", at)).attempts).toEqual({ count: 4, nextTry: 5_000 });
    for (const claim of [granted("a"), granted("a", { state: "ACTIVE", attempts: { count: 4, nextTry: 60_000 } })]) {
      const volume = on([claim]);
      expect(offerAgain(volume, "a", at).volume).toBe(volume);
    }
  });
});

describe("what ends before it began", () => {
  it("a deadline in the queue names who was in the way", () => {
    const change = queueTimedOut(volumeRecord([claimRecord("a")]), "a", "workload w on node n2", at);
    expect(told(change).ended).toEqual(["a FAILED QUEUE_TIMEOUT"]);
    expect(change.ended[0]?.failure?.message).toBe("not granted before its deadline; held by workload w on node n2");
    const late = on([granted("a")]);
    expect(queueTimedOut(late, "a", "", at).volume).toBe(late);
  });

  it("another of its set failed: a waiting claim ends, a granted one lets go first, each with the reason", () => {
    const failure = failureWith("fail", { reason: "SET_MEMBER_FAILED" });
    expect(told(memberFailed(volumeRecord([claimRecord("a")]), "a", failure, at)).ended).toEqual([
      "a FAILED SET_MEMBER_FAILED",
    ]);
    const change = memberFailed(on([granted("a")]), "a", failure, at);
    expect(claimIn(change)).toMatchObject({
      state: "RELEASING",
      goal: "released",
      failure: { reason: "SET_MEMBER_FAILED" },
    });
  });

  it("the first reason stays", () => {
    const failing = granted("a", { failure: { reason: "FLOOR", message: "m" } });
    const change = notMounted(on([failing]), "a", failureWith("fail", { reason: "LATER" }), at);
    expect(claimIn(change).failure?.reason).toBe("FLOOR");
  });

  it("of a claim that is not there, nothing is said", () => {
    const volume = on([granted("a")]);
    for (const change of [released(volume, "b", at), published(volume, "b", publication, at)])
      expect(change.volume).toBe(volume);
  });
});

describe("permitFor", () => {
  const two = (first: Partial<Claim>, second: Partial<Claim>) =>
    on([granted("a", { epoch: { gen: 1, ctr: 5 }, ...first }), granted("b", { epoch: { gen: 1, ctr: 6 }, ...second })]);

  it.each([
    ["of a grant beside it that is offered", two({ state: "OFFERED" }, {}), 5],
    ["of one that is only being released", two({ state: "RELEASING" }, {}), 5],
    ["not of one that is proved gone", two({ state: "DETACHING" }, {}), 6],
    ["not of one on another node", two({ node: "n2" }, {}), 6],
  ] as const)("[I3] the floor stays below the epoch %s", (_, volume, ctr) => {
    const claim = volume.claims["b"];
    if (claim === undefined) throw new Error("no claim");
    expect(permitFor(volume, claim, 3)).toMatchObject({
      epoch: { gen: 1, ctr: 6 },
      oldestLiveEpoch: { gen: 1, ctr },
      nodeEpoch: 3,
    });
  });

  it.each([
    ["without a grant", volumeRecord([claimRecord("a")], [attachmentRecord("n1")])],
    ["without an attachment", volumeRecord([granted("a")])],
    ["while it is being attached", volumeRecord([granted("a")], [attachmentRecord("n1", { state: "ATTACHING" })])],
    ["while it is being detached", volumeRecord([granted("a")], [attachmentRecord("n1", { state: "DETACHING" })])],
  ])("[I4] there is none %s", (_, volume) => {
    const claim = volume.claims["a"];
    if (claim === undefined) throw new Error("no claim");
    expect(permitFor(volume, claim, 3)).toBeUndefined();
  });
});
