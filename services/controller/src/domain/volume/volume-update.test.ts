import { describe, expect, it } from "vitest";
import { claimRecord, momentAt, volumeRecord } from "../testing/record-fixtures.ts";
import { type VolumeCapability, volumeStates } from "./volume.ts";
import { mayChange, type UpdatePart, updated, updateParts, updateRefusal, type VolumeUpdate } from "./volume-update.ts";

const at = momentAt(5_000);
const capability: VolumeCapability = {
  accessMode: "SINGLE_NODE_WRITER",
  attachmentMode: "FILE_SYSTEM",
  fsType: "",
  mountFlags: [],
  volumeMountGroup: "",
};
const asked: Record<UpdatePart, VolumeUpdate> = {
  labels: { labels: { a: "b" } },
  policy: { policy: { reclaim: "retain", nodeLoss: "wait", requiresRepublish: false, identityTokens: [] } },
  secretRefs: { secretRefs: { create: "env:A" } },
  capabilities: { capabilities: [capability] },
};

describe("what may be changed in which state", () => {
  const cells = updateParts.flatMap((part) => volumeStates.map((state) => [part, state] as const));

  it.each(cells)("%s while %s", (part, state) => {
    const volume = volumeRecord([], [], { state });
    const allowed = mayChange[part][state];
    expect(updateRefusal(volume, asked[part])).toEqual(allowed ? undefined : { kind: "state", part });
    const change = updated(volume, asked[part], at);
    expect(change.volume === volume).toBe(!allowed);
    if (allowed) expect(change.volume).toMatchObject({ state, ...asked[part], updatedAt: 5_000 });
  });

  it.each(updateParts)("%s of a volume whose deletion is wanted: as while DELETING", (part) => {
    const volume = volumeRecord([], [], { state: "CREATING", goal: "absent" });
    expect(updateRefusal(volume, asked[part]) === undefined).toBe(mayChange[part].DELETING);
  });

  it("what stays as it is needs no leave, in any state", () => {
    for (const state of volumeStates) {
      const volume = volumeRecord([], [], { state, capabilities: [capability] });
      expect(updated(volume, asked.capabilities, at).volume).toBe(volume);
      expect(updateRefusal(volume, asked.capabilities)).toBeUndefined();
    }
  });

  it("a capability that differs in any field from the one in use does not stand for it", () => {
    const claim = claimRecord("a", { ...capability, state: "ACTIVE" });
    const others: readonly Partial<VolumeCapability>[] = [
      { accessMode: "MULTI_NODE_MULTI_WRITER" },
      { attachmentMode: "BLOCK_DEVICE" },
      { fsType: "xfs" },
      { mountFlags: ["ro"] },
      { volumeMountGroup: "7" },
    ];
    const volume = volumeRecord([claim], [], { capabilities: [capability] });
    for (const other of others)
      expect(updateRefusal(volume, { capabilities: [{ ...capability, ...other }] })).toMatchObject({ kind: "in-use" });
    expect(updateRefusal(volume, { capabilities: [capability, { ...capability, fsType: "xfs" }] })).toBeUndefined();
  });
});
