import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { type OtlpReceiver, startOtlpReceiver } from "../harness/otlp-receiver.ts";
import {
  claimVolume,
  expectClean,
  fileWriter,
  namespace,
  plugin,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const canary = "cAnArY/7f3+secret=value";
/** Every form in which it could slip out. */
const forms: readonly string[] = [
  canary,
  Buffer.from(canary).toString("base64").replace(/=+$/, ""),
  Buffer.from(canary).toString("base64url"),
  Buffer.from(canary).toString("hex"),
  encodeURIComponent(canary),
  JSON.stringify(canary).slice(1, -1),
];

const everyFile = async (dir: string): Promise<readonly string[]> => {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true });
  return entries.filter((e) => e.isFile()).map((e) => path.join(e.parentPath, e.name));
};

const asText = (value: unknown): string =>
  JSON.stringify(value, (_key, item: unknown) => (typeof item === "bigint" ? `${item}` : item));

describe.skipIf(!root)("secrets", () => {
  let cluster: Cluster;
  let traces: OtlpReceiver;

  beforeAll(async () => {
    traces = await startOtlpReceiver();
    const secrets = { token: canary };
    cluster = await startCluster({
      nodes: ["node-a"],
      realMounts: true,
      otlpEndpoint: traces.endpoint,
      logLevel: "debug",
      controllerEnv: { CANARY_SECRET: JSON.stringify(secrets) },
      backend: {
        secrets: {
          CreateVolume: secrets,
          ControllerPublishVolume: secrets,
          ControllerUnpublishVolume: secrets,
          NodeStageVolume: secrets,
          NodePublishVolume: secrets,
          DeleteVolume: secrets,
        },
      },
    });
  });
  afterAll(async () => {
    await cluster.stop();
    await traces.close();
  });

  it("[I10] reach the plugin, and appear in no log, span, error, metric, store or journal, also when the plugin repeats them", async () => {
    const ref = "env:CANARY_SECRET";
    const created = await cluster.volumes.createVolume({
      namespace,
      id: "kept",
      plugin,
      capacity: { requiredBytes: 1n << 20n },
      capabilities: [fileWriter],
      secrets: {
        create: { ref },
        delete: { ref },
        controllerPublish: { ref },
        nodeStage: { ref },
        nodePublish: { ref },
      },
      waitFor: { seconds: 30n, nanos: 0 },
    });
    expect(created.volume?.externalId).not.toBe("");
    // The plugin tells the secret in its error texts: once on each call that carries it.
    await cluster.backend.client.setFaults(
      (
        [
          "ControllerPublishVolume",
          "NodeStageVolume",
          "NodePublishVolume",
          "ControllerUnpublishVolume",
          "DeleteVolume",
        ] as const
      ).map((method) => ({ method, code: "INTERNAL", message: `login with ${forms.join(" and ")} failed`, times: 1 })),
    );
    const claim = await claimVolume(cluster, "kept");
    expect(stateName(claim)).toBe("ACTIVE");
    const listed = await cluster.claims.listClaims({ filter: { namespace } });
    const explained = await cluster.volumes.explainVolume({ namespace, id: "kept" });
    await releaseWorkload(cluster, "w-kept");
    await removeVolume(cluster, "kept");
    await expectClean(cluster);
    const seen = await cluster.backend.client.record();
    for (const method of [
      "CreateVolume",
      "ControllerPublishVolume",
      "NodeStageVolume",
      "NodePublishVolume",
      "ControllerUnpublishVolume",
      "DeleteVolume",
    ])
      expect(
        seen.some((c) => c.method === method && asText(c.request).includes('"keys":["token"]')),
        method,
      ).toBe(true);
    await traces.until((all) => all.some((s) => s.name.endsWith("DeleteVolume")), "DeleteVolume");

    const metrics = await Promise.all(
      [cluster.controller(), cluster.node("node-a").agent()].map(async (service) => {
        const line = await service.line((l) => l["message"] === "admin listening", "its admin address");
        return (await fetch(`http://${String(line["address"])}/metrics`)).text();
      }),
    );
    const places: [string, string][] = [
      ["logs", cluster.output()],
      ["spans", traces.raw()],
      ["metrics", metrics.join("\n")],
      ["answers", asText([created, claim, listed, explained])],
    ];
    for (const file of await everyFile(cluster.dir)) places.push([file, await readFile(file, "latin1")]);
    expect(places.length).toBeGreaterThan(6);
    expect(metrics.every((text) => text.includes("# HELP"))).toBe(true);
    for (const [where, text] of places)
      for (const form of forms) expect(text.includes(form), `${form} in ${where}`).toBe(false);
  });
});
