/** The services of one controller of a test's world, without whatever carries their calls. */
import { randomUUID } from "node:crypto";
import type { WiredAccess } from "@holdfast/controller/access-wiring";
import { createGrantService } from "@holdfast/controller/api/access/grant-service";
import { createClaimService } from "@holdfast/controller/api/claim/claim-service";
import { addControllerServices } from "@holdfast/controller/api/controller-services";
import { createEventService } from "@holdfast/controller/api/event/event-service";
import { createNodeService } from "@holdfast/controller/api/node/node-service";
import { createPluginService } from "@holdfast/controller/api/plugin/plugin-service";
import { createQuotaService } from "@holdfast/controller/api/quota/quota-service";
import { createRepairService } from "@holdfast/controller/api/repair/repair-service";
import { createSecretService } from "@holdfast/controller/api/secret/secret-service";
import { createSnapshotService } from "@holdfast/controller/api/snapshot/snapshot-service";
import { createTrustService } from "@holdfast/controller/api/trust/trust-service";
import { createVolumeService } from "@holdfast/controller/api/volume/volume-service";
import { createAccessCommands } from "@holdfast/controller/commands/access/access-commands";
import { createPluginCommands } from "@holdfast/controller/commands/plugin/plugin-commands";
import { createQuotaCommands } from "@holdfast/controller/commands/quota/quota-commands";
import { createTrustCommands } from "@holdfast/controller/commands/trust/trust-commands";
import type { IssuingAuthority } from "@holdfast/controller/commands/trust/trust-model";
import { createUpgradeCommands } from "@holdfast/controller/commands/upgrade/upgrade-commands";
import { everything } from "@holdfast/controller/domain/access/caller-scope";
import { readableFormats } from "@holdfast/controller/domain/store-format";
import type { NodeRegistry } from "@holdfast/controller/nodes/node-registry-model";
import { createAccessGrants } from "@holdfast/controller/records/access/access-grants";
import { nodeChangeKey } from "@holdfast/controller/records/changes";
import { createRosterRecords } from "@holdfast/controller/records/roster-records";
import { createDenialRecords } from "@holdfast/controller/records/trust/denial-records";
import { createTokenRecords } from "@holdfast/controller/records/trust/token-records";
import type { GrpcServer } from "@holdfast/shared/grpc/server";
import type { Logger } from "@holdfast/shared/log/logger";
import {
  type Authority,
  checkAuthority,
  createIssuing,
  createRoot,
  issuingTtlMs,
} from "@holdfast/shared/trust/authority";
import type { World } from "./world.ts";

type Tracing = Parameters<typeof createVolumeService>[0]["tracing"];

/** Of its certificates. */
export const worldTrustDomain = "world.example";

const noDetails = { rev: 0, lastHeard: undefined, message: "", dispute: undefined };

export interface WorldServiceOptions {
  /** What callers may see; everything without it. */
  readonly scopeOf?: WiredAccess["scopeOf"];
  /** What a registry of nodes knows beside their records. */
  readonly details?: NodeRegistry["details"];
  readonly policyChanged?: Parameters<typeof createVolumeService>[0]["policyChanged"];
}

/** Made when the first certificate is asked for. */
const createWorldAuthority = ({ now }: Pick<World["clock"], "now">): IssuingAuthority => {
  let made: Promise<Authority> | undefined;
  const make = async (): Promise<Authority> =>
    await checkAuthority(await createIssuing(await createRoot(worldTrustDomain, now()), issuingTtlMs, now()), {
      trustDomain: worldTrustDomain,
      now: now(),
    });
  return {
    current() {
      made ??= make();
      return made;
    },
  };
};

export const addWorldServices = (
  server: Pick<GrpcServer, "add">,
  world: World,
  log: Logger,
  tracing: Tracing,
  { scopeOf = () => everything, details = () => undefined, policyChanged = () => undefined }: WorldServiceOptions = {},
): void => {
  const deps = {
    policyChanged,
    get commands() {
      return world.commands;
    },
    get wakeups() {
      return world.changes;
    },
    get stats() {
      return world.stats;
    },
    granted: () => true,
    scopeOf,
    recent: (ref: Parameters<typeof world.records.recent>[0]) => world.records.recent(ref),
    listExternalVolumes: world.listExternalVolumes,
    feed: world.store,
    clock: world.clock,
    tracing,
  };
  const placement = world.placement();
  const { store, clock, audit, quotas } = world;
  const ids = { uuid: randomUUID, random: Math.random };
  const recordDeps = { store, clock, ids, signal: new AbortController().signal };
  const nodes = createNodeService({
    ...deps,
    get stats() {
      return world.stats;
    },
    get wakeups() {
      return world.changes;
    },
    nodes: world.registry,
    places: placement.places,
    remarks: (node) => ({
      ...noDetails,
      ...details(node),
      overdue: world.drains.overdue(node),
      fenceWaits: world.fences.waitsFor(node),
    }),
    get commands() {
      return world.nodeCommands;
    },
    keyOfNode: nodeChangeKey,
    get log() {
      return world.nodeLog;
    },
  });
  const plugins = createPluginService({
    granted: () => true,
    scopeOf,
    callsOf: () => ({
      breaker: "closed",
      running: 0,
      waiting: 0,
      limit: 64,
      most: 64,
      held: "",
      at: undefined,
      silent: [],
    }),
    get commands() {
      return createPluginCommands({
        ambiguous: () => "",
        records: world.pluginRecords,
        catalogue: world.catalogue,
        count: world.countOf,
        format: () => 4,
      });
    },
    tracing,
    unsigned: async () => "no key is here",
    admission: {
      accept: async ({ socketPath: socket }) => [{ socket, uid: 0, gid: 0, directoryUid: 0, directoryGid: 0 }],
    },
    log,
    get changes() {
      return world.pluginLog;
    },
  });
  const repair = createRepairService({
    scopeOf,
    gate: { state: world.gate.state, findings: () => [], accept: async () => world.gate.set(true) },
    audit,
    clock,
    tracing,
    commands: world.repair,
    upgrade: createUpgradeCommands({
      ...{ store, audit, clock },
      roster: createRosterRecords(recordDeps),
      formats: readableFormats,
    }),
  });
  const secrets = createSecretService({
    tracing,
    scopeOf,
    get secrets() {
      return world.secrets;
    },
  });
  const snapshots = createSnapshotService({
    ...deps,
    get wakeups() {
      return world.changes;
    },
    get snapshots() {
      return world.snapshots;
    },
  });
  const trust = createTrustCommands({
    authority: createWorldAuthority(clock),
    tokens: createTokenRecords(recordDeps),
    denials: createDenialRecords(recordDeps),
    readNode: async (name) => world.registry.get(name),
    ...{ audit, store, clock },
  });
  const services = {
    volumes: createVolumeService(deps),
    claims: createClaimService(deps),
    events: createEventService(deps),
    quotas: createQuotaService({ scopeOf, tracing, quotas: createQuotaCommands({ quotas, audit, store, clock }) }),
    grants: createGrantService({
      tracing,
      access: createAccessCommands({ accessGrants: createAccessGrants(recordDeps), audit, store, clock }),
    }),
    trust: createTrustService({ tracing, trust, agentAddress: () => "127.0.0.1:1" }),
    ...{ nodes, plugins, placement: placement.service, repair, secrets, snapshots },
  };
  addControllerServices(server, services, () => []);
};
