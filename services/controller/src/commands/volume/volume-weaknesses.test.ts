/** Weaknesses of others that concern volumes, each by its name, and what must not happen here. */
import { type Code, codes, verdictOf } from "@holdfast/csi/outcome";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  caller,
  capability,
  createWorld,
  plugin,
  volumeInput,
  type World,
} from "../../../../../test/support/controller/world.ts";
import type { RegisterVolumeInput } from "../model.ts";

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

const registerInput = (change: Partial<RegisterVolumeInput> = {}): RegisterVolumeInput => ({
  ...volumeInput("data", { capacity: { required: 0, limit: 0 } }),
  externalId: "disk-7",
  context: {},
  accessible: [],
  ...change,
});

describe("W26: times are the server's, on every write", () => {
  it("and every change moves them", async () => {
    await world.clock.advance(5_000);
    const made = await world.makeVolume("data");
    expect(made).toMatchObject({ createdAt: world.clock.now(), updatedAt: world.clock.now() });
    await world.clock.advance(7_000);
    const { volume } = await world.commands.updateVolume(
      { namespace: "default", id: "data", expectedRevision: 0, update: { labels: { a: "1" } } },
      caller,
      new AbortController().signal,
    );
    expect(volume.updatedAt).toBe(made.updatedAt + 7_000);
    expect(volume.createdAt).toBe(made.createdAt);
    world.backend.keep("theirs", "disk-7");
    const { volume: registered } = await world.commands.registerVolume(registerInput({ id: "other" }), caller);
    expect(registered.createdAt).toBe(world.clock.now());
  });
});

