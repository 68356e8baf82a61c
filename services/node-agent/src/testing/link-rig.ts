import { randomUUID } from "node:crypto";
import { systemClock } from "@holdfast/shared/async/clock";
import { createNotifier } from "@holdfast/shared/async/notifier";
import { PluginFingerprint } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { createCallSurround } from "@holdfast/shared/grpc/call-surround";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { onTestFinished } from "vitest";
import { createServedOrders } from "../api/served-orders.ts";
import type { ControllerAddressesOptions } from "../controller-link/controller-addresses.ts";
import { type ControllerLink, createControllerLink } from "../controller-link/controller-link.ts";
import { createControllerStreams, type OpenControllerStream } from "../controller-link/controller-stream.ts";
import type { AgentSelf, Fingerprints } from "../controller-link/session-messages.ts";
import { noFailpoints } from "../failpoints.ts";
import { startModelAgent } from "./model-agent.ts";

export function fakeFingerprints() {
  const changes = createNotifier();
  const log: { revision: number; plugin: PluginFingerprint; gone: boolean }[] = [];
  const board: Fingerprints = {
    revision: changes.version,
    all: () => log.filter(({ gone }) => !gone).map(({ plugin }) => plugin),
    changes: (since) => {
      const later = log.filter(({ revision }) => revision > since);
      return {
        changed: later.filter(({ gone }) => !gone).map(({ plugin }) => plugin),
        removed: later
          .filter(({ gone }) => gone)
          .map(({ plugin }) => ({ plugin: plugin.plugin, instanceId: plugin.instanceId })),
      };
    },
    wait: (since, signal) => changes.wait(since, signal),
  };
  return {
    board,
    tell(name: string, gone = false) {
      const plugin = PluginFingerprint.fromPartial({ plugin: name, instanceId: "i" });
      log.push({ revision: changes.version() + 1, plugin, gone });
      changes.notify();
    },
  };
}

export interface LinkRigOptions {
  readonly health?: AgentSelf["health"];
  readonly lost?: AgentSelf["lost"];
  readonly news?: AgentSelf["news"];
  readonly resolve?: ControllerAddressesOptions["resolve"];
  readonly keepalive?: { readonly timeMs: number; readonly timeoutMs: number };
  readonly proxy?: string;
  /** In place of streams over the network. */
  readonly open?: OpenControllerStream;
}

/** The link of a model agent, over real streams to the controllers. */
export async function startLink(controllers: readonly string[], options: LinkRigOptions = {}) {
  const agent = await startModelAgent();
  const life = new AbortController();
  const log = createMemoryLogger();
  const fingerprints = fakeFingerprints();
  const node = "node-a";
  const instance = randomUUID();
  const self: AgentSelf = {
    node,
    machineId: "m",
    bootId: "b",
    lockId: "8:1",
    hostIdentity: "",
    instance,
    version: "0",
    rootDir: "/hf",
    scope: "own-namespace",
    fingerprints: fingerprints.board,
    health: () => options.health?.() ?? { notAccepting: undefined, publications: 0, blocked: 0, unacknowledged: 0 },
    lost: () => options.lost?.() ?? [],
    news: () => options.news?.() ?? { ailing: [], calls: [] },
  };
  const surround = createCallSurround({ log, address: () => "controllers" });
  const served = createServedOrders(
    {
      node,
      volumes: { ...agent.volumes(), inventory: () => Promise.reject(new Error("no inventory is asked for")) },
      ledger: agent.ledger(),
      scope: "own-namespace",
      startingBecause: () => (link.registered() ? undefined : "it is not registered with a controller"),
      onDoubt: () => link.doubt(),
      renew: () => undefined,
      stats: { volumeStats: async () => undefined, published: () => [] },
      relay: {
        unary: () => Promise.reject(new Error("no call is relayed")),
        quiesce: () => Promise.reject(new Error("nothing is asked to be quiet")),
        openCalls: () => [],
        stream: () => {
          throw new Error("no call is relayed");
        },
      },
      now: () => new Date(),
    },
    surround,
  );
  const streams = createControllerStreams({
    node,
    instance,
    served,
    proxy: options.proxy,
    newId: randomUUID,
    clock: systemClock,
    log,
    ...(options.keepalive === undefined ? {} : { keepalive: options.keepalive }),
  });
  const link: ControllerLink = createControllerLink({
    controllers,
    resolve:
      options.proxy !== undefined
        ? undefined
        : (options.resolve ?? (() => Promise.reject(new Error("no name is looked up")))),
    open: options.open ?? streams,
    self,
    ledger: agent.ledger(),
    lookMs: 20,
    reconnectMaxMs: 100,
    clock: systemClock,
    random: Math.random,
    log,
    failpoint: noFailpoints,
    forget: (ref, claimUid) => agent.volumes().forget(ref, claimUid),
    signal: life.signal,
  });
  onTestFinished(async () => {
    life.abort(new DOMException("the test is over", "AbortError"));
    await link.stop();
  });
  return { agent, link, log, fingerprints };
}

export const registered = (link: ControllerLink): Promise<void> => link.whenRegistered(AbortSignal.timeout(5_000));
