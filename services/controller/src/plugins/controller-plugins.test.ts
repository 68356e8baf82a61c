import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createPluginDirectory, type PluginDirectory } from "@holdfast/csi/plugin-directory";
import type { Tri } from "@holdfast/model/tri";
import { systemClock } from "@holdfast/shared/async/clock";
import { createMemoryLogger, type MemoryLogger } from "@holdfast/shared/log/logger";
import { createTracing } from "@holdfast/shared/tracing";
import type { SimPluginOptions } from "@holdfast/sim-plugin/sim-plugin";
import { createSimPlugin, type SimPlugin } from "@holdfast/sim-plugin/sim-plugin";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { CallGuide } from "../domain/plugin/call-guide.ts";
import { defaultProfile } from "../domain/plugin/plugin-profile.ts";
import { attachmentRecord, volumeRecord } from "../domain/testing/record-fixtures.ts";
import type { Attachment, VolumeRecord } from "../domain/volume/volume.ts";
import type { ControllerPlugins } from "../ports.ts";
import { createSecrets } from "../secrets/secrets.ts";
import { createControllerPlugins } from "./controller-plugins.ts";
import { createPluginInstances } from "./plugin-instances.ts";

/** Holds nothing back, and learns nothing. */
const trusting: CallGuide = {
  begin: (_plugin, _instance, _method, _subject, deadlineMs) => ({ deadlineMs, end: () => undefined }),
  restsUntil: () => 0,
  renewed: () => undefined,
  held: () => undefined,
};

const name = "sim.holdfast.dev";
const canary = "canary-5f2e1b9c";
const fileSystem = {
  attachmentMode: "FILE_SYSTEM",
  accessMode: "SINGLE_NODE_WRITER",
  fsType: "",
  mountFlags: [],
  volumeMountGroup: "",
} as const;

let dir: string;
let stop: AbortController;
let log: MemoryLogger;
let directory: PluginDirectory;
let plugin: SimPlugin | undefined;
let plugins: ControllerPlugins;
let announced: Tri;
let remembered: Readonly<Record<string, Tri>>;

beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-cp-"));
  stop = new AbortController();
  log = createMemoryLogger();
  announced = "unknown";
  remembered = {};
  directory = createPluginDirectory({
    dir,
    role: "controller",
    log,
    tracing: createTracing("test"),
    clock: systemClock,
    signal: stop.signal,
  });
  plugins = createControllerPlugins({
    gates: { quiesce: async () => ({ kind: "away", words: "no bar stands here" }) },
    instances: createPluginInstances({
      directory,
      halves: {
        of: () => [],
        at: () => undefined,
        places: () => [],
        placeAt: () => undefined,
        monoliths: () => 0,
        announced: () => announced,
        names: () => ["on-nodes"],
        onChange: () => () => true,
      },
      lines: { transportTo: () => expect.unreachable("no half is on a node"), forget: () => undefined },
      clock: systemClock,
      tracing: createTracing("test"),
      guide: trusting,
      reading: (_plugin, _method, code) => code,
      besideControllerOnly: () => false,
      reach: () => "auto",
    }),
    guide: trusting,
    secrets: createSecrets({
      scope: { files: [{ name: "test", dir, namespaces: [] }], env: [], vault: [] },
      env: {},
      log,
    }),
    log,
    ownerOf: async () => undefined,
    announcedByNodes: () => announced,
    remembered: () => remembered,
    profiles: {
      of: () => defaultProfile,
      damage: () => undefined,
      names: () => ["gone"],
      lastSeen: (plugin) => (plugin === "gone" ? "the last one was seen on node n1 at noon" : undefined),
    },
  });
});

afterEach(async () => {
  stop.abort(new Error("over"));
  await directory.close();
  await plugin?.close();
  plugin = undefined;
  await rm(dir, { recursive: true, force: true });
});

const run = async (options: Partial<SimPluginOptions> = {}): Promise<SimPlugin> => {
  plugin = await createSimPlugin({ role: "controller", socket: path.join(dir, "csi.sock"), ...options });
  await directory.whenReady(name, stop.signal);
  return plugin;
};

const call = (attempt = 1) => ({ signal: stop.signal, attempt });
const volume = (change: Partial<VolumeRecord> = {}): VolumeRecord =>
  volumeRecord([], [], {
    plugin: name,
    name: "name-1",
    externalId: "",
    capabilities: [fileSystem],
    capacity: { required: 1 << 24, limit: 0, actual: 0 },
    ...change,
  });

