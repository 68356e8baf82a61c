import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { caller, createWorld, volumeInput, type World } from "../../../../../test/support/controller/world.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld();
});

afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const minute = 60_000;

const modify = async (mutableParameters: Readonly<Record<string, string>>) => {
  const view = await world.commands.modifyVolume(
    { namespace: "default", id: "data", mutableParameters, requestId: "" },
    caller,
  );
  return view.volume;
};
const made = () => world.makeVolume("data", { mutableParameters: { tier: "bronze", iops: "100" } });
const calls = () =>
  world.backend.calls.filter((c) => c.startsWith("modify ")).map((c) => c.split(" ").slice(2).join(" "));

describe("[C62] [O59] parameters that change", () => {
  it("are sent alone: the keys that differ, and the record follows the answer", async () => {
    const { externalId } = await made();
    const asked = await modify({ tier: "gold", iops: "100" });
    expect(asked.modification).toMatchObject({ state: "CALLING", target: { tier: "gold" } });
    expect(asked.mutableParameters).toEqual({ tier: "bronze", iops: "100" });
    await world.idle();
    const after = await world.volume("data");
    expect(calls()).toEqual(['{"tier":"gold"}']);
    expect(after.mutableParameters).toEqual({ tier: "gold", iops: "100" });
    expect(after.modification).toBeUndefined();
    expect(after.intent).toBeUndefined();
    expect(world.backend.parameters(externalId)).toEqual({ tier: "gold" });
  });

  it("asked for twice, or set already, are sent once and stored once", async () => {
    await made();
    await modify({ tier: "gold" });
    await modify({ tier: "gold" });
    await world.idle();
    const before = world.store.commits();
    await modify({ tier: "gold", iops: "100" });
    await world.idle();
    expect(calls()).toHaveLength(1);
    expect(world.store.commits()).toBe(before);
  });

  it.each(["lost", "dropped"] as const)(
    "whose answer is %s are sent again, the same, until it is known; meanwhile the target is frozen",
    async (kind) => {
      await made();
      world.backend.script("modify", { kind }, { kind });
      await modify({ tier: "gold" });
      await world.idle();
      expect((await world.volume("data")).modification).toMatchObject({ state: "UNCERTAIN" });
      await expect(modify({ tier: "silver" })).rejects.toMatchObject({ kind: "aborted", reason: "VOLUME_BUSY" });
      await expect(modify({ iops: "1" })).rejects.toMatchObject({ reason: "VOLUME_BUSY" });
      await modify({ tier: "gold" });
      await world.pass(minute);
      expect(calls()).toEqual(['{"tier":"gold"}', '{"tier":"gold"}', '{"tier":"gold"}']);
      expect((await world.volume("data")).mutableParameters["tier"]).toBe("gold");
      await modify({ tier: "silver" });
      await world.idle();
      expect((await world.volume("data")).mutableParameters["tier"]).toBe("silver");
    },
  );

  it("wait for nobody when nothing was called yet: the last wish counts, and none at all ends it", async () => {
    await made();
    world.backend.setFacts({ modifiesVolumes: "unknown" });
    await modify({ tier: "gold" });
    expect((await modify({ tier: "silver", iops: "200" })).modification?.target).toEqual({
      tier: "silver",
      iops: "200",
    });
    expect((await modify({ tier: "bronze", iops: "100" })).modification).toBeUndefined();
    await modify({ iops: "300" });
    world.backend.setFacts({ modifiesVolumes: "yes" });
    await world.idle();
    expect(calls()).toEqual(['{"iops":"300"}']);
  });

  it("that are refused leave the volume as it was, with the reason", async () => {
    await made();
    world.backend.script("modify", { kind: "refused", advice: "fail", code: "INVALID_ARGUMENT" });
    await modify({ tier: "platinum" });
    await world.idle();
    const volume = await world.volume("data");
    expect(volume.mutableParameters).toEqual({ tier: "bronze", iops: "100" });
    expect(volume.modification).toMatchObject({ state: "REFUSED", failure: { reason: "INVALID_ARGUMENT" } });
    expect(volume.intent).toBeUndefined();
    await world.pass(10 * minute);
    expect(calls()).toHaveLength(1);
    await modify({ tier: "gold" });
    await world.idle();
    expect((await world.volume("data")).modification).toBeUndefined();
  });

  it("refused after an answer that was lost stay owed, blocked; only values for every key in doubt replace them", async () => {
    await made();
    world.backend.script("modify", { kind: "lost" }, { kind: "refused", advice: "fail", code: "INVALID_ARGUMENT" });
    await modify({ tier: "gold", iops: "200" });
    await world.pass(3_000);
    expect((await world.volume("data")).modification).toMatchObject({
      state: "UNCERTAIN",
      blocked: { reason: "MODIFY_UNCERTAIN" },
    });
    await expect(modify({ tier: "silver" })).rejects.toMatchObject({ reason: "VOLUME_BUSY" });
    // Back to what the record says: sent all the same, because nobody knows what is set.
    await modify({ tier: "bronze", iops: "100" });
    await world.idle();
    const volume = await world.volume("data");
    expect(calls().at(-1)).toBe('{"tier":"bronze","iops":"100"}');
    expect(volume.modification).toBeUndefined();
    expect(world.backend.parameters(volume.externalId)).toEqual({ tier: "bronze", iops: "100" });
  });

  it("of a plugin without MODIFY_VOLUME are refused, and nothing is written", async () => {
    await made();
    world.backend.setFacts({ modifiesVolumes: "no" });
    const before = world.store.commits();
    await expect(modify({ tier: "gold" })).rejects.toMatchObject({ reason: "CAPABILITY_MISMATCH" });
    expect(world.store.commits()).toBe(before);
  });

  it("have to fit with those that are set", async () => {
    await world.makeVolume("data", { mutableParameters: { a: "x".repeat(3_000) } });
    await expect(modify({ b: "x".repeat(2_000) })).rejects.toMatchObject({ reason: "INVALID_ARGUMENT" });
  });

  it("and a size and a claim at the same time take turns: never two calls at once", async () => {
    await made();
    await Promise.all([
      modify({ tier: "gold" }),
      world.commands.expandVolume(
        { namespace: "default", id: "data", capacity: { required: 2_000_000, limit: 0 }, requestId: "" },
        caller,
      ),
      world.claim("one", "n1", ["data"], { queue: { enabled: true, deadlineMs: undefined } }),
    ]);
    await world.pass(minute);
    const volume = await world.volume("data");
    expect(volume.mutableParameters["tier"]).toBe("gold");
    expect(volume.capacity.actual).toBe(2_000_000);
    expect(volume.growth).toBeUndefined();
    expect(await world.states("one")).toEqual(["ACTIVE"]);
  });

  it("of a volume that is not there to stay are refused", async () => {
    world.backend.setFacts({ ready: false });
    await world.commands.createVolume(volumeInput("data"), caller);
    await expect(modify({ tier: "gold" })).rejects.toMatchObject({ reason: "VOLUME_NOT_AVAILABLE" });
  });
});

