import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { caller, capability, createWorld, type World } from "../../../../../test/support/controller/world.ts";
import type { VolumeUpdate } from "../../domain/volume/volume-update.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld();
});

afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const ref = { namespace: "default", id: "data" };
const { signal } = new AbortController();

const update = (parts: VolumeUpdate, expectedRevision = 0) =>
  world.commands.updateVolume({ ...ref, update: parts, expectedRevision }, { who: "ops", why: "ticket" }, signal);

const deregister = (id = "data", uid = "") =>
  world.commands.deregisterVolume({ namespace: "default", id, uid, requestId: "" }, caller);

const remove = () => world.commands.deleteVolume({ ...ref, uid: "", requestId: "" }, caller);

const many = capability("MULTI_NODE_MULTI_WRITER");
const retain = { reclaim: "retain", nodeLoss: "fence", requiresRepublish: true, identityTokens: [] } as const;

describe("UpdateVolume", () => {
  it("replaces the whole of what it names, leaves the rest alone, and says who did it", async () => {
    await world.makeVolume("data", { labels: { a: "1", b: "2" }, secretRefs: { create: "env:A" } });
    const { volume } = await update({ labels: { c: "3" }, policy: retain });
    expect(volume).toMatchObject({ policy: retain, secretRefs: { create: "env:A" }, state: "AVAILABLE" });
    expect(volume.labels).toEqual({ c: "3" });
    expect(volume.changedBy).toEqual({ who: "ops", why: "ticket" });
    expect(world.backend.calls.filter((call) => !call.startsWith("create"))).toEqual([]);
  });

  it("a policy without a word on reclaiming is that of how the volume came about", async () => {
    await world.makeVolume("data", { policy: retain });
    const { volume } = await update({ policy: { ...retain, reclaim: undefined } });
    expect(volume.policy.reclaim).toBe("delete");
  });

  it("is the same twice, and also with its answer lost, whatever revision was expected", async () => {
    await world.makeVolume("data");
    const before = await world.commands.getVolume(ref);
    world.store.loseCommits("after");
    await update({ labels: { a: "1" } }, before.rev);
    const commits = world.store.commits();
    const again = await update({ labels: { a: "1" } }, before.rev);
    expect(again.volume.labels).toEqual({ a: "1" });
    expect(world.store.commits()).toBe(commits);
    await expect(update({ labels: { a: "2" } }, before.rev)).rejects.toMatchObject({
      kind: "aborted",
      reason: "REVISION_CONFLICT",
      metadata: { volume: "data", revision: String(again.rev) },
    });
    expect((await update({ labels: { a: "2" } }, again.rev)).volume.labels).toEqual({ a: "2" });
  });

  it("asks the plugin about new capabilities, and promises none that it denies", async () => {
    await world.makeVolume("data");
    world.backend.script("validate", { kind: "refused", advice: "fail", code: "CAPABILITY_MISMATCH" });
    await expect(update({ capabilities: [capability(), many] })).rejects.toMatchObject({
      reason: "CAPABILITY_MISMATCH",
    });
    world.backend.script("validate", { kind: "dropped" });
    await expect(update({ capabilities: [capability(), many] })).rejects.toMatchObject({ reason: "PLUGIN_NOT_READY" });
    expect((await world.volume("data")).capabilities).toEqual([capability()]);
    const { volume } = await update({ capabilities: [capability(), many] });
    expect(volume.capabilities).toEqual([capability(), many]);
    // What goes, and what is known, is asked of nobody.
    const asked = world.backend.calls.length;
    await update({ capabilities: [many] });
    expect(world.backend.calls).toHaveLength(asked);
  });

  it("takes no capability away that a claim has or waits for", async () => {
    await world.makeVolume("data", { capabilities: [capability(), many] });
    const wanted = (workload: string, node: string, mode: typeof many) =>
      world.claim(workload, node, [], {
        claims: [{ volume: "data", alias: "", capability: mode, readOnly: false }],
        queue: { enabled: true, deadlineMs: undefined },
      });
    await wanted("web", "n1", capability());
    await wanted("waits", "n2", many);
    await world.idle();
    expect(await world.states("waits")).toEqual(["QUEUED"]);
    for (const [capabilities, holder] of [
      [[many], "web"],
      [[capability()], "waits"],
    ] as const)
      await expect(update({ capabilities })).rejects.toMatchObject({
        reason: "VOLUME_IN_USE",
        metadata: { holder_workload: holder },
      });
    await world.release("waits");
    expect((await update({ capabilities: [capability()] })).volume.capabilities).toEqual([capability()]);
  });

  it("new secrets end the pause of a call that waits for better ones", async () => {
    world.backend.script("create", { kind: "refused", advice: "block", code: "UNAUTHENTICATED" });
    await world.makeVolume("data");
    expect(await world.volume("data")).toMatchObject({ state: "CREATING", blocked: { reason: "CREDENTIALS_REFUSED" } });
    await update({ secretRefs: { create: "env:BETTER" } });
    await world.idle();
    const volume = await world.volume("data");
    expect(volume).toMatchObject({ state: "AVAILABLE", secretRefs: { create: "env:BETTER" } });
    expect(volume).not.toHaveProperty("blocked");
  });

  it("decides nothing more about a volume that is being deleted, but its secrets", async () => {
    world.backend.script("delete", { kind: "dropped" });
    await world.makeVolume("data");
    await remove();
    await world.idle();
    await expect(update({ policy: retain })).rejects.toMatchObject({ reason: "VOLUME_NOT_AVAILABLE" });
    expect((await update({ secretRefs: { delete: "env:D" } })).volume.secretRefs).toEqual({ delete: "env:D" });
  });

  it("collects every violation", async () => {
    const bad = world.commands.updateVolume(
      {
        namespace: "-",
        id: "..",
        expectedRevision: -1,
        update: { labels: { "": "x" }, secretRefs: { create: "hunter2" }, capabilities: [] },
      },
      caller,
      signal,
    );
    await expect(bad).rejects.toMatchObject({
      violations: [
        { field: "namespace" },
        { field: "id" },
        { field: "expected_revision" },
        { field: "capabilities" },
        { field: "secrets.create.ref" },
        { field: "labels" },
      ],
    });
    await expect(update({ labels: {} })).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
  });
});

