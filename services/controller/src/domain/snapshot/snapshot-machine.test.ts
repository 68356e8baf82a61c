import { describe, expect, it } from "vitest";
import type { Moment } from "../moment.ts";
import { type Advice, noAttempts, type Outcome } from "../outcome.ts";
import { defaultRetry } from "../retry.ts";
import { type CutKind, type CutRecord, type CutState, cutKinds, cutStates, membersOf } from "./snapshot.ts";
import type { CutAnswer } from "./snapshot-answer.ts";
import {
  type CutChange,
  cutAttempted,
  cutDeleteAttempted,
  cutDeleteWanted,
  cutDoubted,
  cutGivenUp,
  mayBeGivenUp,
} from "./snapshot-change.ts";
import { type CutEvent, cutEvents, cutMachine } from "./snapshot-machine.ts";
import { planCut } from "./snapshot-steps.ts";

/** The table of docs/snapshots.md once more, by hand: what each cell leaves of a record that is wanted, and of one that is not. */
type Left = CutState | "gone";
const same = (state: Left): readonly [wanted: Left, unwanted: Left] => [state, state];

const expected: Readonly<Record<CutState, Readonly<Record<CutEvent, readonly [wanted: Left, unwanted: Left]>>>> = {
  CREATING: {
    cut: ["CUT", "DELETING"],
    ready: ["READY", "DELETING"],
    refused: ["FAILED", "gone"],
    refused_in_doubt: same("CREATING"),
    not_answered: same("CREATING"),
    delete_wanted: same("CREATING"),
    deleted: same("CREATING"),
    not_deleted: same("CREATING"),
    given_up: same("gone"),
  },
  CUT: {
    cut: ["CUT", "DELETING"],
    ready: ["READY", "DELETING"],
    refused: same("CUT"),
    refused_in_doubt: same("CUT"),
    not_answered: same("CUT"),
    delete_wanted: same("DELETING"),
    deleted: same("CUT"),
    not_deleted: same("CUT"),
    given_up: same("CUT"),
  },
  READY: {
    cut: same("READY"),
    ready: same("READY"),
    refused: same("READY"),
    refused_in_doubt: same("READY"),
    not_answered: same("READY"),
    delete_wanted: same("DELETING"),
    deleted: same("READY"),
    not_deleted: same("READY"),
    given_up: same("READY"),
  },
  DELETING: {
    cut: same("DELETING"),
    ready: same("DELETING"),
    refused: same("DELETING"),
    refused_in_doubt: same("DELETING"),
    not_answered: same("DELETING"),
    delete_wanted: same("DELETING"),
    deleted: same("gone"),
    not_deleted: same("DELETING"),
    given_up: same("gone"),
  },
  FAILED: {
    cut: same("FAILED"),
    ready: same("FAILED"),
    refused: same("FAILED"),
    refused_in_doubt: same("FAILED"),
    not_answered: same("FAILED"),
    delete_wanted: same("gone"),
    deleted: same("FAILED"),
    not_deleted: same("FAILED"),
    given_up: same("FAILED"),
  },
};

const at: Moment = { now: 1_000_000, issuer: "c1/1", opId: "op-2", random: 0.5, retry: defaultRetry };

const blockedAs = (reason: string) => ({ since: 1, reason, message: "", missingProof: "", clearWith: "" });

