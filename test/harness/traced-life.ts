/** What docs/tracing.md draws, driven on a cluster, and the drawings themselves. */
import { readFile } from "node:fs/promises";
import path from "node:path";
import { type Claim, ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { expect } from "vitest";
import type { Cluster } from "./cluster.ts";
import { claimVolume, makeVolume, namespace, persistently, releaseWorkload, removeVolume } from "./scenario.ts";

const page = path.resolve(import.meta.dirname, "../../docs/tracing.md");

/** The text blocks of the page, by the heading that each stands under. */
export type Pictures = ReadonlyMap<string, string>;

export const pictures = async (): Promise<Pictures> => {
  const text = await readFile(page, "utf8");
  return new Map(
    [...text.matchAll(/^### (.+)\n[^`]*?```text\n([\s\S]*?)\n```/gm)].map(([, heading = "", picture = ""]) => [
      heading,
      picture,
    ]),
  );
};

export const pictureOf = (shown: Pictures, heading: string): string => {
  const picture = shown.get(heading);
  if (picture === undefined) throw new Error(`docs/tracing.md draws nothing below "${heading}"`);
  return picture;
};

export const failingTwice = "A claim whose plugin fails twice and then works";
export const waitingLong = "A claim that waited for more than ten minutes";

/** Answers the trace of its claim, whose workload runs. */
export const claimWithFailingPlugin = async (cluster: Cluster, volume: string): Promise<string> => {
  await makeVolume(cluster, volume);
  await cluster.backend.client.setFaults([{ method: "NodeStageVolume", code: "UNAVAILABLE", times: 2 }]);
  const claim = await claimVolume(cluster, volume);
  expect(claim.state).toBe(ClaimState.CLAIM_STATE_ACTIVE);
  return claim.traceId;
};

/** The controller's host was away for eleven minutes, by its clock. */
const elevenMinutesLater = {
  NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent("const now=Date.now;Date.now=()=>now()+660000")}`,
};

const claimOf = async (cluster: Cluster, workload: string): Promise<Claim | undefined> =>
  (await cluster.claims.listClaims({ filter: { namespace, workload } })).claims[0];

/** A claim stands in the queue behind another workload, which goes only much later. Answers the trace of the request. */
export const claimThatWaitsLong = async (cluster: Cluster, volume: string): Promise<string> => {
  await makeVolume(cluster, volume);
  await claimVolume(cluster, volume, { workload: `first-${volume}` });
  const workload = `next-${volume}`;
  const asked = { namespace, workload, node: "node-a", claims: [{ volume }], queue: { enabled: true } };
  const [queued] = (await cluster.claims.createClaims(asked)).claims;
  expect(queued?.state).toBe(ClaimState.CLAIM_STATE_QUEUED);
  await cluster.controller().kill("SIGTERM");
  await cluster.startController(elevenMinutesLater);
  await persistently("the holder's release", () => releaseWorkload(cluster, `first-${volume}`));
  await persistently("the queued claim to be mounted", async () => {
    const claim = await claimOf(cluster, workload);
    if (claim?.state !== ClaimState.CLAIM_STATE_ACTIVE) throw new Error(`it is ${claim?.state}`);
  });
  return queued?.traceId ?? "";
};

export const endOfLife = async (cluster: Cluster, workload: string, volume: string): Promise<void> => {
  await releaseWorkload(cluster, workload);
  await removeVolume(cluster, volume);
};
