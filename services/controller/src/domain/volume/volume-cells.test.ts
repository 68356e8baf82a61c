/** Every state of a volume × every event that can meet it: what becomes of it, cell by cell. A new state or event does not compile until it has its cells. */
import { describe, expect, it } from "vitest";
import type { Change } from "../change.ts";
import type { Advice } from "../outcome.ts";
import { attachmentRecord, claimRecord, failureWith, momentAt, volumeRecord } from "../testing/record-fixtures.ts";
import { deregistered } from "./deregistered.ts";
import type { Intent, VolumeRecord } from "./volume.ts";
import { createAnswered, createdTwice, deleteAnswered, deleteWanted } from "./volume-change.ts";
import { validateAnswered } from "./volume-registration.ts";

const at = momentAt(5_000);
const intent = (op: Intent["op"], change: Partial<Intent> = {}): Intent => ({
  op,
  epoch: { gen: 0, ctr: 0 },
  issuer: "controller/1",
  opId: "op-1",
  ...change,
});
const doubt = { uncertainSince: 1_000 };
const volume = (change: Partial<VolumeRecord>): VolumeRecord => volumeRecord([], [], change);
const tooSmall = { failure: { reason: "PLUGIN_REFUSED", message: "made 9 bytes" } } as const;
const unborn = { state: "CREATING", externalId: "" } as const;
const claimed = { claims: { a: claimRecord("a", { state: "ACTIVE" }) }, attachments: { n1: attachmentRecord("n1") } };
const retain = { reclaim: "retain", nodeLoss: "wait", requiresRepublish: false, identityTokens: [] } as const;

const states = {
  creating: volume({ ...unborn, intent: intent("create") }),
  "creating in doubt": volume({ ...unborn, intent: intent("create", doubt) }),
  "creating, not wanted": volume({ ...unborn, goal: "absent", intent: intent("create") }),
  "creating in doubt, not wanted": volume({ ...unborn, goal: "absent", intent: intent("create", doubt) }),
  registering: volume({ state: "CREATING", name: "", intent: intent("validate") }),
  available: volume({}),
  "available, retained": volume({ policy: retain }),
  "available, registered": volume({ name: "", policy: retain }),
  "available, in use": volume(claimed),
  deleting: volume({ state: "DELETING", goal: "absent", intent: intent("delete") }),
  "deleting in doubt": volume({ state: "DELETING", goal: "absent", intent: intent("delete", doubt) }),
  "deleting, too small": volume({ state: "DELETING", ...tooSmall, intent: intent("delete") }),
  "deleting in doubt, too small": volume({ state: "DELETING", ...tooSmall, intent: intent("delete", doubt) }),
  failed: volume({ state: "FAILED", externalId: "" }),
  "failed in doubt": volume({ state: "FAILED", externalId: "", intent: intent("create", doubt) }),
  "failed, registered": volume({ state: "FAILED", name: "" }),
} satisfies Record<string, VolumeRecord>;

const failing = (kind: "refused" | "unknown", advice: Advice) => ({ kind, failure: failureWith(advice) });
const made = { externalId: "ext-7", capacity: 1, context: {}, accessible: [], pluginVersion: "2" };
const looked = { confirmed: true, pluginVersion: "2", capacity: 1, accessible: [], publishedNodes: [] };

const events = {
  created: (v) => createAnswered(v, { kind: "done", value: made }, at),
  "created too small": (v) => createAnswered(v, { kind: "done", value: { ...made, unfit: "made 9 bytes" } }, at),
  "created twice": (v) => createdTwice(v, "ext-7", "volume ns/other", at),
  "create refused": (v) => createAnswered(v, failing("refused", "fail"), at),
  "create unknown": (v) => createAnswered(v, failing("unknown", "again"), at),
  "create blocked": (v) => createAnswered(v, failing("unknown", "block"), at),
  validated: (v) => validateAnswered(v, { kind: "done", value: looked }, at),
  "validated at a foreign node": (v) =>
    validateAnswered(
      { ...v, capabilities: [oneNode] },
      { kind: "done", value: { ...looked, publishedNodes: ["x"] } },
      at,
    ),
  "validation refused": (v) => validateAnswered(v, failing("refused", "fail"), at),
  "validation unknown": (v) => validateAnswered(v, failing("unknown", "again"), at),
  "delete wanted": (v) => deleteWanted(v, undefined, at),
  deleted: (v) => deleteAnswered(v, { kind: "done", value: undefined }, at),
  "delete unknown": (v) => deleteAnswered(v, failing("unknown", "again"), at),
  "delete blocked": (v) => deleteAnswered(v, failing("unknown", "block"), at),
  deregistered: (v) => deregistered(v),
} satisfies Record<string, (v: VolumeRecord) => Change>;

const oneNode = {
  accessMode: "SINGLE_NODE_WRITER",
  attachmentMode: "FILE_SYSTEM",
  fsType: "",
  mountFlags: [],
  volumeMountGroup: "",
} as const;

type State = keyof typeof states;
type Event = keyof typeof events;

/**
 * "·" nothing; "gone" the record goes; "marked" a DeleteVolume of what has gone may still arrive; otherwise the state after it, with
 * "?" if its call is in doubt now, "!" if it is blocked, "-" if it is no longer wanted, "+" if an attempt more is counted.
 */
