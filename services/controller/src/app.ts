/** With the `*-wiring.ts` beside it the only file that knows every part: puts the controller together, starts it in order and stops it in reverse. */
import { randomUUID } from "node:crypto";
import { systemClock } from "@holdfast/shared/async/clock";
import { createFailpoints } from "@holdfast/shared/failpoints";
import { holdfastVersion } from "@holdfast/shared/holdfast-version";
import { createLifecycle } from "@holdfast/shared/lifecycle";
import { createLogger, type Logger } from "@holdfast/shared/log/logger";
import { createMetrics } from "@holdfast/shared/metrics";
import { createTracing, tracedQuestions } from "@holdfast/shared/tracing";
import { type AccessRules, trustOf, wireAccess } from "./access-wiring.ts";
import { addControllerServices } from "./api/controller-services.ts";
import { wireApi } from "./api-wiring.ts";
import { wireAudit } from "./audit-wiring.ts";
import { keepBackups } from "./backup-wiring.ts";
import { createCommands } from "./commands/commands.ts";
import type { ControllerConfig } from "./config.ts";
import { measureParts } from "./controller-metrics.ts";
import type { RouteOf } from "./domain/plugin/instance-reach.ts";
import { formatWithBars, formatWithLeads } from "./domain/store-format.ts";
import { endOfCalls } from "./end-of-calls.ts";
import type { FailpointName } from "./failpoints.ts";
import { wireFeed } from "./feed-wiring.ts";
import { wireFigures } from "./figures-wiring.ts";
import { wireGate } from "./gate-wiring.ts";
import { wireNodes } from "./node-wiring.ts";
import { createAgentGateway } from "./nodes/agent-gateway.ts";
import { createAgentStreams } from "./nodes/agent-streams.ts";
import { wirePlacement } from "./placement-wiring.ts";
import { wirePlugins } from "./plugin-wiring.ts";
import type { Ids } from "./ports.ts";
import { createReconciler } from "./reconcile/engine/reconciler.ts";
import { wireRecords } from "./record-wiring.ts";
import { runChangeFeed } from "./records/change-feed.ts";
import { createChanges } from "./records/changes.ts";
import { createStanding } from "./records/standing.ts";
import { wireRepair } from "./repair-wiring.ts";
import { createSecretParts } from "./secrets-wiring.ts";
import { wireServers } from "./server-wiring.ts";
import { wireSnapshots } from "./snapshot-wiring.ts";
import { measureDamage, measureStanding } from "./standing-metrics.ts";
import { wireState } from "./state-wiring.ts";
import { wireStore } from "./store-wiring.ts";
import { denialOf, wireTrust } from "./trust-wiring.ts";

export interface AppOverrides {
  readonly log?: Logger;
  /** For secrets that references of the form `env:NAME` name. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Other rows of who may call what than those of this controller. */
  readonly rules?: AccessRules;
  /** The process ends at once: a failpoint fired. */
  readonly kill?: (name: FailpointName) => void;
}

export interface App {
  readonly log: Logger;
  /** Resolves once it serves. */
  start(): Promise<void>;
  stop(): Promise<void>;
  /** Where it listens, with the real port. */
  address(): string;
  /** Where agents reach it. */
  agentAddress(): string;
}

/** How long a start waits for what only makes its first answers better. */
const startPatienceMs = 2_000;

const ids: Ids = { uuid: randomUUID, random: Math.random };

