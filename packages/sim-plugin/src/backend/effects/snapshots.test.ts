import { describe, expect, test } from "vitest";
import { codeOf, createDriver, live, writer } from "../test-driver.ts";

describe("snapshots", () => {
  test("are ready after as many answers as the storage takes", () => {
    const driver = createDriver({ snapshotPolls: 2 });
    const { volumeId: sourceVolumeId } = live(driver, "created");
    const ready = () => driver.get("CreateSnapshot", { name: "s", sourceVolumeId }).snapshot?.readyToUse;
    expect([ready(), ready(), ready()]).toEqual([false, false, true]);
  });

  test("cannot be copied from before they are ready", () => {
    const driver = createDriver({ snapshotPolls: 5 });
    const { snapshot } = driver.get("CreateSnapshot", { name: "s", sourceVolumeId: live(driver, "created").volumeId });
    const volumeContentSource = { snapshot: { snapshotId: snapshot?.snapshotId ?? "" }, volume: undefined };
    expect(codeOf(driver.ask("CreateVolume", { name: "two", volumeCapabilities: [writer], volumeContentSource }))).toBe(
      "UNAVAILABLE",
    );
  });

  test("outlive their volume", () => {
    const driver = createDriver();
    const { volumeId } = live(driver, "created");
    const { snapshot } = driver.get("CreateSnapshot", { name: "s", sourceVolumeId: volumeId });
    driver.get("DeleteVolume", { volumeId });
    expect(driver.get("GetSnapshot", { snapshotId: snapshot?.snapshotId ?? "" }).snapshot?.sourceVolumeId).toBe(
      volumeId,
    );
  });

  test("of a group come and go together", () => {
    const driver = createDriver();
    const sourceVolumeIds = ["one", "two"].map((name) => live(driver, "created", writer, name).volumeId);
    const { groupSnapshot: group } = driver.get("CreateVolumeGroupSnapshot", { name: "g", sourceVolumeIds });
    expect(group?.snapshots.map((one) => [one.sourceVolumeId, one.groupSnapshotId])).toEqual(
      sourceVolumeIds.map((id) => [id, group?.groupSnapshotId]),
    );
    const snapshotIds = group?.snapshots.map((one) => one.snapshotId) ?? [];
    const groupSnapshotId = group?.groupSnapshotId ?? "";
    expect(driver.get("GetVolumeGroupSnapshot", { groupSnapshotId, snapshotIds }).groupSnapshot).toEqual(group);
    driver.get("DeleteVolumeGroupSnapshot", { groupSnapshotId, snapshotIds });
    expect(driver.backend.state().snapshots.size).toBe(0);
  });
});

describe("lists", () => {
  test("page through everything once, also when rows come and go between pages", () => {
    const driver = createDriver();
    const ids = Array.from({ length: 7 }, (_, index) => live(driver, "created", writer, `v${index}`).volumeId);
    const seen: (string | undefined)[] = [];
    let startingToken = "";
    do {
      const page = driver.get("ListVolumes", { maxEntries: 2, startingToken });
      expect(page.entries.length).toBeLessThanOrEqual(2);
      seen.push(...page.entries.map((entry) => entry.volume?.volumeId));
      startingToken = page.nextToken;
      if (seen.length === 2) driver.get("DeleteVolume", { volumeId: seen[0] ?? "" });
    } while (startingToken !== "");
    expect(seen).toEqual(ids.toSorted());
  });

  test("answer ABORTED to a token of somebody else's", () => {
    const driver = createDriver();
    expect(codeOf(driver.ask("ListVolumes", { startingToken: "none" }))).toBe("ABORTED");
    expect(codeOf(driver.ask("ListSnapshots", { startingToken: "none" }))).toBe("ABORTED");
  });

  test("name the nodes and the condition only with the capabilities for it", () => {
    for (const [without, status] of [
      [[], { publishedNodeIds: ["node-a"], volumeCondition: { abnormal: true, message: "bad" } }],
      [
        ["controller.LIST_VOLUMES_PUBLISHED_NODES", "controller.VOLUME_CONDITION"],
        { publishedNodeIds: [], volumeCondition: undefined },
      ],
    ] as const) {
      const driver = createDriver({ capabilities: { without } });
      const { volumeId } = live(driver, "attached");
      driver.backend.setCondition(volumeId, { abnormal: true, message: "bad" });
      expect(driver.get("ListVolumes", {}).entries[0]?.status).toEqual(status);
      expect(driver.get("ControllerGetVolume", { volumeId }).status).toEqual(status);
    }
  });

  test("of snapshots are filtered by id and by source", () => {
    const driver = createDriver();
    const [one, two] = ["one", "two"].map((name) => live(driver, "created", writer, name).volumeId);
    const made = [one, two].map(
      (id, index) => driver.get("CreateSnapshot", { name: `s${index}`, sourceVolumeId: id ?? "" }).snapshot,
    );
    const ids = (filter: object) =>
      driver.get("ListSnapshots", filter).entries.map((entry) => entry.snapshot?.snapshotId);
    expect(ids({ sourceVolumeId: one })).toEqual([made[0]?.snapshotId]);
    expect(ids({ snapshotId: made[1]?.snapshotId })).toEqual([made[1]?.snapshotId]);
    expect(ids({ snapshotId: "gone" })).toEqual([]);
  });
});

