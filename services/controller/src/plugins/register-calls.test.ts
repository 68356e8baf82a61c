import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createPluginDirectory, type PluginDirectory } from "@holdfast/csi/plugin-directory";
import { systemClock } from "@holdfast/shared/async/clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createTracing } from "@holdfast/shared/tracing";
import type { Fault } from "@holdfast/sim-plugin/backend/faults";
import type { SimPluginOptions } from "@holdfast/sim-plugin/sim-plugin";
import { createSimPlugin, type SimPlugin } from "@holdfast/sim-plugin/sim-plugin";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { CallGuide } from "../domain/plugin/call-guide.ts";
import { attachmentRecord, volumeRecord } from "../domain/testing/record-fixtures.ts";
import type { VolumeCapability, VolumeRecord } from "../domain/volume/volume.ts";
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

const plugin = "sim.holdfast.dev";
const fileSystem: VolumeCapability = {
  attachmentMode: "FILE_SYSTEM",
  accessMode: "SINGLE_NODE_WRITER",
  fsType: "ext4",
  mountFlags: [],
  volumeMountGroup: "",
};

let dir: string;
let stop: AbortController;
let directory: PluginDirectory;
let sim: SimPlugin | undefined;
let plugins: ControllerPlugins;

beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-reg-"));
  stop = new AbortController();
  const log = createMemoryLogger();
  const tracing = createTracing("test");
  directory = createPluginDirectory({ dir, role: "controller", log, tracing, clock: systemClock, signal: stop.signal });
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
        announced: () => "unknown",
        names: () => [],
        onChange: () => () => true,
      },
      lines: { transportTo: () => expect.unreachable("no half is on a node"), forget: () => undefined },
      clock: systemClock,
      tracing,
      besideControllerOnly: () => false,
      reach: () => "auto",
      guide: trusting,
      reading: (_plugin, _method, code) => code,
    }),
    guide: trusting,
    secrets: createSecrets({ env: {}, log: createMemoryLogger() }),
    log,
    ownerOf: async () => undefined,
    announcedByNodes: () => "unknown",
  });
});

afterEach(async () => {
  expect(sim?.backend.violations() ?? []).toEqual([]);
  stop.abort(new Error("over"));
  await directory.close();
  await sim?.close();
  sim = undefined;
  await rm(dir, { recursive: true, force: true });
});

const call = () => ({ signal: stop.signal, attempt: 1 });

/** A plugin with storage that somebody made before, and the record with which it is registered. */
const standing = async (
  options: Partial<SimPluginOptions> = {},
  change: Partial<VolumeRecord> = {},
): Promise<VolumeRecord> => {
  sim = await createSimPlugin({ role: "controller", socket: path.join(dir, "csi.sock"), ...options });
  await directory.whenReady(plugin, stop.signal);
  const made = await plugins.createVolume(
    volumeRecord([], [], {
      plugin,
      name: "made-before",
      externalId: "",
      capabilities: [fileSystem],
      capacity: { required: 1 << 24, limit: 0, actual: 0 },
    }),
    call(),
  );
  if (made.kind !== "done") throw new Error(made.failure.message);
  const { externalId, context } = made.value;
  const capacity = { required: 0, limit: 0, actual: 0 };
  return volumeRecord([], [], {
    plugin,
    name: "",
    state: "CREATING",
    externalId,
    context,
    capabilities: [fileSystem],
    capacity,
    ...change,
  });
};

const faulty = async (fault: Omit<Fault, "method">, change: Partial<VolumeRecord> = {}) => {
  const volume = await standing({}, change);
  sim?.backend.addFault({ method: "ValidateVolumeCapabilities", ...fault });
  return await plugins.validateVolume(volume, call());
};

