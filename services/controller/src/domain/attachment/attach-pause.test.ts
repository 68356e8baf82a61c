import { describe, expect, it } from "vitest";
import type { Claim } from "../claim/claim.ts";
import { startDetach } from "../claim/claim-step.ts";
import { attachmentRecord, claimRecord, failureWith, momentAt, volumeRecord } from "../testing/record-fixtures.ts";
import type { Attachment, Intent, VolumeRecord } from "../volume/volume.ts";
import { attachAnswered } from "./attach-change.ts";
import { attachResumed, attachTriesAt, nodeThatWaits, pausedFor } from "./attach-pause.ts";

const epoch = { gen: 1, ctr: 9 };
const at = momentAt(5_000);
const refused = failureWith("block", { reason: "FOREIGN_ATTACHMENT", code: "FAILED_PRECONDITION" });
const intent = (changes: Partial<Intent> = {}): Intent => ({
  op: "attach",
  node: "n2",
  epoch,
  issuer: "controller/1",
  opId: "op-1",
  ...changes,
});
const b = claimRecord("b", { state: "ATTACHING", node: "n2", epoch });
const a = (changes: Partial<Claim> = {}): Claim => claimRecord("a", { state: "ACTIVE", epoch, ...changes });
const attaching = attachmentRecord("n2", { state: "ATTACHING" });
/** n2 is being attached beside whatever else there is. */
const beside = (claims: readonly Claim[], others: readonly Attachment[], of: Partial<Intent> = {}): VolumeRecord =>
  volumeRecord([...claims, b], [...others, attaching], { intent: intent(of) });
const after = (volume: VolumeRecord, failure = refused): VolumeRecord => {
  const change = attachAnswered(volume, "n2", { kind: "refused", failure }, at);
  if (change.volume === null) throw new Error("the record is gone");
  return change.volume;
};
const told = (volume: VolumeRecord) => ({
  blocked: volume.claims["b"]?.blocked?.reason,
  reason: volume.claims["b"]?.attempts.lastError?.reason,
  behind: volume.attachments["n2"]?.paused?.behind,
  intent: volume.intent?.op,
});
const elsewhere = "ATTACHED_ELSEWHERE";
const foreign = "FOREIGN_ATTACHMENT";

describe("attachPaused", () => {
  const n1 = attachmentRecord("n1");
  it.each([
    ["nothing else", [], [], refused, { blocked: foreign, reason: foreign, behind: [] }],
    ["a claim that is to stay", [a()], [n1], refused, { blocked: elsewhere, reason: elsewhere, behind: ["n1"] }],
    [
      "a claim on its way out",
      [a({ state: "RELEASING", goal: "released" })],
      [n1],
      refused,
      { blocked: undefined, reason: elsewhere, behind: ["n1"] },
    ],
    [
      "an owed detach",
      [a({ state: "DETACHING", goal: "released" })],
      [attachmentRecord("n1", { state: "DETACHING" })],
      refused,
      { blocked: undefined, reason: elsewhere, behind: ["n1"] },
    ],
    [
      "a node that the plugin attaches nothing to",
      [a()],
      [attachmentRecord("n1", { needsCalls: false })],
      refused,
      { blocked: foreign, reason: foreign, behind: [] },
    ],
    [
      "another attach that was refused for certain",
      [a({ state: "ATTACHING" })],
      [attachmentRecord("n1", { state: "ATTACHING", paused: { behind: [] } })],
      refused,
      { blocked: foreign, reason: foreign, behind: [] },
    ],
    [
      "another attach that may have happened",
      [a({ state: "ATTACHING" })],
      [attachmentRecord("n1", { state: "ATTACHING", paused: { behind: [], uncertainSince: 1 } })],
      refused,
      { blocked: elsewhere, reason: elsewhere, behind: ["n1"] },
    ],
    [
      "a claim elsewhere, refused for another reason",
      [a()],
      [n1],
      failureWith("block", { reason: "CREDENTIALS_REFUSED", code: "UNAUTHENTICATED" }),
      { blocked: "CREDENTIALS_REFUSED", reason: "CREDENTIALS_REFUSED", behind: [] },
    ],
  ] as const)("beside %s", (_, claims, others, failure, expected) => {
    const volume = after(beside(claims, others), failure);
    expect(told(volume)).toEqual({ ...expected, intent: undefined });
    expect(volume.attachments["n2"]?.state).toBe("ATTACHING");
    expect(volume.attachments["n1"]).toEqual(others[0]);
  });

  it.each([
    ["none", {}, undefined],
    ["an attempt without answer", { uncertainSince: 1_000 }, 1_000],
    ["an attempt of another life", { issuer: "controller/0" }, 5_000],
  ] as const)("[I5] [I4] keeps the doubt of %s through the wait, into the intent of its next try", (_, of, since) => {
    const { n1: _gone, ...attachments } = after(beside([a()], [n1], of)).attachments;
    const volume = { ...after(beside([], [], of)), attachments };
    expect(volume.attachments["n2"]?.paused?.uncertainSince).toBe(since);
    const next = attachResumed(volume, "n2", { ...at, opId: "op-2" }).volume;
    expect(next?.intent).toEqual(
      intent({ opId: "op-2", epoch: volume.epoch, ...(since === undefined ? {} : { uncertainSince: since }) }),
    );
    expect(next?.attachments["n2"]?.paused).toBeUndefined();
    expect(next?.claims["b"]?.attempts).toMatchObject({ count: 1, nextTry: at.now });
  });

  it("[I5] nobody wants it: its undo is owed, and waits for no other call", () => {
    const gone = volumeRecord([{ ...b, goal: "released" }], [attaching], { intent: intent() });
    const volume = after(gone);
    expect(volume.intent).toMatchObject({ op: "detach", node: "n2" });
    expect(volume.attachments["n2"]).toMatchObject({ state: "DETACHING" });
    expect(volume.attachments["n2"]?.paused).toBeUndefined();
  });

  it("an answer about another call says nothing", () => {
    for (const of of [{ op: "detach" }, { node: "n1" }] as const) {
      const volume = beside([], [], of);
      expect(attachAnswered(volume, "n2", { kind: "refused", failure: refused }, at).volume).toBe(volume);
    }
  });
});

