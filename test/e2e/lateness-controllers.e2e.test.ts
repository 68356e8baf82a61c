/**
 * A controller goes away with a call in the socket beside it: paused, or replaced by one with an empty state directory. Other volumes
 * and nodes go on at the other controller, and the barred pair waits for evidence.
 */
import { rm } from "node:fs/promises";
import path from "node:path";
import { IntentOperation } from "@holdfast/shared/gen/holdfast/v1/volume";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { Cluster } from "../harness/cluster.ts";
import { freeze } from "../harness/frozen.ts";
import { claimGoesOn, othersGoOn, queuedClaim } from "../harness/goes-on.ts";
import { seenFrom, type Which } from "../harness/plugin-driver.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  namespace,
  persistently,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { startTwoControllers, type TwoControllers } from "../harness/two-controllers.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const [holder, elsewhere] = ["node-a", "node-b"];
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe.skipIf(!root)("a controller that goes away with a call in the socket beside it", () => {
  let both: TwoControllers | undefined;
  let cluster: Cluster;

  beforeAll(async () => {
    both = await startTwoControllers([holder, elsewhere]);
    cluster = both.cluster;
    await persistently("a first volume", () => othersGoOn(cluster, [holder]));
  });
  afterAll(() => both?.stop());

  const processOf = (which: Which) => (which === "first" ? cluster.controller() : cluster[which].process());
  const pluginOf = (which: Which) => (which === "first" ? cluster.controllerPlugin() : cluster[which].plugin());
  const startOf = (which: Which) => (which === "first" ? cluster.startController() : cluster[which].start());
  const volumeOf = async (side: Cluster, id: string) => (await side.volumes.getVolume({ namespace, id })).volume;
  const barsOf = async (side: Cluster, id: string) => (await volumeOf(side, id))?.bars ?? [];
  const detachesOf = async (side: Cluster, id: string): Promise<readonly string[]> => {
    const { externalId } = (await volumeOf(side, id)) ?? {};
    return (await cluster.backend.client.record()).flatMap(({ method, volume, instance }) =>
      method === "ControllerUnpublishVolume" && volume === externalId ? [instance] : [],
    );
  };

  /** The detach of the holder's claim lies in the socket of a frozen plugin. Tells whose it is, and how to thaw the plugin. */
  const detachHeld = async (id: string) => {
    await persistently("the volume", () => makeVolume(cluster, id));
    expect(stateName(await persistently("the claim", () => claimVolume(cluster, id, { node: holder })))).toBe("ACTIVE");
    const calls = await cluster.backend.client.record();
    const issuer = calls.findLast(({ method }) => method === "ControllerPublishVolume")?.instance as Which;
    const other: Which = issuer === "first" ? "second" : "first";
    const side = seenFrom(cluster, other);
    const frozen = freeze(pluginOf(issuer));
    onTestFinished(frozen.thaw);
    await cluster.claims.releaseClaims({ namespace, workload: `w-${id}` });
    await until("the detach to be given away", async () => {
      const { operation, issuer: by = "" } = (await volumeOf(side, id))?.intent ?? {};
      return (
        operation === IntentOperation.INTENT_OPERATION_DETACH && by.startsWith("second/") === (issuer === "second")
      );
    });
    // It is on its way to the plugin: nothing tells when it lies in the socket.
    await pause(500);
    return { issuer, other, side, thaw: frozen.thaw };
  };
  const overtaken = async (side: Cluster, id: string, by: Which): Promise<string> => {
    // On a busy host it is over by now, and no claim is left to be told of.
    expect((await releaseWorkload(side, `w-${id}`)).map(stateName).filter((state) => state !== "RELEASED")).toEqual([]);
    expect(await detachesOf(side, id)).toEqual([by]);
    const bars = await barsOf(side, id);
    expect(bars).toMatchObject([{ node: holder, operation: "detach", gate: "" }]);
    await othersGoOn(side, [holder, elsewhere]);
    await claimGoesOn(side, id, elsewhere);
    return bars[0]?.id ?? "";
  };

  it("[I2] paused: the bar goes by itself once it runs again and its plugin has answered", async () => {
    const { issuer, other, side, thaw } = await detachHeld("paused");
    const frozen = freeze(processOf(issuer));
    onTestFinished(frozen.thaw);
    await overtaken(side, "paused", other);
    const next = queuedClaim(side, "paused", holder, "next");
    thaw();
    await until("the late call to arrive", async () => (await detachesOf(side, "paused")).includes(issuer));
    expect(await barsOf(side, "paused")).toHaveLength(1);
    frozen.thaw();
    expect(await next.state).toBe("ACTIVE");
    expect(await barsOf(side, "paused")).toEqual([]);
    await releaseWorkload(side, "next");
    await removeVolume(side, "paused");
    await expectClean(cluster);
  });

  it("[I2] replaced with an empty state directory: that life knows of no call, and lifts no bar; a person does", async () => {
    const { issuer, other, side, thaw } = await detachHeld("replaced");
    await processOf(issuer).kill("SIGKILL");
    await rm(path.join(cluster.dir, issuer === "first" ? "controller" : "controller-second"), { recursive: true });
    await startOf(issuer);
    const bar = await overtaken(side, "replaced", other);
    thaw();
    await until("the late call to arrive", async () => (await detachesOf(side, "replaced")).includes(issuer));
    // Both controllers have called their plugins since.
    await persistently("the one that was replaced", () => othersGoOn(seenFrom(cluster, issuer), [holder]));
    const early = claimVolume(side, "replaced", { node: holder, workload: "early" });
    await expect(early).rejects.toThrow(/clear-bar/);
    const next = queuedClaim(side, "replaced", holder, "next");
    const asked = { namespace, volume: "replaced", bar, evidence: "the plugin was restarted", reason: "test" };
    const { outcome } = await cluster.repair.clearBar({ ...asked, dryRun: true });
    await cluster.repair.clearBar({ ...asked, confirm: outcome?.confirmWith ?? "" });
    expect(await next.state).toBe("ACTIVE");
    await releaseWorkload(side, "next");
    await removeVolume(side, "replaced");
    await expectClean(cluster);
  });
});
