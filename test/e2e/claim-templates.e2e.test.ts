/** Claims that bring their volumes, over the whole product: made for the claim, kept or gone with it, once whatever dies on the way. */
import { VolumeLifetime } from "@holdfast/shared/gen/holdfast/v1/claim";
import { VolumeState } from "@holdfast/shared/gen/holdfast/v1/volume";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import {
  expectClean,
  fileWriter,
  namespace,
  persistently,
  plugin,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

describe.skipIf(!root)("a claim that brings its volume", () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a", "node-b"], realMounts: true });
  });
  afterAll(() => cluster?.stop());

  const lifetimes = {
    ephemeral: VolumeLifetime.VOLUME_LIFETIME_EPHEMERAL,
    retain: VolumeLifetime.VOLUME_LIFETIME_RETAIN,
  };
  const claim = async (workload: string, lifetime: keyof typeof lifetimes, node = "node-a") => {
    const template = { lifetime: lifetimes[lifetime], plugin, capacity: { requiredBytes: 16n << 20n } };
    const { claims } = await cluster.claims.createClaims({
      namespace,
      workload,
      node,
      claims: [{ alias: "scratch", capability: fileWriter, template }],
      waitFor: { seconds: 45n, nanos: 0 },
    });
    const [first] = claims;
    if (first === undefined) throw new Error("an empty answer");
    return first;
  };
  const volumes = async () => (await cluster.volumes.listVolumes({ filter: { namespace } })).volumes;
  const none = () => until("no volume is left", async () => (await volumes()).length === 0);

  it("has it mounted on its node; an ephemeral one goes with its release, with its storage", async () => {
    const active = await claim("job-1", "ephemeral", "node-b");
    expect(stateName(active)).toBe("ACTIVE");
    const [made, ...others] = await volumes();
    expect(others).toEqual([]);
    expect(made).toMatchObject({
      id: active.volume,
      boundNode: "node-b",
      ephemeral: { workload: "job-1", alias: "scratch" },
    });
    const { findings } = await cluster.volumes.explainVolume({ namespace, id: active.volume });
    expect(findings.join("\n")).toContain("is deleted with its data once its claims are over");
    await releaseWorkload(cluster, "job-1");
    await none();
    await expectClean(cluster);
  });

  it("has the one that was kept again", async () => {
    const first = await claim("job-2", "retain");
    await releaseWorkload(cluster, "job-2");
    const again = await claim("job-2", "retain");
    expect([again.volume, again.uid === first.uid, stateName(again)]).toEqual([first.volume, false, "ACTIVE"]);
    await releaseWorkload(cluster, "job-2");
    expect(await volumes()).toMatchObject([{ id: first.volume, state: VolumeState.VOLUME_STATE_AVAILABLE }]);
    await removeVolume(cluster, first.volume);
    await none();
  });

  it.each(["controller.create.after-commit", "controller.create.after-call", "controller.delete.after-call"])(
    "is one volume, and none afterwards, when the controller is killed at %s",
    async (point) => {
      await cluster.controller().kill("SIGKILL");
      await cluster.startController({ HOLDFAST_FAILPOINTS: `${point}=kill` });
      const killed = cluster.controller().exited();
      const asked = claim("job-3", "ephemeral").catch(() => undefined);
      const gone = point.includes("delete")
        ? asked.then(() => releaseWorkload(cluster, "job-3").catch(() => []))
        : asked;
      await killed;
      await gone;
      await cluster.startController();
      if (!point.includes("delete")) {
        const active = await persistently("the claim", () => claim("job-3", "ephemeral"));
        expect(stateName(active)).toBe("ACTIVE");
        expect(await volumes()).toHaveLength(1);
        await releaseWorkload(cluster, "job-3");
      }
      await none();
      await expectClean(cluster);
    },
  );
});
