/** The only file that knows every part: puts the agent together, starts it in order and stops it in reverse. */
import { hash, randomUUID } from "node:crypto";
import { lookup } from "node:dns/promises";
import { release as kernelRelease } from "node:os";
import { readOwnUid } from "@holdfast/csi/socket-state";
import { systemClock } from "@holdfast/shared/async/clock";
import { createFailpoints } from "@holdfast/shared/failpoints";
import { holdfastVersion } from "@holdfast/shared/holdfast-version";
import { createAdminServer } from "@holdfast/shared/http/admin-server";
import { createLifecycle } from "@holdfast/shared/lifecycle";
import { takeStateDirectory } from "@holdfast/shared/lock/state-directory";
import { createLogger, type Logger } from "@holdfast/shared/log/logger";
import { createMetrics } from "@holdfast/shared/metrics";
import { telemetryPart } from "@holdfast/shared/telemetry";
import { createTracing, tracedQuestions } from "@holdfast/shared/tracing";
import { createOrderSurround, createServedOrders } from "./api/served-orders.ts";
import { wireAudit } from "./audit-wiring.ts";
import type { AgentConfig } from "./config.ts";
import { type ControllerLink, createControllerLink } from "./controller-link/controller-link.ts";
import { createControllerLinkClaims } from "./controller-link/controller-link-claims.ts";
import { createControllerLinkTokens } from "./controller-link/controller-link-tokens.ts";
import { createControllerStreams } from "./controller-link/controller-stream.ts";
import { createHostPaths } from "./domain/paths.ts";
import { promisedOf } from "./domain/promise.ts";
import type { FailpointName } from "./failpoints.ts";
import { readHostIdentity } from "./host-identity.ts";
import { readHostProof } from "./host-proof.ts";
import { keepCertificates } from "./link-certificates.ts";
import { wireLocal } from "./local-wiring.ts";
import { wireFoundPlugins } from "./plugin-wiring.ts";
import { createFingerprintBoard } from "./plugins/fingerprint-board.ts";
import { createHostedPlugins } from "./plugins/host/hosted-plugins.ts";
import { createInstanceBoard } from "./plugins/host/instance-board.ts";
import { createPluginHost } from "./plugins/host/plugin-host.ts";
import { createSocketDirs } from "./plugins/host/socket-dirs.ts";
import { createNodePlugins } from "./plugins/node-plugins.ts";
import { createRelay } from "./plugins/relay.ts";
import { makeDirectories } from "./volumes/durable-files.ts";
import { healthFacts } from "./volumes/health-facts.ts";
import { openHostDirs, trustedOwners } from "./volumes/host-dirs.ts";
import { openJournal } from "./volumes/journal.ts";
import { createKillableChildren } from "./volumes/killable-children.ts";
import { createLedger } from "./volumes/ledger.ts";
import { createMountTable } from "./volumes/mount-table.ts";
import { recoverVolumes } from "./volumes/recovery.ts";
import { tellWait } from "./volumes/room-wait.ts";
import { createVolumeParts } from "./volumes/volume-parts.ts";
import { haltWords } from "./workloads/halt-words.ts";
import { createWorkloadManager } from "./workloads/workload-manager.ts";

/** How long the first registration waits for plugins that were there in an earlier life. */
const seenBeforeMs = 1_000;

export interface AppOverrides {
  readonly log?: Logger;
  /** The process ends at once: a failpoint fired. */
  readonly kill?: (name: FailpointName) => void;
  /** The journal could not be written: the process has to end and read it again. */
  readonly fatal?: (error: Error) => void;
  /** Which boot of the host this is; the kernel's own answer when absent. */
  readonly bootId?: string;
}

export interface App {
  readonly log: Logger;
  /** Resolves once orders are taken: registered with one controller. */
  start(signal: AbortSignal): Promise<void>;
  stop(): Promise<void>;
}