describe("snapshot metadata", () => {
  const twoSnapshots = () => {
    const driver = createDriver();
    const { volume } = driver.get("CreateVolume", {
      name: "one",
      volumeCapabilities: [writer],
      capacityRange: { requiredBytes: 256n * 1024n * 1024n, limitBytes: 0n },
    });
    const ids = ["a", "b"].map(
      (name) =>
        driver.get("CreateSnapshot", { name, sourceVolumeId: volume?.volumeId ?? "" }).snapshot?.snapshotId ?? "",
    );
    return { driver, base: ids[0] ?? "", target: ids[1] ?? "" };
  };

  test("comes in messages no longer than asked for, in order, and resumes where it is told", () => {
    const { driver, base } = twoSnapshots();
    const messages = driver.get("GetMetadataAllocated", { snapshotId: base, maxResults: 10 });
    expect(messages.length).toBeGreaterThan(1);
    const blocks = messages.flatMap((message) => message.blockMetadata);
    expect(Math.max(...messages.map((message) => message.blockMetadata.length))).toBe(10);
    expect(blocks).toEqual(blocks.toSorted((a, b) => Number(a.byteOffset - b.byteOffset)));
    const fifth = blocks[5];
    const resumed = driver.get("GetMetadataAllocated", { snapshotId: base, startingOffset: fifth?.byteOffset ?? 0n });
    expect(resumed.flatMap((message) => message.blockMetadata)).toEqual(blocks.slice(5));
  });

  test("of a delta holds what the target has and the base has not", () => {
    const { driver, base, target } = twoSnapshots();
    const offsets = (messages: readonly { blockMetadata: readonly { byteOffset: bigint }[] }[]) =>
      messages.flatMap((message) => message.blockMetadata.map((block) => block.byteOffset));
    const before = offsets(driver.get("GetMetadataAllocated", { snapshotId: base }));
    const after = offsets(driver.get("GetMetadataAllocated", { snapshotId: target }));
    const delta = offsets(driver.get("GetMetadataDelta", { baseSnapshotId: base, targetSnapshotId: target }));
    expect(delta).toEqual(after.filter((offset) => !before.includes(offset)));
    expect(delta.length).toBeGreaterThan(0);
  });

  test("refuses an offset past the end, and snapshots of different volumes", () => {
    const { driver, base } = twoSnapshots();
    expect(codeOf(driver.ask("GetMetadataAllocated", { snapshotId: base, startingOffset: 1n << 40n }))).toBe(
      "OUT_OF_RANGE",
    );
    const other = driver.get("CreateSnapshot", {
      name: "c",
      sourceVolumeId: live(driver, "created", writer, "two").volumeId,
    });
    const targetSnapshotId = other.snapshot?.snapshotId ?? "";
    expect(codeOf(driver.ask("GetMetadataDelta", { baseSnapshotId: base, targetSnapshotId }))).toBe("INVALID_ARGUMENT");
  });
});
