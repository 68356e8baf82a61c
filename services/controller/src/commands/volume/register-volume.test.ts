import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { caller, capability, createWorld, plugin, type World } from "../../../../../test/support/controller/world.ts";
import { deleteMarkRef } from "../../records/volume/volume-codec.ts";
import type { RegisterVolumeInput } from "../model.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld();
});

afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const input = (id: string, change: Partial<RegisterVolumeInput> = {}): RegisterVolumeInput => ({
  namespace: "default",
  id,
  plugin,
  externalId: "disk-7",
  capacity: { required: 0, limit: 0 },
  capabilities: [capability()],
  context: {},
  parameters: {},
  mutableParameters: {},
  accessible: [],
  secretRefs: {},
  labels: {},
  policy: { reclaim: "retain", nodeLoss: "wait", requiresRepublish: false, identityTokens: [] },
  requestId: "",
  ...change,
});

const register = (id: string, change: Partial<RegisterVolumeInput> = {}) =>
  world.commands.registerVolume(input(id, change), caller);

const registered = async (id: string, change: Partial<RegisterVolumeInput> = {}) => {
  await register(id, change);
  await world.idle();
  return await world.volume(id);
};

const remove = (id: string) =>
  world.commands.deleteVolume({ namespace: "default", id, uid: "", requestId: "" }, caller);

