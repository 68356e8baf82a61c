import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { VolumeBinding } from "@holdfast/shared/gen/holdfast/v1/volume";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { mutatingCalls } from "../harness/calls.ts";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  expectClean,
  fileWriter,
  makeVolume,
  namespace,
  plugin,
  releaseWorkload,
  removeVolume,
  stateName,
  volumeStateName,
} from "../harness/scenario.ts";

const waiting = { seconds: 45n, nanos: 0 };

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

describe.skipIf(!root)("volumes that come and go, over real processes", () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a"], realMounts: true });
  });
  afterAll(() => cluster?.stop());

  const register = (id: string, externalId: string, context: Record<string, string>) =>
    cluster.volumes.registerVolume({
      namespace,
      id,
      plugin,
      externalId,
      context,
      capabilities: [fileWriter],
      waitFor: waiting,
    });

  const reasonOf = async (call: Promise<unknown>): Promise<string> => {
    const error: unknown = await call.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    return isHoldfastError(error) ? error.reason : String(error);
  };

  it("[I5] storage is let go, registered under another name, used, and kept to the end", async () => {
    const made = await makeVolume(cluster, "before");
    expect(await reasonOf(register("after", made.externalId, made.context))).toBe("VOLUME_EXISTS");
    expect(await cluster.volumes.deregisterVolume({ namespace, id: "before" })).toMatchObject({
      plugin,
      externalId: made.externalId,
      leftBehind: [expect.stringContaining(made.externalId)],
    });
    await cluster.backend.client.clear();
    const { volume } = await register("after", made.externalId, made.context);
    expect(volume === undefined ? "none" : volumeStateName(volume)).toBe("AVAILABLE");
    expect(volume).toMatchObject({
      name: "",
      pluginVersion: made.pluginVersion,
      capacity: { actualBytes: 16n << 20n },
    });
    expect(stateName(await claimVolume(cluster, "after"))).toBe("ACTIVE");
    expect(await reasonOf(cluster.volumes.deregisterVolume({ namespace, id: "after" }))).toBe("VOLUME_IN_USE");
    await releaseWorkload(cluster, "w-after");
    // Registered, it is nobody's to delete: the record goes alone.
    await removeVolume(cluster, "after");
    const state = await cluster.backend.client.state();
    expect([...state.volumes.keys()]).toEqual([made.externalId]);
    expect(await mutatingCalls(cluster)).toEqual([
      "ControllerPublishVolume",
      "NodeStageVolume",
      "NodePublishVolume",
      "NodeUnpublishVolume",
      "NodeUnstageVolume",
      "ControllerUnpublishVolume",
    ]);
    expect(await reasonOf(cluster.volumes.getVolume({ namespace, id: "after" }))).toBe("VOLUME_NOT_FOUND");
    await cluster.backend.client.dropVolume(made.externalId);
  });

  it("what the plugin does not know ends FAILED, with its words", async () => {
    const { volume } = await register("wrong", "no-such-storage", {});
    expect(volume === undefined ? "none" : volumeStateName(volume)).toBe("FAILED");
    expect(volume?.lastError).toMatchObject({ reason: "EXTERNAL_VOLUME_NOT_FOUND" });
    await removeVolume(cluster, "wrong");
  });

  it("a volume for the node of its first claim is made when there is one", async () => {
    const { volume } = await cluster.volumes.createVolume({
      namespace,
      id: "late",
      plugin,
      capacity: { requiredBytes: 16n << 20n },
      capabilities: [fileWriter],
      binding: VolumeBinding.VOLUME_BINDING_FIRST_CLAIM,
      waitFor: waiting,
    });
    expect(volume).toMatchObject({ externalId: "", boundNode: "" });
    expect(stateName(await claimVolume(cluster, "late"))).toBe("ACTIVE");
    expect((await cluster.volumes.getVolume({ namespace, id: "late" })).volume).toMatchObject({ boundNode: "node-a" });
    await releaseWorkload(cluster, "w-late");
    await removeVolume(cluster, "late");
    await expectClean(cluster);
  });

  it("the backend says how much room it has", async () => {
    const { availableBytes, maximumVolumeBytes } = await cluster.volumes.getCapacity({
      plugin,
      capabilities: [fileWriter],
    });
    expect(availableBytes).toBeGreaterThan(0n);
    expect(maximumVolumeBytes).toBeGreaterThan(0n);
  });
});