describe("what a plugin can do", () => {
  const attach = "controller:PUBLISH_UNPUBLISH_VOLUME";

  test("D7 of one whose instances are all gone waits, with where the last one was; one that never ran has no name here", async () => {
    expect(plugins.names()).toEqual(["on-nodes", "gone"]);
    expect(plugins.facts("gone")).toMatchObject({
      ready: false,
      reason: expect.stringContaining("runs; the last one was seen on node n1 at noon"),
    });
    expect(plugins.facts("typo").reason).toContain("was seen yet");
    const gone = volume({ plugin: "gone", name: "name-7" });
    expect(await plugins.createVolume(gone, call())).toMatchObject({
      failure: { reason: "PLUGIN_NOT_READY", message: expect.stringContaining("on node n1 at noon"), advice: "again" },
    });
  });

  test("[W8] [W9] is not known before it told, and never no; with a memory of its version it is what that told", () => {
    expect(plugins.facts(name)).toMatchObject({ ready: false, attaches: "unknown", createsVolumes: "unknown" });
    remembered = { [attach]: "yes", "controller:CREATE_DELETE_VOLUME": "no" };
    expect(plugins.facts(name)).toMatchObject({
      ready: false,
      attaches: "yes",
      createsVolumes: "no",
      publishesReadOnly: "unknown",
    });
    // A plugin of which every node says that it has no controller half never attaches.
    announced = "no";
    expect(plugins.facts(name)).toMatchObject({ ready: false, controllerService: "no", attaches: "no" });
  });

  test("is what the instance says that runs now, whatever was remembered", async () => {
    remembered = { [attach]: "no" };
    await run();
    expect(plugins.facts(name)).toMatchObject({ ready: true, attaches: "yes" });
  });
});

const created = async (change: Partial<VolumeRecord> = {}): Promise<VolumeRecord> => {
  const wanted = volume(change);
  const outcome = await plugins.createVolume(wanted, call());
  if (outcome.kind !== "done") throw new Error(outcome.failure.message);
  return { ...wanted, externalId: outcome.value.externalId, context: outcome.value.context };
};

const attachment = (change: Partial<Attachment> = {}): Attachment =>
  attachmentRecord("n1", { nodeId: "node-a", accessMode: "SINGLE_NODE_WRITER", ...change });

const methods = (): readonly string[] =>
  (plugin?.backend.record() ?? [])
    .map(({ method }) => method)
    .filter((method) => /Volume/.test(method) && !/Get|List/.test(method));

describe("a volume of a plugin", () => {
  test("a call carries the order of its attempt to the socket, and one that is stale there is no answer of the plugin", async () => {
    await run();
    const made = await created();
    const attempt = (sequence: number) => ({
      ...call(),
      wanted: async () => ({ order: { gen: 1, sequence, opId: `op-${sequence}` } }),
    });
    expect(await plugins.publish(made, attachment(), attempt(9))).toMatchObject({ kind: "done" });
    const stale = await plugins.unpublish(made, attachment(), attempt(7));
    expect(stale).toMatchObject({ kind: "unknown", failure: { reason: "STALE_ORDER", call: "not-sent" } });
    expect(await plugins.unpublish(made, attachment(), { ...call(), wanted: async () => undefined })).toMatchObject({
      failure: { reason: "ABORTED", call: "not-sent" },
    });
    expect(methods()).toEqual(["CreateVolume", "ControllerPublishVolume"]);
    expect(await plugins.unpublish(made, attachment(), attempt(11))).toMatchObject({ kind: "done" });
  });

  test("is made, attached, detached and deleted; each call twice is the same", async () => {
    const sim = await run();
    const made = await created();
    expect(await created()).toEqual(made);
    for (let round = 0; round < 2; round += 1)
      expect(await plugins.publish(made, attachment(), call())).toMatchObject({ kind: "done" });
    expect([...sim.backend.state().attachments.keys()]).toHaveLength(1);
    for (let round = 0; round < 2; round += 1)
      expect(await plugins.unpublish(made, attachment(), call())).toEqual({ kind: "done", value: undefined });
    for (let round = 0; round < 2; round += 1)
      expect(await plugins.deleteVolume(made, call())).toEqual({ kind: "done", value: undefined });
    expect(sim.backend.state().volumes.size).toBe(0);
    expect(sim.backend.violations()).toEqual([]);
    expect(methods()).toEqual([
      "CreateVolume",
      "CreateVolume",
      "ControllerPublishVolume",
      "ControllerPublishVolume",
      "ControllerUnpublishVolume",
      "ControllerUnpublishVolume",
      "DeleteVolume",
      "DeleteVolume",
    ]);
  });

  test("is made from another one by the plugin's own id for that, and not at all when nobody knows it", async () => {
    const sim = await run();
    const copy = { name: "copy", contentSource: { kind: "volume", id: "data" } } as const;
    expect(await plugins.createVolume(volume(copy), call())).toMatchObject({ kind: "refused" });
    expect(methods()).toEqual([]);
    const { uid, externalId } = await created();
    const source = { uid, externalId, sizeBytes: 30_000_000 };
    expect(await plugins.createVolume(volume({ ...copy, source }), call())).toMatchObject({
      kind: "done",
      value: { capacity: 30_000_000 },
    });
    expect(sim.backend.state().volumes.size).toBe(2);
    expect(sim.backend.violations()).toEqual([]);
  });

  test("a lost answer is unknown, and the repeat finds what was made", async () => {
    const sim = await run({ faults: [{ method: "CreateVolume", dropReply: true }] });
    expect(await plugins.createVolume(volume(), call())).toMatchObject({
      kind: "unknown",
      failure: { advice: "again", code: "UNAVAILABLE", method: "CreateVolume" },
    });
    expect(sim.backend.state().volumes.size).toBe(1);
    await directory.whenReady(name, stop.signal);
    await created();
    expect(sim.backend.state().volumes.size).toBe(1);
  });
});

