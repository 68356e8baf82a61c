import { describe, expect, it } from "vitest";
import { noAttempts } from "../outcome.ts";
import { planSteps } from "../steps.ts";
import { attachmentRecord, claimRecord, failureWith, momentAt, volumeRecord } from "../testing/record-fixtures.ts";
import type { Attachment, VolumeRecord } from "../volume/volume.ts";
import { detachAnswered, detached } from "./attach-change.ts";
import {
  isOwnedSince,
  orphanDetachWanted,
  orphanOwned,
  reattachAnswered,
  reattachNotWanted,
  reattachStarted,
  reattachWanted,
} from "./owed-change.ts";

const at = momentAt(1_000);
const epoch = { gen: 1, ctr: 9 };
const owed = (why: "orphan" | "missing") => ({ why, since: 5, attempts: noAttempts });
const steps = (volume: VolumeRecord) => planSteps(volume, 5_000).ready.map((s) => s.do);
const held = (attachment: Attachment = attachmentRecord("n1"), changes: Partial<VolumeRecord> = {}) =>
  volumeRecord([claimRecord("a", { state: "ACTIVE", epoch })], [attachment], changes);

describe("an orphan attachment whose removal was approved", () => {
  const orphan = attachmentRecord("n2", { state: "ATTACHED" });

  it("is owned by its detach, beside the claims of other nodes", () => {
    const { volume } = orphanDetachWanted(held(), orphan, at);
    expect(volume?.attachments["n2"]).toMatchObject({ state: "DETACHING", owed: { why: "orphan", since: 1_000 } });
    expect(steps(volume ?? volumeRecord())).toEqual(["detach"]);
  });

  it("is none when a record owns the pair", () => {
    const before = held(attachmentRecord("n2"));
    expect(orphanDetachWanted(before, orphan, at).volume).toBe(before);
  });

  it("is given up, not detached, once the record owns an attachment to the same node of the backend", () => {
    const unknown = { ...orphan, node: "driver:id-n2", state: "DETACHING" as const, owed: owed("orphan") };
    const registered = attachmentRecord("n2");
    const before = volumeRecord([claimRecord("a", { state: "ACTIVE", node: "n2", epoch })], [unknown, registered]);
    expect(isOwnedSince(before, "driver:id-n2")).toBe(true);
    expect(isOwnedSince(before, "n2")).toBe(false);
    expect(orphanOwned(before, "driver:id-n2", at).volume?.attachments).toEqual({ n2: registered });
  });

  it("waits for the call of the volume that is in progress", () => {
    const intent = { op: "attach", node: "n3", epoch, issuer: "c/1", opId: "op-1" } as const;
    expect(
      steps({ ...held(), intent, attachments: { n2: { ...orphan, state: "DETACHING", owed: owed("orphan") } } }),
    ).toEqual([]);
  });

  it("is gone with the answer, and asked for again, slowly and told why, without one", () => {
    const before = volumeRecord([], [{ ...orphan, state: "DETACHING", owed: owed("orphan") }]);
    expect(detached(before, "n2", at).volume?.attachments).toEqual({});
    const failure = failureWith("block", { reason: "DETACH_UNPROVEN", code: "NOT_FOUND" });
    const detach = { op: "detach", node: "n2", epoch, issuer: "c/1", opId: "op-1" } as const;
    const again = detachAnswered({ ...before, intent: detach }, "n2", { kind: "unknown", failure }, at).volume;
    expect(again?.attachments["n2"]?.owed).toMatchObject({
      blocked: { since: at.now, reason: "DETACH_UNPROVEN" },
      attempts: { count: 1 },
    });
    expect(planSteps(again ?? before, 1_000).ready).toEqual([]);
  });
});

describe("an attachment that the backend has lost", () => {
  const missing = attachmentRecord("n1", { owed: owed("missing") });
  const intent = { op: "attach", node: "n1", epoch, issuer: "c/1", opId: "op-1" } as const;

  it("is made again under an intent of its own, and nothing is taken from its users", () => {
    const wanted = reattachWanted(held(), "n1", at).volume ?? volumeRecord();
    expect(steps(wanted)).toEqual(["reattach"]);
    const started = reattachStarted(wanted, "n1", at).volume ?? volumeRecord();
    expect(started).toMatchObject({ intent: { op: "attach", node: "n1" }, claims: { a: { state: "ACTIVE" } } });
    const done = reattachAnswered(started, "n1", { kind: "done", value: { device: "/dev/x" } }, at).volume;
    expect(done?.attachments["n1"]).toEqual(attachmentRecord("n1", { publishContext: { device: "/dev/x" } }));
    expect(done?.intent).toBeUndefined();
  });

  it("is not made again for claims that are being released", () => {
    const going = claimRecord("a", { state: "RELEASING", epoch, goal: "released" });
    const before = volumeRecord([going], [attachmentRecord("n1")]);
    expect(reattachWanted(before, "n1", at).volume).toBe(before);
  });

  it.each(["ATTACHING", "DETACHING"] as const)("is not made again while it is %s", (state) => {
    const before = held(attachmentRecord("n1", { state }));
    expect(reattachWanted(before, "n1", at).volume).toBe(before);
  });

  it("is not made again where nothing is called for it", () => {
    const before = held(attachmentRecord("n1", { needsCalls: false }));
    expect(reattachWanted(before, "n1", at).volume).toBe(before);
  });

  it("keeps its intent while nobody knows, ends it with a refusal, and keeps the attachment either way", () => {
    const before = held(missing, { intent });
    const unknown = reattachAnswered(before, "n1", { kind: "unknown", failure: failureWith("again") }, at).volume;
    expect(unknown).toMatchObject({
      intent,
      attachments: { n1: { state: "ATTACHED", owed: { attempts: { count: 1 } } } },
    });
    const refused = reattachAnswered(before, "n1", { kind: "refused", failure: failureWith("block") }, at).volume;
    expect(refused?.intent).toBeUndefined();
    expect(refused?.attachments["n1"]?.state).toBe("ATTACHED");
  });

  it("whose volume the backend does not know either names the release of its claims before the volume is forgotten", () => {
    const gone = failureWith("block", { code: "NOT_FOUND" });
    const refused = reattachAnswered(held(missing, { intent }), "n1", { kind: "refused", failure: gone }, at).volume;
    expect(refused?.attachments["n1"]?.owed?.blocked).toMatchObject({
      reason: "NOT_AT_BACKEND",
      clearWith: expect.stringMatching(/holdfast claim release .*; then: holdfast repair forget-volume /),
    });
  });

  it("is left alone when the backend shows it after all, unless a call may still run", () => {
    expect(reattachNotWanted(held(missing), "n1", at).volume?.attachments["n1"]).toEqual(attachmentRecord("n1"));
    const running = held(missing, { intent });
    expect(reattachNotWanted(running, "n1", at).volume).toBe(running);
  });

  it("is detached like any other once its last claim has gone", () => {
    const going = volumeRecord(
      [claimRecord("a", { state: "DETACHING", epoch, goal: "released" })],
      [{ ...missing, state: "DETACHING" }],
      { intent: { ...intent, op: "detach" } },
    );
    expect(steps(going)).toEqual(["detach"]);
    expect(detached(going, "n1", at).ended.map((t) => t.state)).toEqual(["RELEASED"]);
  });
});