export function createApp(config: AgentConfig, overrides: AppOverrides = {}): App {
  const { node, insecure, stateDir, rootDir } = config;
  const instance = randomUUID();
  const log = overrides.log ?? createLogger({ level: config.logLevel, fields: { service: "node-agent", node } });
  const failpoint = createFailpoints(config.failpoints, overrides.kill ?? (() => undefined));
  const fatal = overrides.fatal ?? (() => undefined);
  const lifecycle = createLifecycle({ log, stopTimeoutMs: config.stopGrace + 5_000 });
  const tracing = createTracing("holdfast-node-agent", tracedQuestions(config, Math.random));
  const metrics = createMetrics({ process: true });
  /** Calls to plugins outlive the orders by the grace, and not by more. */
  const calls = new AbortController();
  let link: ControllerLink | undefined;

  const start = async (signal: AbortSignal): Promise<void> => {
    await lifecycle.start(
      "telemetry",
      telemetryPart(config, { service: "holdfast-node-agent", version: holdfastVersion, instance, log }),
    );

    const credentials = await keepCertificates({ config, log, metrics, signal: lifecycle.signal });
    const { machineId, bootId } = await readHostIdentity(config.machineIdFile, overrides.bootId);
    const proof = await readHostProof(config.hostIdentity);
    if (proof.identity === "")
      log.warn("a boot of this host with claims will wait for a person: nothing tells it from a clone", {
        why: proof.from,
        cure: "HOLDFAST_HOST_IDENTITY",
      });
    // Lock, journal, mounts: what is known of the host is complete before anything is served.
    await makeDirectories(stateDir, 0o700);
    let lockId = "";
    await lifecycle.start("state lock", async () => {
      const lock = await takeStateDirectory(stateDir, "agent");
      lockId = lock.id;
      return () => lock.release();
    });
    const journal = await openJournal({
      dir: stateDir,
      machine: machineId,
      newUid: randomUUID,
      failpoint,
      maxBytes: config.journalMaxBytes,
      minFreeBytes: config.journalMinFreeBytes,
      onFatal: fatal,
      onWait: (waits) => tellWait(log, stateDir, waits),
    });
    await lifecycle.start("journal", () => () => journal.close());
    const ledger = createLedger(journal);
    if (ledger.damage !== undefined)
      log.error("nothing can be mounted or released", { reason: "JOURNAL_DAMAGED", detail: ledger.damage });
    const sha256 = (text: string) => hash("sha256", text, "hex");
    const paths = createHostPaths(rootDir, sha256);
    const dirs = await openHostDirs({ root: rootDir, log, alsoTrusted: await trustedOwners(), clock: systemClock });
    const mounts = await createMountTable({ proc: "/proc", kernel: kernelRelease() });
    await lifecycle.start("mount table", () => () => mounts.close());
    const recovered = await recoverVolumes({ ledger, mounts, paths, bootId });
    log.info("the journal was read", {
      journal: ledger.uid,
      held: recovered.held,
      missing: recovered.missing,
      orphans: recovered.orphans.map(({ path }) => path),
      rebooted: recovered.rebooted,
      verification_scope: mounts.scope,
    });

    const { onCall, accepting } = await wireAudit({ config, instance, ledger, journal, lifecycle, metrics, log });
    const asking = { node, instance, controllers: () => link?.controllers() ?? [] };
    const told = { lowestGen: () => ledger.agent().promisedGen, controllers: asking.controllers };
    const found = await wireFoundPlugins({ config, log, tracing, metrics, signal: calls.signal, onCall, ...told });
    const { statics, directory, admission, storage } = found;
    await lifecycle.start("plugins", () => () => directory.close());
    const board = createFingerprintBoard(directory, storage);
    const socketDirs = createSocketDirs({ base: config.hostedPluginDir, ownUid: await readOwnUid(), log });
    const hosted = { ledger, directory, dirs: socketDirs, clock: systemClock, log, signal: calls.signal };
    const host = createPluginHost({ ...hosted, hosting: config.localListen !== undefined });
    await host.restore();
    const plugins = createHostedPlugins({ directory, host, statics, rootDir });
    const instances = createInstanceBoard({ directory, host });
    await lifecycle.start("plugin host", () => () => {
      instances.close();
      plugins.close();
      return host.close();
    });

    const nodePlugins = createNodePlugins(plugins, node, systemClock);
    const { volumes, stats, watch, upkeep, republisher } = createVolumeParts({
      ...{ node, config, orphansAtStart: recovered.orphans.length > 0 },
      metrics,
      children: createKillableChildren({ clock: systemClock, deadlineMs: config.childTimeout }),
      clock: systemClock,
      random: Math.random,
      ledger,
      plugins: nodePlugins,
      tokens: createControllerLinkTokens(asking),
      mounts,
      dirs,
      paths,
      hash: (text) => sha256(`${ledger.uid}|${text}`),
      failpoint,
      log,
      quarantined: () => link?.quarantined() ?? false,
      registered: () => link?.registered() === true,
      signal: calls.signal,
    });
    const startingBecause = (): string | undefined =>
      link?.registered() === true ? undefined : "it is not registered with a controller";

    const surround = createOrderSurround({ log, metrics });
    const served = createServedOrders(
      {
        node,
        volumes,
        ledger,
        scope: mounts.scope,
        startingBecause,
        onDoubt: () => link?.doubt(),
        renew: republisher.renew,
        stats,
        relay: createRelay({
          directory: { get: plugins.forController, quiesce: directory.quiesce, openCalls: directory.openCalls },
          node,
          life: instance,
          promised: () => promisedOf(ledger.agent()),
          log,
        }),
        now: () => new Date(systemClock.now()),
      },
      surround,
    );
    await lifecycle.start("calls to plugins", () => () => {
      calls.abort(new DOMException("the agent is stopping", "AbortError"));
    });

    const workloads = createWorkloadManager({
      ...{ ledger, volumes, mounts, dirs },
      haltOf: (ref) => haltWords(volumes.halts().get(ref.volumeUid), systemClock.now()),
      claims: createControllerLinkClaims(asking),
      hash: (text) => sha256(`${ledger.uid}|${text}`),
      clock: systemClock,
      random: Math.random,
      log,
      signal: lifecycle.signal,
    });
    await wireLocal({
      ...{ config, asking, ledger, workloads, mounts, stats, instance, lifecycle, metrics, tracing, log },
      clock: systemClock,
      hosting: { host, board: instances, admission: accepting(admission) },
    });
    watch.start(config.mountCheckInterval, directory.onChange);
    upkeep.start(config.mountCheckInterval);

    await lifecycle.start("admin", async () => {
      const admin = createAdminServer({
        log,
        metrics,
        insecure,
        notReady: () => [ledger.damage, startingBecause()].filter((it) => it !== undefined),
      });
      log.info("admin listening", { address: await admin.listen(config.adminListen) });
      return () => admin.stop();
    });

    // What a controller is told first holds the plugins that it knew before.
    await host.whenBack(seenBeforeMs);
    await lifecycle.start("controller link", () => {
      const made = createControllerLink({
        controllers: config.controllers,
        resolve: config.proxy === undefined ? resolveHost : undefined,
        open: createControllerStreams({
          node,
          instance,
          served,
          proxy: config.proxy,
          credentials,
          newId: randomUUID,
          clock: systemClock,
          log,
        }),
        self: {
          node,
          machineId,
          bootId,
          hostIdentity: proof.identity,
          lockId,
          instance,
          version: holdfastVersion,
          rootDir,
          scope: mounts.scope,
          fingerprints: board,
          health: () => healthFacts(ledger, volumes.halts(), link?.quarantined() === true),
          lost: watch.lost,
          news: () => ({ ailing: [...watch.ailing(), ...republisher.ailing()], calls: nodePlugins.longCalls() }),
        },
        ledger,
        reconnectMaxMs: config.reconnectMax,
        clock: systemClock,
        random: Math.random,
        log,
        failpoint,
        forget: volumes.forget,
        signal: lifecycle.signal,
      });
      link = made;
      return async () => {
        // Orders that end within the grace are answered over the streams that they came by.
        await surround.stop(config.stopGrace);
        await made.stop();
        board.stop();
      };
    });
    await link?.whenRegistered(AbortSignal.any([signal, lifecycle.signal]));
    republisher.start();
    log.info("ready", {
      version: holdfastVersion,
      controllers: config.controllers,
      plugins: instances.list().map((it) => `${it.plugin} ${it.fingerprint.instanceId} ${it.fingerprint.health}`),
    });
  };

  return { log, start, stop: () => lifecycle.stop() };
}

const resolveHost = async (host: string): Promise<readonly string[]> =>
  (await lookup(host, { all: true })).map(({ address }) => address);
