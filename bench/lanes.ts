import { type Claim, ClaimServiceDefinition, ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { withIdentity } from "@holdfast/shared/grpc/identity";
import { createChannel, createClient } from "nice-grpc";
import { type Cluster, startCluster } from "../test/harness/cluster.ts";
import { createVolume, namespace, patience, volumeName } from "./product.ts";
import { type FakeAgents, startFakeAgents } from "./support/fake-agents.ts";
import { millisecondsOf, run } from "./support/load.ts";
import { spreadOf } from "./support/spread.ts";

export interface LanesPlan {
  /** Of one plugin, claimed beside one that is slow. */
  readonly volumes: number;
  readonly rounds: number;
}

/** What calls of one plugin cost each other, on nodes whose agents take no time. */
export interface Lanes {
  readonly nodes: number;
  /** Attaches of a second each, all wanted at once, one at a time a node. */
  readonly attaches: { readonly count: number; readonly seconds: number; readonly leastSeconds: number };
  /** The p99 of claims of other volumes, in milliseconds: medians over the rounds. */
  readonly beside: {
    readonly volumes: number;
    readonly rounds: number;
    readonly calm: number;
    readonly oneSlow: number;
    readonly ratio: number;
  };
}

const nodes = 50;
const attaches = 100;
const attachMs = 1_000;
const slowMs = 10_000;
const inFlight = 16;
const range = (from: number, to: number): readonly number[] => Array.from({ length: to - from }, (_, n) => from + n);

const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

interface Setup {
  readonly cluster: Cluster;
  /** The storage's ids, by the number of the volume. */
  readonly external: readonly string[];
  claim(index: number): Promise<void>;
  release(index: number): Promise<void>;
}

const allIn = (claims: readonly Claim[], wanted: ClaimState): void => {
  for (const { state, waitingFor, lastError } of claims)
    if (state !== wanted)
      throw new Error(`a claim ended in state ${state}: ${JSON.stringify({ waitingFor, lastError })}`);
};

const withSetup = async <T>(store: string, volumes: number, use: (setup: Setup) => Promise<T>): Promise<T> => {
  const cluster = await startCluster({ nodes: [], store });
  let agents: FakeAgents | undefined;
  const channel = createChannel(cluster.address);
  try {
    agents = await startFakeAgents([cluster.agentAddress], nodes);
    const names = agents.nodes;
    const external: string[] = [];
    await run(range(0, volumes), inFlight, async (index) => {
      external[index] = await createVolume(cluster, volumeName(index));
    });
    const client = createClient(ClaimServiceDefinition, channel, {
      "*": { metadata: withIdentity(undefined, { role: "scheduler", name: "bench" }) },
    });
    return await use({
      cluster,
      external,
      async claim(index) {
        const volume = volumeName(index);
        const node = names[index % nodes] ?? "";
        const request = { namespace, workload: `w-${volume}`, node, claims: [{ volume }], waitFor: patience };
        allIn((await client.createClaims(request)).claims, ClaimState.CLAIM_STATE_ACTIVE);
      },
      async release(index) {
        const request = { namespace, workload: `w-${volumeName(index)}`, waitFor: patience };
        allIn((await client.releaseClaims(request)).claims, ClaimState.CLAIM_STATE_RELEASED);
      },
    });
  } catch (error) {
    console.error(cluster.output().split("\n").slice(-40).join("\n"));
    throw error;
  } finally {
    channel.close();
    await agents?.stop();
    await cluster.stop();
  }
};

const measureAttaches = (store: string): Promise<Lanes["attaches"]> =>
  withSetup(store, attaches, async ({ cluster, claim }) => {
    await cluster.backend.client.addFault({
      method: "ControllerPublishVolume",
      hangMs: attachMs,
      when: "after",
      times: "always",
    });
    const { seconds } = await run(range(0, attaches), attaches, claim);
    return { count: attaches, seconds, leastSeconds: ((attaches / nodes) * attachMs) / 1_000 };
  });

const measureBeside = (store: string, { volumes, rounds }: LanesPlan): Promise<Lanes["beside"]> =>
  withSetup(store, volumes, async ({ cluster, external, claim, release }) => {
    const others = range(1, volumes);
    const p99 = async (): Promise<number> => {
      const { samples } = await run(others, inFlight, claim);
      return spreadOf(samples.map(millisecondsOf)).p99;
    };
    /** Warm, and with the times of attaches known. */
    await run(others, inFlight, claim);
    await run(others, inFlight, release);
    const [calm, oneSlow]: [number[], number[]] = [[], []];
    for (let round = 0; round < rounds; round += 1) {
      calm.push(await p99());
      await run(others, inFlight, release);
      const match = { volume: external[0] ?? "" };
      await cluster.backend.client.addFault({ method: "ControllerPublishVolume", match, hangMs: slowMs });
      const slow = claim(0);
      oneSlow.push(await p99());
      await run(others, inFlight, release);
      await slow;
      await release(0);
    }
    const middle = { calm: median(calm), oneSlow: median(oneSlow) };
    return { volumes, rounds, ...middle, ratio: middle.oneSlow / middle.calm };
  });

/** Each in a store of its own. */
export const measureLanes = async (stores: () => Promise<string>, plan: LanesPlan): Promise<Lanes> => ({
  nodes,
  attaches: await measureAttaches(await stores()),
  beside: await measureBeside(await stores(), plan),
});