describe("what a plugin answers", () => {
  test.each([
    [
      "RESOURCE_EXHAUSTED",
      { kind: "unknown", failure: { reason: "RESOURCE_EXHAUSTED", advice: "again", nodeFull: true } },
    ],
    ["FAILED_PRECONDITION", { kind: "refused", failure: { reason: "FOREIGN_ATTACHMENT", advice: "block" } }],
    ["INVALID_ARGUMENT", { kind: "refused", failure: { reason: "PLUGIN_REFUSED", advice: "fail" } }],
    ["PERMISSION_DENIED", { kind: "refused", failure: { reason: "CREDENTIALS_REFUSED", advice: "fail" } }],
    ["ALREADY_EXISTS", { kind: "refused", failure: { reason: "INCOMPATIBLE", advice: "block" } }],
    ["ABORTED", { kind: "unknown", failure: { reason: "ABORTED", advice: "wait" } }],
    ["INTERNAL", { kind: "unknown", failure: { reason: "INTERNAL", advice: "again" } }],
  ] as const)("%s to an attach", async (code, outcome) => {
    await run({ faults: [{ method: "ControllerPublishVolume", code, message: "no" }] });
    expect(await plugins.publish(await created(), attachment(), call())).toMatchObject(outcome);
  });

  test("NOT_FOUND to an attach is asked again five times before it is believed", async () => {
    await run({ faults: [{ method: "ControllerPublishVolume", code: "NOT_FOUND", times: "always" }] });
    const made = await created();
    expect(await plugins.publish(made, attachment(), call(5))).toMatchObject({
      kind: "unknown",
      failure: { advice: "again", reason: "NOT_FOUND" },
    });
    expect(await plugins.publish(made, attachment(), call(6))).toMatchObject({
      kind: "refused",
      failure: { advice: "block", reason: "NOT_AT_BACKEND" },
    });
  });

  test("NOT_FOUND to a detach proves nothing; the backend's listing does", async () => {
    await run({ faults: [{ method: "ControllerUnpublishVolume", code: "NOT_FOUND" }] });
    const made = await created();
    await plugins.publish(made, attachment(), call());
    expect(await plugins.unpublish(made, attachment(), call())).toMatchObject({
      kind: "unknown",
      failure: { reason: "DETACH_UNPROVEN", advice: "check-absence" },
    });
    expect(await plugins.attachmentAbsent(made, attachment(), call())).toBe("no");
    await plugins.unpublish(made, attachment(), call());
    expect(await plugins.attachmentAbsent(made, attachment(), call())).toBe("yes");
  });

  test("from a plugin that lists no nodes nothing is concluded", async () => {
    await run({ capabilities: { without: ["controller.LIST_VOLUMES_PUBLISHED_NODES"] } });
    expect(await plugins.attachmentAbsent(await created(), attachment(), call())).toBe("unknown");
  });

  test("by the listing alone when it has no ControllerGetVolume, page by page", async () => {
    await run({ capabilities: { without: ["controller.GET_VOLUME"] } });
    const made = await created();
    for (let n = 0; n < 5; n += 1) await created({ name: `other-${n}` });
    await plugins.publish(made, attachment(), call());
    expect(await plugins.attachmentAbsent(made, attachment(), call())).toBe("no");
    expect(await plugins.attachmentAbsent({ ...made, externalId: "never-was" }, attachment(), call())).toBe("yes");
  });
});

test("beside another call of the volume it is asked of the listing, which names no volume", async () => {
  const { backend } = await run();
  const made = await created();
  await plugins.publish(made, attachment(), call());
  backend.clear();
  expect(await plugins.attachmentAbsent(made, attachment(), { ...call(), beside: true })).toBe("no");
  expect(backend.record().map(({ method }) => method)).toEqual(["ListVolumes"]);
  expect(await plugins.attachmentAbsent(made, attachment(), call())).toBe("no");
  expect(backend.record().at(-1)?.method).toBe("ControllerGetVolume");
});

