import { describe, expect, test } from "vitest";
import { codeOf, createDriver, inMode, live, writer } from "../test-driver.ts";

const GiB = 1024n ** 3n;
const create = { name: "one", volumeCapabilities: [writer] };
const range = (requiredBytes: bigint, limitBytes = 0n) => ({ requiredBytes, limitBytes });

describe("CreateVolume", () => {
  test("gives what is required and not more", () => {
    const driver = createDriver();
    const { volume } = driver.get("CreateVolume", { ...create, capacityRange: range(3n * GiB, 4n * GiB) });
    expect(volume?.capacityBytes).toBe(3n * GiB);
  });

  test.each([
    ["more than a volume may have", { maxVolumeBytes: 2n * GiB }, range(3n * GiB), "OUT_OF_RANGE"],
    ["a limit below the smallest volume", { minVolumeBytes: 2n * GiB }, range(0n, GiB), "OUT_OF_RANGE"],
    ["more than the pool has left", { poolBytes: 2n * GiB }, range(3n * GiB), "RESOURCE_EXHAUSTED"],
  ])("refuses %s", (_, options, capacityRange, code) => {
    const driver = createDriver(options);
    expect(codeOf(driver.ask("CreateVolume", { ...create, capacityRange }))).toBe(code);
    expect(driver.backend.state().volumes.size).toBe(0);
  });

  test("from a snapshot or a volume is as large as its source, and says where it came from", () => {
    const driver = createDriver();
    const { volume } = driver.get("CreateVolume", { ...create, capacityRange: range(7n * GiB) });
    const { snapshot } = driver.get("CreateSnapshot", { name: "s", sourceVolumeId: volume?.volumeId ?? "" });
    for (const volumeContentSource of [
      { snapshot: { snapshotId: snapshot?.snapshotId ?? "" }, volume: undefined },
      { snapshot: undefined, volume: { volumeId: volume?.volumeId ?? "" } },
    ]) {
      const copy = driver.get("CreateVolume", {
        ...create,
        name: JSON.stringify(Object.keys(volumeContentSource)),
        volumeContentSource,
      });
      expect(copy.volume).toMatchObject({ capacityBytes: 7n * GiB, contentSource: volumeContentSource });
      driver.get("DeleteVolume", { volumeId: copy.volume?.volumeId ?? "" });
    }
  });

  test("goes to the first preferred place where a node is", () => {
    const driver = createDriver({
      nodes: { "node-a": { topology: { zone: "a" } }, "node-b": { topology: { zone: "b" } } },
    });
    const [a, b, c] = ["a", "b", "c"].map((zone) => ({ segments: { zone } }));
    if (a === undefined || b === undefined || c === undefined) throw new Error("three places");
    const placed = driver.get("CreateVolume", {
      ...create,
      accessibilityRequirements: { requisite: [a, b, c], preferred: [c, b] },
    });
    expect(placed.volume?.accessibleTopology).toEqual([b]);
    const nowhere = { ...create, name: "two", accessibilityRequirements: { requisite: [c], preferred: [] } };
    expect(codeOf(driver.ask("CreateVolume", nowhere))).toBe("RESOURCE_EXHAUSTED");
  });

  test.each(["hash", "name", "odd"] as const)(
    "names volumes in the style %s, the same at each replay of a lost memory",
    (idStyle) => {
      const ids = [createDriver({ idStyle }), createDriver({ idStyle })].map(
        (driver) => live(driver, "created").volumeId,
      );
      expect(ids[0]).toBe(ids[1]);
      if (idStyle === "name") expect(ids[0]).toBe("one");
      if (idStyle === "odd") expect(ids[0]).toMatch(/=\/\.\.\/.*&/);
    },
  );
});

describe("an attachment's next life", () => {
  test("has another publish context, so that a stale one is seen", () => {
    const driver = createDriver();
    const { volumeId, volumeContext, volumeCapability, publishContext, stagingTargetPath } = live(driver, "attached");
    driver.get("ControllerUnpublishVolume", { volumeId, nodeId: "node-a" });
    const base = { volumeId, volumeContext, volumeCapability };
    const again = driver.get("ControllerPublishVolume", { ...base, nodeId: "node-a" });
    expect(again.publishContext).not.toEqual(publishContext);
    expect(codeOf(driver.ask("NodeStageVolume", { ...base, publishContext, stagingTargetPath }))).toBe(
      "INVALID_ARGUMENT",
    );
  });
});

describe("ValidateVolumeCapabilities", () => {
  test("confirms what the volume was made for, in the caller's own words", () => {
    const driver = createDriver();
    const { volumeId, volumeContext } = live(driver, "created");
    const asked = {
      volumeId,
      volumeContext,
      volumeCapabilities: [writer],
      parameters: { a: "b" },
      mutableParameters: {},
    };
    const { confirmed } = driver.get("ValidateVolumeCapabilities", asked);
    expect(confirmed).toEqual({
      volumeContext,
      volumeCapabilities: [writer],
      parameters: { a: "b" },
      mutableParameters: {},
    });
  });

  test("confirms nothing when one capability is beyond the volume, and says why", () => {
    const driver = createDriver();
    const { volumeId } = live(driver, "created");
    const answer = driver.get("ValidateVolumeCapabilities", {
      volumeId,
      volumeCapabilities: [writer, inMode("MULTI_NODE_MULTI_WRITER")],
    });
    expect(answer.confirmed).toBeUndefined();
    expect(answer.message).not.toBe("");
  });
});

describe("expansion", () => {
  test("grows, asks for the node, and never shrinks", () => {
    const driver = createDriver();
    const { volumeId } = live(driver, "created");
    expect(driver.get("ControllerExpandVolume", { volumeId, capacityRange: range(9n * GiB) })).toEqual({
      capacityBytes: 9n * GiB,
      nodeExpansionRequired: true,
    });
    expect(codeOf(driver.ask("ControllerExpandVolume", { volumeId, capacityRange: range(1n, 2n * GiB) }))).toBe(
      "OUT_OF_RANGE",
    );
    expect(driver.backend.state().volumes.get(volumeId)?.capacity).toBe(9n * GiB);
  });

  test("needs no node when the plugin's node side cannot expand", () => {
    const driver = createDriver({ capabilities: { without: ["node.EXPAND_VOLUME"] } });
    const { volumeId } = live(driver, "created");
    expect(
      driver.get("ControllerExpandVolume", { volumeId, capacityRange: range(9n * GiB) }).nodeExpansionRequired,
    ).toBe(false);
  });
});

test("mutable keys the storage does not know are refused and leave the others alone", () => {
  const driver = createDriver({ mutableKeys: ["tier"] });
  const { volumeId } = live(driver, "created");
  driver.get("ControllerModifyVolume", { volumeId, mutableParameters: { tier: "fast" } });
  expect(codeOf(driver.ask("ControllerModifyVolume", { volumeId, mutableParameters: { colour: "red" } }))).toBe(
    "INVALID_ARGUMENT",
  );
  expect(driver.backend.state().volumes.get(volumeId)?.mutableParameters).toEqual({ tier: "fast" });
});
