import { describe, expect, it } from "vitest";
import type { Claim, ClaimState } from "./claim/claim.ts";
import { asksOf, planSteps, settled } from "./steps.ts";
import { attachmentRecord, barRecord, claimRecord, volumeRecord } from "./testing/record-fixtures.ts";
import type { Intent, VolumeRecord } from "./volume/volume.ts";

const epoch = { gen: 1, ctr: 9 };
const intentTo = (op: Intent["op"], node?: string): Partial<VolumeRecord> => ({
  intent: { op, epoch, issuer: "controller/1", opId: "op-1", ...(node === undefined ? {} : { node }) },
});
const inState = (uid: string, state: ClaimState, changes: Partial<Claim> = {}) =>
  claimRecord(uid, { state, epoch, ...changes });
const planned = (volume: VolumeRecord, now = 1_000) =>
  planSteps(volume, now).ready.map((s) => ("uid" in s ? `${s.do} ${s.uid} in ${s.lane}` : `${s.do} in ${s.lane}`));
const foreignRecord = (node: string) => ({ node, claimUid: "c9", workload: "w", alias: "data", epoch, since: 1 });
const later = { count: 2, nextTry: 4_000 };

describe("[I1] [I2] beside a hold that the store does not know", () => {
  const beside = (volume: VolumeRecord, node = "n9") => planned({ ...volume, foreign: [foreignRecord(node)] });
  const detaching = volumeRecord([inState("a", "DETACHING")], [], intentTo("detach", "n1"));

  it("nothing is attached or offered, on whatever node it is", () => {
    for (const node of ["n1", "n9"]) {
      expect(beside(volumeRecord([inState("a", "ATTACHING")]), node)).toEqual([]);
      expect(beside(volumeRecord([inState("a", "OFFERED")]), node)).toEqual([]);
      expect(beside(volumeRecord([inState("a", "ACTIVE", { degradedSince: 1 })]), node)).toEqual([]);
      expect(beside(volumeRecord([inState("a", "DETACHING")], [], intentTo("attach", "n1")), node)).toEqual([]);
    }
  });

  it("nothing is detached from its node; from another one it is", () => {
    expect(beside(detaching, "n1")).toEqual([]);
    expect(beside(detaching)).toEqual(["detach a in controller"]);
  });

  it("a claim of the store is released, and an attach that nobody wants is given up", () => {
    expect(beside(volumeRecord([inState("a", "RELEASING")]), "n1")).toEqual(["release a in node n1"]);
    const unwanted = inState("a", "ATTACHING", { goal: "released" });
    expect(beside(volumeRecord([unwanted]), "n1")).toEqual(["abandon a in controller"]);
  });

  it("no bar is lifted, and nothing is deleted or grown at the backend", () => {
    expect(beside(volumeRecord([], [], { bars: [barRecord("n1", { opId: "late" })] }))).toEqual([]);
    expect(beside(volumeRecord([], [], { state: "DELETING", ...intentTo("delete") }))).toEqual([]);
  });
});

