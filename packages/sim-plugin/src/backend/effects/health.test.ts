import { describe, expect, test } from "vitest";
import { csi113, resolveCapabilities } from "../capabilities.ts";
import { createDriver, live, writer } from "../test-driver.ts";

const create = (names: readonly string[]) => {
  const driver = createDriver({ capabilities: csi113 });
  return { driver, ids: names.map((name) => live(driver, "created", writer, name).volumeId) };
};

test("a plugin is one of 1.12 unless told, with conditions and without health", () => {
  const old = resolveCapabilities();
  const young = resolveCapabilities(csi113);
  for (const name of csi113.without) expect([old.has(name), young.has(name)], name).toEqual([true, false]);
  for (const name of csi113.with) expect([old.has(name), young.has(name)], name).toEqual([false, true]);
});

describe("health", () => {
  test("is listed in pages, of the volumes that are unwell, whatever the numbers", () => {
    const { driver, ids } = create(["one", "two", "three"]);
    const [one = "", , three = ""] = ids;
    driver.backend.setHealth(one, [{ status: 3, reason: "Lost" }]);
    driver.backend.setHealth(three, [{ status: 99, reason: "New" }]);
    const first = driver.get("ControllerListVolumeHealth", { maxEntries: 1 });
    const rest = driver.get("ControllerListVolumeHealth", { maxEntries: 1, startingToken: first.nextToken });
    expect(rest.nextToken).toBe("");
    const listed = [...first.entries, ...rest.entries];
    expect(listed.map(({ volumeId }) => volumeId)).toEqual([one, three].toSorted());
    expect(listed.flatMap(({ healthStatuses }) => healthStatuses.map(({ status }) => status)).toSorted()).toEqual([
      3, 99,
    ]);
    driver.backend.setListing({ hides: [one, three] });
    expect(driver.get("ControllerListVolumeHealth", {}).entries).toEqual([]);
    expect(driver.get("ControllerGetVolumeHealth", { volumeId: three }).volumeHealth?.healthStatuses).toHaveLength(1);
  });

  test("differs between the controller and each node", () => {
    const { driver, ids } = create(["one"]);
    const [volumeId = ""] = ids;
    driver.backend.setHealth(volumeId, [{ status: 2, reason: "PathsLost" }], "node-b");
    const seen = (node: "node-a" | "node-b") => driver.get("NodeGetVolumeHealth", { volumeId }, { node }).volumeHealth;
    expect(seen("node-a")?.healthStatuses).toEqual([]);
    expect(seen("node-b")?.healthStatuses).toEqual([{ status: 2, reason: "PathsLost", message: "" }]);
    expect(driver.get("ControllerGetVolumeHealth", { volumeId }).volumeHealth?.healthStatuses).toEqual([]);
  });

  test("of a node's storage stays when the node is declared anew", () => {
    const { driver } = create([]);
    driver.backend.setStorageHealth("node-a", [{ status: 2, reason: "PortalsDown", use: writer }]);
    driver.backend.declareNode("node-a", { maxVolumes: 3 });
    const { backendHealth } = driver.get("NodeGetStorageHealth", {}, { node: "node-a" });
    expect(backendHealth).toEqual([{ status: 2, reason: "PortalsDown", message: "", volumeCapability: writer }]);
    expect(driver.get("NodeGetStorageHealth", {}, { node: "node-b" }).backendHealth).toEqual([]);
  });
});

describe("a snapshot that not every place can use", () => {
  const zone = (name: string) => ({ requisite: [{ segments: { zone: name } }], preferred: [] });

  test("says where it can be used: where it was asked for, else where its source is", () => {
    const { driver } = create([]);
    const make = { volumeCapabilities: [writer], name: "one", accessibilityRequirements: zone("a") };
    const sourceVolumeId = driver.get("CreateVolume", make).volume?.volumeId ?? "";
    const places = (request: object) =>
      driver.get("CreateSnapshot", { sourceVolumeId, ...request }).snapshot?.accessibleTopology;
    expect(places({ name: "s" })).toEqual([{ segments: { zone: "a" } }]);
    expect(places({ name: "t", accessibilityRequirements: zone("b") })).toEqual([{ segments: { zone: "b" } }]);
  });

  test("makes a volume where it is, when nobody says where", () => {
    const { driver, ids } = create(["one"]);
    const request = { sourceVolumeId: ids[0] ?? "", name: "s", accessibilityRequirements: zone("b") };
    const { snapshot } = driver.get("CreateSnapshot", request);
    const volumeContentSource = { snapshot: { snapshotId: snapshot?.snapshotId ?? "" } };
    const { volume } = driver.get("CreateVolume", { name: "two", volumeCapabilities: [writer], volumeContentSource });
    expect(volume?.accessibleTopology).toEqual([{ segments: { zone: "b" } }]);
  });
});
