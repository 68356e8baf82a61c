import { describe, expect, it } from "vitest";
import {
  attachmentRecord,
  barRecord,
  claimRecord,
  failureWith,
  momentAt,
  volumeRecord,
} from "../testing/record-fixtures.ts";
import type { Intent, VolumeRecord } from "./volume.ts";
import { createAnswered, deleteAnswered, deleteWanted, deletionEnded, usersOf } from "./volume-change.ts";

const at = momentAt(5_000);
const intentTo = (op: Intent["op"], changes: Partial<Intent> = {}): Intent => ({
  op,
  epoch: { gen: 0, ctr: 0 },
  issuer: "controller/1",
  opId: "op-1",
  ...changes,
});
const making = (changes: Partial<VolumeRecord> = {}, intent: Partial<Intent> = {}) =>
  volumeRecord([], [], { state: "CREATING", externalId: "", intent: intentTo("create", intent), ...changes });
const removing = (changes: Partial<VolumeRecord> = {}) =>
  volumeRecord([], [], { state: "DELETING", goal: "absent", intent: intentTo("delete"), ...changes });
const blocked = { since: 1, reason: "INCOMPATIBLE", message: "m", missingProof: "p", clearWith: "c" };
const result = {
  externalId: "ext-7",
  capacity: 4096,
  context: { share: "x" },
  accessible: [{ zone: "a" }],
  pluginVersion: "2.1",
};
const keepIt = { reclaim: "retain", nodeLoss: "wait", requiresRepublish: false, identityTokens: [] } as const;

describe("createAnswered, done", () => {
  it("keeps all that the backend told, and owes nothing", () => {
    const before = making({
      blocked,
      attempts: { count: 3, nextTry: 9 },
      capacity: { required: 1, limit: 9, actual: 0 },
    });
    const { volume, notes } = createAnswered(before, { kind: "done", value: result }, at);
    expect(volume).toMatchObject({
      state: "AVAILABLE",
      stateSince: 5_000,
      externalId: "ext-7",
      pluginVersion: "2.1",
      capacity: { required: 1, limit: 9, actual: 4096 },
      context: { share: "x" },
      topology: { accessible: [{ zone: "a" }] },
      attempts: { count: 0, nextTry: 0 },
    });
    expect(volume).not.toHaveProperty("intent");
    expect(volume).not.toHaveProperty("blocked");
    expect(notes.map((n) => n.body["state"])).toEqual(["AVAILABLE"]);
  });

  it.each([
    ["delete", undefined],
    ["retain", keepIt],
  ])("[I5] no longer wanted, policy %s: what was made is deleted, with its intent in the same record", (_, policy) => {
    const { volume } = createAnswered(
      making({ goal: "absent", ...(policy === undefined ? {} : { policy }) }),
      { kind: "done", value: result },
      at,
    );
    expect(volume).toMatchObject({
      state: "DELETING",
      externalId: "ext-7",
      intent: { op: "delete", issuer: "controller/1", opId: "op-9" },
    });
  });

  it.each(["AVAILABLE", "DELETING", "FAILED"] as const)("says nothing over a volume that is %s", (state) => {
    const volume = volumeRecord([], [], { state });
    expect(createAnswered(volume, { kind: "done", value: result }, at).volume).toBe(volume);
  });
});

describe("createAnswered, refused", () => {
  const failure = failureWith("fail", { reason: "PLUGIN_REFUSED", message: "too big" });

  it("certain: FAILED, and nothing is owed", () => {
    const { volume } = createAnswered(making(), { kind: "refused", failure }, at);
    expect(volume).toMatchObject({ state: "FAILED", failure: { reason: "PLUGIN_REFUSED", message: "too big" } });
    expect(volume).not.toHaveProperty("intent");
    expect(volume).not.toHaveProperty("blocked");
  });

  it("certain and not wanted any more: gone", () => {
    const change = createAnswered(making({ goal: "absent" }), { kind: "refused", failure }, at);
    expect(change.volume).toBeNull();
    expect(change.notes.map((n) => n.body["state"])).toEqual(["DELETED"]);
  });

  const doubts: readonly (readonly [string, Partial<Intent>, number])[] = [
    ["an attempt without certain answer", { uncertainSince: 1_000 }, 1_000],
    ["an attempt of a controller that died before it could tell", { issuer: "controller/0" }, 5_000],
  ];

  it.each(doubts)("[I5] after %s the name may stand at the backend: kept, blocked and in doubt", (_, intent, since) => {
    for (const goal of ["present", "absent"] as const) {
      const { volume } = createAnswered(making({ goal }, intent), { kind: "refused", failure }, at);
      expect(volume).toMatchObject({
        state: "FAILED",
        intent: { op: "create", uncertainSince: since },
        blocked: {
          reason: "CREATE_UNCERTAIN",
          missingProof: "no volume named name-1 exists at the backend",
          clearWith: "holdfast repair forget-volume data volume-1 --namespace ns",
        },
      });
      // Nor does it go by being asked for: the doubt stays until somebody proves it wrong.
      if (volume !== null) expect(deleteWanted(volume, undefined, at).volume).not.toBeNull();
    }
  });
});

