import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import {
  ControllerDefinition,
  IdentityDefinition,
  NodeDefinition,
  SnapshotMetadataDefinition,
} from "@holdfast/shared/gen/csi/v1/csi";
import { type Channel, type Client, createChannel, createClient, Metadata, Status } from "nice-grpc";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Fault } from "../backend/faults.ts";
import { writer } from "../backend/test-driver.ts";
import { createSimPlugin, type SimPlugin } from "../sim-plugin.ts";

let dir: string;
let plugin: SimPlugin;
let channel: Channel;
let controller: Client<typeof ControllerDefinition>;

const create = { name: "one", volumeCapabilities: [writer] };
const volumes = (): string[] => [...plugin.backend.state().volumes.values()].map((volume) => volume.name);
const lastCall = () => plugin.backend.record().at(-1);
const soon = { timeout: 10_000 };

/** Makes the call and gives up once the plugin has it. */
const giveUpOnCreate = async (): Promise<void> => {
  const patience = new AbortController();
  const pending = controller.createVolume(create, { signal: patience.signal });
  await vi.waitFor(() => expect(lastCall()).toMatchObject({ method: "CreateVolume" }), soon);
  patience.abort();
  await expect(pending).rejects.toThrow(/abort/i);
};

const give = (...faults: Fault[]): void => plugin.backend.setFaults(faults);

beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-sim-"));
  plugin = await createSimPlugin({
    role: "monolith",
    node: "node-a",
    socket: path.join(dir, "csi.sock"),
    paths: "made-up",
  });
  channel = createChannel(`unix://${plugin.socket}`);
  controller = createClient(ControllerDefinition, channel);
});

afterEach(async () => {
  channel.close();
  await plugin.close();
  await rm(dir, { recursive: true, force: true });
});

describe("a late answer", () => {
  test.each([
    { work: "arrival", made: ["one"] },
    { work: "answer", made: [] },
  ] as const)("whose work is done at the $work", async ({ work, made }) => {
    await plugin.close();
    plugin = await createSimPlugin({
      role: "controller",
      socket: plugin.socket,
      lateCalls: { seed: 1, share: 1, slowMs: [300, 300], fastMs: [0, 0], work },
    });
    const pending = controller.createVolume(create);
    await vi.waitFor(() => expect(plugin.backend.inFlight()).toMatchObject([{ method: "CreateVolume" }]), soon);
    await vi.waitFor(() => expect(volumes()).toEqual(made), { timeout: 200 });
    expect(plugin.backend.inFlight()).toHaveLength(1);
    await pending;
    expect(volumes()).toEqual(["one"]);
  });
});

describe("a fault with a code", () => {
  test("before the work leaves nothing done, and is met as often as told", async () => {
    give({ method: "CreateVolume", code: "UNAVAILABLE", message: "storage is away", times: 2 });
    for (let n = 0; n < 2; n += 1)
      await expect(controller.createVolume(create)).rejects.toMatchObject({
        code: Status.UNAVAILABLE,
        details: "storage is away",
      });
    expect(volumes()).toEqual([]);
    await controller.createVolume(create);
    expect(plugin.backend.record().map(({ code, done, fault }) => [code, done, fault])).toEqual([
      ["UNAVAILABLE", false, "UNAVAILABLE before"],
      ["UNAVAILABLE", false, "UNAVAILABLE before"],
      ["OK", true, undefined],
    ]);
  });

  test("after the work leaves it done", async () => {
    give({ method: "CreateVolume", code: "INTERNAL", when: "after" });
    await expect(controller.createVolume(create)).rejects.toMatchObject({ code: Status.INTERNAL });
    expect(volumes()).toEqual(["one"]);
    expect(lastCall()).toMatchObject({ code: "INTERNAL", done: true, reply: "sent" });
  });

  test("meets only the volume it is for, after the calls it lets pass", async () => {
    give({ method: "CreateVolume", match: { volume: "two" }, skip: 1, code: "ABORTED" });
    await controller.createVolume(create);
    await controller.createVolume({ ...create, name: "two" });
    await expect(controller.createVolume({ ...create, name: "two" })).rejects.toMatchObject({ code: Status.ABORTED });
    await controller.createVolume({ ...create, name: "two" });
    expect(plugin.backend.faults()).toMatchObject([{ met: 2 }]);
  });
});