describe("W28: nothing is destroyed before it is known that nobody uses it", () => {
  it("a volume in use is refused before any call, and stays as it was", async () => {
    await world.makeVolume("data");
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    await expect(remove("data")).rejects.toMatchObject({ reason: "VOLUME_IN_USE" });
    expect(world.backend.calls.some((call) => call.startsWith("delete"))).toBe(false);
    expect(await world.volume("data")).toMatchObject({ state: "AVAILABLE", goal: "present" });
  });

  it("a claim cannot slip in once the deletion has begun, and a deletion that was cut off goes on", async () => {
    await world.makeVolume("data");
    world.killAt("controller.delete.after-commit");
    await remove("data");
    await world.idle();
    expect(world.alive).toBe(false);
    await world.restart();
    await expect(world.claim("web", "n1", ["data"])).rejects.toThrow();
    await world.pass(60_000);
    expect(world.backend.volumes()).toEqual([]);
    await expect(world.volume("data")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
  });

  it("X33: a wrong id is refused before anything else, and the plugin is never called", async () => {
    await expect(remove("bad")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND", metadata: { volume: "bad" } });
    expect(world.backend.calls).toEqual([]);
  });
});

describe("W29: a volume is on record before it is made", () => {
  it.each(["controller.create.after-commit", "controller.create.after-call"] as const)(
    "C30: a controller that dies at %s leaves no storage that nobody knows of, also when it is not wanted any more",
    async (point) => {
      world.killAt(point);
      await world.commands.createVolume(volumeInput("data"), caller);
      await world.idle();
      expect(world.alive).toBe(false);
      await world.restart();
      await remove("data").catch(() => undefined);
      await world.pass(120_000);
      expect(world.backend.volumes()).toEqual([]);
      await expect(world.volume("data")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
    },
  );

  it("C14: every repeat has the name of the first, which no control character is in", async () => {
    world.backend.script("create", { kind: "lost" }, { kind: "dropped" });
    await world.makeVolume("data");
    await world.pass(60_000);
    const names = world.backend.calls.map((call) => call.split(" ")[1]);
    expect(names).toHaveLength(3);
    expect(new Set(names).size).toBe(1);
    expect(names[0]).toMatch(/^[a-z0-9-]+$/);
  });
});

describe("W35: a volume is known to its plugin by one id, always", () => {
  it("which a registration must give, and each call uses", async () => {
    await expect(world.commands.registerVolume(registerInput({ externalId: "" }), caller)).rejects.toMatchObject({
      violations: [{ field: "external_id" }],
    });
    world.backend.keep("theirs", "disk-7");
    await world.commands.registerVolume(
      registerInput({ policy: { reclaim: "delete", nodeLoss: "wait", requiresRepublish: false, identityTokens: [] } }),
      caller,
    );
    await world.idle();
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    await world.release("web");
    await world.idle();
    await remove("data");
    await world.idle();
    expect(world.backend.calls).toEqual([
      "validate disk-7",
      "publish disk-7@n1",
      "unpublish disk-7@n1",
      "delete disk-7",
    ]);
  });
});

describe("W52: modes are those that the volume was registered with", () => {
  it("and a claim cannot bring another one", async () => {
    world.backend.keep("theirs", "disk-7");
    await world.commands.registerVolume(registerInput(), caller);
    await world.idle();
    const other = world.claim("web", "n1", [], {
      claims: [{ volume: "data", alias: "", capability: capability("MULTI_NODE_MULTI_WRITER"), readOnly: false }],
    });
    await expect(other).rejects.toMatchObject({ reason: "CAPABILITY_MISMATCH", metadata: { field: "access_mode" } });
  });
});

describe("C27: each code of gRPC leads to a state that is told", () => {
  const failing = codes.filter((code) => code !== "OK");
  const fault = (kind: "create" | "read" | "delete", code: Code) => {
    const { outcome, then: next } = verdictOf(kind, code);
    return { kind: outcome as "refused" | "unknown", advice: next === "continue" ? "again" : next, code } as const;
  };

  /** Many answers of one kind: what is told then is how it stays until somebody acts or the plugin does. */
  const told = async (): Promise<string> => {
    const { state, blocked, attempts } = await world.volume("data");
    if (state === "AVAILABLE") return state;
    return `${state}${blocked === undefined ? "" : " blocked"}${attempts.lastError === undefined ? "" : " with the reason"}`;
  };

  /** The time of a call that is still open passes again and again. */
  const hangs = (code: Code): boolean => code === "DEADLINE_EXCEEDED";

  it.each(failing)("%s to CreateVolume", async (code) => {
    world.backend.chance((method) => (method === "create" ? fault("create", code) : undefined));
    await world.commands.createVolume(volumeInput("data"), caller);
    await world.pass(120_000, 10_000);
    const { outcome, then: next } = verdictOf("create", code);
    const final = outcome === "refused" && next === "fail";
    expect(await told()).toBe(
      final ? "FAILED with the reason" : `CREATING${next === "block" || hangs(code) ? " blocked" : ""} with the reason`,
    );
    // No hot loop: pauses grow, and what was refused for good is not asked again (C25, C26).
    expect(world.backend.calls.length).toBeLessThan(final ? 2 : 30);
    world.backend.chance(undefined);
    await world.pass(120_000, 10_000);
    if (!final) expect(await told()).toBe("AVAILABLE");
    await remove("data");
    await world.pass(120_000, 10_000);
    expect(world.backend.volumes()).toEqual([]);
  });

  it.each(failing)("%s to DeleteVolume", async (code) => {
    await world.makeVolume("data");
    world.backend.chance((method) => (method === "delete" ? fault("delete", code) : undefined));
    const { outcome, then: next } = verdictOf("delete", code);
    // NOT_FOUND means that there is nothing left to delete: the fake backend would have answered OK.
    if (outcome === "done") return;
    await remove("data");
    await world.pass(120_000, 10_000);
    expect(await told()).toBe(`DELETING${next === "block" || hangs(code) ? " blocked" : ""} with the reason`);
    expect(world.backend.calls.length).toBeLessThan(30);
    world.backend.chance(undefined);
    await world.pass(240_000, 10_000);
    expect(world.backend.volumes()).toEqual([]);
    await expect(world.volume("data")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
  });
});

describe("X32, ours: what the plugin answered is kept beside what was asked for, and neither overwrites the other", () => {
  it("of a registered volume the caller's context and places stand", async () => {
    world.backend.keep("theirs", "disk-7");
    await world.commands.registerVolume(
      registerInput({ context: { share: "x" }, accessible: [{ zone: "a" }], plugin }),
      caller,
    );
    await world.idle();
    expect(await world.volume("data")).toMatchObject({
      context: { share: "x" },
      topology: { required: [], accessible: [{ zone: "a" }] },
    });
  });
});
