import { execFile as execFileLater } from "node:child_process";
import { promisify } from "node:util";
import { commandWord } from "@holdfast/model/command-word";
import { ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cliRun } from "../cli/cli-run.ts";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  namespace,
  releaseWorkload,
  removeVolume,
  stateName,
  volumeStateName,
} from "../harness/scenario.ts";

const execFile = promisify(execFileLater);

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

describe.skipIf(!root)("drivers that answer as no specification foresees", () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a"], realMounts: true });
  });
  afterAll(() => cluster?.stop());

  it("D10 UNIMPLEMENTED for one volume fails that one; others wait until the capabilities were read anew", async () => {
    const { client } = cluster.backend;
    const not = { code: "UNIMPLEMENTED", message: "not for this one" } as const;
    await client.setFaults([{ method: "CreateVolume", ...not }]);
    expect(volumeStateName(await makeVolume(cluster, "odd"))).toBe("FAILED");
    const others = ["one", "two"];
    const made = await Promise.all(others.map((id) => makeVolume(cluster, id)));
    expect(made.map(volumeStateName)).toEqual(["AVAILABLE", "AVAILABLE"]);
    await client.setFaults([{ method: "NodeStageVolume", ...not }]);
    expect(stateName(await claimVolume(cluster, "one"))).toBe("FAILED");
    expect(stateName(await claimVolume(cluster, "two"))).toBe("ACTIVE");
    await client.setFaults([]);
    for (const id of others) await releaseWorkload(cluster, `w-${id}`);
    for (const id of [...others, "odd"]) await removeVolume(cluster, id);
    await expectClean(cluster);
  });

  it.each(['Web [canary] №7 — it\'s "$HOME"', "..", "é".repeat(128)])(
    "D16 workload %j has its volume, is found, and the command that a message prints gives it back",
    async (workload) => {
      await makeVolume(cluster, "named");
      expect(await claimVolume(cluster, "named", { workload })).toMatchObject({
        workload,
        state: ClaimState.CLAIM_STATE_ACTIVE,
      });
      const listed = await cluster.claims.listClaims({ filter: { namespace, workload }, pageSize: 10 });
      expect(listed.claims.map((one) => one.workload)).toEqual([workload]);
      await cluster.node("node-a").agent().kill("SIGKILL");
      await cluster.node("node-a").startAgent();
      expect(stateName(await claimVolume(cluster, "named", { workload }))).toBe("ACTIVE");
      const held = cluster.claims.createClaims({
        namespace,
        workload: "other",
        node: "node-a",
        claims: [{ volume: "named" }],
      });
      await expect(held).rejects.toThrow(workload);
      const { stdout } = await execFile("sh", ["-c", `printf '%s\\0' ${commandWord(workload)}`]);
      const argument = stdout.slice(0, -1);
      const { code, err } = await cliRun(["claim", "release", argument, "--namespace", namespace], {
        address: cluster.address,
      });
      expect(code, err).toBe(0);
      await removeVolume(cluster, "named");
      await expectClean(cluster);
    },
  );
});

describe.skipIf(!root)("a driver that makes volumes only for a place that it is told", () => {
  let cluster: Cluster;
  beforeAll(async () => {
    const backend = { needsPreferred: true, nodes: { "node-a": { topology: { "sim/zone": "z 1" } } } };
    cluster = await startCluster({ nodes: ["node-a"], realMounts: true, backend });
  });
  afterAll(() => cluster?.stop());

  it("D14 is served by what the next step of its refusal names", async () => {
    const refused = await makeVolume(cluster, "placeless");
    expect([volumeStateName(refused), refused.lastError?.message]).toEqual([
      "FAILED",
      expect.stringContaining("no zone"),
    ]);
    const { nextActions } = await cluster.volumes.explainVolume({ namespace, id: "placeless" });
    const [, spec = ""] = /topology\.preferred, one of (\{.*\}) of node node-a$/.exec(nextActions[0] ?? "") ?? [];
    await removeVolume(cluster, "placeless");
    const file = `
id: placeless
plugin: sim.holdfast.dev
capacity: { required_bytes: 10MiB }
capabilities: [{ attachment_mode: file-system, access_mode: single-node-writer }]
topology: { preferred: [${spec}] }
`;
    const options = { address: cluster.address, files: { "v.yaml": file } };
    const { code, err } = await cliRun(["volume", "create", "v.yaml", "--namespace", namespace], options);
    expect(code, err).toBe(0);
    await removeVolume(cluster, "placeless");
  });
});