describe("storage that is registered", () => {
  test("is confirmed, with its size and its users, and the question may be repeated", async () => {
    const volume = await standing();
    for (let round = 0; round < 2; round += 1)
      expect(await plugins.validateVolume(volume, call())).toEqual({
        kind: "done",
        value: {
          confirmed: true,
          pluginVersion: expect.any(String),
          capacity: 1 << 24,
          accessible: [],
          publishedNodes: [],
        },
      });
    await plugins.publish(
      volume,
      attachmentRecord("n1", { nodeId: "node-a", accessMode: "SINGLE_NODE_WRITER", fsType: "ext4" }),
      call(),
    );
    expect(await plugins.validateVolume(volume, call())).toMatchObject({ value: { publishedNodes: ["node-a"] } });
    expect(sim?.backend.state().volumes.size).toBe(1);
  });

  test("W33: every field that is on record is in the question, mount options and all", async () => {
    const fields = { ...fileSystem, mountFlags: ["noatime"], volumeMountGroup: "7" };
    const volume = await standing(
      {},
      { capabilities: [fields], parameters: { tier: "fast" }, mutableParameters: { iops: "1" } },
    );
    await plugins.validateVolume(volume, call());
    const asked = sim?.backend.record().find(({ method }) => method === "ValidateVolumeCapabilities")?.request;
    expect(asked).toMatchObject({
      volumeId: volume.externalId,
      // C37: byte for byte what CreateVolume answered.
      volumeContext: volume.context,
      volumeCapabilities: [{ mount: { fsType: "ext4", mountFlags: ["noatime"], volumeMountGroup: "7" } }],
      parameters: { tier: "fast" },
      mutableParameters: { iops: "1" },
    });
  });

  test("its users are found in the listing when the plugin has no ControllerGetVolume, and stay unknown without either", async () => {
    const volume = await standing({ capabilities: { without: ["controller.GET_VOLUME"] } });
    await plugins.publish(
      volume,
      attachmentRecord("n1", { nodeId: "node-a", accessMode: "SINGLE_NODE_WRITER", fsType: "ext4" }),
      call(),
    );
    expect(await plugins.validateVolume(volume, call())).toMatchObject({ value: { publishedNodes: ["node-a"] } });
  });

  test("who uses it is not guessed from a plugin that does not tell", async () => {
    const volume = await standing({ capabilities: { without: ["controller.LIST_VOLUMES_PUBLISHED_NODES"] } });
    const outcome = await plugins.validateVolume(volume, call());
    expect(outcome).toMatchObject({ kind: "done", value: { confirmed: true } });
    expect(outcome.kind === "done" && outcome.value.publishedNodes).toBeUndefined();
  });

  test("that the plugin does not know is refused for good", async () => {
    const volume = await standing();
    expect(await plugins.validateVolume({ ...volume, externalId: "nothing-there" }, call())).toMatchObject({
      kind: "refused",
      failure: {
        reason: "EXTERNAL_VOLUME_NOT_FOUND",
        advice: "fail",
        message: expect.stringContaining("nothing-there"),
      },
    });
  });

  test("the plugin's own words say why it cannot be used as said", async () => {
    const volume = await standing();
    const other = { ...volume, capabilities: [{ ...fileSystem, accessMode: "MULTI_NODE_MULTI_WRITER" as const }] };
    expect(await plugins.validateVolume(other, call())).toMatchObject({
      kind: "refused",
      failure: { reason: "CAPABILITY_MISMATCH", message: expect.stringContaining("was not made with one of these") },
    });
  });

  test("neither yes nor no is no failure", async () => {
    expect(await faulty({ malformed: "nothing-confirmed" })).toMatchObject({
      kind: "done",
      value: { confirmed: false },
    });
  });

  test("a plugin older than a field that it was sent is found out, and the field named", async () => {
    expect(await faulty({ malformed: "old-confirmation" }, { mutableParameters: { iops: "1" } })).toMatchObject({
      kind: "refused",
      failure: { reason: "CAPABILITY_MISMATCH", message: expect.stringContaining("mutable_parameters[iops]") },
    });
  });

  test("smaller than asked for it is refused", async () => {
    const volume = await standing({}, { capacity: { required: 1 << 25, limit: 0, actual: 0 } });
    expect(await plugins.validateVolume(volume, call())).toMatchObject({
      kind: "refused",
      failure: { reason: "CAPABILITY_MISMATCH", message: expect.stringContaining("capacity") },
    });
  });

  test.each([
    ["INVALID_ARGUMENT", { kind: "refused", failure: { advice: "fail" } }],
    ["UNAUTHENTICATED", { kind: "refused", failure: { reason: "CREDENTIALS_REFUSED", advice: "block" } }],
    ["INTERNAL", { kind: "unknown", failure: { advice: "again" } }],
    ["ABORTED", { kind: "unknown", failure: { advice: "wait" } }],
  ] as const)("the plugin answers %s", async (code, expected) => {
    expect(await faulty({ code })).toMatchObject(expected);
  });

  test("a plugin without a controller half has nothing against it", async () => {
    sim = await createSimPlugin({
      role: "controller",
      socket: path.join(dir, "csi.sock"),
      capabilities: { without: ["plugin.CONTROLLER_SERVICE"] },
    });
    await directory.whenReady(plugin, stop.signal);
    const volume = volumeRecord([], [], { plugin, name: "", externalId: "share", capabilities: [fileSystem] });
    expect(await plugins.validateVolume(volume, call())).toMatchObject({ kind: "done", value: { confirmed: false } });
  });
});
