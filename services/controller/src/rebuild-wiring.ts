/**
 * A composition root of its own: `main.ts rebuild`. It listens for agents, as a controller does, over a store in memory that is gone with it, and
 * serves nobody else; nothing is granted, and no agent forgets anything.
 */
import path from "node:path";
import { systemClock } from "@holdfast/shared/async/clock";
import { ConfigError } from "@holdfast/shared/config/config-error";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { ServeWireDefinition } from "@holdfast/shared/grpc/stream/serve-wire";
import { createLifecycle, type Lifecycle } from "@holdfast/shared/lifecycle";
import type { Logger } from "@holdfast/shared/log/logger";
import { createMetrics } from "@holdfast/shared/metrics";
import { createTracing } from "@holdfast/shared/tracing";
import { noGrants, trustOf, wireAccess } from "./access-wiring.ts";
import { createBackupFiles } from "./backup/backup-files.ts";
import { gatherRebuild } from "./backup/rebuild.ts";
import { rebuiltSource } from "./backup/rebuilt-source.ts";
import { writeBackup } from "./backup/write-backup.ts";
import type { ControllerConfig } from "./config.ts";
import { createAgentGateway } from "./nodes/agent-gateway.ts";
import { createAgentStreams } from "./nodes/agent-streams.ts";
import { createLinkService } from "./nodes/link-service.ts";
import { createRebuildLink } from "./nodes/rebuild-link.ts";
import { wirePlugins } from "./plugin-wiring.ts";
import type { Ids } from "./ports.ts";
import { wireRecords } from "./record-wiring.ts";
import { createChanges } from "./records/changes.ts";
import { judgeRecord } from "./records/shape/record-readers.ts";
import { encodeVolume } from "./records/volume/volume-codec.ts";
import { createSecretParts } from "./secrets-wiring.ts";
import { createAgentServer, openCertificates } from "./server-wiring.ts";
import { openStateDir } from "./state-dir.ts";
import { createSqliteStore } from "./store/sqlite/sqlite-store.ts";

export interface RebuildOptions {
  readonly config: ControllerConfig;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Every node of the installation, separated by commas. */
  readonly nodes: string | undefined;
  /** Without it nothing is written. */
  readonly file: string | undefined;
  readonly ids: Ids;
  readonly log: Logger;
  readonly say: (line: string) => void;
  readonly signal: AbortSignal;
}

const patience = { nodesMs: 60_000, strangersMs: 3_000, pluginMs: 15_000 } as const;
const leaveMs = 1_000;

const wantedNodes = (text = ""): readonly string[] => {
  const names = [...new Set(text.split(",").flatMap((name) => (name.trim() === "" ? [] : [name.trim()])))];
  if (names.length > 0) return names;
  throw new ConfigError([
    { field: "rebuild", description: "needs the names of all nodes: rebuild node-a,node-b /path/to/holdfast.export" },
  ]);
};

const unknownInstallation = (stateDir: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "REBUILD_INCOMPLETE",
    message: `${stateDir} does not say which installation was lost, so that no agent would answer: use the state directory of a controller of it (HOLDFAST_STATE_DIR)`,
    metadata: { path: stateDir },
  });

export const runRebuild = async (options: RebuildOptions): Promise<void> => {
  const wanted = wantedNodes(options.nodes);
  const lifecycle = createLifecycle({ log: options.log });
  try {
    await rebuildWithin(lifecycle, options, wanted);
  } finally {
    await lifecycle.stop();
  }
};

