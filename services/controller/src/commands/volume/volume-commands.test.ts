import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  caller,
  capability,
  createWorld,
  volumeInput,
  type World,
} from "../../../../../test/support/controller/world.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld();
});

afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const remove = (id: string, uid = "") =>
  world.commands.deleteVolume({ namespace: "default", id, uid, requestId: "" }, caller);

describe("CreateVolume", () => {
  it("[I4] stores name and intent before the plugin hears of it", async () => {
    world.backend.setFacts({ ready: false });
    const { volume } = await world.commands.createVolume(volumeInput("data"), caller);
    expect(volume).toMatchObject({ state: "CREATING", externalId: "", intent: { op: "create" } });
    expect(volume.name).toMatch(/^[a-z0-9-]{36}$/);
    expect(world.backend.calls).toEqual([]);
    world.backend.setFacts({ ready: true });
    await world.idle();
    expect(world.backend.calls).toEqual([`create ${volume.name}`]);
    expect((await world.volume("data")).state).toBe("AVAILABLE");
  });

  it("answers the same volume to the same content and names the field that differs", async () => {
    const first = await world.makeVolume("data");
    const again = await world.commands.createVolume(volumeInput("data", { requestId: "other" }), caller);
    expect(again.volume.uid).toBe(first.uid);
    const differing = [
      [{ plugin: "csi.other" }, "plugin"],
      [{ capacity: { required: 2, limit: 0 } }, "capacity.required_bytes"],
      [{ capabilities: [capability("MULTI_NODE_MULTI_WRITER")] }, "capabilities"],
      [{ parameters: { a: "b" } }, "parameters"],
      [{ labels: { a: "b" } }, "labels"],
    ] as const;
    for (const [change, field] of differing)
      await expect(world.commands.createVolume(volumeInput("data", change), caller)).rejects.toMatchObject({
        kind: "already_exists",
        reason: "VOLUME_EXISTS",
        metadata: { volume: "data", field },
      });
    expect(world.backend.volumes()).toHaveLength(1);
  });

  it("knows the request that made it again, whatever was changed since, and so one for what it is now", async () => {
    const { uid } = await world.makeVolume("data");
    const { volume } = await world.commands.updateVolume(
      { namespace: "default", id: "data", expectedRevision: 0, update: { labels: { a: "1" } } },
      caller,
      new AbortController().signal,
    );
    expect(volume.labels).toEqual({ a: "1" });
    for (const labels of [{}, { a: "1" }])
      expect((await world.commands.createVolume(volumeInput("data", { labels }), caller)).volume.uid).toBe(uid);
    await expect(
      world.commands.createVolume(volumeInput("data", { labels: { a: "2" } }), caller),
    ).rejects.toMatchObject({
      reason: "VOLUME_EXISTS",
      metadata: { field: "labels" },
    });
  });

  it("C35: prefers no place outside of those that are required", async () => {
    const places = { required: [{ Zone: "a" }], preferred: [{ zone: "a" }, { zone: "b" }] };
    await expect(world.commands.createVolume(volumeInput("data", { topology: places }), caller)).rejects.toMatchObject({
      violations: [{ field: "topology.preferred[1]" }],
    });
    expect(world.backend.calls).toEqual([]);
  });

  it("makes one volume of many requests for one id at once", async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => world.commands.createVolume(volumeInput("data"), caller)),
    );
    await world.idle();
    expect(new Set(answers.map((a) => a.volume.uid)).size).toBe(1);
    expect(world.backend.volumes()).toHaveLength(1);
  });

  it("collects every violation and writes nothing", async () => {
    const before = world.store.commits();
    const input = volumeInput("Data/..", {
      namespace: "-",
      plugin: "no spaces",
      capacity: { required: 10, limit: 5 },
      capabilities: [{ ...capability("UNKNOWN"), fsType: "a/b", mountFlags: ["x".repeat(4097)] }],
      parameters: { k: "v".repeat(4096) },
      topology: { required: [{}], preferred: [] },
      secretRefs: { create: "password123", nodeStage: "file:relative", delete: "env:OK" },
      labels: { "": "x" },
      requestId: "r".repeat(129),
    });
    await expect(world.commands.createVolume(input, caller)).rejects.toMatchObject({
      violations: [
        { field: "namespace" },
        { field: "id" },
        { field: "plugin" },
        { field: "capacity.limit_bytes" },
        { field: "capabilities[0].access_mode" },
        { field: "capabilities[0].fs_type" },
        { field: "capabilities[0].mount_flags" },
        { field: "parameters" },
        { field: "topology.required[0].segments" },
        { field: "secrets.create.ref" },
        { field: "secrets.node_stage.ref" },
        { field: "labels" },
        { field: "request_id" },
      ],
    });
    expect(world.store.commits()).toBe(before);
  });

  it("[I10] never repeats a secret that stood where a reference belongs", async () => {
    const input = volumeInput("data", { secretRefs: { create: "hunter2" } });
    const error = await world.commands.createVolume(input, caller).catch((e: unknown) => e);
    expect(JSON.stringify(error)).not.toContain("hunter2");
    expect(String(error)).not.toContain("hunter2");
  });

  it("refuses what is known not to be possible", async () => {
    await expect(
      world.commands.createVolume(volumeInput("data", { plugin: "csi.none" }), caller),
    ).rejects.toMatchObject({ reason: "PLUGIN_NOT_FOUND", metadata: { plugin: "csi.none" } });
    world.backend.setFacts({ createsVolumes: "no" });
    await expect(world.commands.createVolume(volumeInput("data"), caller)).rejects.toMatchObject({
      reason: "CAPABILITY_MISMATCH",
    });
    await expect(
      world.commands.createVolume(volumeInput("data", { contentSource: { kind: "volume", id: "none" } }), caller),
    ).rejects.toMatchObject({ reason: "CAPABILITY_MISMATCH" });
  });

  it("ends FAILED when the plugin refuses, and can be deleted without a call", async () => {
    world.backend.script("create", { kind: "refused", advice: "fail", code: "OUT_OF_RANGE" });
    const volume = await world.makeVolume("data");
    expect(volume).toMatchObject({ state: "FAILED", failure: { reason: "OUT_OF_RANGE" } });
    expect(await remove("data")).toBeUndefined();
    expect(world.backend.calls).toHaveLength(1);
    expect(world.reconciler.size()).toBe(0);
  });

  it("[I5] a refusal after an attempt without answer keeps the volume, blocked, with what is missing", async () => {
    world.backend.script("create", { kind: "lost" }, { kind: "refused", advice: "fail", code: "OUT_OF_RANGE" });
    await world.makeVolume("data");
    await world.pass(5_000);
    const volume = await world.volume("data");
    expect(volume).toMatchObject({ state: "FAILED", blocked: { reason: "CREATE_UNCERTAIN" } });
    expect(volume.blocked?.missingProof).toContain(volume.name);
    expect(world.backend.volumes()).toHaveLength(1);
    // Asked to go, it is looked for by its name once more; refused again it is blocked again, and found it is deleted.
    world.backend.script("create", { kind: "refused", advice: "fail", code: "OUT_OF_RANGE" });
    expect((await remove("data"))?.volume).toMatchObject({ state: "CREATING", goal: "absent" });
    await world.idle();
    expect(await world.volume("data")).toMatchObject({ state: "FAILED", blocked: { reason: "CREATE_UNCERTAIN" } });
    await remove("data");
    await world.pass(5_000);
    expect(world.backend.volumes()).toEqual([]);
    await expect(world.volume("data")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
  });

  it("waits, blocked, for what only a person can remove, and goes on by itself", async () => {
    const refusal = { kind: "refused", advice: "block", code: "ALREADY_EXISTS" } as const;
    world.backend.script("create", refusal, refusal);
    const volume = await world.makeVolume("data");
    expect(volume).toMatchObject({ state: "CREATING", blocked: { reason: "INCOMPATIBLE" } });
    await world.pass(60_000);
    expect((await world.volume("data")).state).toBe("AVAILABLE");
    expect((await world.volume("data")).blocked).toBeUndefined();
  });
});