const cells: Record<State, Partial<Record<Event, string>>> = {
  creating: {
    created: "AVAILABLE",
    "created too small": "DELETING",
    "created twice": "CREATING!+",
    "create refused": "FAILED+",
    "create unknown": "CREATING?+",
    "create blocked": "CREATING!+",
    "delete wanted": "CREATING-",
  },
  "creating in doubt": {
    created: "AVAILABLE",
    "created too small": "DELETING",
    "created twice": "CREATING?!+",
    "create refused": "FAILED?!+",
    "create unknown": "CREATING?+",
    "create blocked": "CREATING?!+",
    "delete wanted": "CREATING?-",
  },
  "creating, not wanted": {
    created: "DELETING-",
    "created too small": "DELETING-",
    "created twice": "gone",
    "create refused": "gone",
    "create unknown": "CREATING?-+",
    "create blocked": "CREATING!-+",
  },
  "creating in doubt, not wanted": {
    created: "DELETING-",
    "created too small": "DELETING-",
    "created twice": "gone",
    "create refused": "FAILED?!-+",
    "create unknown": "CREATING?-+",
    "create blocked": "CREATING?!-+",
  },
  registering: {
    validated: "AVAILABLE",
    "validated at a foreign node": "CREATING!+",
    "validation refused": "FAILED+",
    "validation unknown": "CREATING+",
    "delete wanted": "gone",
    deregistered: "gone",
  },
  available: { "delete wanted": "DELETING-", deregistered: "gone" },
  "available, retained": { "delete wanted": "gone", deregistered: "gone" },
  "available, registered": { "delete wanted": "gone", deregistered: "gone" },
  "available, in use": {},
  deleting: {
    deleted: "gone",
    "delete unknown": "DELETING?-+",
    "delete blocked": "DELETING!-+",
  },
  "deleting in doubt": {
    deleted: "gone, marked",
    "delete unknown": "DELETING?-+",
    "delete blocked": "DELETING?!-+",
  },
  "deleting, too small": {
    "delete wanted": "DELETING-",
    deleted: "FAILED",
    "delete unknown": "DELETING?+",
    "delete blocked": "DELETING!+",
  },
  "deleting in doubt, too small": {
    "delete wanted": "DELETING?-",
    deleted: "FAILED, marked",
    "delete unknown": "DELETING?+",
    "delete blocked": "DELETING?!+",
  },
  failed: { "delete wanted": "gone", deregistered: "gone" },
  "failed in doubt": { "delete wanted": "CREATING?-" },
  "failed, registered": { "delete wanted": "gone", deregistered: "gone" },
};

const outcomeOf = (before: VolumeRecord, change: Change): string => {
  const { volume: after } = change;
  const letsGo = before.state === "DELETING" && (after?.externalId ?? "") === "";
  const marked = letsGo && change.settled === undefined ? ", marked" : "";
  if (after === null) return `gone${marked}`;
  return [
    after.state,
    after.intent?.uncertainSince === undefined ? "" : "?",
    after.blocked === undefined ? "" : "!",
    after.goal === "absent" ? "-" : "",
    after.attempts.count > before.attempts.count ? "+" : "",
    marked,
  ].join("");
};

const all = (Object.keys(states) as State[]).flatMap((state) =>
  (Object.keys(events) as Event[]).map((event) => [state, event] as const),
);

describe("a volume that is", () => {
  it.each(all)("%s, when it is %s", (state, event) => {
    const before = states[state];
    const change = events[event](before);
    const expected = cells[state][event] ?? "·";
    const still =
      change.volume !== null && JSON.stringify({ ...change.volume, capabilities: [] }) === JSON.stringify(before);
    expect(still ? "·" : outcomeOf(before, change)).toBe(expected);
    // Every effect that is owed has its intent in the record, and nothing that is settled has one (I4, I5).
    const after = change.volume;
    if (still || after === null) return;
    if (after.state === "DELETING") expect(after.intent?.op).toBe("delete");
    if (after.state === "CREATING") expect(after.intent?.op).toBe(before.intent?.op);
    if (after.state === "AVAILABLE") expect(after.intent).toBeUndefined();
    // A watcher is told of whatever changed.
    expect(change.notes).toHaveLength(1);
  });

  it("made too small names what was made, and why it goes, and nothing of it is left when it has failed", () => {
    const leaving = events["created too small"](states.creating).volume;
    expect(leaving).toMatchObject({ externalId: "ext-7", ...tooSmall, intent: { op: "delete", opId: at.opId } });
    const failed = events.deleted(states["deleting, too small"]).volume;
    expect(failed).toMatchObject({ ...tooSmall, externalId: "", capacity: { actual: 0 }, goal: "present" });
    expect(failed).not.toHaveProperty("intent");
  });

  it("made here is never touched by a registration, nor the other way round, and no call deletes what was only asked about", () => {
    for (const event of ["created", "created twice", "create refused", "create unknown", "create blocked"] as const)
      expect(events[event](states.registering).volume).toBe(states.registering);
    for (const event of ["validated", "validation refused", "validation unknown"] as const)
      expect(events[event](states.creating).volume).toBe(states.creating);
    const eager = { ...states.registering, policy: { ...retain, reclaim: "delete" as const } };
    expect(events["delete wanted"](eager).volume).toBeNull();
  });
});
