import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { mutatingCalls } from "../harness/calls.ts";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { type OtlpReceiver, startOtlpReceiver } from "../harness/otlp-receiver.ts";
import {
  blockWriter,
  claimVolume,
  expectClean,
  fileWriter,
  makeVolume,
  mountsUnder,
  releaseWorkload,
  removeVolume,
  stateName,
  volumeStateName,
} from "../harness/scenario.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

describe.skipIf(!root)("one volume, end to end over real processes", () => {
  let cluster: Cluster;
  let traces: OtlpReceiver;

  beforeAll(async () => {
    traces = await startOtlpReceiver();
    cluster = await startCluster({ nodes: ["node-a"], realMounts: true, otlpEndpoint: traces.endpoint });
  });
  afterAll(async () => {
    await cluster.stop();
    await traces.close();
  });

  it.each([
    { kind: "file system", id: "files", capability: fileWriter },
    { kind: "block device", id: "block", capability: blockWriter },
  ])("[I2] [I5] a $kind is created, claimed, mounted, released and deleted", async ({ id, capability }) => {
    await cluster.backend.client.clear();
    const volume = await makeVolume(cluster, id, capability);
    expect(volumeStateName(volume)).toBe("AVAILABLE");
    const claim = await claimVolume(cluster, id);
    expect(stateName(claim)).toBe("ACTIVE");
    expect(claim.hostPath).not.toBe("");
    expect((await mountsUnder(cluster.dir)).some((line) => line.includes(` ${claim.hostPath} `))).toBe(true);
    if (capability === fileWriter) {
      await writeFile(path.join(claim.hostPath, "f"), "kept");
      expect(await readFile(path.join(claim.hostPath, "f"), "utf8")).toBe("kept");
    }
    const [over] = await releaseWorkload(cluster, `w-${id}`);
    expect(over === undefined ? "none" : stateName(over)).toBe("RELEASED");
    await removeVolume(cluster, id);
    await expectClean(cluster);
    expect(await mutatingCalls(cluster)).toEqual([
      "CreateVolume",
      "ControllerPublishVolume",
      "NodeStageVolume",
      "NodePublishVolume",
      "NodeUnpublishVolume",
      "NodeUnstageVolume",
      "ControllerUnpublishVolume",
      "DeleteVolume",
    ]);
  });

  it("one trace runs from CreateClaims through controller and agent to each CSI call", async () => {
    await makeVolume(cluster, "traced");
    const claim = await claimVolume(cluster, "traced");
    const wanted = ["ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"];
    // Each process sends its spans when it likes: the last to come may be any of them, also one in the middle.
    const spans = await traces.until(
      (all) => {
        const sent = new Set(all.map((s) => s.spanId));
        const ours = all.filter((s) => s.traceId === claim.traceId);
        const complete = ours.every((s) => s.parentSpanId === "" || sent.has(s.parentSpanId));
        return complete && wanted.every((m) => ours.some((s) => s.name.endsWith(m)));
      },
      `${wanted.join(", ")}, and all above them`,
    );
    const mine = spans.filter((s) => s.traceId === claim.traceId);
    const byId = new Map(mine.map((s) => [s.spanId, s]));
    for (const method of wanted) {
      const span = mine.find((s) => s.name.endsWith(method));
      expect(span?.attributes).toMatchObject({
        "rpc.system": "grpc",
        "rpc.method": method,
        "rpc.grpc.status_code": 0,
        "holdfast.plugin": "sim.holdfast.dev",
        "holdfast.volume": "test/traced",
        "holdfast.claim": claim.uid,
        "holdfast.node": "node-a",
        "holdfast.attempt": 1,
      });
      const path: string[] = [];
      for (let at = span; at !== undefined; at = byId.get(at.parentSpanId)) path.push(at.name);
      expect(path.at(-1), path.join(" < ")).toContain("CreateClaims");
    }
    expect(new Set(mine.map((s) => s.service)).size, "controller and agent").toBeGreaterThanOrEqual(2);
    await releaseWorkload(cluster, "w-traced");
    await removeVolume(cluster, "traced");
    await expectClean(cluster);
  });
});
