/** A plugin says that a volume is not well: people see it wherever they look, nothing else happens, and it heals. */
import { EventServiceDefinition, EventSeverity } from "@holdfast/shared/gen/holdfast/v1/event";
import { createGrpcChannel, createGrpcClient, type GrpcChannel } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cliRun } from "../cli/cli-run.ts";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  namespace,
  plugin,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

describe.skipIf(!root)("the condition of a volume over real processes", () => {
  let cluster: Cluster;
  let channel: GrpcChannel;

  beforeAll(async () => {
    const controllerEnv = { HOLDFAST_CONDITION_INTERVAL: "150ms" };
    const agentEnv = { HOLDFAST_STATS_MAX_AGE: "1s" };
    cluster = await startCluster({ nodes: ["node-a"], realMounts: true, controllerEnv, agentEnv });
    channel = createGrpcChannel(cluster.address);
  });
  afterAll(async () => {
    channel?.close();
    await cluster?.stop();
  });

  const volumeNow = async (id: string) => (await cluster.volumes.getVolume({ namespace, id })).volume;
  const holdfast = async (args: string): Promise<string> => {
    const { code, out, err } = await cliRun([...args.split(" "), "--namespace", namespace], {
      address: cluster.address,
    });
    expect(code, err).toBe(0);
    return out;
  };

  const events = () => createGrpcClient(EventServiceDefinition, channel, { log: createMemoryLogger() });

  /** Where the history stands: the first message of a watch has no event. */
  const position = async (): Promise<string> => {
    const signal = AbortSignal.timeout(60_000);
    for await (const { resumeToken } of events().watchEvents({ filter: { namespace } }, { signal })) return resumeToken;
    throw new Error("the watch ended without a word");
  };

  /** The reasons of the volume's events from the token on, up to the one that is wanted, with their severities. */
  const eventsUpTo = async (id: string, resumeToken: string, last: string) => {
    const signal = AbortSignal.timeout(60_000);
    const seen: { readonly reason: string; readonly severity: EventSeverity; readonly token: string }[] = [];
    for await (const { event } of events().watchEvents(
      { filter: { namespace, volume: id }, resumeToken },
      { signal },
    )) {
      if (event === undefined) continue;
      seen.push({ reason: event.reason, severity: event.severity, token: event.resumeToken });
      if (event.reason === last) break;
    }
    return seen;
  };

  it("is seen in Get, List, Explain, the events, the figures and the command line, and is over when the plugin says so", async () => {
    const start = await position();
    const { externalId } = await makeVolume(cluster, "sick");
    const claim = await claimVolume(cluster, "sick");
    expect((await volumeNow("sick"))?.condition).toBeUndefined();
    expect(await holdfast("volume list sick")).not.toContain("ABNORMAL");
    const calm = await eventsUpTo("sick", start, "CLAIM_ACTIVE");
    expect(calm.map(({ reason }) => reason)).not.toContain("VOLUME_ABNORMAL");

    await cluster.backend.client.setCondition(externalId, { abnormal: true, message: "disk 3 is failing" });
    // Both say it; whoever is believed first stands there alone until the other one is.
    const both = "backend: disk 3 is failing; node node-a: disk 3 is failing";
    const sick = await until(
      "both sources to be believed",
      async () => {
        const volume = await volumeNow("sick");
        return volume?.condition?.message === both ? volume : undefined;
      },
      60_000,
    );
    expect(sick.condition?.abnormal).toBe(true);
    const told = await eventsUpTo("sick", calm.at(-1)?.token ?? "", "VOLUME_ABNORMAL");
    expect(told.at(-1)?.severity).toBe(EventSeverity.EVENT_SEVERITY_WARNING);
    const { findings } = await cluster.volumes.explainVolume({ namespace, id: "sick" });
    expect(findings.filter((line) => line.includes(both))).toHaveLength(1);
    const { volumes } = await cluster.volumes.listVolumes({ filter: { namespace, idPrefix: "sick" } });
    expect(volumes[0]?.condition?.message).toBe(both);
    expect((await cluster.volumes.getVolumeStats({ namespace, id: "sick" })).condition?.message).toBe(both);
    expect(await holdfast("volume list sick")).toContain("AVAILABLE ABNORMAL");
    expect(await holdfast("volume status sick")).toContain(`abnormal ${both}`);
    expect(await holdfast("volume explain sick")).toContain(both);
    // For people alone: the workload keeps what it has, on the very life of its claim.
    const { claims } = await cluster.claims.listClaims({ filter: { namespace, volume: "sick" } });
    expect(claims.map((one) => [one.uid, stateName(one)])).toEqual([[claim.uid, "ACTIVE"]]);

    await cluster.backend.client.setCondition(externalId, { abnormal: false, message: "" });
    await until(
      "it to be well",
      async () => {
        const volume = await volumeNow("sick");
        return volume !== undefined && volume.condition === undefined;
      },
      60_000,
    );
    const healed = await eventsUpTo("sick", told.at(-1)?.token ?? "", "VOLUME_NORMAL");
    expect(healed.at(-1)?.severity).toBe(EventSeverity.EVENT_SEVERITY_INFO);
    expect(await holdfast("volume list sick")).not.toContain("ABNORMAL");
    expect(await holdfast("volume explain sick")).not.toContain("disk 3");

    await releaseWorkload(cluster, "w-sick");
    await removeVolume(cluster, "sick");
    await expectClean(cluster);
  });

  it("D13 a profile that ignores the word of a driver takes it back from what it had marked, and believes it no more", async () => {
    const { externalId } = await makeVolume(cluster, "slandered");
    await claimVolume(cluster, "slandered");
    await cluster.backend.client.setCondition(externalId, { abnormal: true, message: "always" });
    const marked = async () => (await volumeNow("slandered"))?.condition?.abnormal === true;
    await until("it to be marked", marked, 60_000);
    const run = (yaml: string) =>
      cliRun(["plugin", "profile", plugin, "p.yaml"], { address: cluster.address, files: { "p.yaml": yaml } });
    expect((await run("ignore_condition: true\n")).code).toBe(0);
    await until("it to be marked no more", async () => !(await marked()), 60_000);
    expect((await run("max_concurrent_calls: 64\n")).code).toBe(0);
    await until("it to be marked again", marked, 60_000);
    await releaseWorkload(cluster, "w-slandered");
    await removeVolume(cluster, "slandered");
  });
});
