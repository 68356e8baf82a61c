/** The only file that knows every part: puts the driver together, starts it in order and stops it in reverse. */
import { randomUUID } from "node:crypto";
import { systemClock } from "@holdfast/shared/async/clock";
import { identityOfLocalSocket } from "@holdfast/shared/grpc/identity";
import { createGrpcServer, type GrpcServer } from "@holdfast/shared/grpc/server";
import { holdfastVersion } from "@holdfast/shared/holdfast-version";
import { createAdminServer } from "@holdfast/shared/http/admin-server";
import { createLifecycle } from "@holdfast/shared/lifecycle";
import { createLogger, type Logger } from "@holdfast/shared/log/logger";
import { createMetrics } from "@holdfast/shared/metrics";
import { telemetryPart } from "@holdfast/shared/telemetry";
import { addDriverServices, serviceNames } from "./api/driver-services.ts";
import { driverStatusMiddleware } from "./api/driver-status.ts";
import { createPending } from "./api/pending.ts";
import { type DriverConfig, toDriverSettings } from "./config.ts";
import { createControllerOperations } from "./controller/controller-operations.ts";
import { recoverGroups } from "./controller/recover-groups.ts";
import { createBlocks } from "./host/blocks.ts";
import { createCopier } from "./host/copier.ts";
import { createFilesystems } from "./host/filesystems.ts";
import { createFreezer } from "./host/freezer.ts";
import { createImages } from "./host/images.ts";
import { createLoops } from "./host/loops.ts";
import { createMounts } from "./host/mounts.ts";
import { createPlaces } from "./host/places.ts";
import { recoverHost } from "./host/recover-host.ts";
import { createRunTool, type RunTool } from "./host/run-tool.ts";
import { createSpace } from "./host/space.ts";
import { endStrayChildren } from "./host/stray-children.ts";
import { createTrees } from "./host/trees.ts";
import { whyNoLoops } from "./host/why-no-loops.ts";
import { createNodeOperations } from "./node/node-operations.ts";
import type { Host, Loops, Mounts, State } from "./ports.ts";
import { openState } from "./state/open-state.ts";
import { takeStateDir } from "./state/state-dir.ts";

export interface App {
  readonly log: Logger;
  /** Resolves once every socket serves. */
  start(signal: AbortSignal): Promise<void>;
  /** Mounts and loop devices stay: workloads outlive their driver. */
  stop(): Promise<void>;
}

/** For callers that sent no deadline: long enough for a large copy, and not for ever. */
const defaultDeadlineMs = 60 * 60 * 1000;

/** ConfigError when the settings cannot be had on this machine. */
export async function createApp(config: DriverConfig, given: { readonly log?: Logger } = {}): Promise<App> {
  const settings = toDriverSettings(config, { noLoops: await whyNoLoops() });
  const { name, nodeId } = settings;
  const log = given.log ?? createLogger({ level: config.logLevel, fields: { service: "local-driver", node: nodeId } });
  const lifecycle = createLifecycle({ log, stopTimeoutMs: config.stopGrace + 5_000 });
  const metrics = createMetrics({ process: true });
  const pending = createPending({ monotonic: () => systemClock.monotonic() });
  let ready = false;

  const start = async (signal: AbortSignal): Promise<void> => {
    const starting = AbortSignal.any([signal, lifecycle.signal]);
    await lifecycle.start(
      "telemetry",
      telemetryPart(config, {
        service: "holdfast-local-driver",
        version: holdfastVersion,
        instance: randomUUID(),
        log,
      }),
    );

    // Alone on the directory, then alone in it: before the children of an earlier life are gone nothing is looked at.
    const stateDir = await takeStateDir(config.stateDir);
    await lifecycle.start("state directory", () => () => stateDir.release());
    await lifecycle.start("children of an earlier life", async () => {
      for (const { pid, command } of await endStrayChildren(stateDir.path, starting))
        log.warn("ended a child that an earlier life left behind", { pid, command });
    });
    const run = createRunTool({ stateDir: stateDir.path, nodeId });
    const mounts = createMounts({ run, stateDir: stateDir.path });
    const loops = createLoops({ run });
    await lifecycle.start("what an earlier life was doing", async () => {
      for (const done of await recoverHost({ stateDir: stateDir.path, run, mounts, loops }, starting))
        log.info("recovered", { what: done });
    });
    const state = await openState({ stateDir, run, mounts, log, signal: starting });
    await lifecycle.start("state", () => () => state.close());
    for (const { kind, id, file, reason } of state.broken)
      log.error("a record cannot be used; all else is served", { kind, id, file, reason });

    const host = createHost({ stateDir: stateDir.path, run, mounts, loops, state });
    const controller = createControllerOperations({ host, settings });
    const node = createNodeOperations({ host, settings });
    await lifecycle.start("recovery", async () => {
      for (const done of [...(await node.recover(starting)), ...(await recoverGroups(host))])
        log.info("recovered", { what: done });
    });

    // Operations end before the state is let go of, whatever became of their callers.
    await lifecycle.start("operations", () => () => pending.settled());
    const parts = { ...controller, node, settings, pending, space: host.space, ready: () => ready };
    const servers: GrpcServer[] = [];
    await lifecycle.start("gRPC", async () => {
      for (const socket of config.sockets) {
        const server = createGrpcServer({
          log,
          metrics,
          middlewares: [driverStatusMiddleware],
          identity: identityOfLocalSocket,
          defaultDeadlineMs,
          socketMode: Number.parseInt(config.socketMode, 8),
        });
        addDriverServices(server, parts);
        servers.push(server);
        await server.listen(`unix://${socket}`);
      }
      return async () => {
        ready = false;
        await Promise.all(servers.map((server) => server.stop({ graceMs: config.stopGrace })));
      };
    });

    const { adminListen } = config;
    if (adminListen !== undefined)
      await lifecycle.start("admin", async () => {
        const admin = createAdminServer({ log, metrics, notReady: () => (ready ? [] : ["it is starting or ending"]) });
        log.info("admin listening", { address: await admin.listen(adminListen) });
        return () => admin.stop();
      });

    ready = true;
    for (const server of servers) for (const service of ["", ...serviceNames]) server.setServing(service, true);
    log.info("ready", {
      version: holdfastVersion,
      socket: config.sockets.join(","),
      plugin: name,
      types: settings.types,
      state_dir: stateDir.path,
    });
  };

  return { log, start, stop: () => lifecycle.stop() };
}

function createHost(parts: {
  readonly stateDir: string;
  readonly run: RunTool;
  readonly mounts: Mounts;
  readonly loops: Loops;
  readonly state: State;
}): Host {
  const { stateDir, run, mounts, loops, state } = parts;
  return {
    state,
    mounts,
    loops,
    space: createSpace({ stateDir }),
    images: createImages({ run, loops }),
    copier: createCopier({ run, stateDir }),
    blocks: createBlocks(),
    trees: createTrees(),
    freezer: createFreezer({ run, mounts }),
    places: createPlaces(),
    filesystems: createFilesystems({ run }),
    clock: { now: () => new Date().toISOString() },
    newId: randomUUID,
  };
}