describe("what is not sent", () => {
  test("to a plugin that is away", async () => {
    expect(await plugins.createVolume(volume(), call())).toMatchObject({
      kind: "unknown",
      failure: { reason: "PLUGIN_NOT_READY", advice: "again" },
    });
    expect(plugins.facts(name)).toMatchObject({ ready: false, attaches: "unknown", createsVolumes: "unknown" });
    expect(plugins.names()).toEqual(["on-nodes", "gone"]);
    announced = "no";
    expect(plugins.facts(name)).toMatchObject({ ready: false, attaches: "no", createsVolumes: "no" });
  });

  test("without its secret; with it the plugin gets it, and nobody else", async () => {
    const file = path.join(dir, "secret.json");
    const sim = await run({ secrets: { CreateVolume: { key: canary } } });
    const wanted = volume({ secretRefs: { create: "file:test/secret.json" } });
    expect(await plugins.createVolume(wanted, call())).toMatchObject({
      kind: "unknown",
      failure: { reason: "SECRET_NOT_FOUND", advice: "block" },
    });
    expect(methods()).toEqual([]);
    await writeFile(file, JSON.stringify({ key: canary }));
    await chmod(file, 0o600);
    expect(await plugins.createVolume(wanted, call())).toMatchObject({ kind: "done" });
    sim.backend.setFaults([{ method: "DeleteVolume", code: "INVALID_ARGUMENT", message: `bad key ${canary}` }]);
    const made = { ...wanted, externalId: [...sim.backend.state().volumes.keys()][0] ?? "" };
    const refused = await plugins.deleteVolume(made, call());
    expect(refused).toMatchObject({ kind: "refused", failure: { advice: "block" } });
    expect(JSON.stringify([refused, log.lines])).not.toContain(canary);
  });

  test("a mode that the plugin does not know", async () => {
    await run({ capabilities: { without: ["controller.SINGLE_NODE_MULTI_WRITER"] } });
    const shared = { ...fileSystem, accessMode: "SINGLE_NODE_MULTI_WRITER" } as const;
    expect(await plugins.createVolume(volume({ capabilities: [shared] }), call())).toMatchObject({
      kind: "refused",
      failure: { reason: "PLUGIN_REFUSED", advice: "fail", code: "UNIMPLEMENTED" },
    });
    expect(methods()).toEqual([]);
    const single = { ...fileSystem, accessMode: "SINGLE_NODE_SINGLE_WRITER" } as const;
    expect(await plugins.createVolume(volume({ capabilities: [single] }), call())).toMatchObject({ kind: "done" });
    expect(plugin?.backend.violations()).toEqual([]);
  });

  test("fields that the plugin does not offer are refused and not left out", async () => {
    await run({ capabilities: { without: ["plugin.VOLUME_ACCESSIBILITY_CONSTRAINTS", "controller.MODIFY_VOLUME"] } });
    const zoned = volume({ topology: { required: [{ zone: "a" }], preferred: [], accessible: [] } });
    const outcome = await plugins.createVolume(zoned, call());
    expect(outcome).toMatchObject({ kind: "refused", failure: { code: "UNIMPLEMENTED" } });
    expect(await plugins.createVolume(volume({ mutableParameters: { iops: "1" } }), call())).toMatchObject({
      kind: "refused",
      failure: { message: expect.stringContaining("mutable_parameters") },
    });
    expect(methods()).toEqual([]);
  });

  test("a detach without the node's id, which would detach everywhere", async () => {
    await run();
    const made = await created();
    expect(await plugins.unpublish(made, attachment({ nodeId: "" }), call())).toMatchObject({ kind: "unknown" });
    expect(methods()).toEqual(["CreateVolume"]);
  });
});

test("a plugin tells what it can, and whoever listens hears of it", async () => {
  const heard: string[] = [];
  plugins.onChange((plugin) => void heard.push(plugin));
  await run({ capabilities: { without: ["controller.PUBLISH_READONLY"] } });
  expect(plugins.facts(name)).toEqual({
    ready: true,
    reason: "",
    controllerService: "yes",
    version: expect.any(String),
    createsVolumes: "yes",
    attaches: "yes",
    publishesReadOnly: "no",
    singleNodeMultiWriter: "yes",
    listsPublishedNodes: "yes",
    expandsVolumes: "yes",
    expandsOnline: "yes",
    expandsOffline: "no",
    assumedExpansion: "offline",
    modifiesVolumes: "yes",
    getsVolumes: "yes",
    tellsCondition: "yes",
    tellsHealth: "no",
    listsHealth: "no",
  });
  expect(plugins.names()).toEqual([name, "on-nodes", "gone"]);
  expect(new Set(heard)).toEqual(new Set([name]));
});