describe("DeregisterVolume", () => {
  it("forgets the volume, keeps its storage whatever the policy says, and names it, also when repeated", async () => {
    const { externalId, plugin, uid } = await world.makeVolume("data");
    expect(await deregister()).toEqual({ plugin, externalId });
    expect(await deregister()).toEqual({ plugin, externalId });
    expect(await deregister("data", uid)).toEqual({ plugin, externalId });
    await expect(deregister("data", "another-life")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
    await expect(deregister("never")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
    await world.pass(120_000);
    expect(world.backend.volumes()).toEqual([externalId]);
    expect(world.backend.calls.some((call) => call.startsWith("delete"))).toBe(false);
  });

  it("is refused while anybody uses it", async () => {
    await world.makeVolume("data");
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    await expect(deregister()).rejects.toMatchObject({
      reason: "VOLUME_IN_USE",
      metadata: { holder_workload: "web", holder_node: "n1" },
    });
    await world.release("web");
    await world.idle();
    await deregister();
  });

  it("is refused while a call is or may be under way whose outcome the record alone can learn", async () => {
    world.backend.script("create", { kind: "dropped" });
    await world.makeVolume("data");
    await expect(deregister()).rejects.toMatchObject({ reason: "VOLUME_BUSY", metadata: { operation: "create" } });
    await world.pass(60_000);
    world.backend.script("delete", { kind: "dropped" });
    await remove();
    await world.idle();
    await expect(deregister()).rejects.toMatchObject({ reason: "VOLUME_BUSY", metadata: { operation: "delete" } });
    await world.pass(60_000);
    // Gone for good: nothing is left behind.
    expect(await deregister()).toMatchObject({ externalId: "" });
  });
});
