/** D15 of what real drivers showed: while a call has no answer, the claim and its volume say which call it is, where, and since when. */
import { ClaimGoal } from "@holdfast/shared/gen/holdfast/v1/claim";
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

const slow = [
  ["ControllerPublishVolume", "attach", 2],
  ["NodeStageVolume", "stage", 2],
] as const;

describe.skipIf(!root)("the call under way", () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a"], realMounts: true });
    for (const [, id] of slow) await makeVolume(cluster, id);
  });
  afterAll(() => cluster?.stop());

  const ask = (id: string) =>
    cluster.claims.createClaims({ namespace, workload: `w-${id}`, node: "node-a", claims: [{ volume: id }] });
  const holdfast = async (args: string, address = cluster.address): Promise<string> => {
    const { code, out, err } = await cliRun([...args.split(" "), "--namespace", namespace], { address });
    expect(code, err).toBe(0);
    return out;
  };
  const callOf = (id: string) =>
    until(`the call of ${id} to be seen`, async () => {
      const { claims } = await cluster.claims.listClaims({ filter: { namespace, volume: id } });
      return claims[0]?.call;
    });
  const whole = async (id: string): Promise<void> => {
    expect(stateName(await claimVolume(cluster, id))).toBe("ACTIVE");
    const { claims } = await cluster.claims.listClaims({ filter: { namespace, volume: id } });
    expect(claims[0]?.call).toBeUndefined();
    await releaseWorkload(cluster, `w-${id}`);
    await removeVolume(cluster, id);
  };

  // Beside each other, as each waits for a call that lasts.
  it.concurrent.each(slow)("%s: in claims, waits, Explain, lists and the command line", async (method, id, attempt) => {
    const { volume } = await cluster.volumes.getVolume({ namespace, id });
    const match = { volume: volume?.externalId ?? "" };
    await cluster.backend.client.addFault({ method, match, code: "INTERNAL", message: "not now" });
    await cluster.backend.client.addFault({ method, match, hangMs: 6_000 });
    const waiting = new AbortController();
    const seen = (async () => {
      const wanted = { namespace, workload: `w-${id}`, goal: ClaimGoal.CLAIM_GOAL_ACTIVE };
      await until("the claim", async () => (await ask(id)).claims[0]);
      for await (const { claims } of cluster.claims.waitClaims(wanted, { signal: waiting.signal }))
        if (claims[0]?.call !== undefined) return claims[0].call.method;
      return "nothing";
    })();
    const call = await callOf(id);
    expect(call).toMatchObject({ method, plugin, node: "node-a", attempt, since: expect.any(Date) });
    expect(call.instance).not.toBe("");
    expect(call.deadline?.getTime()).toBeGreaterThan(call.since?.getTime() ?? 0);
    expect(call.lastAnswer).toMatchObject({
      csiMethod: method,
      csiCode: "INTERNAL",
      message: expect.stringContaining("not now"),
    });
    expect(await seen).toBe(method);
    const explained = await cluster.volumes.explainVolume({ namespace, id });
    expect(explained.claims[0]?.call?.method).toBe(method);
    expect(explained.findings.join("\n")).toMatch(
      new RegExp(`waits for ${method} \\(attempt ${attempt}\\): plugin instance`),
    );
    expect(explained.volume?.calls.map((one) => one.method)).toEqual([method]);
    expect(await holdfast(`claim status w-${id} ${id}`)).toMatch(
      new RegExp(`Call: +${method} for node-a at .*attempt ${attempt}`),
    );
    expect(await holdfast("volume list -o wide")).toContain(`${method} for node-a at`);
    expect(await holdfast("volume list")).not.toContain(method);
    waiting.abort();
    await whole(id);
  });

  it.concurrent("CreateVolume: on the volume, which has no claim", async () => {
    await cluster.backend.client.addFault({ method: "CreateVolume", hangMs: 5_000 });
    const made = makeVolume(cluster, "new");
    const calls = await until("the call to be seen", async () => {
      const { volumes } = await cluster.volumes.listVolumes({ filter: { namespace, idPrefix: "new" } });
      return volumes[0]?.calls.length === 0 ? undefined : volumes[0]?.calls;
    });
    expect(calls).toMatchObject([{ method: "CreateVolume", node: "", attempt: 1 }]);
    expect((await cluster.volumes.explainVolume({ namespace, id: "new" })).findings.join("\n")).toContain(
      "waits for CreateVolume",
    );
    expect((await made).calls).toEqual([]);
    await removeVolume(cluster, "new");
  });

  it("leaves nothing when it is over", () => expectClean(cluster));
});