export const createApp = (config: ControllerConfig, overrides: AppOverrides = {}): App => {
  const log = overrides.log ?? createLogger({ level: config.logLevel, fields: { service: "controller" } });
  const failpoint = createFailpoints(config.failpoints, overrides.kill ?? (() => undefined));
  const lifecycle = createLifecycle({ log, stopTimeoutMs: config.stopGrace + 5_000 });
  const clock = systemClock;
  const tracing = createTracing("holdfast-controller", tracedQuestions(config, ids.random));
  const metrics = createMetrics({ process: true });
  let listening = { address: "", agents: "" };

  const start = async (): Promise<void> => {
    const { signal } = lifecycle;
    /** Aborted when the servers are down: what they started has had its time. */
    const work = new AbortController();
    const inBackground = (what: string, task: Promise<unknown>): void => {
      task.catch((error: unknown) => {
        if (!signal.aborted) log.error(`${what} ended`, { error });
      });
    };

    const own = await wireState({ config, version: holdfastVersion, lifecycle, ids, log });
    const { id, incarnation, issuer } = own;

    const store = await wireStore({ config, lifecycle, metrics, clock, ids, log, signal });

    const { onCall, acts, around } = await wireAudit({
      ...{ config, id, issuer, lifecycle, metrics, store, clock, ids, tracing, log },
    });
    const changes = createChanges();
    let wakeVolume = (_key: string): void => undefined;
    let route: RouteOf = () => undefined;
    const { damages, quotas, accessGrants, denials, cuts, nodeStore, registry, pluginRecords, learnedLimits, records } =
      await wireRecords({
        store,
        clock,
        ids,
        issuer,
        changes,
        route: (...target) => route(...target),
        endOfTurn: setImmediate,
        log,
        graceMs: config.linkGrace,
        controllerId: id,
        signal: work.signal,
        grants: { judgedBy: () => gate.judgedBy(), changed: () => gate.lookAgain(work.signal) },
      });
    const { admission, ...access } = wireAccess(trustOf(config), accessGrants, { ...config, ...overrides, clock });
    const { secrets, tokens, ...kept } = createSecretParts({
      config,
      env: overrides.env ?? {},
      store,
      damages,
      profiles: pluginRecords,
      clusterUid: nodeStore.clusterUid,
      clock,
      ids,
      log,
      signal: work.signal,
      onRead: acts.secretRead,
      wakeVolume: (key) => wakeVolume(key),
    });
    const streams = createAgentStreams(registry);
    const agents = createAgentGateway({ ...tokens, streams, identity: { role: "controller", name: id }, log, clock });
    registry.onChange((node) => void (registry.get(node) ?? agents.forget(node)));
    const pluginParts = await wirePlugins({
      lifecycle,
      controllerId: id,
      lives: own,
      store,
      config,
      metrics,
      nodes: registry,
      streams,
      profiles: pluginRecords,
      gate: () => gate,
      secrets,
      clock,
      ids,
      tracing,
      log,
      onCall,
      signal: work.signal,
      ownerOf: async (storage) => (await records.owner(storage))?.volume,
    });
    const { plugins, drivers } = pluginParts;
    route = (target, key) => (drivers.keeps(target.plugin, key) ? plugins.instance(target) : undefined);
    const gate = wireGate({ ...pluginParts, ...own, store, nodes: registry, agents, records, cuts, ids, clock, log });
    inBackground("the gate of the store", gate.run(work.signal));
    await Promise.all([gate.firstLook(startPatienceMs, signal), pluginParts.settled(signal)]);
    const command = { records, cuts, nodes: registry, plugins, gate, secrets: kept.commands, feed: store, clock, ids };
    const commands = createCommands(command);
    const basics = { records, plugins, agents, nodes: registry, clock, ids, log, signal: work.signal };
    const bars = (): boolean => store.format() >= formatWithBars;
    const leads = (): boolean => store.format() >= formatWithLeads;
    const taking = new AbortController();
    const acting = { ...basics, drivers, lives: own, bars, leads, taking: taking.signal };
    const reconciler = createReconciler({
      ...acting,
      learned: learnedLimits,
      gate,
      guard: pluginParts.governor,
      tracing,
      failpoint,
    });
    wakeVolume = (key) => reconciler.wake(key, true);
    const { learned, size: working } = reconciler;
    const feed = wireFeed({
      records,
      registry,
      pluginRecords,
      learnedLimits,
      accessGrants,
      denials,
      secrets: kept,
      changes,
      learned,
      learnOfCut: (...told) => snapshots.reconciler.learnOf(...told),
      missed: () => Promise.all([reconciler.missed(), snapshots.reconciler.missed()]),
    });
    const callsOf = pluginParts.callsOf(reconciler.callsWaiting);
    const { commits } = records;
    measureParts(metrics, { nodes: registry, gate, commits, working, plugins: plugins.names, callsOf });

    const standing = createStanding({ records, clock });
    measureDamage(metrics, damages);
    measureStanding(metrics, { standing, slotsWaiting: records.slots.waiting, now: clock.now });

    const repair = wireRepair({
      ...{ ...command, ...access, quotas, accessGrants },
      self: { id, version: holdfastVersion },
      nodes: registry,
      store,
      damages,
      gate,
      agents,
      listings: plugins.listings,
      words: pluginParts.controllers,
      sweepIntervalMs: config.sweepInterval,
      noted: acts.noted,
      metrics,
      tracing,
      log,
      signal: work.signal,
    });
    const servers = wireServers({
      ...access,
      config,
      gate,
      lifecycle,
      log,
      metrics,
      denied: denialOf(denials),
      signer: tokens.signer,
    });
    const figures = wireFigures({ ...acting, repair, profiles: pluginRecords, config, random: ids.random, metrics });
    const api = {
      commands,
      recent: records.recent,
      granted: kept.commands.granted,
      scopeOf: access.scopeOf,
      wakeups: changes,
      feed: store,
      clock,
      tracing,
    };
    const placement = wirePlacement(command, quotas, work.signal);
    const nodeParts = wireNodes({
      ...basics,
      config,
      controllerId: id,
      registry,
      nodeStore,
      pluginRecords,
      callsOf,
      catalogue: pluginParts.catalogue,
      admission: pluginParts.admission,
      store,
      command,
      stats: figures.stats,
      api,
      places: placement.places,
      audit: repair.audit,
      wake: reconciler.wake,
      secrets,
      tokens,
    });
    const snapshots = wireSnapshots({ ...command, ...api, ...acting, metrics, slots: reconciler.slots, failpoint });
    const trust = await wireTrust({
      ...{ clock, ids, tracing, log, metrics, damages, denials, store, nodeStore, config, signal: work.signal },
      ...{ keeper: servers.keeper, audit: repair.audit, around, agentAddress: () => listening.agents },
    });
    const services = {
      snapshots: snapshots.service,
      nodes: nodeParts.nodes,
      plugins: nodeParts.plugins,
      placement: placement.service,
      ...wireApi({ api, secrets: kept.commands, stats: figures.stats, records, plugins, renewals: nodeParts }),
      ...repair.services,
      trust: trust.service,
    };
    const names = addControllerServices(servers.server, services, around);

    await lifecycle.start("reconciler", async () => {
      inBackground("settling who calls which plugin", drivers.run());
      inBackground("looking after stored secrets", kept.upkeep.run(work.signal));
      if (trust.renewOwn !== undefined) inBackground("renewing the certificate", trust.renewOwn());
      for (const [what, task] of nodeParts.background()) inBackground(what, task);
      inBackground("following the store", runChangeFeed({ ...feed, store, clock, log, signal: work.signal }));
      inBackground("looking at the condition of volumes", figures.lookAtVolumes());
      await Promise.all([reconciler.start(), snapshots.reconciler.start()]);
      inBackground("telling that this controller is there", repair.onRecord());
      inBackground("writing backups", keepBackups({ ...basics, config, store, gate, controllerId: id, metrics }));
      if (config.sweepInterval > 0) inBackground("comparing backends with the records", repair.sweep.run());
      return endOfCalls({ taking, work, drivers, reconcilers: [reconciler, snapshots.reconciler], clock });
    });
    streams.onLink(reconciler.linked);
    listening = await servers.listen(names, { link: nodeParts.link, admission, streams, clock }, trust.addForAgents);
    log.info("ready", { version: holdfastVersion, ...listening, controller: id, incarnation, store: store.kind });
  };

  return {
    log,
    start,
    stop: () => lifecycle.stop(),
    address: () => listening.address,
    agentAddress: () => listening.agents,
  };
};
