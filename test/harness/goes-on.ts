/** What a call that may be open must not hold up: other volumes, also on the node of its pair, and the same volume on another node. */
import { expect } from "vitest";
import type { Cluster } from "./cluster.ts";
import {
  claimVolume,
  makeVolume,
  namespace,
  releaseWorkload,
  removeVolume,
  stateName,
  volumeStateName,
} from "./scenario.ts";

/** A claim that begins and ends. */
export const claimGoesOn = async (cluster: Cluster, id: string, node: string): Promise<void> => {
  const workload = `goes-on-${id}`;
  expect(stateName(await claimVolume(cluster, id, { node, workload })), `${id} on ${node}`).toBe("ACTIVE");
  expect((await releaseWorkload(cluster, workload)).map(stateName)).toEqual(["RELEASED"]);
};

/** The whole life of another volume, on each of the nodes. */
export const othersGoOn = async (cluster: Cluster, nodes: readonly string[]): Promise<void> => {
  const id = `other-${nodes.join("-")}`;
  const made = volumeStateName(await makeVolume(cluster, id));
  if (made !== "AVAILABLE") {
    const { findings } = await cluster.volumes.explainVolume({ namespace, id });
    throw new Error(`${id} is ${made}: ${findings.join(" ")}`);
  }
  for (const node of nodes) await claimGoesOn(cluster, id, node);
  await removeVolume(cluster, id);
};

/** A claim that waits by itself; `state` tells how it ended. */
export const queuedClaim = (cluster: Cluster, id: string, node: string, workload: string) => {
  const asked = cluster.claims.createClaims({
    namespace,
    workload,
    node,
    claims: [{ volume: id }],
    queue: { enabled: true },
    waitFor: { seconds: 45n, nanos: 0 },
  });
  return { state: asked.then(({ claims }) => claims.map(stateName).join()) };
};
