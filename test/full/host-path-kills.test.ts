import { describe, expect, it, vi } from "vitest";
import { lifecycleErrors } from "../harness/host-path-log.ts";
import { loseRecord } from "../harness/host-path-lost.ts";
import { killsOf, killTable, runHostPathKills } from "../harness/host-path-run.ts";
import { servedIn } from "../harness/host-path-served.ts";
import { hostPathPlugin, startHostPathWorld } from "../harness/host-path-world.ts";
import { nodes } from "../harness/node-local.ts";
import { claimVolume, fileWriter, makeVolume, stateName } from "../harness/scenario.ts";
import { openCsiClients } from "../local-driver/csi-clients.ts";
import { seedOfRun } from "../local-driver/seeded-random.ts";
import { full } from "../support/full.ts";
import { hasHostPath } from "../support/host-path-driver.ts";

const can = full && (await hasHostPath("csi-driver-host-path under kills"));

describe.runIf(can)("csi-driver-host-path, killed with its agents and controllers", () => {
  it.each([
    { where: "found by its socket", hosted: false, controllers: 1 },
    { where: "hosted", hosted: true, controllers: 1 },
    { where: "hosted, under two controllers", hosted: true, controllers: 2 },
  ] as const)(
    "$where: each in every method, and nothing is lost or left",
    {
      timeout: 3_000_000,
    },
    async ({ hosted, controllers }) => {
      const seed = seedOfRun();
      console.log(`HOLDFAST_SEED=${seed}`);
      const world = await startHostPathWorld({ hosted, controllers });
      try {
        const figures = await runHostPathKills(world, { seed, lives: 3, tell: (line) => console.log(line) });
        console.log(`${killTable(figures)}\n${JSON.stringify({ ...figures, kills: figures.kills.length }, null, 2)}`);
        expect(figures.lifecycleErrors).toEqual([]);
        expect(figures.leaks).toEqual([]);
        expect(figures.stuck).toEqual([]);
        expect(figures.kills.length).toBeGreaterThanOrEqual(60);
        for (const { method, underWay } of figures.kills) expect(underWay).toContain(method);
        expect(new Set(figures.kills.map(({ method }) => method)).size).toBeGreaterThanOrEqual(8);
        const served = await servedIn(world.driver(nodes[0]).socket, figures);
        console.log(JSON.stringify(served, null, 2));
        expect(served.missing).toEqual([]);
        // What it made and had not written down when it was killed.
        const unwritten = killsOf(figures, "driver", ["CreateVolume", "CreateSnapshot", "CreateVolumeGroupSnapshot"]);
        expect(figures.driversOwn.length).toBeLessThanOrEqual(unwritten.length);
        for (const node of nodes) expect(await world.stopHosting(node), `the plugin of ${node} to stop`).toBe(true);
      } finally {
        await world.stop();
      }
    },
  );

  it("a call out of order would be seen in its log", async () => {
    const world = await startHostPathWorld({ hosted: false, controllers: 1 });
    try {
      const { externalId } = await makeVolume(world.cluster, "data", fileWriter, { plugin: hostPathPlugin });
      const node = nodes.find((name) =>
        world
          .driver(name)
          .calls()
          .some(({ method }) => method === "CreateVolume"),
      );
      const driver = world.driver(node ?? "node-a");
      expect(stateName(await claimVolume(world.cluster, "data", { node: driver.node }))).toBe("ACTIVE");
      expect(lifecycleErrors(driver.calls())).toEqual([]);
      const csi = openCsiClients(driver.socket);
      await expect(csi.controller.deleteVolume({ volumeId: externalId, secrets: {} })).rejects.toThrow("is still used");
      csi.close();
      await vi.waitFor(() =>
        expect(lifecycleErrors(driver.calls())).toEqual([expect.stringMatching(/^DeleteVolume: /)]),
      );
    } finally {
      await world.stop();
    }
  });

  it("half of its record, or none of it, is left by a kill in a call", { timeout: 1_200_000 }, async () => {
    const world = await startHostPathWorld({ hosted: false, controllers: 1 });
    try {
      for (const [number, left] of (["half", "no byte", "nothing"] as const).entries()) {
        const figures = await loseRecord(world, { node: nodes[number % 2] ?? "node-a", left, number });
        console.log(`${left}: ${JSON.stringify(figures, null, 2)}`);
        expect(figures.underWay).toContain("NodeUnpublishVolume");
        expect(figures.started).toBe(left === "nothing");
        // Away, or without the volume: nobody is told to do anything that does not help.
        for (const line of figures.said) expect(line).toMatch(/PLUGIN_NOT_READY|NOT_AT_BACKEND/);
        expect(figures.cures.filter((line) => !line.includes(" → 0 "))).toEqual([]);
        expect(figures.cures.length > 0).toBe(left === "nothing");
        expect(figures.left).toEqual([]);
      }
    } finally {
      await world.stop();
    }
  });
});
