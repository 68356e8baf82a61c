import { describe, expect, test } from "vitest";
import { methodFacts, methodNames } from "../methods.ts";
import type { Method } from "../rpc.ts";
import { createDriver, type Driver, live, writer } from "../test-driver.ts";

const GiB = 1024n ** 3n;

/** For each mutating RPC: what comes before it, and the call itself, to be made twice. */
const repeats: { readonly [M in Method]?: (driver: Driver) => () => unknown } = {
  CreateVolume: (d) => () => d.get("CreateVolume", { name: "one", volumeCapabilities: [writer] }),
  DeleteVolume: (d) => {
    const { volumeId } = live(d, "created");
    return () => d.get("DeleteVolume", { volumeId });
  },
  ControllerPublishVolume: (d) => {
    const lived = live(d, "created");
    return () => d.get("ControllerPublishVolume", { ...lived, nodeId: "node-a" });
  },
  ControllerUnpublishVolume: (d) => {
    const { volumeId } = live(d, "attached");
    return () => d.get("ControllerUnpublishVolume", { volumeId, nodeId: "node-a" });
  },
  CreateSnapshot: (d) => {
    const { volumeId } = live(d, "created");
    return () => d.get("CreateSnapshot", { name: "s", sourceVolumeId: volumeId });
  },
  DeleteSnapshot: (d) => {
    const { snapshot } = d.get("CreateSnapshot", { name: "s", sourceVolumeId: live(d, "created").volumeId });
    return () => d.get("DeleteSnapshot", { snapshotId: snapshot?.snapshotId ?? "" });
  },
  ControllerExpandVolume: (d) => {
    const { volumeId } = live(d, "created");
    return () =>
      d.get("ControllerExpandVolume", { volumeId, capacityRange: { requiredBytes: 5n * GiB, limitBytes: 0n } });
  },
  ControllerModifyVolume: (d) => {
    const { volumeId } = live(d, "created");
    return () => d.get("ControllerModifyVolume", { volumeId, mutableParameters: { tier: "fast" } });
  },
  CreateVolumeGroupSnapshot: (d) => {
    const { volumeId } = live(d, "created");
    return () => d.get("CreateVolumeGroupSnapshot", { name: "g", sourceVolumeIds: [volumeId] });
  },
  DeleteVolumeGroupSnapshot: (d) => {
    const { groupSnapshot: group } = d.get("CreateVolumeGroupSnapshot", {
      name: "g",
      sourceVolumeIds: [live(d, "created").volumeId],
    });
    const snapshotIds = group?.snapshots.map((one) => one.snapshotId) ?? [];
    return () => d.get("DeleteVolumeGroupSnapshot", { groupSnapshotId: group?.groupSnapshotId ?? "", snapshotIds });
  },
  NodeStageVolume: (d) => {
    const lived = live(d, "attached");
    return () => d.get("NodeStageVolume", lived);
  },
  NodeUnstageVolume: (d) => {
    const lived = live(d, "staged");
    return () => d.get("NodeUnstageVolume", lived);
  },
  NodePublishVolume: (d) => {
    const lived = live(d, "staged");
    return () => d.get("NodePublishVolume", lived);
  },
  NodeUnpublishVolume: (d) => {
    const lived = live(d, "published");
    return () => d.get("NodeUnpublishVolume", lived);
  },
  NodeExpandVolume: (d) => {
    const { volumeId, targetPath: volumePath } = live(d, "published");
    return () => d.get("NodeExpandVolume", { volumeId, volumePath });
  },
};

describe("a repeated call answers the same and changes nothing more", () => {
  test.each(Object.entries(repeats))("%s", (_, prepare) => {
    const driver = createDriver();
    const act = prepare(driver);
    const before = structuredClone(driver.backend.state());
    const first = act();
    const once = structuredClone(driver.backend.state());
    const second = act();
    expect(second).toEqual(first);
    expect(driver.backend.state()).toEqual(once);
    expect(driver.backend.violations()).toEqual([]);
    // A call that changed nothing the first time would pass all of this; NodeExpand alone has no state of its own.
    if (prepare !== repeats.NodeExpandVolume) expect(once).not.toEqual(before);
  });

  test("and none is left out", () => {
    const mutating = methodNames.filter((method) => methodFacts[method].mutates);
    expect(Object.keys(repeats).toSorted()).toEqual(mutating.toSorted());
  });
});
