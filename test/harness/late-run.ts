/**
 * Claims come and go over two controllers while some answers of the plugin take seconds and processes are killed and stopped, each of
 * them with a call in flight. Told afterwards: what arrived at the plugin and must not have, what is left over, and what says nothing.
 */
import { type Claim, ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { createSeededRandom } from "../local-driver/seeded-random.ts";
import { startRedisServer } from "../support/redis-server.ts";
import { barTimes } from "./bar-times.ts";
import { type Cluster, startCluster } from "./cluster.ts";
import { type Counts, createDisturber, type DisturberOptions } from "./late-disturber.ts";
import { victimsOf } from "./late-victims.ts";
import { type LateWays, openLateWays } from "./late-ways.ts";
import { seenFrom } from "./plugin-driver.ts";
import { makeVolume, mountsUnder, namespace, persistently, removeVolume, stateName } from "./scenario.ts";

export interface LateRunOptions extends DisturberOptions {
  readonly seed: number;
  /** The controller halves of the plugin run on nodes, behind their agents; beside the controllers otherwise. */
  readonly relayed: boolean;
  readonly claims: number;
  readonly volumes: number;
  readonly nodes: number;
  readonly controllers: 2 | 3;
  readonly slowMs: readonly [number, number];
}

export interface LateFigures {
  readonly seed: number;
  readonly seconds: number;
  readonly claims: number;
  readonly active: number;
  /** Claims that ended otherwise, by their reason. */
  readonly failed: Readonly<Record<string, number>>;
  readonly calls: number;
  readonly slowCalls: number;
  readonly kills: Counts;
  readonly stops: Counts;
  readonly holds: Counts;
  /** Calls that were overtaken at another gate; bars that went, by how their end was found; calls that were refused as overtaken. */
  readonly bars: number;
  readonly lifted: Readonly<Record<string, number>>;
  readonly stale: number;
  /** Calls at one gate beside the call that was overtaken at another one: a bar stood for it. */
  readonly besideBars: number;
  readonly violations: readonly string[];
  /** Questions that came beside the call of another controller: they change nothing, and may go anywhere. */
  readonly questionsBeside: number;
  readonly leaks: readonly string[];
  /** Claims that stood still for a minute during the run and said nothing. */
  readonly silent: readonly string[];
  /** Claims that are not over in the end and say nothing; and such that are not over and say why. */
  readonly unexplained: readonly string[];
  readonly unfinished: readonly string[];
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const isOver = ({ state }: Claim): boolean =>
  state === ClaimState.CLAIM_STATE_RELEASED || state === ClaimState.CLAIM_STATE_FAILED;
/** The longest that a claim may take to end once nothing disturbs any more: pauses between attempts reach a minute. */
const settleMs = 240_000;
const silenceMs = 60_000;
const stuckMs = 600_000;
const seconds = (n: number) => ({ seconds: BigInt(n), nanos: 0 });

const explanation = (claim: Claim): string =>
  [claim.blocked?.reason, claim.blocked?.message, claim.waitingFor, claim.lastError?.reason, claim.lastError?.message]
    .filter((word) => word !== undefined && word !== "")
    .join("; ");
const describe = (claim: Claim): string =>
  `${claim.volume} by ${claim.workload} on ${claim.node}: ${stateName(claim)} ${explanation(claim)}`;

const count = (counts: Record<string, number>, key: string): void => {
  counts[key] = (counts[key] ?? 0) + 1;
};

const all = ["first", "second", "third"] as const;

export const runLateCalls = async (options: LateRunOptions): Promise<LateFigures> => {
  const redis = await startRedisServer();
  const nodes = Array.from({ length: options.nodes }, (_, i) => `node-${String.fromCharCode(97 + i)}`);
  const controllerHalvesOn = options.relayed ? nodes.slice(0, 2) : [];
  let cluster: Cluster | undefined;
  let ways: LateWays | undefined;
  try {
    cluster = await startCluster({
      nodes,
      store: redis.url,
      second: {},
      ...(options.controllers === 3 ? { third: true } : {}),
      realMounts: true,
      ...(options.relayed ? { controllerHalvesOn } : {}),
      backend: {
        judgesArrivals: true,
        lateCalls: { seed: options.seed, share: 0.05, slowMs: options.slowMs, fastMs: [1, 50] },
      },
    });
    if (options.holds > 0) ways = await openLateWays(cluster, controllerHalvesOn, all.slice(0, options.controllers));
    return await runOn(cluster, nodes, { halvesOn: controllerHalvesOn, ways }, options);
  } finally {
    await ways?.close();
    await cluster?.stop();
    await redis.stop();
  }
};

const runOn = async (
  cluster: Cluster,
  nodes: readonly string[],
  { halvesOn, ways }: { readonly halvesOn: readonly string[]; readonly ways: LateWays | undefined },
  options: LateRunOptions,
): Promise<LateFigures> => {
  const halves = new Map<string, Awaited<ReturnType<ReturnType<Cluster["node"]>["startControllerHalf"]>>>();
  for (const node of halvesOn) halves.set(node, await cluster.node(node).startControllerHalf());
  const random = createSeededRandom(options.seed);
  const began = performance.now();
  const sides = all.slice(0, options.controllers).map((which) => seenFrom(cluster, which));
  const volumes = Array.from({ length: options.volumes }, (_, i) => `v${i}`);
  /** By the plugin's id. */
  const ids = new Map<string, string>();
  for (const made of await Promise.all(volumes.map((id) => persistently(id, () => makeVolume(cluster, id)))))
    ids.set(made.externalId, `${namespace}/${made.id}`);

  const failed: Record<string, number> = {};
  /** Workloads that were let go of. A CreateClaims that lay in a stopped controller until then makes their claim anew. */
  const gone = new Set<string>();
  let taken = 0;
  let active = 0;

  const explained = async (volume: string): Promise<string> => {
    const told = await cluster.volumes.explainVolume({ namespace, id: volume }).catch(String);
    return typeof told === "string" ? told : told.findings.join(" ");
  };

  /** Asked of one controller or the other until it is answered: each of them is away at times. */
  const insistently = async <T>(
    what: string,
    volume: string,
    ask: (side: Cluster) => Promise<T | undefined>,
  ): Promise<T> => {
    const since = performance.now();
    let last: unknown;
    for (;;) {
      try {
        const answer = await ask(random.pick(sides));
        if (answer !== undefined) return answer;
      } catch (error) {
        last = error;
      }
      if (performance.now() - since > stuckMs)
        throw new Error(`${what}: nothing for ${stuckMs} ms; ${String(last)}; ${await explained(volume)}`);
      await pause(100 + random.integer(300));
    }
  };
  const patience = { deadlineMs: 12_000 };

  const live = async (volume: string, workload: string): Promise<void> => {
    const node = random.pick(nodes);
    const claim = await insistently(`${workload} on ${volume}`, volume, async (side) => {
      const { claims } = await side.claims.createClaims(
        { namespace, workload, node, claims: [{ volume }], queue: { enabled: true }, waitFor: seconds(8) },
        patience,
      );
      const [one] = claims;
      return one !== undefined && (isOver(one) || one.state === ClaimState.CLAIM_STATE_ACTIVE) ? one : undefined;
    });
    if (isOver(claim)) count(failed, `${stateName(claim)} ${explanation(claim)}`);
    else active += 1;
    gone.add(workload);
    // Half of the next lives begin while the one before still ends.
    const waits = random.chance(0.5);
    await insistently(`the release of ${workload}`, volume, async (side) => {
      const { claims } = await side.claims.releaseClaims(
        { namespace, workload, ...(waits ? { waitFor: seconds(8) } : {}) },
        patience,
      );
      return !waits || claims.every(isOver) ? true : undefined;
    });
  };
  const work = async (volume: string): Promise<void> => {
    // There has to be something in flight for what is still to be killed.
    while (taken < options.claims || !disturber.done()) {
      taken += 1;
      await live(volume, `w${taken}`);
    }
  };

  /** All claims of the namespace that are not over. */
  const standing = async (side: Cluster): Promise<readonly Claim[]> => {
    const found: Claim[] = [];
    for (let pageToken = ""; ; ) {
      const { claims, nextPageToken } = await side.claims.listClaims({ filter: { namespace }, pageToken }, patience);
      found.push(...claims.filter((claim) => !isOver(claim)));
      if (nextPageToken === "") return found;
      pageToken = nextPageToken;
    }
  };
  /** What a scheduler does about claims of workloads that it does not know. */
  const reconcile = async (claims: readonly Claim[]): Promise<void> => {
    const released = claims.filter(
      ({ workload, state }) => gone.has(workload) && state <= ClaimState.CLAIM_STATE_ACTIVE,
    );
    for (const { workload } of released)
      await random
        .pick(sides)
        .claims.releaseClaims({ namespace, workload }, patience)
        .catch(() => undefined);
  };
  const silent = new Map<string, string>();
  const listen = async (): Promise<void> => {
    while (taken < options.claims || !disturber.done()) {
      await pause(options.longestStopMs / 4);
      // One that is stopped is not asked twice.
      const claims = await standing(random.pick(sides)).catch(() => []);
      await reconcile(claims);
      for (const claim of claims)
        if (
          claim.state !== ClaimState.CLAIM_STATE_ACTIVE &&
          explanation(claim) === "" &&
          Date.now() - (claim.stateSince?.getTime() ?? 0) > silenceMs
        )
          silent.set(claim.uid, describe(claim));
    }
  };

  const disturbed = {
    victims: victimsOf(cluster, {
      nodes,
      halves,
      controllers: options.controllers,
      agentEnv: (node) => ways?.env(node) ?? {},
    }),
    ways: ways?.all ?? [],
    controllers: all
      .slice(0, options.controllers)
      .map((which) => (which === "first" ? cluster : cluster[which]).address),
  };
  const disturber = createDisturber(cluster.backend.client, disturbed, random, options, () => taken / options.claims);
  await Promise.all([...volumes.map(work), disturber.run(), listen()]);

  // A channel says for up to a second more that nobody listens there, after its controller was killed and is back.
  const stillStanding = () => persistently("the claims that stand", () => standing(cluster));
  let left = await stillStanding();
  for (const since = performance.now(); left.length > 0 && performance.now() - since < settleMs; ) {
    await pause(500);
    left = await stillStanding();
    await reconcile(left);
  }
  const held = new Set(left.map(({ volume }) => volume));
  const removable = volumes.filter((id) => !held.has(id));
  await Promise.all(removable.map((id) => persistently(`${id} to be removed`, () => removeVolume(cluster, id))));

  const { state, record, violations } = await cluster.backend.client.snapshot();
  const leaks =
    left.length > 0
      ? []
      : [
          ...[...state.volumes.keys()].map((id) => `volume ${id}`),
          ...[...state.attachments.values()].flat().map(({ volume, node }) => `attachment of ${volume} to ${node}`),
          ...[...state.stages.values()].flat().map(({ volume, node }) => `stage of ${volume} on ${node}`),
          ...[...state.publications.values()].flat().map(({ volume, node }) => `publication of ${volume} on ${node}`),
          ...(await mountsUnder(cluster.dir)).map((line) => `mount ${line}`),
        ];
  const isQuestion = ({ rule, method }: (typeof violations)[number]): boolean =>
    rule === "second-call-in-flight" && /^(ControllerGetVolume|ValidateVolumeCapabilities)$/.test(method);
  const bars = barTimes(cluster.output(), disturber.cleared);
  const isBesideBar = ({ rule, message, seq, volume = "" }: (typeof violations)[number]): boolean => {
    if (!/^(second-call-in-flight|arrived-beside-open-call)$/.test(rule)) return false;
    const calls = new Map(record.map((call) => [call.seq, call]));
    const [own, other] = [calls.get(seq), calls.get(Number(/\(call (\d+)/.exec(message)?.[1] ?? Number.NaN))];
    if (own === undefined || other === undefined || own.instance === other.instance) return false;
    const [at, key] = [Date.parse(own.at), ids.get(volume) ?? ""];
    return bars.stood(key, other.instance, at) || bars.stood(key, own.instance, at);
  };
  const changing = record.filter(({ volume, name }) => volume !== undefined || name !== undefined);
  const slow = changing.filter(
    ({ at, endedAt }) => endedAt !== undefined && Date.parse(endedAt) - Date.parse(at) >= options.slowMs[0],
  );
  return {
    seed: options.seed,
    seconds: Math.round((performance.now() - began) / 1_000),
    claims: taken,
    active,
    failed,
    calls: changing.length,
    slowCalls: slow.length,
    kills: disturber.kills,
    stops: disturber.stops,
    holds: disturber.holds,
    bars: bars.written,
    lifted: bars.lifted,
    stale: bars.stale,
    besideBars: violations.filter(isBesideBar).length,
    questionsBeside: violations.filter(isQuestion).length,
    violations: violations
      .filter((one) => !isQuestion(one) && !isBesideBar(one))
      .map(({ rule, message, seq }) => `${seq} ${rule}: ${message}`),
    leaks,
    silent: [...silent.values()],
    unexplained: left.filter((claim) => explanation(claim) === "").map(describe),
    unfinished: left.filter((claim) => explanation(claim) !== "").map(describe),
  };
};