describe("what is blocked and asked for again", () => {
  it("is tried at once", async () => {
    await made();
    world.backend.script("modify", { kind: "refused", advice: "block", code: "NOT_FOUND" });
    await modify({ tier: "gold" });
    await world.idle();
    expect((await world.volume("data")).modification?.blocked).toMatchObject({ reason: "NOT_AT_BACKEND" });
    expect(calls()).toHaveLength(1);
    await modify({ tier: "gold" });
    await world.idle();
    expect((await world.volume("data")).mutableParameters["tier"]).toBe("gold");
  });

  it.each(["modify", "expand"] as const)(
    "[I6] %s: a volume that goes takes what was wanted of it along",
    async (op) => {
      const { externalId } = await made();
      world.backend.script(op, { kind: "refused", advice: "block", code: "NOT_FOUND" });
      if (op === "modify") await modify({ tier: "gold" });
      else
        await world.commands.expandVolume(
          { namespace: "default", id: "data", capacity: { required: 2_000_000, limit: 0 }, requestId: "" },
          caller,
        );
      await world.idle();
      await world.commands.deleteVolume({ namespace: "default", id: "data", uid: "", requestId: "" }, caller);
      await world.idle();
      expect(world.backend.volumes()).not.toContain(externalId);
      expect(world.reconciler.size()).toBe(0);
    },
  );
});

describe("a plugin that is away", () => {
  it.each(["modify", "expand"] as const)(
    "[I6] keeps no other call of the volume waiting for its %s, unless that may be open",
    async (op) => {
      await made();
      const ask = () =>
        op === "modify"
          ? modify({ tier: "gold" })
          : world.commands
              .expandVolume(
                { namespace: "default", id: "data", capacity: { required: 2_000_000, limit: 0 }, requestId: "" },
                caller,
              )
              .then(({ volume }) => volume);
      world.backend.setFacts({ ready: false });
      expect((await ask()).intent).toBeUndefined();
      await world.idle();
      expect((await world.volume("data")).intent).toBeUndefined();
      world.backend.setFacts({ ready: true });
      // It goes away between the intent and the call.
      world.killAt(`controller.${op}.after-commit`);
      world.backend.setFacts({ ready: true });
      await world.idle();
      if (!world.alive) {
        world.backend.setFacts({ ready: false });
        await world.restart();
      }
      await world.pass(2_000);
      // The life before may have sent it: the call may be open, and its intent stays until the plugin has answered.
      const wish = (v: VolumeRecord) => (op === "modify" ? v.modification : v.expansion);
      const waits = await world.volume("data");
      expect(waits.intent).toMatchObject({ op, openSince: expect.any(Number) });
      expect(wish(waits)?.blocked).toMatchObject({
        reason: "CALL_MAY_BE_OPEN",
        clearWith: expect.stringContaining("holdfast repair take-over data --namespace default"),
      });
      world.backend.setFacts({ ready: true });
      await world.pass(minute);
      const volume = await world.volume("data");
      expect(op === "modify" ? volume.mutableParameters["tier"] : volume.capacity.actual).toBe(
        op === "modify" ? "gold" : 2_000_000,
      );
    },
  );
});