describe("planSteps", () => {
  const rows: readonly (readonly [string, VolumeRecord, readonly string[]])[] = [
    ["a volume at rest", volumeRecord(), []],
    ["being made", volumeRecord([], [], { state: "CREATING", ...intentTo("create") }), ["create in controller"]],
    ["being deleted", volumeRecord([], [], { state: "DELETING", ...intentTo("delete") }), ["delete in controller"]],
    [
      "deleted, beside a bar",
      volumeRecord([], [], { state: "DELETING", bars: [barRecord("", { op: "delete", opId: "late" })] }),
      ["lift in bar late"],
    ],
    ["deleted, and its last bar is gone", volumeRecord([], [], { state: "DELETING" }), ["delete in controller"]],
    ["failed", volumeRecord([], [], { state: "FAILED" }), []],
    ["QUEUED", volumeRecord([claimRecord("a")]), ["grant a in grant"]],
    [
      "QUEUED while an attach runs, which it may join",
      volumeRecord([claimRecord("a")], [], intentTo("attach", "n1")),
      ["grant a in grant"],
    ],
    ["QUEUED while a detach runs", volumeRecord([claimRecord("a")], [], intentTo("detach", "n2")), []],
    ["ATTACHING", volumeRecord([inState("a", "ATTACHING")]), ["attach a in controller"]],
    [
      "ATTACHING and not wanted, whatever its backoff",
      volumeRecord([inState("a", "ATTACHING", { goal: "released", attempts: later })]),
      ["abandon a in controller"],
    ],
    ["OFFERED", volumeRecord([inState("a", "OFFERED")]), ["offer a in node n1"]],
    ["ACTIVE", volumeRecord([inState("a", "ACTIVE")]), []],
    ["ACTIVE and degraded", volumeRecord([inState("a", "ACTIVE", { degradedSince: 1 })]), ["offer a in node n1"]],
    ["RELEASING", volumeRecord([inState("a", "RELEASING")]), ["release a in node n1"]],
    [
      "DETACHING with its own intent",
      volumeRecord([inState("a", "DETACHING")], [], intentTo("detach", "n1")),
      ["detach a in controller"],
    ],
    ["DETACHING without an intent", volumeRecord([inState("a", "DETACHING")]), ["detach a in controller"]],
    ["DETACHING while another call runs", volumeRecord([inState("a", "DETACHING")], [], intentTo("attach", "n2")), []],
    [
      "nodes side by side, the backend one call at a time",
      volumeRecord([
        inState("a", "RELEASING"),
        inState("b", "OFFERED", { node: "n2" }),
        inState("c", "ATTACHING", { node: "n3" }),
      ]),
      ["release a in node n1", "offer b in node n2", "attach c in controller"],
    ],
  ];

  it.each(rows)("[I6] %s", (_, volume, steps) => {
    expect(planned(volume)).toEqual(steps);
  });

  it.each(["ATTACHING", "OFFERED", "RELEASING", "DETACHING"] as const)(
    "%s waits for its next try, and says when that is",
    (state) => {
      const volume = volumeRecord([inState("a", state, { attempts: later })], [attachmentRecord("n1")]);
      expect(planSteps(volume, 3_999)).toEqual({ ready: [], next: 4_000 });
      expect(planned(volume, 4_000)).toHaveLength(1);
    },
  );

  it("the deadline of the queue is the next look, then the end", () => {
    const volume = volumeRecord([
      claimRecord("a", { queueDeadline: 2_000 }),
      claimRecord("b", { queueDeadline: 3_000 }),
    ]);
    expect(planSteps(volume, 1_000).next).toBe(2_000);
    expect(planned(volume, 2_000)).toEqual(["expire a in grant", "grant a in grant", "grant b in grant"]);
  });

  it("an attempt that is not due yet does not hide another claim's", () => {
    const volume = volumeRecord([
      inState("a", "RELEASING", { attempts: later }),
      inState("b", "RELEASING", { node: "n2" }),
    ]);
    expect(planSteps(volume, 1_000)).toEqual({
      ready: [{ do: "release", lane: "node n2", node: "n2", uid: "b" }],
      next: 4_000,
    });
  });

  it("asks the same of the same record, and changes nothing", () => {
    const volume = volumeRecord([inState("a", "RELEASING"), claimRecord("b")]);
    const before = structuredClone(volume);
    expect(planSteps(volume, 1_000)).toEqual(planSteps(volume, 1_000));
    expect(volume).toEqual(before);
  });
});

describe("settled", () => {
  it.each([
    ["nothing", volumeRecord(), true],
    ["an active claim", volumeRecord([inState("a", "ACTIVE")]), true],
    [
      "a release that is due in a year",
      volumeRecord([inState("a", "RELEASING", { attempts: { count: 9, nextTry: 3e10 } })]),
      false,
    ],
    ["a degraded claim", volumeRecord([inState("a", "ACTIVE", { degradedSince: 1 })]), false],
    ["a claim that waits", volumeRecord([claimRecord("a")]), false],
    ["a volume that failed", volumeRecord([], [], { state: "FAILED" }), true],
  ] as const)("[I6] %s: %s", (_, volume, is) => {
    expect(settled(volume)).toBe(is);
  });
});

describe("what a volume asks of controllers that did not write it", () => {
  const attaching = (intent: Partial<Intent>): VolumeRecord =>
    volumeRecord([inState("a", "ATTACHING")], [], {
      intent: { op: "attach", node: "n1", epoch, issuer: "controller/1", opId: "op-1", ...intent },
    });
  it.each([
    ["at rest", volumeRecord(), false],
    ["under an intent without an instance", attaching({}), true],
    ["under one with an instance", attaching({ via: "node n7: p" }), false],
    ["before the intent of its call", volumeRecord([inState("a", "DETACHING")]), true],
    [
      "before the intent of its call, which is paused",
      volumeRecord([inState("a", "DETACHING", { attempts: later })]),
      true,
    ],
    ["with work for its node alone", volumeRecord([inState("a", "RELEASING")]), false],
  ])("%s: an untaken call is %s", (_, volume, untaken) => {
    expect(asksOf(volume, () => true)).toEqual({ untaken, anyone: false });
  });

  it("asks any controller for work at a node that its writer has no link to", () => {
    const releasing = volumeRecord([inState("a", "RELEASING")]);
    const asked = (linked: readonly string[]) => asksOf(releasing, (node) => linked.includes(node)).anyone;
    expect([asked(["n1"]), asked(["n2"])]).toEqual([false, true]);
  });
});
