import { type FailpointName, failpointNames } from "@holdfast/node-agent/failpoints";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  persistently,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { full, sample } from "../support/full.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

/** Points that one claim and its release do not pass; their own tests are beside the agent. */
const elsewhere: readonly FailpointName[] = [
  "agent.dead.before-journal",
  "agent.dead.after-journal",
  "agent.compact.after-write",
  "agent.compact.after-rename",
];

/** In a sample the agent's own kill tests take each third point, and these the one after it. */
const points = failpointNames.filter((name, at) => !elsewhere.includes(name) && (full || at % 3 === 1));
const rounds = sample(3, 1);

describe.skipIf(!root)("the agent is killed", () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a"], realMounts: true });
  });
  afterAll(() => cluster.stop());

  /** Kills the agent as soon as it passes the point, starts it again, and lets the whole life of a claim go by meanwhile. */
  const liveThrough = async (point: FailpointName, id: string): Promise<string> => {
    const node = cluster.node("node-a");
    await node.agent().kill("SIGTERM");
    const armed = node.startAgent({ HOLDFAST_FAILPOINTS: `${point}=kill` }).catch(() => undefined);
    const revived = (async () => {
      await armed;
      await node.agent().exited();
      await node.startAgent();
    })();
    const life = (async () => {
      await persistently("the claim to be asked for", () => claimVolume(cluster, id));
      const claim = await persistently("the claim to settle", () => claimVolume(cluster, id));
      await persistently("the release", async () => {
        const over = await releaseWorkload(cluster, `w-${id}`);
        if (over.some((c) => !["RELEASED", "FAILED"].includes(stateName(c)))) throw new Error("not released yet");
      });
      return stateName(claim);
    })();
    const [state] = await Promise.all([life, revived]);
    return state;
  };

  it.each(points)(
    "[I2] [I4] [I5] [I6] at %s: nothing leaks, nothing sticks",
    { timeout: 120_000 * rounds },
    async (point) => {
      for (let round = 0; round < rounds; round += 1) {
        const id = `k${points.indexOf(point)}-${round}`;
        await cluster.backend.client.clear();
        await makeVolume(cluster, id);
        expect(await liveThrough(point, id)).toBe("ACTIVE");
        await removeVolume(cluster, id);
        await expectClean(cluster);
      }
    },
  );
});