describe("the wait of a paused attach", () => {
  const paused = (behind: readonly string[]) => ({ ...attaching, paused: { behind } });
  const detaching = attachmentRecord("n1", { state: "DETACHING" });
  it.each([
    ["one that is not paused: its backoff", volumeRecord([b], [attaching], { intent: intent() }), 7_000, ""],
    ["paused alone: its backoff", volumeRecord([b], [paused([])]), 7_000, ""],
    [
      "a node that has it",
      volumeRecord([b], [attachmentRecord("n1"), paused(["n1"])]),
      7_000,
      "the detach from node n1",
    ],
    ["a node that is gone", volumeRecord([b], [paused(["n1"])]), 0, ""],
    [
      "one of two that is gone",
      volumeRecord([b], [attachmentRecord("n1"), paused(["n1", "n3"])]),
      0,
      "the detach from node n1",
    ],
    [
      "an owed detach, whatever it was refused for",
      volumeRecord([b], [detaching, paused([])]),
      undefined,
      "the detach from node n1",
    ],
    [
      "another call",
      volumeRecord([b], [paused([])], { intent: intent({ op: "expand" }) }),
      undefined,
      "another call of the volume to end (expand)",
    ],
  ] as const)("[I6] %s", (_, volume, tries, words) => {
    expect(attachTriesAt(volume, "n2", 7_000)).toBe(tries);
    expect(pausedFor(volume, "n2")).toBe(words);
    if (tries === undefined) expect(attachResumed(volume, "n2", at).volume).toBe(volume);
  });

  it("stands before who asks for one more attachment, when it waits for a detach", () => {
    expect(nodeThatWaits(volumeRecord([b], [detaching, paused(["n1"])]), "n3")).toBe("n2");
    expect(nodeThatWaits(volumeRecord([b], [detaching, paused(["n1"])]), "n2")).toBeUndefined();
    expect(nodeThatWaits(volumeRecord([b], [paused([])]), "n3")).toBeUndefined();
  });

  it("is blocked no more once the detach of the node has started", () => {
    const volume = after(beside([a()], [attachmentRecord("n1")]));
    expect(volume.claims["b"]?.blocked?.reason).toBe(elsewhere);
    const started = startDetach(volume, attachmentRecord("n1"), at);
    expect(started.claims["b"]?.blocked).toBeUndefined();
    expect(started.intent).toMatchObject({ op: "detach", node: "n1" });
  });
});