describe("a hang", () => {
  test("ends with its caller's patience, the work undone", async () => {
    give({ method: "CreateVolume", hang: true });
    await giveUpOnCreate();
    await vi.waitFor(() => expect(lastCall()).toMatchObject({ reply: "abandoned", done: false }), soon);
    await controller.createVolume(create);
    expect(plugin.backend.violations()).toEqual([]);
  });

  test("after the work leaves it done", async () => {
    give({ method: "CreateVolume", hang: true, when: "after" });
    await giveUpOnCreate();
    await vi.waitFor(() => expect(lastCall()).toMatchObject({ reply: "abandoned", done: true }), soon);
    expect(volumes()).toEqual(["one"]);
  });

  test("for a time goes on working although nobody waits any more, and keeps the volume busy", async () => {
    give({ method: "CreateVolume", hangMs: 1000 });
    await giveUpOnCreate();
    await expect(controller.createVolume(create)).rejects.toMatchObject({ code: Status.ABORTED });
    await vi.waitFor(() => expect(volumes()).toEqual(["one"]), soon);
    await controller.createVolume(create);
    expect(plugin.backend.violations()).toEqual([]);
  });
});

describe("a dropped reply", () => {
  test("does the work, and the caller sees its connection die", async () => {
    await controller.getCapacity({});
    give({ method: "CreateVolume", dropReply: true });
    await expect(controller.createVolume(create)).rejects.toMatchObject({ code: Status.UNAVAILABLE });
    expect(volumes()).toEqual(["one"]);
    expect(lastCall()).toMatchObject({ method: "CreateVolume", reply: "dropped", done: true });
    await controller.createVolume(create);
    expect(volumes()).toEqual(["one"]);
  });

  test("spares the other connections", async () => {
    const other = createChannel(`unix://${plugin.socket}`, undefined, { "grpc.use_local_subchannel_pool": 1 });
    const bystander = createClient(ControllerDefinition, other);
    plugin.backend.setLatency({ GetCapacity: 1000 });
    const pending = bystander.getCapacity({});
    await vi.waitFor(() => expect(plugin.backend.record()).toHaveLength(1), soon);
    give({ method: "CreateVolume", dropReply: true });
    await expect(controller.createVolume(create)).rejects.toMatchObject({ code: Status.UNAVAILABLE });
    expect((await pending).availableCapacity).toBeGreaterThan(0n);
    other.close();
  });
});

test("a lie answers OK and leaves the host as it was", async () => {
  await plugin.close();
  plugin = await createSimPlugin({ role: "monolith", node: "node-a", socket: plugin.socket });
  const node = createClient(NodeDefinition, channel);
  const { volume } = await vi.waitFor(() => controller.createVolume(create), soon);
  const { volumeId = "", volumeContext = {} } = volume ?? {};
  const base = { volumeId, volumeContext, volumeCapability: writer };
  const { publishContext } = await controller.controllerPublishVolume({ ...base, nodeId: "node-a" });
  const paths = { stagingTargetPath: dir, targetPath: path.join(dir, "target") };
  await node.nodeStageVolume({ ...base, publishContext, ...paths });
  give({ method: "NodePublishVolume", lie: true });
  await node.nodePublishVolume({ ...base, publishContext, ...paths });
  expect(plugin.backend.state().publications.get(volumeId)).toHaveLength(1);
  await expect(stat(paths.targetPath)).rejects.toMatchObject({ code: "ENOENT" });
  expect(lastCall()).toMatchObject({ fault: "lie", code: "OK" });
});

describe("a death", () => {
  test.each([
    ["before", []],
    ["after", ["one"]],
  ] as const)("%s the work", async (die, left) => {
    give({ method: "CreateVolume", die });
    await expect(controller.createVolume(create)).rejects.toMatchObject({ code: Status.UNAVAILABLE });
    expect(volumes()).toEqual(left);
    expect(lastCall()).toMatchObject({ reply: "died", done: die === "after" });
    await plugin.restart();
    await vi.waitFor(() => controller.createVolume(create), soon);
    expect(volumes()).toEqual(["one"]);
    expect(plugin.backend.violations()).toEqual([]);
  });
});

