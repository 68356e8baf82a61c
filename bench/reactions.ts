import { stat } from "node:fs/promises";
import { type Claim, ClaimState, type WatchClaimsResponse } from "@holdfast/shared/gen/holdfast/v1/claim";
import { WatchKind } from "@holdfast/shared/gen/holdfast/v1/common";
import type { WatchNodesResponse } from "@holdfast/shared/gen/holdfast/v1/node";
import { PluginHealth } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { namespace, type Product, patience, volumeName } from "./product.ts";
import { type Spread, spreadOf } from "./support/spread.ts";

/** How long the services need to see what happened, in milliseconds. */
export interface Reactions {
  /** From the plugin's socket appearing to the controller's record of a healthy plugin on the node. */
  readonly socketToRegistered: Spread;
  /** From the plugin's death to the controller's record of it. */
  readonly exitToNoticed: Spread;
  /** From the answer to a release to the next claimant's grant, and to its mount (plugin time included). */
  readonly releasedToGranted: Spread;
  /** From the plugin's last answer, that the volume is detached, to the next claimant's grant as a watcher sees it. */
  readonly detachedToGranted: Spread;
  readonly releasedToMounted: Spread;
  /** From an agent's death to the moment at which the controller that had its stream says so. */
  readonly agentExitToShown: Spread;
}

interface Watcher<T> {
  /** The moment at which such a message came; messages of before count too. */
  seen(match: (message: T) => boolean, what: string): Promise<number>;
  /** Forgets what came until now. */
  clear(): void;
  close(): void;
}

const timeoutMs = 60_000;

const watch = <T>(open: (signal: AbortSignal) => AsyncIterable<T>): Watcher<T> => {
  const ending = new AbortController();
  let came: { readonly at: number; readonly message: T }[] = [];
  const listeners = new Set<() => void>();
  let failure: unknown;
  void (async () => {
    try {
      for await (const message of open(ending.signal)) {
        came.push({ at: performance.now(), message });
        for (const listener of listeners) listener();
      }
    } catch (error) {
      failure = error;
      for (const listener of listeners) listener();
    }
  })();
  return {
    seen: (match, what) =>
      new Promise((resolve, reject) => {
        const check = (): void => {
          const found = came.find(({ message }) => match(message));
          if (found === undefined && failure === undefined) return;
          end();
          if (found === undefined) reject(new Error(`the watch ended before ${what}`, { cause: failure }));
          else resolve(found.at);
        };
        const timer = setTimeout(() => {
          end();
          reject(new Error(`waited ${timeoutMs} ms in vain for ${what}; ${came.length} messages came meanwhile`));
        }, timeoutMs);
        const end = (): void => {
          clearTimeout(timer);
          listeners.delete(check);
        };
        listeners.add(check);
        check();
      }),
    clear: () => {
      came = [];
    },
    close: () => ending.abort(),
  };
};

/** An inode's number is used again at once; with the moment of its birth it names one file. */
const fileAt = async (file: string): Promise<string | undefined> => {
  const found = await stat(file, { bigint: true }).catch(() => undefined);
  return found === undefined ? undefined : `${found.ino} ${found.birthtimeNs}`;
};

