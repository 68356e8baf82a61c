/** Snapshots that not every place can use (CSI 1.13). */
import { csi113 } from "@holdfast/sim-plugin/backend/capabilities";
import { afterEach, describe, expect, it } from "vitest";
import {
  createSnapshotWorld,
  type SnapshotWorld,
  simPlugin,
} from "../../../../../test/support/controller/snapshot-world.ts";
import { mayBeMadeFor } from "../../domain/claim/early-claims.ts";
import { askOf } from "../../domain/placement/placement-ask.ts";
import { readCut } from "../../domain/snapshot/snapshot-answer.ts";

let world: SnapshotWorld;

const places = [{ zone: "a" }, { zone: "b" }];
/** `tells`: the plugin announces SNAPSHOT_ACCESSIBILITY_CONSTRAINTS; `takes`: VOLUME_ACCESSIBILITY_CONSTRAINTS. */
const open = async (tells: "yes" | "no" = "yes", takes: "yes" | "no" = "yes") => {
  const nodes = { "node-a": { topology: { zone: "a" } }, "node-b": { topology: { zone: "b" } } };
  const capabilities = tells === "yes" ? { capabilities: csi113 } : {};
  world = await createSnapshotWorld({ storage: { ...capabilities, nodes }, places });
  world.setFacts((facts) => ({
    ...facts,
    plugin: {
      ...facts.plugin,
      VOLUME_ACCESSIBILITY_CONSTRAINTS: takes,
      SNAPSHOT_ACCESSIBILITY_CONSTRAINTS: tells,
    },
  }));
  await world.makeVolume("data");
};
const from = (id: string) => ({
  contentSource: { kind: "snapshot" as const, id },
  capacity: { required: 0, limit: 0 },
});
const asked = (method: string) =>
  world.backend
    .record()
    .filter((call) => call.method === method)
    .map(({ request }) => Reflect.get(request as object, "accessibilityRequirements"));

afterEach(async () => {
  expect(world.backend.violations()).toEqual([]);
  await world.close();
});

describe("[C79] a snapshot that was asked for in a place", () => {
  it("is asked for in the same words each time, and says where it can be used", async () => {
    await open();
    const cut = await world.snapshot("s1", "data", { topology: [{ zone: "b" }] });
    expect(cut).toMatchObject({ state: "READY", askedPlaces: [{ zone: "b" }], usableFrom: [{ zone: "b" }] });
    const requirement = { requisite: [{ segments: { zone: "b" } }], preferred: [] };
    expect(asked("CreateSnapshot")).toEqual([requirement]);
    await world.snapshot("s1", "data", { topology: [{ zone: "b" }] });
    await expect(world.snapshot("s1", "data", { topology: [{ zone: "a" }] })).rejects.toMatchObject({
      reason: "SNAPSHOT_EXISTS",
    });
    expect(asked("CreateSnapshot")).toHaveLength(1);
  });

  it("needs a plugin that takes places, and keys that it reports for nodes", async () => {
    await open();
    await expect(world.snapshot("s1", "data", { topology: [{ rack: "1" }] })).rejects.toMatchObject({
      violations: [{ field: "topology[0].segments", description: expect.stringContaining("rack is no key") }],
    });
    await world.close();
    await open("no");
    await expect(world.snapshot("s1", "data", { topology: [{ zone: "a" }] })).rejects.toMatchObject({
      reason: "CAPABILITY_MISMATCH",
      metadata: expect.objectContaining({ field: "topology" }),
    });
    expect(world.calls("CreateSnapshot")).toEqual([]);
    expect((await world.snapshot("s2", "data")).state).toBe("READY");
  });

  it("and that cannot be used there is no success", async () => {
    await open();
    const cut = await world.snapshot("s1", "data", { topology: [{ zone: "b" }] });
    const made = {
      externalId: cut.externalId,
      externalVolumeId: cut.kind === "snapshot" ? cut.externalVolumeId : "",
      externalGroupId: "",
      sizeBytes: 1,
      cutAt: 1,
      ready: true,
      usableFrom: [{ zone: "a" }],
    };
    const answer = { externalId: cut.externalId, cutAt: 1, ready: true, pluginVersion: "1", snapshots: [made] };
    expect(readCut(cut, answer)).toEqual({
      kind: "contradicts",
      because: "answered with a snapshot that cannot be used where it was asked for: zone is to be b and is a",
    });
  });
});

describe("[C80] a volume from a snapshot that one place can use", () => {
  it("is made there when nobody says where, and in what both want", async () => {
    await open();
    await world.snapshot("s1", "data", { topology: [{ zone: "b" }] });
    const free = await world.makeVolume("free", from("s1"));
    expect(free.topology.accessible).toEqual([{ zone: "b" }]);
    const both = await world.makeVolume("both", { ...from("s1"), topology: { required: places, preferred: [] } });
    expect(both.topology.accessible).toEqual([{ zone: "b" }]);
    expect(asked("CreateVolume").slice(1)).toEqual([
      { requisite: [{ segments: { zone: "b" } }], preferred: [] },
      { requisite: [{ segments: { zone: "b" } }], preferred: [] },
    ]);
  });

  it("is refused before any call where the snapshot cannot be used, with the keys", async () => {
    await open();
    await world.snapshot("s1", "data", { topology: [{ zone: "b" }] });
    const wrong = { ...from("s1"), topology: { required: [{ zone: "a" }], preferred: [] } };
    await expect(world.makeVolume("far", wrong)).rejects.toMatchObject({
      reason: "TOPOLOGY_MISMATCH",
      message: expect.stringContaining("zone is to be a and is b"),
    });
    expect(world.calls("CreateVolume")).toHaveLength(1);
    expect(await world.volumeNow("far")).toBeUndefined();
  });

  it("waits for a first claim from there, and CheckPlacement says so", async () => {
    await open();
    await world.snapshot("s1", "data", { topology: [{ zone: "b" }] });
    const late = await world.makeVolume("late", { ...from("s1"), lateBinding: true });
    expect(places.map((place) => mayBeMadeFor(late, place))).toEqual([false, true]);
    const claim = { ref: late, alias: "late", capability: undefined, readOnly: false };
    const { accessible } = askOf(claim, late, "web", new Set());
    expect(accessible.map((place) => Object.fromEntries(place))).toEqual([{ zone: "b" }]);
  });

  it("is made without a word of places by a plugin that takes none for volumes", async () => {
    await open("yes", "no");
    const cut = await world.snapshot("s1", "data");
    expect(cut).toHaveProperty("usableFrom");
    const free = await world.makeVolume("free", from("s1"));
    expect([free.state, free.source?.externalId]).toEqual(["AVAILABLE", cut.externalId]);
    expect(asked("CreateVolume")).toEqual([undefined, undefined]);
    // Its nodes have no places: none of them is out of reach.
    const late = await world.makeVolume("late", { ...from("s1"), lateBinding: true });
    expect(mayBeMadeFor(late, {})).toBe(true);
    // A place that somebody asks for is not left out in silence.
    const placed = await world.makeVolume("placed", { ...from("s1"), topology: { required: places, preferred: [] } });
    expect(placed.state).toBe("FAILED");
    expect(placed.failure?.message).toContain("VOLUME_ACCESSIBILITY_CONSTRAINTS");
  });

  it("is made anywhere when the plugin does not announce that places matter", async () => {
    await open("no");
    const cut = await world.snapshot("s1", "data");
    expect(cut).not.toHaveProperty("usableFrom");
    expect((await world.makeVolume("free", from("s1"))).state).toBe("AVAILABLE");
    expect(simPlugin).toBe(cut.plugin);
  });
});