const rebuildWithin = async (
  lifecycle: Lifecycle,
  { config, env, file, ids, log, say, signal: interrupt }: RebuildOptions,
  wanted: readonly string[],
): Promise<void> => {
  const clock = systemClock;
  const signal = AbortSignal.any([interrupt, lifecycle.signal]);
  const own = await openStateDir(config.stateDir, { id: config.id, uuid: ids.uuid });
  await lifecycle.start("state directory", () => own.release);
  const clusterUid = own.lineage.read();
  if (clusterUid === undefined) throw unknownInstallation(config.stateDir);
  const store = createSqliteStore({
    file: ":memory:",
    now: clock.now,
    uuid: ids.uuid,
    adopt: { clusterUid, gen: 1 },
  });
  await lifecycle.start("store", () => () => store.close());
  const metrics = createMetrics();
  const tracing = createTracing("holdfast-controller");
  let gen = 1;
  const gate = {
    look: () => undefined,
    signOff: async () => undefined,
    state: () => ({ open: false, vetting: { gen, uid: "" }, reason: "a rebuild grants nothing" }),
    onChange: () => () => undefined,
  };
  const parts = await wireRecords({
    // No other controller is there.
    grants: undefined,
    store,
    clock,
    ids,
    issuer: own.issuer,
    changes: createChanges(),
    route: () => undefined,
    endOfTurn: setImmediate,
    log,
    graceMs: config.linkGrace,
    controllerId: own.id,
    signal,
  });
  const { nodeStore, registry, pluginRecords, damages } = parts;
  const common = { store, clock, ids, log, signal, config };
  const { secrets, tokens } = createSecretParts({
    // It lists, on the word of the person who runs it: there is no audit beside a controller that is stopped.
    onRead: undefined,
    ...common,
    profiles: pluginRecords,
    env,
    damages,
    clusterUid: nodeStore.clusterUid,
    wakeVolume: () => undefined,
  });
  const streams = createAgentStreams(registry);
  const agents = createAgentGateway({ ...tokens, streams, identity: { role: "controller", name: own.id }, log, clock });
  const { plugins, settled } = await wirePlugins({
    ...common,
    lifecycle,
    controllerId: own.id,
    lives: own,
    metrics,
    nodes: registry,
    streams,
    profiles: pluginRecords,
    gate: () => gate,
    secrets,
    tracing,
    onCall: () => undefined,
    ownerOf: async () => undefined,
  });
  const certificates = openCertificates({ config, log, metrics });
  await lifecycle.start("certificates", () => certificates?.keeper.stop);
  // Agents alone are served here.
  const { access, admission } = wireAccess(trustOf(config), noGrants);
  const server = createAgentServer({ config, access, log, metrics }, certificates);
  const link = createLinkService({
    admission,
    streams,
    link: createRebuildLink({
      registry,
      clock,
      log,
      controllerId: own.id,
      clusterUid: nodeStore.clusterUid,
    }),
    surround: server.surround,
    clock,
    log,
    endOfTurn: setImmediate,
  });
  await lifecycle.start("gRPC of agents", async () => {
    server.add(ServeWireDefinition, link);
    say(`listening for the agents of ${wanted.join(", ")} at ${await server.listen(config.agentListen)}`);
    return async () => {
      await link.leave(leaveMs);
      await server.stop({ graceMs: leaveMs });
    };
  });
  await settled(signal);
  const found = await gatherRebuild(
    {
      nodes: registry,
      agents,
      plugins,
      listings: plugins.listings,
      promised: (highest) => {
        gen = highest;
      },
      who: `controller/${own.id}`,
      clock,
      signal,
      say,
    },
    wanted,
    patience,
  );
  for (const { subject, outcome, words } of found.rows) say(`${outcome}: ${subject}: ${words.join("; ")}`);
  const count = (outcome: string): number => found.rows.filter((row) => row.outcome === outcome).length;
  say(`${count("known again")} known again, ${count("not proven")} not proven, ${count("no record")} without a record`);
  if (file === undefined) return say("nothing was written: name a file to keep it");
  const now = clock.now();
  const beside = async function* () {
    yield* (await store.exportSource()).records();
  };
  const volumes = found.volumes.map((volume) => encodeVolume(volume, 0, now).write);
  const source = rebuiltSource({ clusterUid, gen: found.gen, beside, volumes });
  const files = createBackupFiles(path.dirname(file));
  const written = await writeBackup({
    source,
    files,
    name: path.basename(file),
    cell: config.cell,
    at: now,
    judge: judgeRecord,
  });
  say(
    `${file}: ${written.records} records, generation ${found.gen}. Put it into the empty store: holdfast import ${file}`,
  );
};