/** A record as it is found in that state. */
const recordIn = (
  kind: CutKind,
  state: CutState,
  goal: "present" | "absent",
  change: Partial<CutRecord> = {},
): CutRecord => {
  const known = state !== "CREATING" && state !== "FAILED";
  const base = {
    namespace: "default",
    id: "x",
    uid: "uid-x",
    name: "name-x",
    externalId: known ? "ext-x" : "",
    plugin: "csi.example",
    pluginVersion: "",
    parameters: {},
    secretRefs: {},
    labels: {},
    cutAt: 0,
    state,
    goal,
    ...(state === "CREATING" ? { intent: { op: "create", issuer: "c1/1", opId: "op-1" } as const } : {}),
    ...(state === "DELETING" ? { intent: { op: "delete", issuer: "c1/1", opId: "op-1" } as const } : {}),
    bars: [],
    attempts: noAttempts,
    polls: 0,
    requestId: "",
    createdAt: 1,
    updatedAt: 1,
    stateSince: 1,
    changedBy: { who: "t", why: "t" },
  };
  const own =
    kind === "snapshot"
      ? {
          kind,
          volume: "v",
          volumeUid: "uid-v",
          externalVolumeId: "ext-v",
          group: "",
          externalGroupId: "",
          sizeBytes: 0,
        }
      : {
          kind,
          members: ["a", "b"].map((v) => ({
            snapshot: `s-${v}`,
            uid: `uid-s-${v}`,
            volume: v,
            volumeUid: `uid-${v}`,
            externalVolumeId: `ext-${v}`,
            externalId: known ? `snap-${v}` : "",
            sizeBytes: 0,
            cutAt: 0,
            ready: state === "READY",
          })),
          answeredIds: known ? ["snap-a", "snap-b"] : [],
        };
  return { ...base, ...own, ...change } as CutRecord;
};

const answerFor = (record: CutRecord, ready: boolean): CutAnswer => {
  const made = (externalId: string, externalVolumeId: string) => ({
    externalId,
    externalVolumeId,
    externalGroupId: record.kind === "group" ? "ext-x" : "",
    sizeBytes: 5,
    cutAt: 77,
    ready,
  });
  const snapshots =
    record.kind === "group"
      ? record.members.map(({ volume, externalVolumeId }) => made(`snap-${volume}`, externalVolumeId))
      : [made("ext-x", record.externalVolumeId)];
  return { externalId: "ext-x", cutAt: 77, ready, pluginVersion: "2", snapshots };
};

const failing = (kind: "refused" | "unknown", advice: Advice): Outcome<never> => ({
  kind,
  failure: { reason: "R", message: "no", advice },
});

const happens: Readonly<Record<CutEvent, (record: CutRecord) => CutChange>> = {
  cut: (r) => cutAttempted(r, { kind: "done", value: answerFor(r, false) }, at),
  ready: (r) => cutAttempted(r, { kind: "done", value: answerFor(r, true) }, at),
  refused: (r) => cutAttempted(r, failing("refused", "fail"), at),
  refused_in_doubt: (r) => cutAttempted(cutDoubted(r, at), failing("refused", "fail"), at),
  not_answered: (r) => cutAttempted(r, failing("unknown", "again"), at),
  delete_wanted: (r) => cutDeleteWanted(r, undefined, at),
  deleted: (r) => cutDeleteAttempted(r, { kind: "done", value: undefined }, at),
  not_deleted: (r) => cutDeleteAttempted(r, failing("unknown", "again"), at),
  given_up: (r) =>
    cutGivenUp({
      ...r,
      blocked: blockedAs(r.state === "CREATING" ? "CREATE_UNCERTAIN" : "BACKEND_GROUP"),
    }),
};

const cells = cutStates.flatMap((state) =>
  cutEvents.flatMap((event) =>
    cutKinds.flatMap((kind) => (["present", "absent"] as const).map((goal) => ({ state, event, kind, goal }))),
  ),
);