describe("RegisterVolume", () => {
  it("[I4] stores the record, asks the plugin once and makes nothing", async () => {
    world.backend.keep("theirs", "disk-7");
    const first = await register("data");
    expect(first.volume).toMatchObject({
      state: "CREATING",
      name: "",
      externalId: "disk-7",
      intent: { op: "validate" },
    });
    await world.idle();
    expect(await world.volume("data")).toMatchObject({
      state: "AVAILABLE",
      externalId: "disk-7",
      pluginVersion: "1.0.0",
      policy: { reclaim: "retain" },
    });
    expect(await world.volume("data")).not.toHaveProperty("intent");
    expect(world.backend.calls).toEqual(["validate disk-7"]);
  });

  it("gives the volume to a workload like any other, and deleting it keeps the storage", async () => {
    world.backend.keep("theirs", "disk-7");
    await registered("data");
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    await world.release("web");
    await world.idle();
    expect(await remove("data")).toBeUndefined();
    expect(world.backend.volumes()).toEqual(["disk-7"]);
    expect(world.backend.calls.some((call) => call.startsWith("delete"))).toBe(false);
  });

  it("answers the same volume to the same content, and names the field that differs", async () => {
    world.backend.keep("theirs", "disk-7");
    const { uid } = await registered("data");
    expect((await register("data", { requestId: "again" })).volume.uid).toBe(uid);
    const differing = [
      [{ externalId: "disk-8" }, "external_id"],
      [{ capabilities: [capability("MULTI_NODE_MULTI_WRITER")] }, "capabilities"],
      [{ context: { share: "x" } }, "context"],
      [{ accessible: [{ zone: "a" }] }, "accessible_topology"],
    ] as const;
    for (const [change, field] of differing)
      await expect(register("data", change)).rejects.toMatchObject({ reason: "VOLUME_EXISTS", metadata: { field } });
  });

  it("knows the request again after the volume was changed", async () => {
    world.backend.keep("theirs", "disk-7");
    const { uid } = await registered("data");
    await world.commands.updateVolume(
      { namespace: "default", id: "data", expectedRevision: 0, update: { labels: { a: "1" } } },
      caller,
      new AbortController().signal,
    );
    expect((await register("data")).volume.uid).toBe(uid);
  });

  it("keeps one record for one storage, and says whose it is", async () => {
    world.backend.keep("theirs", "disk-7");
    await registered("data");
    await expect(register("other")).rejects.toMatchObject({
      kind: "already_exists",
      reason: "VOLUME_EXISTS",
      metadata: { namespace: "default", volume: "data", field: "external_id" },
    });
    const made = await world.makeVolume("made");
    await expect(register("third", { externalId: made.externalId })).rejects.toMatchObject({
      reason: "VOLUME_EXISTS",
      metadata: { volume: "made" },
    });
    // Once nobody stands for it, it may be registered again.
    await remove("data");
    expect(await registered("other")).toMatchObject({ state: "AVAILABLE" });
  });

  it("gives the storage to one of many that ask for it at once", async () => {
    world.backend.keep("theirs", "disk-7");
    const answers = await Promise.allSettled(Array.from({ length: 12 }, (_, i) => register(`data-${i}`)));
    expect(answers.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    await world.idle();
    expect(world.backend.calls).toEqual(["validate disk-7"]);
  });

  it.each(["before", "after"] as const)("settles a commit whose answer was lost %s it was stored", async (when) => {
    world.backend.keep("theirs", "disk-7");
    world.store.loseCommits(when);
    await register("data");
    await world.pass(1_000, 100);
    expect(await world.volume("data")).toMatchObject({ state: "AVAILABLE" });
    await expect(register("other")).rejects.toMatchObject({ reason: "VOLUME_EXISTS" });
  });

  it("ends FAILED when the plugin knows no such storage, and goes without a call", async () => {
    expect(await registered("data")).toMatchObject({
      state: "FAILED",
      failure: { reason: "EXTERNAL_VOLUME_NOT_FOUND" },
    });
    expect(await remove("data")).toBeUndefined();
    expect(world.backend.calls).toEqual(["validate disk-7"]);
  });

  it("never deletes what it was only asking about, whatever the policy says", async () => {
    world.backend.keep("theirs", "disk-7");
    world.backend.script("validate", { kind: "dropped" });
    const policy = { ...input("data").policy, reclaim: "delete" } as const;
    expect(await registered("data", { policy })).toMatchObject({ state: "CREATING", attempts: { count: 1 } });
    expect(await remove("data")).toBeUndefined();
    await world.pass(60_000);
    expect(world.backend.volumes()).toEqual(["disk-7"]);
    expect(world.backend.calls).toEqual(["validate disk-7"]);
  });

  it("adopted with the policy DELETE, it is Holdfast's to delete", async () => {
    world.backend.keep("theirs", "disk-7");
    await registered("data", { policy: { ...input("data").policy, reclaim: "delete" } });
    await remove("data");
    await world.idle();
    expect(world.backend.volumes()).toEqual([]);
  });

  it("asks again after every answer that was lost, waits for the plugin, and for the store to be vetted", async () => {
    world.backend.keep("theirs", "disk-7");
    world.backend.setFacts({ ready: false });
    await registered("data");
    expect(world.backend.calls).toEqual([]);
    world.gate.set(false);
    world.backend.setFacts({ ready: true });
    await world.idle();
    expect(world.backend.calls).toEqual([]);
    world.backend.script("validate", { kind: "lost" }, { kind: "dropped" });
    world.gate.set(true);
    await world.pass(120_000);
    expect(world.backend.calls).toEqual(["validate disk-7", "validate disk-7", "validate disk-7"]);
    expect(await world.volume("data")).toMatchObject({ state: "AVAILABLE" });
  });

  it("[I1] does not hand out what the backend has attached to a node that no record explains", async () => {
    world.backend.keep("theirs", "disk-7");
    world.backend.attach("disk-7", "vm-of-somebody");
    expect(await registered("data")).toMatchObject({
      state: "CREATING",
      blocked: { reason: "FOREIGN_ATTACHMENT", message: expect.stringContaining("vm-of-somebody") },
    });
    await expect(world.claim("web", "n1", ["data"])).rejects.toMatchObject({ reason: "VOLUME_NOT_AVAILABLE" });
    world.backend.detach("disk-7", "vm-of-somebody");
    await world.pass(120_000);
    const volume = await world.volume("data");
    expect(volume).toMatchObject({ state: "AVAILABLE" });
    expect(volume).not.toHaveProperty("blocked");
  });

  it("hands it out all the same once a person has said, on record, that it is nobody else's", async () => {
    world.backend.keep("theirs", "disk-7");
    world.backend.attach("disk-7", "vm-that-was-scrapped");
    const { blocked } = await registered("data");
    expect(blocked?.clearWith).toContain("holdfast volume deregister data --namespace default");
    await world.commands.deregisterVolume({ namespace: "default", id: "data", uid: "", requestId: "" }, caller);
    const asked = {
      ...input("data"),
      reason: "ticket 4711",
      dryRun: false,
      confirm: "storage disk-7 of plugin csi.example is volume default/data, and no other's",
    };
    expect((await world.repair.adoptVolume(asked, caller)).auditId).not.toBe("");
    await world.idle();
    expect(await world.volume("data")).toMatchObject({ state: "AVAILABLE", vouched: true });
  });

  it("takes storage for many nodes that is attached elsewhere, and says so in its event", async () => {
    world.backend.keep("theirs", "disk-7");
    world.backend.attach("disk-7", "vm-of-somebody");
    const from = await world.store.head();
    expect(await registered("data", { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] })).toMatchObject({
      state: "AVAILABLE",
    });
    const stop = new AbortController();
    const bodies: string[] = [];
    for await (const { body } of world.store.watch(from, stop.signal)) {
      bodies.push(body);
      if (body.includes("AVAILABLE")) break;
    }
    expect(bodies.at(-1)).toContain('"attached_elsewhere":"vm-of-somebody"');
  });

  it("takes the word of the caller when the plugin has no controller half to ask", async () => {
    world.backend.setFacts({ ready: false, controllerService: "no", createsVolumes: "no", attaches: "no" });
    expect(await registered("data")).toMatchObject({ state: "AVAILABLE", pluginVersion: "1.0.0" });
    expect(world.backend.calls).toEqual([]);
  });

  it("refuses storage whose DeleteVolume may still arrive, also after its record was forgotten", async () => {
    const { externalId } = await world.makeVolume("data");
    world.backend.script("delete", { kind: "unknown", advice: "again", code: "INTERNAL" });
    await remove("data");
    await world.idle();
    // Forgotten while the outcome of the delete is not known, as a repair verb does.
    await world.records.change({ namespace: "default", id: "data" }, () => ({ volume: null, ended: [], notes: [] }));
    await expect(register("other", { externalId })).rejects.toMatchObject({
      kind: "precondition",
      reason: "EXTERNAL_VOLUME_LEAVING",
      metadata: { namespace: "default", volume: "data", plugin, external_id: externalId },
    });
  });

  it("finds the mark also when the record is forgotten between the look and the commit", async () => {
    const { externalId } = await world.makeVolume("data");
    world.backend.script("delete", { kind: "unknown", advice: "again", code: "INTERNAL" });
    await remove("data");
    await world.idle();
    const { get } = world.store;
    let looks = 0;
    world.store.get = async (ref) => {
      const found = await get(ref);
      if (!ref.key.startsWith("~delete/")) return found;
      looks += 1;
      if (looks === 1)
        await world.records.change({ namespace: "default", id: "data" }, () => ({
          volume: null,
          ended: [],
          notes: [],
        }));
      return found;
    };
    await expect(register("other", { externalId })).rejects.toMatchObject({ reason: "EXTERNAL_VOLUME_LEAVING" });
    expect(looks).toBeGreaterThan(1);
    await expect(world.volume("other")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
  });

  it("refuses storage that is deleted, after an attempt without answer, but not after a clean one", async () => {
    const doubtful = await world.makeVolume("a");
    const clean = await world.makeVolume("b");
    world.backend.script("delete", { kind: "lost" });
    await remove("a");
    await world.pass(60_000);
    await remove("b");
    await world.idle();
    expect(world.backend.volumes()).toEqual([]);
    await expect(register("c", { externalId: doubtful.externalId })).rejects.toMatchObject({
      reason: "EXTERNAL_VOLUME_LEAVING",
    });
    await register("d", { externalId: clean.externalId });
    expect(await world.store.get(deleteMarkRef(clean))).toBeUndefined();
  });

  it("collects every violation and writes nothing", async () => {
    const before = world.store.commits();
    const bad = register("Data", {
      namespace: "",
      plugin: "",
      externalId: "x".repeat(129),
      capacity: { required: 5, limit: 1 },
      capabilities: [],
      context: { k: "v".repeat(4096) },
      accessible: [{}],
      secretRefs: { create: "nonsense" },
    });
    await expect(bad).rejects.toMatchObject({
      violations: [
        { field: "namespace" },
        { field: "id" },
        { field: "plugin" },
        { field: "external_id" },
        { field: "capacity.limit_bytes" },
        { field: "capabilities" },
        { field: "context" },
        { field: "accessible_topology[0].segments" },
        { field: "secrets.create.ref" },
      ],
    });
    await expect(register("data", { plugin: "csi.none" })).rejects.toMatchObject({ reason: "PLUGIN_NOT_FOUND" });
    world.gate.set(false);
    await expect(register("data")).rejects.toMatchObject({ reason: "STORE_UNVETTED" });
    expect(world.store.commits()).toBe(before);
  });
});

describe("CreateVolume", () => {
  it("answered with the storage of another record is blocked, and neither is deleted", async () => {
    const first = await world.makeVolume("data");
    world.backend.setFacts({ ready: false });
    const { volume } = await world.commands.createVolume(
      { ...input("twin"), topology: { required: [], preferred: [] }, contentSource: { kind: "none" } },
      caller,
    );
    world.backend.keep(volume.name, first.externalId);
    world.backend.setFacts({ ready: true });
    await world.idle();
    expect(await world.volume("twin")).toMatchObject({
      state: "CREATING",
      externalId: "",
      blocked: { reason: "STORAGE_TAKEN", message: expect.stringContaining("default/data") },
    });
    // Given up, it goes without a call: what it was answered is not its own.
    await remove("twin");
    await world.pass(120_000);
    await expect(world.volume("twin")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
    expect(world.backend.calls.some((call) => call.startsWith("delete"))).toBe(false);
    expect((await world.volume("data")).state).toBe("AVAILABLE");
  });

  it("answered with the storage of another namespace does not say whose it is; the log does", async () => {
    const first = await world.makeVolume("data");
    world.backend.setFacts({ ready: false });
    const ref = { namespace: "shop", id: "twin" };
    const { volume } = await world.commands.createVolume(
      {
        ...{ ...input("twin"), ...ref, topology: { required: [], preferred: [] } },
        contentSource: { kind: "none" },
      },
      caller,
    );
    world.backend.keep(volume.name, first.externalId);
    world.backend.setFacts({ ready: true });
    await world.idle();
    const { blocked, attempts } = (await world.commands.getVolume(ref)).volume;
    expect(blocked).toMatchObject({ reason: "STORAGE_TAKEN", message: expect.stringContaining("another namespace") });
    expect(JSON.stringify([blocked, attempts])).not.toContain("default");
  });
});
