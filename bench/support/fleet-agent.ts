/** What an agent of a fleet says: three plugins of two instances each, a place in the topology, and nothing that takes time. */
import { HeldState, InventoryResponse, StagingState } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import type { FromAgent, Order } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { VerificationScope } from "@holdfast/shared/gen/holdfast/v1/common";
import { PluginHealth, PluginRole } from "@holdfast/shared/gen/holdfast/v1/plugin";

import { takenVolume } from "../scale-load.ts";
import { streamOf } from "./raw-stream.ts";

type Frame = Parameters<typeof FromAgent.fromPartial>[0];

export const fleetPlugins = ["csi.example", "files.example", "archive.example"] as const;

const fingerprint = (node: string, index: number, plugin: string, copy: number, told: number) => ({
  plugin,
  version: "1.0.0",
  instanceId: `${plugin}-${copy}-${node}`,
  role: PluginRole.PLUGIN_ROLE_NODE,
  socket: `/run/holdfast/${plugin}-${copy}.sock`,
  health: PluginHealth.PLUGIN_HEALTH_HEALTHY,
  healthMessage: told === 0 ? "" : `seen ${told} times`,
  nodeId: node,
  topology: { segments: { zone: `zone-${index % 3}`, rack: `rack-${index % 100}` } },
});

const fingerprints = (node: string, index: number) =>
  fleetPlugins.flatMap((plugin) => [0, 1].map((copy) => fingerprint(node, index, plugin, copy, 0)));

export const helloOf = (node: string): Frame => ({
  hello: { node, instance: `instance-${node}`, stream: streamOf(node) },
});

export const registrationOf = (node: string, index: number, seq: number): Frame => ({
  request: {
    head: { seq: BigInt(seq), timeLeftMs: 120_000 },
    register: {
      header: {
        name: node,
        machineId: `machine-${node}`,
        bootId: `boot-${node}-1`,
        instance: `instance-${node}`,
        journalUid: `journal-${node}-1`,
        version: "0.1.0",
        rootDir: "/run/holdfast/mounts",
        verificationScope: VerificationScope.VERIFICATION_SCOPE_HOST,
        nodeEpoch: 1n,
        fingerprintRevision: 1n,
      },
      plugins: fingerprints(node, index),
    },
  },
});

/** One plugin is not as it was. */
export const reportOf = (node: string, index: number, seq: number, revision: number): Frame => ({
  request: {
    head: { seq: BigInt(seq), timeLeftMs: 120_000 },
    report: {
      node,
      instance: `instance-${node}`,
      nodeEpoch: 1n,
      baseRevision: BigInt(revision - 1),
      revision: BigInt(revision),
      changed: [fingerprint(node, index, fleetPlugins[0], 0, revision)],
      removed: [],
      health: { accepting: true, message: "", publications: 20, blocked: 0, unacknowledged: 0 },
    },
  },
});

/** Undefined for what no fleet is asked. */
export const answerTo = (order: Order): Frame | undefined => {
  const head = { seq: order.head?.seq ?? 0n };
  const { publish, release } = order;
  if (publish !== undefined)
    return {
      answer: {
        head,
        publish: { published: { hostPath: `/fleet/${publish.permit?.volume}`, epoch: publish.permit?.epoch } },
      },
    };
  if (release !== undefined) return { answer: { head, release: { released: { epoch: release.epoch } } } };
  if (order.inventory !== undefined) return { answer: { head: { ...head, byTransfer: true }, inventory: {} } };
  if (order.stats !== undefined) return { answer: { head, stats: { volumes: [] } } };
  if (order.raiseFloor !== undefined) return { answer: { head, raiseFloor: { ...order.raiseFloor } } };
  return undefined;
};

export interface Fleet {
  readonly agents: number;
  /** Held on each, all loaded into the store before. */
  readonly claims: number;
}

/** What a look at the journal of that agent finds. */
export const inventoryOf = (node: string, index: number, { agents, claims }: Fleet): readonly Uint8Array[] => {
  const volumes = Array.from({ length: claims }, (_, turn) => takenVolume(index + turn * agents, agents));
  const parts: readonly Parameters<typeof InventoryResponse.fromPartial>[0][] = [
    { header: { node, journalUid: `journal-${node}-1`, nodeEpoch: 1n, bootId: `boot-${node}-1` } },
    ...volumes.map((volume) => ({
      volume: {
        namespace: volume.namespace,
        volume: volume.id,
        volumeUid: volume.uid,
        externalId: volume.externalId,
        plugin: volume.plugin,
        stagingState: StagingState.STAGING_STATE_STAGED,
        held: Object.values(volume.claims).map(({ uid, workload, alias, publication }) => ({
          claimUid: uid,
          epoch: { gen: 1n, ctr: 1n },
          state: HeldState.HELD_STATE_PUBLISHED,
          target: publication?.hostPath ?? "",
          workload,
          alias,
        })),
      },
    })),
    { end: { volumes: volumes.length, orphans: 0 } },
  ];
  return parts.map((part) => InventoryResponse.encode(InventoryResponse.fromPartial(part)).finish());
};