describe("the machine of snapshots and groups", () => {
  it("has a cell for every state and event", () => {
    expect(Object.keys(cutMachine).sort()).toEqual([...cutStates].sort());
    for (const state of cutStates) expect(Object.keys(cutMachine[state]).sort()).toEqual([...cutEvents].sort());
    expect(cells).toHaveLength(180);
  });

  it.each(cells)("[I6] $kind $state, $goal: $event", ({ state, event, kind, goal }) => {
    const before = recordIn(kind, state, goal);
    const [wanted, unwanted] = expected[state][event];
    const left = goal === "present" ? wanted : unwanted;
    const after = happens[event](before);
    expect(after?.state ?? "gone").toBe(left);
    if (after === null) return;
    // What is owed afterwards is what its state owes, and what is there is never forgotten.
    if (after.state === "CREATING" || after.state === "CUT")
      expect(planCut(after, Number.POSITIVE_INFINITY)).toMatchObject([{ do: "create" }]);
    else if (after.state === "DELETING") {
      expect(planCut(after, Number.POSITIVE_INFINITY)).toMatchObject([{ do: "delete" }]);
      expect(after).toMatchObject({ externalId: "ext-x", goal: state === "DELETING" ? goal : "absent" });
    } else expect(planCut(after, Number.POSITIVE_INFINITY)).toEqual([]);
    if (before.externalId !== "") expect(after.externalId).toBe(before.externalId);
    if (event === "refused_in_doubt" && state === "CREATING") expect(after.blocked?.reason).toBe("CREATE_UNCERTAIN");
  });

  it.each(cutKinds)("[I4] a %s in CREATING that another life wrote is in doubt, whatever its record says", (kind) => {
    const other = recordIn(kind, "CREATING", "absent", { intent: { op: "create", issuer: "c0/9", opId: "o" } });
    expect(cutAttempted(other, failing("refused", "fail"), at)).toMatchObject({
      state: "CREATING",
      blocked: { reason: "CREATE_UNCERTAIN" },
    });
  });

  it.each(cutKinds)("an answer that is lost keeps a %s in doubt until it is known", (kind) => {
    const lost = cutAttempted(recordIn(kind, "CREATING", "present"), failing("unknown", "again"), at);
    expect(lost).toMatchObject({ intent: { uncertainSince: at.now } });
    const refused = cutAttempted(lost as CutRecord, failing("refused", "fail"), at);
    expect(refused).toMatchObject({ state: "CREATING", blocked: { reason: "CREATE_UNCERTAIN" } });
    const there = cutAttempted(refused as CutRecord, { kind: "done", value: answerFor(lost as CutRecord, true) }, at);
    expect(there).toMatchObject({ state: "READY", externalId: "ext-x" });
    expect(there).not.toHaveProperty("blocked");
  });

  it("is given up only where a person is asked for it", () => {
    for (const state of cutStates)
      for (const kind of cutKinds) {
        const plain = recordIn(kind, state, "present");
        expect(mayBeGivenUp(plain)).toBe(false);
        expect(cutGivenUp(plain)).toBe(plain);
      }
  });

  it("waits for what only a change elsewhere lifts while it is wanted, and not when nobody wants it", () => {
    const wanted = recordIn("snapshot", "CREATING", "present");
    expect(cutAttempted(wanted, failing("refused", "block"), at)).toMatchObject({
      state: "CREATING",
      blocked: { reason: "PLUGIN_REFUSED" },
    });
    expect(cutAttempted(recordIn("snapshot", "CREATING", "absent"), failing("refused", "block"), at)).toBeNull();
  });
});

