import { describe, expect, it } from "vitest";
import {
  attachmentRecord,
  barRecord,
  claimRecord,
  momentAt,
  nodeRecord,
  volumeRecord,
} from "../testing/record-fixtures.ts";
import { fenceBegun, heldOn, isOffWithGate, volumeFenced } from "./fence.ts";

const fence = { kind: "power-off", who: "ops", evidence: "the PDU shows 0 W", since: 1 } as const;
const off = fenceBegun(nodeRecord("n1", { linkLost: { at: 1 } }), fence);

describe("[L4] the end of a gate", () => {
  const heard = { ...off, fence: { ...fence, spoke: true as const } };
  it.each([
    ["of a machine that is off and silent", off, 1, true],
    ["of an older record, which names no incarnation", off, undefined, true],
    ["of a machine that spoke since", heard, 1, false],
    ["of a machine that had the name before", { ...off, speaksFrom: 2 }, 1, false],
    ["of an older record, and the name was taken since", { ...off, speaksFrom: 2 }, undefined, false],
    ["by a detach that fences", { ...off, fence: { ...fence, kind: "on-detach" as const } }, 1, false],
    ["of a node that is not fenced", nodeRecord("n1", { linkLost: { at: 1 } }), 1, false],
  ])("%s", (_what, record, gateEpoch, over) =>
    expect(isOffWithGate(record, gateEpoch === undefined ? {} : { gateEpoch })).toBe(over),
  );
});

describe("a fenced volume", () => {
  const epoch = { gen: 1, ctr: 1 };
  const active = (uid: string) => claimRecord(uid, { state: "ACTIVE", epoch, nodeEpoch: 1 });
  const uids = (volume: ReturnType<typeof volumeRecord> | null) =>
    Object.fromEntries(Object.values(volume?.claims ?? {}).map(({ uid, state }) => [uid, state]));

  it("[I1] is held until its detach: the last claim of the node detaches, those beside it end", () => {
    const volume = volumeRecord(
      [active("a"), active("b"), claimRecord("c", { node: "n2", state: "ACTIVE", epoch })],
      [attachmentRecord("n1"), attachmentRecord("n2")],
    );
    const { volume: after, ended } = volumeFenced(volume, off, "forced", momentAt(5));
    expect(uids(after)).toEqual({ b: "DETACHING", c: "ACTIVE" });
    expect(ended).toMatchObject([{ uid: "a", state: "FENCED", failure: { reason: "NODE_FENCED" } }]);
    expect(after?.intent).toMatchObject({ op: "detach", node: "n1" });
    expect(after?.attachments["n1"]?.state).toBe("DETACHING");
    // Told once: what is under way is left alone.
    if (after === null) throw new Error("no volume");
    expect(volumeFenced(after, off, "forced", momentAt(6)).volume).toBe(after);
    expect(heldOn(after, "n1")).toBe(2);
  });

  it("F2 waits for a bar of the pair, under whatever name of its node", () => {
    const other = barRecord("n9", { attachment: attachmentRecord("n9", { nodeId: "id-n1" }) });
    const volume = volumeRecord([active("a")], [attachmentRecord("n1")], { bars: [other] });
    expect(volumeFenced(volume, off, "forced", momentAt(5)).volume).toBe(volume);
    expect(heldOn(volume, "n1")).toBe(3);
  });

  it("I5 of an attach that may be open: the attach is finished before its undo", () => {
    const intent = { op: "attach", node: "n1", epoch, issuer: "c", opId: "o", via: "v", openSince: 1 } as const;
    const volume = volumeRecord(
      [claimRecord("a", { state: "ATTACHING", epoch })],
      [attachmentRecord("n1", { state: "ATTACHING" })],
      { intent },
    );
    const { volume: after } = volumeFenced(volume, off, "forced", momentAt(5));
    expect(uids(after)).toEqual({ a: "DETACHING" });
    expect(after?.intent).toEqual(intent);
    expect(after?.attachments["n1"]?.state).toBe("DETACHING");
  });

  it("F4 of an agent that speaks: its release is asked for once, and forced when it falls silent again", () => {
    const volume = volumeRecord([active("a")], [attachmentRecord("n1")]);
    const asked = volumeFenced(volume, off, "asked", momentAt(5)).volume;
    expect(uids(asked)).toEqual({ a: "RELEASING" });
    if (asked === null) throw new Error("no volume");
    expect(volumeFenced(asked, off, "asked", momentAt(6)).volume).toBe(asked);
    expect(uids(volumeFenced(asked, off, "forced", momentAt(7)).volume)).toEqual({ a: "DETACHING" });
    // Not on the word that it was off: it spoke.
    const spoke = { ...off, fence: { ...fence, spoke: true as const } };
    expect(volumeFenced(asked, spoke, "forced", momentAt(7)).volume).toBe(asked);
    const cutOff = { ...spoke, fence: { ...spoke.fence, kind: "on-detach" as const } };
    expect(uids(volumeFenced(asked, cutOff, "forced", momentAt(7)).volume)).toEqual({ a: "DETACHING" });
  });
});
