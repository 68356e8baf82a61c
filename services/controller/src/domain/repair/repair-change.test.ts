import { describe, expect, it } from "vitest";
import type { Claim, ClaimState } from "../claim/claim.ts";
import { claimStates } from "../claim/claim.ts";
import { attachmentRecord, claimRecord, momentAt, volumeRecord } from "../testing/record-fixtures.ts";
import { volumeStates } from "../volume/volume.ts";
import { abandonable, assertable, claimAbandoned, detachAsserted, volumeForgotten } from "./repair-change.ts";

const at = momentAt(1_000);
const epoch = { gen: 1, ctr: 9 };
const claimIn = (state: ClaimState, changes: Partial<Claim> = {}) =>
  claimRecord("a", { state, epoch, goal: "released", ...changes });

describe("AbandonClaim", () => {
  it.each(claimStates)("%s: stands for the agent's proof where that is what is missing, and nowhere else", (state) => {
    expect(abandonable[state] === "apply").toBe(state === "RELEASING");
  });

  it("does what a proof would have done: the last claim of the node owes the detach", () => {
    const claim = claimIn("RELEASING");
    const { volume, ended } = claimAbandoned(volumeRecord([claim], [attachmentRecord("n1")]), claim, "ticket 4711", at);
    expect(ended).toEqual([]);
    expect(volume).toMatchObject({
      intent: { op: "detach", node: "n1" },
      attachments: { n1: { state: "DETACHING" } },
      claims: { a: { state: "DETACHING", failure: { reason: "CLAIM_ABANDONED" } } },
    });
    expect(volume?.claims["a"]?.failure?.message).toContain("ticket 4711");
  });

  it("leaves the attachment to the other claims of the node", () => {
    const claim = claimIn("RELEASING");
    const other = claimRecord("b", { state: "ACTIVE", epoch });
    const change = claimAbandoned(volumeRecord([claim, other], [attachmentRecord("n1")]), claim, "off", at);
    expect(change.ended).toMatchObject([{ uid: "a", state: "FAILED", failure: { reason: "CLAIM_ABANDONED" } }]);
    expect(change.volume).toMatchObject({
      attachments: { n1: { state: "ATTACHED" } },
      claims: { b: { state: "ACTIVE" } },
    });
    expect(change.volume?.intent).toBeUndefined();
  });
});

describe("AssertDetached", () => {
  it.each(Object.entries(assertable))("%s: stands for the plugin's proof of a detach alone", (state, cell) => {
    expect(cell === "apply").toBe(state === "DETACHING");
  });

  it("ends every claim that waits for the detach, and the intent", () => {
    const claims = ["a", "b"].map((uid) => claimRecord(uid, { state: "DETACHING", epoch, goal: "released" }));
    const intent = { op: "detach", node: "n1", epoch, issuer: "c/1", opId: "op-1" } as const;
    const change = detachAsserted(
      volumeRecord(claims, [attachmentRecord("n1", { state: "DETACHING" })], { intent }),
      "n1",
      at,
    );
    expect(change.ended.map((t) => [t.uid, t.state])).toEqual([
      ["a", "RELEASED"],
      ["b", "RELEASED"],
    ]);
    expect(change.volume).toMatchObject({ attachments: {}, claims: {} });
    expect(change.volume?.intent).toBeUndefined();
  });
});

describe("ForgetVolume", () => {
  it.each(volumeStates)("%s: the record goes with everything in it, and says how its claims ended", (state) => {
    const claims = claimStates.slice(0, 6).map((s) => claimRecord(s.toLowerCase(), { state: s }));
    const change = volumeForgotten(volumeRecord(claims, [attachmentRecord("n1")], { state }), at);
    expect(change.volume).toBeNull();
    expect(change.ended.map((t) => [t.uid, t.state, t.failure?.reason])).toEqual(
      claims.map((c) => [c.uid, "FAILED", "VOLUME_FORGOTTEN"]),
    );
  });
});