describe("readiness", () => {
  test("never comes when told so, and calls meanwhile are violations", async () => {
    give({ method: "Probe", neverReady: true });
    const identity = createClient(IdentityDefinition, channel);
    expect((await identity.probe({})).ready).toBe(false);
    await expect(controller.createVolume(create)).rejects.toMatchObject({ code: Status.UNAVAILABLE });
    expect(plugin.backend.violations()).toMatchObject([{ rule: "call-before-ready" }]);
  });

  test("comes after the time told", async () => {
    give({ method: "Probe", notReadyFor: 80 });
    const identity = createClient(IdentityDefinition, channel);
    expect((await identity.probe({})).ready).toBe(false);
    await vi.waitFor(async () => expect((await identity.probe({})).ready).toBe(true), soon);
    await controller.createVolume(create);
    expect(plugin.backend.violations()).toEqual([]);
  });

  test("can be left unsaid, which means ready", async () => {
    give({ method: "Probe", malformed: "empty-reply" });
    expect((await createClient(IdentityDefinition, channel).probe({})).ready).toBeUndefined();
  });
});

describe("a malformed reply", () => {
  const volumeIdWith = async (fault: Fault["malformed"] & string): Promise<string> => {
    give({ method: "CreateVolume", malformed: fault });
    return (await controller.createVolume(create)).volume?.volumeId ?? "no volume";
  };

  test("has the id changed as told, and the volume exists none the less", async () => {
    expect(await volumeIdWith("missing-id")).toBe("");
    expect((await volumeIdWith("oversize-id")).length).toBeGreaterThan(128);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    expect(await volumeIdWith("control-characters-in-id")).toMatch(/[\u0000-\u001f]/);
    expect(await volumeIdWith("empty-reply")).toBe("no volume");
    expect(volumes()).toEqual(["one"]);
  });

  test("has the capacity or the context changed as told", async () => {
    give({ method: "CreateVolume", malformed: "negative-capacity" });
    expect((await controller.createVolume(create)).volume?.capacityBytes).toBe(-1n);
    give({ method: "CreateVolume", malformed: "zero-capacity" });
    expect((await controller.createVolume(create)).volume?.capacityBytes).toBe(0n);
    give({ method: "CreateVolume", malformed: "oversize-context" });
    const context = (await controller.createVolume(create)).volume?.volumeContext ?? {};
    expect(Object.entries(context).flat().join("").length).toBeGreaterThan(4096);
  });

  test("has a capability nobody knows, another node id, or a message that does not end", async () => {
    give(
      { method: "ControllerGetCapabilities", malformed: "unknown-capability" },
      { method: "NodeGetInfo", malformed: "foreign-node-id" },
      { method: "CreateVolume", malformed: "oversize-message" },
    );
    const { capabilities } = await controller.controllerGetCapabilities({});
    expect(capabilities.at(-1)?.rpc?.type).toBeGreaterThan(100);
    expect((await createClient(NodeDefinition, channel).nodeGetInfo({})).nodeId).not.toBe("node-a");
    await expect(controller.createVolume(create, { signal: AbortSignal.timeout(2000) })).rejects.toThrow();
  });
});

describe("a call", () => {
  test("is recorded with its trace and the time it was given", async () => {
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    await controller.getCapacity({}, { metadata: Metadata({ traceparent, "grpc-timeout": "5S" }) });
    expect(lastCall()).toMatchObject({ traceparent });
    expect(lastCall()?.deadlineMs).toBeLessThanOrEqual(5000);
    expect(lastCall()?.deadlineMs).toBeGreaterThan(1000);
    await controller.getCapacity({});
    expect(lastCall()).not.toHaveProperty("deadlineMs");
  });

  test("of a stream arrives message by message", async () => {
    const { volume } = await controller.createVolume({ ...create, capacityRange: { requiredBytes: 1n << 28n } });
    const { snapshot } = await controller.createSnapshot({ name: "s", sourceVolumeId: volume?.volumeId ?? "" });
    const metadata = createClient(SnapshotMetadataDefinition, channel);
    const sizes: number[] = [];
    for await (const message of metadata.getMetadataAllocated({
      snapshotId: snapshot?.snapshotId ?? "",
      maxResults: 16,
    }))
      sizes.push(message.blockMetadata.length);
    expect(sizes.length).toBeGreaterThan(1);
    expect(Math.max(...sizes)).toBe(16);
  });

  test("to a service of another role is not there", async () => {
    const socket = path.join(dir, "node.sock");
    const nodeOnly = await createSimPlugin({
      role: "node",
      node: "node-b",
      socket,
      backend: plugin.backend,
      paths: "made-up",
    });
    const there = createChannel(`unix://${socket}`);
    await expect(createClient(ControllerDefinition, there).createVolume(create)).rejects.toMatchObject({
      code: Status.UNIMPLEMENTED,
    });
    expect((await createClient(NodeDefinition, there).nodeGetInfo({})).nodeId).toBe("node-b");
    there.close();
    await nodeOnly.close();
  });
});