describe("what a group's answer teaches", () => {
  const group = recordIn("group", "CREATING", "present");
  const answer = answerFor(group, true);
  const [first, second] = answer.snapshots;
  if (first === undefined || second === undefined) throw new Error("two members were expected");

  it.each([
    ["has no snapshot", [first]],
    ["has 2 snapshots", [first, { ...first, externalId: "twice" }, second]],
    ["names a snapshot twice", [first, { ...second, externalId: first.externalId }]],
    ["which is not in the group", [first, second, { ...second, externalId: "z", externalVolumeId: "ext-z" }]],
  ])("C64 that %s it is not used, and can be deleted by exactly what was answered", (words, snapshots) => {
    const partial: CutAnswer = { ...answer, snapshots };
    const after = cutAttempted(group, { kind: "done", value: partial }, at);
    expect(after).toMatchObject({
      state: "CREATING",
      externalId: "ext-x",
      answeredIds: snapshots.map(({ externalId }) => externalId),
      blocked: { reason: "INCOMPATIBLE", message: expect.stringContaining(words) },
    });
    const unwanted = cutAttempted({ ...group, goal: "absent" }, { kind: "done", value: partial }, at);
    expect(unwanted).toMatchObject({ state: "DELETING", answeredIds: snapshots.map(({ externalId }) => externalId) });
    const whole = cutAttempted(after as CutRecord, { kind: "done", value: answer }, at);
    expect(whole).toMatchObject({ state: "READY", answeredIds: ["snap-a", "snap-b"] });
  });

  it.each([
    ["refused for good", failing("refused", "fail")],
    ["refused for now", failing("refused", "block")],
  ])(
    "[I5] and is %s afterwards, it is never forgotten: what was answered is deleted when nobody wants it",
    (_, refusal) => {
      const partial = cutAttempted(group, { kind: "done", value: { ...answer, snapshots: [first] } }, at) as CutRecord;
      for (const before of [partial, cutDoubted(partial, at)]) {
        const wanted = cutAttempted(before, refusal, at);
        expect(wanted).toMatchObject({ state: "CREATING", externalId: "ext-x", blocked: { reason: "PLUGIN_REFUSED" } });
        expect(mayBeGivenUp(wanted as CutRecord)).toBe(false);
        const unwanted = cutDeleteWanted(wanted as CutRecord, undefined, at) as CutRecord;
        expect(cutAttempted(unwanted, refusal, at)).toMatchObject({
          state: "DELETING",
          externalId: "ext-x",
          answeredIds: ["snap-a"],
          intent: { op: "delete" },
        });
      }
    },
  );

  it("[I5] and its repeat is open, no refusal of a later one that never left lets the delete go beside it", () => {
    const partial = cutAttempted(group, { kind: "done", value: { ...answer, snapshots: [first] } }, at) as CutRecord;
    const intent = { op: "create", issuer: "c1/1", opId: "op-1", via: "a", openSince: 5, uncertainSince: 5 } as const;
    const unwanted = cutDeleteWanted({ ...partial, intent }, undefined, at) as CutRecord;
    expect(cutAttempted(unwanted, failing("refused", "block"), at)).toMatchObject({
      state: "CREATING",
      goal: "absent",
      intent,
      blocked: { reason: "PLUGIN_REFUSED" },
    });
  });

  it("once whole never changes: other members later are not believed", () => {
    const whole = cutAttempted(group, { kind: "done", value: answerFor(group, false) }, at) as CutRecord;
    const other = { ...answer, snapshots: [first, { ...second, externalId: "other" }] };
    expect(cutAttempted(whole, { kind: "done", value: other }, at)).toMatchObject({
      state: "CUT",
      answeredIds: ["snap-a", "snap-b"],
      blocked: { reason: "INCOMPATIBLE" },
    });
    const fewer = { ...answer, snapshots: [first] };
    expect(cutAttempted(whole, { kind: "done", value: fewer }, at)).toMatchObject({
      state: "CUT",
      answeredIds: ["snap-a", "snap-b"],
    });
  });

  it("is ready when all of it is, and each member as soon as it is itself", () => {
    const half = { ...answer, ready: false, snapshots: [first, { ...second, ready: false }] };
    const cut = cutAttempted(group, { kind: "done", value: half }, at);
    expect(cut).toMatchObject({ state: "CUT" });
    if (cut?.kind !== "group") throw new Error("a group was expected");
    expect(membersOf(cut).map(({ state }) => state)).toEqual(["READY", "CUT"]);
    expect(membersOf(cut).map(({ group: of, externalGroupId }) => [of, externalGroupId])).toEqual([
      ["x", "ext-x"],
      ["x", "ext-x"],
    ]);
    // Nothing is ever owed for a member alone.
    expect(membersOf(cut).map((member) => planCut(member, Number.POSITIVE_INFINITY))).toEqual([[], []]);
  });
});
