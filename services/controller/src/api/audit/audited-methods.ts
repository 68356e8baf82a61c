/**
 * Which calls are acts: each method of each service has a row, or does not compile. An act leaves a line before and after it; what its row
 * takes from the request are names, versions and the reason, never a value.
 */
import { ClaimServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/claim";
import { EventServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/event";
import { GrantServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/grant";
import { NodeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/node";
import { PlacementServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/placement";
import { PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { QuotaServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/quota";
import { RepairServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/repair";
import { SecretServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/secret";
import { SnapshotServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import { TrustServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/trust";
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { ActSubject } from "../../audit/act-audit.ts";

interface AuditedRow<Request> {
  /** What it is about, by names; what is empty is left out. */
  readonly subject: (request: Request) => ActSubject;
  /** Requests of the method that change nothing, such as a dry run, are no acts. */
  readonly acts: (request: Request) => boolean;
  readonly reason: (request: Request) => string;
  /** What the answer adds. */
  readonly result?: (answer: unknown) => ActSubject;
}

/** Of any request of its method. */
export type AnyAuditedRow = AuditedRow<unknown>;

interface Described {
  readonly fullName: string;
  readonly methods: Readonly<
    Record<string, { readonly name: string; readonly requestType: { readonly decode: (...bytes: never[]) => unknown } }>
  >;
}

type RequestOf<Method> = Method extends {
  readonly requestType: { readonly decode: (...bytes: never[]) => infer Request };
}
  ? Request
  : never;

type RowsOf<Definition extends Described> = {
  readonly [Key in keyof Definition["methods"]]: "no act" | AuditedRow<RequestOf<Definition["methods"][Key]>>;
};

const notAudited = "no act" as const;

/** The two fields that mean the same in every request that has them. */
const common = (request: unknown): { readonly reason?: unknown; readonly dryRun?: unknown } => ({ ...Object(request) });

const act = <Request>(
  subject: AuditedRow<Request>["subject"],
  acts: AuditedRow<Request>["acts"] = () => true,
): AuditedRow<Request> => ({
  subject,
  acts: (request) => common(request).dryRun !== true && acts(request),
  reason: (request) => String(common(request).reason ?? ""),
});

const rowsOf = <Definition extends Described>(
  { fullName, methods }: Definition,
  rows: RowsOf<Definition>,
): readonly (readonly [string, AnyAuditedRow | undefined])[] =>
  Object.entries(methods).map(([key, { name }]) => {
    const row: unknown = rows[key];
    return [`/${fullName}/${name}`, row === notAudited ? undefined : (row as AnyAuditedRow)];
  });

const named = ({ name }: { readonly name: string }): ActSubject => ({ node: name });
/** A volume, a snapshot or a group. */
const called = (it: { readonly [Of in "namespace" | "volume" | "snapshot" | "group"]: string }): ActSubject => {
  const { namespace, volume, snapshot, group } = it;
  return { namespace, volume, snapshot, group };
};
const version = (n: bigint): string => (n === 0n ? "" : String(n));
/** Values that came with the request are stored as a secret of their own. */
const withValues = act<{
  readonly namespace: string;
  readonly id: string;
  readonly inlineSecrets: Readonly<Record<string, string>>;
}>(
  ({ namespace, id }) => ({ namespace, volume: id, secret: `volume.${id}` }),
  ({ inlineSecrets }) => Object.keys(inlineSecrets).length > 0,
);

/** By the path of the method; undefined: no act. */
export const auditedMethods: ReadonlyMap<string, AnyAuditedRow | undefined> = new Map([
  ...rowsOf(NodeServiceDefinition, {
    getNode: notAudited,
    listNodes: notAudited,
    watchNodes: notAudited,
    getNodeStats: notAudited,
    watchDrain: notAudited,
    drainNode: act(named),
    undrainNode: act(named),
    fenceNode: act(named),
    forgetNode: act(named),
  }),
  ...rowsOf(PluginServiceDefinition, {
    getPlugin: notAudited,
    listPlugins: notAudited,
    watchPlugins: notAudited,
    setPluginProfile: act(({ name }) => ({ plugin: name })),
    acceptPlugin: act(({ plugin, socket }) => ({ plugin, socket })),
    deletePlugin: act(({ name, node }) => ({ plugin: name, node })),
  }),
  ...rowsOf(QuotaServiceDefinition, {
    getQuota: notAudited,
    listQuotas: notAudited,
    setQuota: act(({ namespace }) => ({ namespace })),
    deleteQuota: act(({ namespace }) => ({ namespace })),
  }),
  ...rowsOf(GrantServiceDefinition, {
    getGrant: notAudited,
    listGrants: notAudited,
    setGrant: act(({ scheduler }) => ({ scheduler })),
    deleteGrant: act(({ scheduler }) => ({ scheduler })),
  }),
  ...rowsOf(TrustServiceDefinition, {
    listRevoked: notAudited,
    createNodeToken: act(({ node }) => ({ node })),
    enrol: act(({ node }) => ({ node })),
    // The certificate that it rests on is the caller's own.
    renew: act(() => ({})),
    revoke: act(({ subject }) => ({ certificate: subject })),
  }),
  ...rowsOf(RepairServiceDefinition, {
    getUpgrade: notAudited,
    listAudit: notAudited,
    listStuck: notAudited,
    scanOrphans: act(
      ({ plugins, nodes }) => ({ plugin: plugins.join(","), node: nodes.join(",") }),
      ({ clean }) => clean.length > 0,
    ),
    abandonClaim: act(({ namespace, volume, workload, alias, claimUid: claim }) => ({
      ...{ namespace, volume, workload, alias, claim },
    })),
    assertDetached: act(({ namespace, volume, node }) => ({ namespace, volume, node })),
    removeOrphan: act(({ orphanId: orphan }) => ({ orphan })),
    adoptVolume: act(({ namespace, volume, plugin, externalId: external_id }) => ({
      ...{ namespace, volume, plugin, external_id },
    })),
    forgetVolume: act(({ namespace, volume, uid }) => ({ namespace, volume, uid })),
    takeOver: act(called),
    clearBar: act((request) => ({ ...called(request), bar: request.bar })),
    admitNode: act(({ node, life }) => ({ node, life })),
    forgetController: act(({ controller }) => ({ controller })),
    vet: act(
      () => ({}),
      ({ accept }) => accept,
    ),
    finishUpgrade: act(() => ({})),
  }),
  ...rowsOf(SecretServiceDefinition, {
    listSecrets: notAudited,
    putSecret: {
      ...act(({ namespace, name }) => ({ namespace, secret: name })),
      result: (answer) => ({ version: String(Object(answer).version) }),
    },
    deleteSecret: act((request) => ({
      namespace: request.namespace,
      secret: request.name,
      version: version(request.version),
    })),
  }),
  ...rowsOf(VolumeServiceDefinition, {
    createVolume: withValues,
    registerVolume: withValues,
    updateVolume: notAudited,
    expandVolume: notAudited,
    modifyVolume: notAudited,
    deleteVolume: notAudited,
    deregisterVolume: notAudited,
    getVolume: notAudited,
    listVolumes: notAudited,
    watchVolumes: notAudited,
    listExternalVolumes: notAudited,
    getCapacity: notAudited,
    getVolumeStats: notAudited,
    explainVolume: notAudited,
  }),
  ...rowsOf(ClaimServiceDefinition, {
    createClaims: notAudited,
    waitClaims: notAudited,
    releaseClaims: notAudited,
    getListToken: notAudited,
    reconcileWorkloads: notAudited,
    handOver: notAudited,
    getClaim: notAudited,
    listClaims: notAudited,
    watchClaims: notAudited,
  }),
  ...rowsOf(SnapshotServiceDefinition, {
    createSnapshot: notAudited,
    deleteSnapshot: notAudited,
    getSnapshot: notAudited,
    listSnapshots: notAudited,
    listExternalSnapshots: notAudited,
    createSnapshotGroup: notAudited,
    deleteSnapshotGroup: notAudited,
    getSnapshotGroup: notAudited,
    listSnapshotGroups: notAudited,
    restoreSnapshotGroup: notAudited,
    getMetadataAllocated: notAudited,
    getMetadataDelta: notAudited,
  }),
  ...rowsOf(PlacementServiceDefinition, { checkPlacement: notAudited }),
  ...rowsOf(EventServiceDefinition, { watchEvents: notAudited }),
]);
