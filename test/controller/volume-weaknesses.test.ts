/** Weaknesses of another CSI client in making, changing and removing volumes: each is shown to be impossible here. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { caller, capability, createWorld, volumeInput, type World } from "../support/controller/world.ts";

let world: World;
beforeEach(async () => {
  world = await createWorld();
});
afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const remove = (id: string) =>
  world.commands.deleteVolume({ namespace: "default", id, uid: "", requestId: "" }, caller);

describe("a volume", () => {
  test("W26 has the times of its making, of its last change and of its state, by one clock, and nothing goes by its age", async () => {
    const volume = await world.makeVolume("v");
    expect([volume.createdAt, volume.updatedAt, volume.stateSince].every((at) => at > 0)).toBe(true);
    await world.clock.advance(1_000);
    await world.claim("web", "n1", ["v"]);
    await world.idle();
    const claimed = await world.volume("v");
    expect(claimed.createdAt).toBe(volume.createdAt);
    expect(claimed.updatedAt).toBe(world.clock.now());
    await world.pass(6 * 3_600_000, 3_600_000);
    expect((await world.volume("v")).uid).toBe(volume.uid);
  });

  test("W27 what is gone already is OK for a deletion, by the code and by the record", async () => {
    await world.makeVolume("v");
    world.backend.script("delete", { kind: "lost" });
    await remove("v");
    await world.pass(60_000);
    expect(world.backend.volumes()).toEqual([]);
    expect(await remove("v")).toBeUndefined();
  });

  test("W28 that is used is refused before anything is called, and one that is being deleted takes no claim", async () => {
    await world.makeVolume("v");
    await world.claim("web", "n1", ["v"]);
    await world.idle();
    await expect(remove("v")).rejects.toMatchObject({ reason: "VOLUME_IN_USE" });
    expect(world.backend.calls.some((call) => call.startsWith("delete"))).toBe(false);
    await world.release("web");
    await world.idle();
    world.backend.script("delete", { kind: "dropped" });
    await remove("v");
    await expect(world.claim("late", "n1", ["v"])).rejects.toMatchObject({ reason: "VOLUME_NOT_AVAILABLE" });
    await world.pass(60_000);
    await expect(world.volume("v")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
    expect(world.backend.volumes()).toEqual([]);
  });

  test("W29 whose controller dies at any point of its making is made once and known", async () => {
    for (const [n, point] of (["controller.create.after-commit", "controller.create.after-call"] as const).entries()) {
      world.killAt(point);
      await world.commands.createVolume(volumeInput(`v${n}`), caller);
      await world.clock.advance(0);
      await world.restart();
      await world.pass(60_000);
      expect((await world.volume(`v${n}`)).state).toBe("AVAILABLE");
    }
    expect(world.backend.volumes()).toHaveLength(2);
  });

  test("W33 is published with the very flags that its capability was made and validated with", async () => {
    const flags = { ...capability("SINGLE_NODE_WRITER"), mountFlags: ["noatime"] };
    await world.makeVolume("v", { capabilities: [flags] });
    await world.claim("web", "n1", ["v"]);
    await world.idle();
    expect((await world.volume("v")).attachments["n1"]?.mountFlags).toEqual(["noatime"]);
    const other = { ...flags, mountFlags: ["noexec"] };
    await expect(
      world.claim("db", "n1", [], { claims: [{ volume: "v", alias: "", capability: other, readOnly: false }] }),
    ).rejects.toMatchObject({ reason: "CAPABILITY_MISMATCH" });
  });

  test("W34 keeps exactly the places that the plugin told, none empty", async () => {
    const volume = await world.makeVolume("v", {
      topology: { required: [{ zone: "a" }, { zone: "b" }], preferred: [{ zone: "a" }] },
    });
    for (const segments of volume.topology.accessible) expect(Object.keys(segments)).not.toEqual([]);
    expect(volume.topology.required).toEqual([{ zone: "a" }, { zone: "b" }]);
  });

  test("W35 is called by the plugin's own id for it everywhere, and is not AVAILABLE without one", async () => {
    const { externalId } = await world.makeVolume("v");
    expect(externalId).not.toBe("");
    await world.claim("web", "n1", ["v"]);
    await world.idle();
    await world.release("web");
    await world.idle();
    await remove("v");
    await world.idle();
    const [, ...rest] = world.backend.calls;
    expect(rest.every((call) => call.includes(externalId))).toBe(true);
  });
});

test("W37 a page never drops what it has read: every volume is on one page, whatever the size of pages", async () => {
  for (let n = 0; n < 7; n += 1) await world.makeVolume(`v${n}`);
  const filter = { namespace: "", plugin: "", node: "", states: [], blocked: false, labels: {}, idPrefix: "" } as const;
  for (const size of [1, 2, 3, 500]) {
    const seen: string[] = [];
    let after: string | undefined;
    do {
      const page = await world.commands.listVolumes(filter, { size, after });
      seen.push(...page.items.map(({ volume }) => volume.id));
      after = page.next;
    } while (after !== undefined);
    expect(seen).toEqual(["v0", "v1", "v2", "v3", "v4", "v5", "v6"]);
  }
});
