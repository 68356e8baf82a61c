/** Claims that come and go over two controllers, and some that run all the time. */
import { ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import type { Volume } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { SeededRandom } from "../local-driver/seeded-random.ts";
import type { Cluster } from "./cluster.ts";
import { makeVolume, namespace, persistently, stateName } from "./scenario.ts";
import type { Use } from "./taken-in-use.ts";
import { until } from "./until.ts";

export interface WorkloadCounts {
  /** Grants that were answered, and claims that are over. */
  readonly active: number;
  readonly released: number;
}

export interface FailoverWorkload {
  /** Of volumes for one writer; those that come and go, and those that are in use all the time. */
  readonly moving: readonly Volume[];
  readonly running: readonly Volume[];
  readonly counts: WorkloadCounts;
  readonly uses: readonly Use[];
  /** It was not let go of by its scheduler. */
  holds(workload: string): boolean;
  /** When a grant was there that was asked for after that moment. */
  grantSince(at: number): number | undefined;
  /** The moving ones begin. */
  start(): void;
  /** They end; rejects with what went wrong in one of them. */
  end(): Promise<void>;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
/** So long a scheduler waits before it asks again, the same controller or the other one; and so long it asks for one claim. */
const waitFor = { seconds: 2n, nanos: 0 };
const mostMs = 10_000;

export interface WorkloadOptions {
  readonly cluster: Cluster;
  /** The cluster as the callers of each controller see it. */
  readonly sides: readonly Cluster[];
  readonly nodes: readonly string[];
  readonly random: SeededRandom;
}

export const createFailoverWorkload = async (options: WorkloadOptions): Promise<FailoverWorkload> => {
  const { cluster, sides, nodes, random } = options;
  const made = (id: string): Promise<Volume> => persistently(id, () => makeVolume(cluster, id));
  const brief = await Promise.all(["m0", "m1", "m2", "m3"].map(made));
  // Most failovers are over while they are in use.
  const long = await Promise.all(["s0", "s1"].map(made));
  const running = await Promise.all(["r0", "r1"].map(made));
  const counts = { active: 0, released: 0 };
  const uses: Use[] = [];
  const held = new Set<string>();
  const ending = new AbortController();
  /** Of those that were granted, the one that was asked for last. */
  let newest = { asked: 0, there: 0 };

  const claim = async (volume: string, workload: string, node: string): Promise<boolean> => {
    const request = { namespace, workload, node, claims: [{ volume }], waitFor };
    for (const since = performance.now(); performance.now() - since < mostMs; await pause(20)) {
      const begun = performance.now();
      const answer = await random
        .pick(sides)
        .claims.createClaims(request)
        .catch(() => undefined);
      const state = answer?.claims[0]?.state;
      if (state !== undefined && state >= ClaimState.CLAIM_STATE_RELEASED) return false;
      if (state !== ClaimState.CLAIM_STATE_ACTIVE) continue;
      counts.active += 1;
      if (begun > newest.asked) newest = { asked: begun, there: performance.now() };
      return true;
    }
    return false;
  };
  /** A claim that the store has lost is none to be released; what its node holds is found afterwards. */
  const release = async (workload: string): Promise<void> => {
    await persistently(`the release of ${workload}`, async () => {
      const { claims } = await random.pick(sides).claims.releaseClaims({ namespace, workload, waitFor });
      const left = claims.map(stateName).filter((state) => state !== "RELEASED" && state !== "FAILED");
      if (left.length > 0) throw new Error(`${workload} is ${left}`);
      counts.released += claims.length;
    }).catch(async (error: unknown) => {
      const { claims } = await cluster.claims.listClaims({ filter: { namespace, workload } });
      if (claims.length > 0) throw error;
    });
  };
  const use = async ({ id, externalId }: Volume, workload: string, node: string, ms: number): Promise<void> => {
    held.add(workload);
    if (await claim(id, workload, node)) {
      const own = { externalId, node, from: Date.now(), until: Number.POSITIVE_INFINITY };
      uses.push(own);
      await pause(ms);
      own.until = Date.now();
    }
    held.delete(workload);
    await release(workload);
  };
  const work = async (volume: Volume, mostMs: number): Promise<void> => {
    for (let n = 0; !ending.signal.aborted; n += 1)
      await use(volume, `w-${volume.id}-${n}`, random.pick(nodes), random.integer(mostMs));
  };

  for (const [i, { id, externalId }] of running.entries()) {
    const [workload, node] = [`running-${id}`, nodes[i % nodes.length] ?? ""];
    held.add(workload);
    await until(`${workload} to run`, () => claim(id, workload, node));
    uses.push({ externalId, node, from: Date.now(), until: Number.POSITIVE_INFINITY });
  }
  let working: Promise<readonly PromiseSettledResult<void>[]> = Promise.resolve([]);
  return {
    moving: [...brief, ...long],
    running,
    counts,
    uses,
    holds: (workload) => held.has(workload),
    grantSince: (at) => (newest.asked >= at ? newest.there : undefined),
    start() {
      // One that fails leaves the others at work until the end.
      working = Promise.allSettled([
        ...brief.map((volume) => work(volume, 200)),
        ...long.map((volume) => work(volume, 8_000)),
      ]);
    },
    async end() {
      ending.abort();
      for (const one of await working) if (one.status === "rejected") throw one.reason;
    },
  };
};