describe("DeleteVolume", () => {
  it("names who uses the volume and leaves it alone", async () => {
    await world.makeVolume("data");
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    await expect(remove("data")).rejects.toMatchObject({
      kind: "precondition",
      reason: "VOLUME_IN_USE",
      metadata: { volume: "data", holder_workload: "web", holder_node: "n1" },
      message: expect.stringContaining("claim of workload web (data) on node n1, ACTIVE"),
    });
    expect((await world.volume("data")).goal).toBe("present");
  });

  it("is OK again for seven days, and not found for what never was", async () => {
    const { uid } = await world.makeVolume("data");
    expect((await remove("data"))?.volume.state).toBe("DELETING");
    await world.idle();
    expect(await remove("data")).toBeUndefined();
    expect(await remove("data", uid)).toBeUndefined();
    await expect(remove("data", "another-life")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
    await expect(remove("none")).rejects.toMatchObject({ kind: "not_found", reason: "VOLUME_NOT_FOUND" });
    expect(world.backend.volumes()).toEqual([]);
  });

  it("of one life never ends the next one", async () => {
    const { uid } = await world.makeVolume("data");
    await remove("data", uid);
    await world.idle();
    const next = await world.makeVolume("data");
    expect(next.uid).not.toBe(uid);
    expect(await remove("data", uid)).toBeUndefined();
    expect((await world.volume("data")).state).toBe("AVAILABLE");
  });

  it("of a volume that is still being made is create, then delete", async () => {
    world.backend.script("create", { kind: "lost" });
    await world.makeVolume("data");
    await remove("data");
    await world.pass(10_000);
    expect(world.backend.volumes()).toEqual([]);
    expect(world.backend.calls.map((c) => c.split(" ")[0])).toEqual(["create", "create", "delete"]);
    await expect(world.volume("data")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
  });

  it("keeps the id taken until it is done", async () => {
    await world.makeVolume("data");
    world.backend.script("delete", { kind: "lost" });
    await remove("data");
    await world.idle();
    await expect(world.commands.createVolume(volumeInput("data"), caller)).rejects.toMatchObject({
      reason: "VOLUME_EXISTS",
      metadata: { field: "state" },
      message: expect.stringContaining("is being deleted"),
    });
    await world.pass(10_000);
    expect((await world.makeVolume("data")).state).toBe("AVAILABLE");
  });

  it("keeps the storage of a volume that says so", async () => {
    const policy = { reclaim: "retain", nodeLoss: "wait", requiresRepublish: false, identityTokens: [] } as const;
    await world.makeVolume("data", { policy });
    expect(await remove("data")).toBeUndefined();
    expect(world.backend.volumes()).toHaveLength(1);
    await expect(world.volume("data")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
  });

  it("waits, blocked, when the backend says it is in use", async () => {
    await world.makeVolume("data");
    world.backend.script("delete", { kind: "refused", advice: "block", code: "FAILED_PRECONDITION" });
    await remove("data");
    await world.idle();
    expect(await world.volume("data")).toMatchObject({ state: "DELETING", blocked: { reason: "PLUGIN_REFUSED" } });
    await world.pass(60_000);
    await expect(world.volume("data")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
  });
});

describe("lists", () => {
  const all = { namespace: "", plugin: "", node: "", states: [], blocked: false, labels: {}, idPrefix: "" };

  it("page over volumes without loss or repeat, whatever the filter", async () => {
    for (let i = 0; i < 12; i += 1)
      await world.makeVolume(`v${String(i).padStart(2, "0")}`, { labels: { even: String(i % 2 === 0) } });
    const collect = async (filter: Partial<typeof all>, size: number) => {
      const ids: string[] = [];
      let after: string | undefined;
      do {
        const page = await world.commands.listVolumes({ ...all, ...filter }, { size, after });
        ids.push(...page.items.map((v) => v.volume.id));
        after = page.next;
      } while (after !== undefined);
      return ids;
    };
    for (const size of [1, 5, 100]) {
      expect(await collect({}, size)).toHaveLength(12);
      expect(new Set(await collect({ namespace: "default" }, size)).size).toBe(12);
      expect(await collect({ labels: { even: "true" } }, size)).toHaveLength(6);
      expect(await collect({ idPrefix: "v1" }, size)).toEqual(["v10", "v11"]);
      expect(await collect({ namespace: "other" }, size)).toEqual([]);
    }
  });

  it("of claims leave none out when the volume in which a page ended has gone before the next", async () => {
    const claims = { namespace: "default", volume: "", workload: "", node: "", plugin: "", states: [], blocked: false };
    for (const id of ["a", "b"]) await world.makeVolume(id, { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] });
    // Older than those of the volume before it, so that its uid sorts before theirs.
    const [first] = await world.claim("first", "n1", ["b"]);
    for (const workload of ["x", "y"]) await world.claim(workload, "n1", ["a"]);
    await world.idle();
    const page = await world.commands.listClaims(claims, { size: 1, after: undefined });
    expect(page.items.map(({ claim }) => claim.workload)).toEqual(["x"]);
    for (const workload of ["x", "y"]) await world.release(workload);
    await world.idle();
    await world.commands.deleteVolume({ namespace: "default", id: "a", uid: "", requestId: "" }, caller);
    await world.idle();
    const rest = await world.commands.listClaims(claims, { size: 5, after: page.next });
    expect(rest.items.map(({ claim }) => claim.uid)).toEqual([first?.claim.uid]);
  });

  it("page over claims, living and over, also within one volume", async () => {
    const claims = { namespace: "default", volume: "", workload: "", node: "", plugin: "", states: [], blocked: false };
    await world.makeVolume("a", { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] });
    await world.makeVolume("b", { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] });
    for (let i = 0; i < 5; i += 1) {
      await world.claim(`w${i}`, "n1", ["a", "b"]);
      await world.idle();
    }
    await world.release("w0");
    await world.idle();
    const collect = async (filter: object, size: number) => {
      const found: string[] = [];
      let after: string | undefined;
      do {
        const page = await world.commands.listClaims({ ...claims, ...filter }, { size, after });
        expect(page.items.length).toBeLessThanOrEqual(size);
        found.push(...page.items.map((v) => v.claim.uid));
        after = page.next;
      } while (after !== undefined);
      return found;
    };
    for (const size of [1, 3, 100]) {
      const living = await collect({}, size);
      expect(living).toHaveLength(8);
      expect(new Set(living).size).toBe(8);
      expect(await collect({ node: "n1" }, size)).toHaveLength(8);
      expect(await collect({ volume: "a" }, size)).toHaveLength(4);
      expect(await collect({ workload: "w0" }, size)).toHaveLength(2);
      expect(await collect({ states: ["RELEASED"] }, size)).toHaveLength(2);
      expect(await collect({ states: ["ACTIVE"], volume: "b" }, size)).toHaveLength(4);
    }
  });
});

describe("Explain", () => {
  it("says who holds what is waited for, and the command that would help", async () => {
    await world.makeVolume("data");
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    await world.claim("db", "n2", ["data"], { queue: { enabled: true, deadlineMs: undefined } });
    const explained = await world.commands.explainVolume({ namespace: "default", id: "data" });
    expect(explained.claims).toMatchObject([
      { claim: { workload: "web" }, step: "mounted", waitingFor: "" },
      { claim: { workload: "db" }, obstacle: "CLAIM_CONFLICT", holder: "workload web on node n1, ACTIVE" },
    ]);
    expect(explained.attachments).toEqual([
      { node: "n1", state: "ATTACHED", because: "held by web (ACTIVE)", verificationScope: "host" },
    ]);
    expect(explained.nextActions).toEqual(["holdfast claim release web data --namespace default"]);
    expect(explained.findings.join("\n")).toContain("Claim data of workload db on node n2 is QUEUED");
  });

  it("puts what is blocked first, with its last error and its command", async () => {
    await world.makeVolume("data");
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    world.agents.script("release", { kind: "pending", blocked: true });
    await world.release("web");
    await world.idle();
    const explained = await world.commands.explainVolume({ namespace: "default", id: "data" });
    const [claim] = explained.claims;
    expect(claim).toMatchObject({
      blocked: { reason: "MOUNT_HELD" },
      lastError: { message: "held by pid 42 (tail)" },
      attempts: 1,
    });
    expect(claim?.nextTry).toBeGreaterThan(world.clock.now());
    expect(explained.findings.join("\n")).toContain("held by pid 42 (tail)");
    expect(explained.nextActions[0]).toContain("end process 42");
  });

  it("asks nothing of anybody when nothing needs to be done", async () => {
    await world.makeVolume("data");
    const calls = world.backend.calls.length;
    const explained = await world.commands.explainVolume({ namespace: "default", id: "data" });
    expect(explained.nextActions).toEqual([]);
    expect(explained.findings).toEqual(["volume default/data is AVAILABLE."]);
    expect(world.backend.calls).toHaveLength(calls);
    await expect(world.commands.explainVolume({ namespace: "default", id: "none" })).rejects.toMatchObject({
      reason: "VOLUME_NOT_FOUND",
    });
  });
});
