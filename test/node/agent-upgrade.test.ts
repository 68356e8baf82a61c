/** The agent is replaced while its plugin is away and no controller can be reached: who uses a volume does not notice. */
import { appendFile, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { type Claim, ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { describe, expect, onTestFinished, test } from "vitest";
import { mutatingCalls } from "../harness/calls.ts";
import { startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  mountsUnder,
  namespace,
  persistently,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

describe.skipIf(!root)("an agent that is replaced with nobody around", () => {
  test("[I2] [I3] [I6] the mounts stay, no call is made, and the claim ends as any other", {
    timeout: 120_000,
  }, async () => {
    const cluster = await startCluster({ nodes: ["node-a"], realMounts: true });
    onTestFinished(() => cluster.stop());
    const node = cluster.node("node-a");
    await makeVolume(cluster, "v");
    const before = await claimVolume(cluster, "v");
    expect(stateName(before)).toBe("ACTIVE");
    const file = path.join(before.hostPath, "log");
    await writeFile(file, "one ");
    const mounts = await mountsUnder(node.rootDir);
    const calls = await mutatingCalls(cluster);

    await cluster.controller().kill("SIGKILL");
    await node.plugin().kill("SIGKILL");
    await node.plugin().exited;
    const old = node.agent();
    await old.kill("SIGTERM");
    // Ready only once a controller knows it; what it holds is known long before.
    const ready = node.startAgent();
    await until("the new agent", () => node.agent() !== old);
    const found = await node.agent().line((line) => line["message"] === "the journal was read", "what it found");
    expect(found).toMatchObject({ held: 1, missing: 0, rebooted: false, orphans: [] });
    await appendFile(file, "two ");
    expect(await mountsUnder(node.rootDir)).toEqual(mounts);
    expect(node.agent().output()).not.toContain('"message":"ready"');

    await cluster.startController();
    await ready;
    await appendFile(file, "three");
    await node.startPlugin();
    const after = await until("the claim to be as it was", async (): Promise<Claim | undefined> => {
      const { claims } = await cluster.claims.listClaims({ filter: { namespace } });
      return claims.find((claim) => claim.state === ClaimState.CLAIM_STATE_ACTIVE && claim.degradedSince === undefined);
    });
    expect(after).toMatchObject({ uid: before.uid, epoch: before.epoch, hostPath: before.hostPath });
    expect(await mountsUnder(node.rootDir)).toEqual(mounts);
    expect(await mutatingCalls(cluster)).toEqual(calls);
    expect(await readFile(file, "utf8")).toBe("one two three");

    const over = await persistently("the release", async () => {
      const claims = await releaseWorkload(cluster, "w-v");
      if (claims.some((one) => stateName(one) !== "RELEASED")) throw new Error("not released yet");
      return claims;
    });
    expect(over).toHaveLength(1);
    await persistently("the deletion", () => removeVolume(cluster, "v"));
    await expectClean(cluster);
  });
});