describe("createAnswered, unknown", () => {
  it("[I5] of a call that was answered, and left something, is in doubt although it is blocked: no refusal ends it", () => {
    const { volume } = createAnswered(
      making(),
      { kind: "unknown", failure: { ...failureWith("block"), leaves: true } },
      at,
    );
    expect(volume?.intent?.uncertainSince).toBe(at.now);
    expect(
      createAnswered(volume ?? making(), { kind: "refused", failure: failureWith("fail") }, at).volume?.blocked?.reason,
    ).toBe("CREATE_UNCERTAIN");
  });

  it.each([
    ["again", 5_000],
    ["wait", 5_000],
    ["block", undefined],
  ] as const)("advice %s: in doubt since %s, and the same call again", (advice, since) => {
    const { volume } = createAnswered(making(), { kind: "unknown", failure: failureWith(advice) }, at);
    expect(volume).toMatchObject({ state: "CREATING", attempts: { count: 1 } });
    expect(volume?.intent?.uncertainSince).toBe(since);
    expect(volume?.attempts.nextTry).toBeGreaterThan(at.now);
  });

  it("keeps the first doubt, and the newest word about what blocks it", () => {
    const before = making({ blocked }, { uncertainSince: 1_000 });
    const { volume } = createAnswered(before, { kind: "unknown", failure: failureWith("again") }, at);
    expect(volume?.intent?.uncertainSince).toBe(1_000);
    expect(volume).not.toHaveProperty("blocked");
    const newest = { ...failureWith("block", { code: "ALREADY_EXISTS" }), message: "still there" };
    expect(createAnswered(before, { kind: "unknown", failure: newest }, at).volume?.blocked).toMatchObject({
      since: 1,
      reason: "INCOMPATIBLE",
      message: "still there",
    });
  });
});

describe("usersOf and deleteWanted", () => {
  const used: readonly (readonly [string, VolumeRecord, readonly string[]])[] = [
    [
      "a claim with its attachment, once",
      volumeRecord([claimRecord("a", { state: "ACTIVE" })], [attachmentRecord("n1")]),
      ["claim of workload workload-a (data) on node n1, ACTIVE"],
    ],
    [
      "a claim that only waits",
      volumeRecord([claimRecord("a")]),
      ["claim of workload workload-a (data) on node n1, QUEUED"],
    ],
    [
      "an attachment without a claim",
      volumeRecord([], [attachmentRecord("n2", { state: "DETACHING" })]),
      ["attachment to node n2, DETACHING"],
    ],
    [
      "a bar",
      volumeRecord([], [], { bars: [barRecord("n3")] }),
      ['bar: a call "detach" may be open at "node g1: model"'],
    ],
  ];

  it.each(used)("[I5] %s is named, and the volume stays", (_, volume, users) => {
    expect(usersOf(volume)).toEqual(users);
    expect(deleteWanted(volume, undefined, at).volume).toBe(volume);
  });

  it("[I4] unused: DELETING with its intent, attempts from the start", () => {
    const before = volumeRecord([], [], { attempts: { count: 4, nextTry: 9_000 } });
    expect(deleteWanted(before, { parent: "00-1", at: 5_000 }, at).volume).toMatchObject({
      state: "DELETING",
      goal: "absent",
      stateSince: 5_000,
      intent: { op: "delete", opId: "op-9" },
      attempts: { count: 0, nextTry: 0 },
      trace: { parent: "00-1", at: 5_000 },
    });
  });

  it("retained: the record goes, no call is owed", () => {
    expect(deleteWanted(volumeRecord([], [], { policy: keepIt }), undefined, at).volume).toBeNull();
  });

  it("still being made: only wanted gone, the create goes on to its certain end", () => {
    const change = deleteWanted(making(), undefined, at);
    expect(change.volume).toMatchObject({ state: "CREATING", goal: "absent", intent: { op: "create" } });
  });

  it("asked again, or failed for certain: nothing new, or gone", () => {
    for (const volume of [removing(), making({ goal: "absent" })])
      expect(deleteWanted(volume, undefined, at).volume).toBe(volume);
    expect(deleteWanted(volumeRecord([], [], { state: "FAILED" }), undefined, at).volume).toBeNull();
  });
});

describe("deleteAnswered", () => {
  it("[I5] only its own OK removes the record", () => {
    const done = { kind: "done", value: undefined } as const;
    expect(deleteAnswered(removing(), done, at)).toMatchObject({ volume: null, settled: true });
    for (const volume of [volumeRecord(), making(), volumeRecord([], [], { state: "FAILED" })])
      expect(deleteAnswered(volume, done, at).volume).toBe(volume);
  });

  it("[I5] beside a bar the record stays without an intent, and goes with the last one", () => {
    const bars = [barRecord("", { op: "delete" })];
    const { volume } = deleteAnswered(removing({ bars }), { kind: "done", value: undefined }, at);
    expect(volume).toMatchObject({ state: "DELETING", externalId: "ext-1", bars });
    expect(volume).not.toHaveProperty("intent");
    if (volume === null) return;
    expect(deletionEnded(volume, at).volume).toBe(volume);
    expect(deletionEnded({ ...volume, bars: [] }, at)).toMatchObject({ volume: null });
    const owing = removing();
    expect(deletionEnded(owing, at).volume).toBe(owing);
  });

  it("[I5] not known, or refused: the same call again, and why it waits", () => {
    const again = { kind: "unknown", failure: failureWith("again") } as const;
    for (const [kind, advice] of [
      ["unknown", "block"],
      ["refused", "block"],
      ["refused", "fail"],
    ] as const) {
      const failure = failureWith(advice);
      expect(deleteAnswered(removing(), { kind, failure }, at).volume).toMatchObject({
        state: "DELETING",
        intent: { op: "delete" },
        blocked: { since: at.now, reason: "PLUGIN_REFUSED" },
        attempts: { count: 1 },
      });
    }
    expect(deleteAnswered(removing({ blocked }), again, at).volume).not.toHaveProperty("blocked");
    const other = volumeRecord();
    expect(deleteAnswered(other, again, at).volume).toBe(other);
  });
});