const untilNewSocket = async (file: string, before: string | undefined): Promise<number> => {
  for (const start = performance.now(); performance.now() - start < timeoutMs; ) {
    const now = await fileAt(file);
    if (now !== undefined && now !== before) return performance.now();
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  throw new Error(`waited ${timeoutMs} ms in vain for the plugin's socket at ${file}`);
};

const healthy = ({ node: seen }: WatchNodesResponse): boolean =>
  seen?.plugins.some(({ health }) => health === PluginHealth.PLUGIN_HEALTH_HEALTHY) ?? false;

const node = "node-0";

const measurePlugin = async ({ cluster }: Product, rounds: number) => {
  const registered: number[] = [];
  const noticed: number[] = [];
  const nodes = watch((signal) => cluster.nodes.watchNodes({}, { signal }));
  const host = cluster.node(node);
  await nodes.seen(healthy, "the plugin to be healthy");
  for (let round = 0; round < rounds; round += 1) {
    nodes.clear();
    const { exited, kill, socketPath } = host.plugin();
    const before = await fileAt(socketPath);
    kill("SIGKILL");
    await exited;
    const died = performance.now();
    noticed.push(
      (await nodes.seen((seen) => seen.node !== undefined && !healthy(seen), "the plugin to be gone")) - died,
    );
    nodes.clear();
    const socket = untilNewSocket(socketPath, before);
    await host.startPlugin();
    registered.push((await nodes.seen(healthy, "the plugin to be back")) - (await socket));
  }
  nodes.close();
  return { socketToRegistered: spreadOf(registered), exitToNoticed: spreadOf(noticed) };
};

const measureAgent = async ({ cluster }: Product, rounds: number) => {
  const shown: number[] = [];
  const nodes = watch((signal) => cluster.nodes.watchNodes({}, { signal }));
  const host = cluster.node(node);
  await nodes.seen(healthy, "the node");
  for (let round = 0; round < rounds; round += 1) {
    nodes.clear();
    await host.agent().kill("SIGKILL");
    const died = performance.now();
    const gone = await nodes.seen((seen) => (seen.node?.stateMessage ?? "") !== "", "the link to be gone");
    shown.push(Math.max(0, gone - died));
    nodes.clear();
    await host.startAgent();
    await nodes.seen((seen) => healthy(seen) && seen.node?.stateMessage === "", "the agent to be back");
  }
  nodes.close();
  return { agentExitToShown: spreadOf(shown) };
};

const stateOf = (message: WatchClaimsResponse, workload: string): ClaimState | undefined =>
  message.claim?.workload === workload && message.kind !== WatchKind.WATCH_KIND_REMOVED
    ? message.claim.state
    : undefined;

const granted: ReadonlySet<Claim["state"] | undefined> = new Set([
  ClaimState.CLAIM_STATE_ATTACHING,
  ClaimState.CLAIM_STATE_OFFERED,
  ClaimState.CLAIM_STATE_ACTIVE,
]);

/** The moment of `performance.now()` on the clock that all processes share. */
const onSharedClock = (ms: number): bigint =>
  process.hrtime.bigint() - BigInt(Math.round((performance.now() - ms) * 1e6));

const measureHandOff = async ({ cluster, callTimes }: Product, rounds: number) => {
  const [volume, toGranted, toMounted] = [volumeName(0), [] as number[], [] as number[]];
  const grants: bigint[] = [];
  const claims = watch((signal) => cluster.claims.watchClaims({ filter: { namespace, volume } }, { signal }));
  await claims.seen(({ kind }) => kind === WatchKind.WATCH_KIND_SYNCED, "the watch to begin");
  const ask = (workload: string, wait: boolean) =>
    cluster.claims.createClaims({
      namespace,
      workload,
      node,
      claims: [{ volume }],
      queue: { enabled: true },
      ...(wait ? { waitFor: patience } : {}),
    });
  await ask("holder-0", true);
  for (let round = 0; round < rounds; round += 1) {
    const next = `holder-${round + 1}`;
    await ask(next, false);
    await cluster.claims.releaseClaims({ namespace, workload: `holder-${round}`, waitFor: patience });
    const answered = performance.now();
    const grantedAt = await claims.seen((one) => granted.has(stateOf(one, next)), `the grant of ${next}`);
    toGranted.push(grantedAt - answered);
    grants.push(onSharedClock(grantedAt));
    const mounted = (one: WatchClaimsResponse): boolean => stateOf(one, next) === ClaimState.CLAIM_STATE_ACTIVE;
    toMounted.push((await claims.seen(mounted, `the mount of ${next}`)) - answered);
    claims.clear();
  }
  await cluster.claims.releaseClaims({ namespace, workload: `holder-${rounds}`, waitFor: patience });
  claims.close();
  const times = await callTimes();
  const detached = grants.flatMap((at) => {
    const answer = times.lastAnswer("ControllerUnpublishVolume", at);
    return answer === undefined ? [] : [Number(at - answer) / 1e6];
  });
  return {
    releasedToGranted: spreadOf(toGranted),
    detachedToGranted: spreadOf(detached),
    releasedToMounted: spreadOf(toMounted),
  };
};

export const measureReactions = async (product: Product, rounds: number): Promise<Reactions> => ({
  ...(await measureHandOff(product, rounds)),
  ...(await measurePlugin(product, rounds)),
  ...(await measureAgent(product, rounds)),
});
