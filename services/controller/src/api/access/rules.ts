/**
 * Who may call what of a controller: one row for each method, with the roles, and with what of its request is held against the caller's
 * grant. docs/security.md has the same table in words; a test compares the two cell by cell.
 */
import { claimVolumeId } from "@holdfast/shared/claim-volume-id";
import { AgentLinkServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { ClaimServiceDefinition, type ClaimSpec } from "@holdfast/shared/gen/holdfast/v1/claim";
import type { SecretReference } from "@holdfast/shared/gen/holdfast/v1/common";
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
import {
  type AccessRow,
  type AccessRows,
  type AccessRowsOf,
  accessRows,
  type Role,
} from "@holdfast/shared/grpc/access";
import { roles } from "@holdfast/shared/grpc/identity";
import { ServeWireDefinition } from "@holdfast/shared/grpc/stream/serve-wire";
import { certifiedRoles } from "@holdfast/shared/trust/spiffe-id";
import type { TsProtoServiceDefinition } from "nice-grpc";
import type { Asked, SecretAsked } from "./judge-scope.ts";
import type { TicketAsked } from "./judge-ticket.ts";

/** No server adds it, and so none asks whether it has rows. */
export const servedOverStreams = AgentLinkServiceDefinition;

/** Their first messages name the node; the stage sees only that there is a stream. */
export const servePath = `/${ServeWireDefinition.fullName}/${ServeWireDefinition.methods.serve.name}`;
export const transferPath = `/${ServeWireDefinition.fullName}/${ServeWireDefinition.methods.transfer.name}`;

const users: readonly Role[] = ["scheduler", "operator"];
const readers: readonly Role[] = [...users, "monitor"];
const watchers: readonly Role[] = ["operator", "monitor"];

type Row<Request> = AccessRow<Asked, Request>;

/** For everything that has the role, whatever it names. */
const open = (roles: readonly Role[]): Row<unknown> => ({ roles });
const operator = open(["operator"]);

const within = <Request>(roles: readonly Role[], asked: (request: Request) => Asked): Row<Request> => ({
  roles,
  asked,
});

/** Where operators are proven ones it needs a reason. */
const decided: Row<{ readonly reason: string }> = within(["operator"], ({ reason }) => ({ reason }));

interface InNamespace {
  readonly namespace: string;
}
const namespaced: Row<InNamespace> = within(users, ({ namespace }) => ({ namespace }));
const readInNamespace: Row<InNamespace> = within(readers, ({ namespace }) => ({ namespace }));

interface Filtered {
  readonly filter?: { readonly namespace: string; readonly plugin?: string } | undefined;
}
const filtered: Row<Filtered> = within(readers, ({ filter }) => ({ filter: filter?.namespace ?? "" }));
const filteredByNamespace: Row<InNamespace> = within(readers, ({ namespace }) => ({ filter: namespace }));

/** I9: an agent speaks for its own node. */
const ofNode: Row<{ readonly node: string }> = within(["node"], ({ node }) => ({ node }));

/**
 * Claims of a workload on its own node. Lives that it names by their uids are this node's: the handler reads no others, and how they
 * stand, and that they are over, has to be told also when the namespace is named no more.
 */
interface ClaimingOnNode extends InNamespace, Omit<TicketAsked, "volumes"> {
  readonly node: string;
  readonly claimUids: readonly string[];
  /** Of a request for claims; without them the workload is given back. */
  readonly claims?: readonly ClaimSpec[];
}
const claimingOnNode: Row<ClaimingOnNode> = within(["node"], (request) => {
  const { node, namespace, workload, ticket, claimUids, claims } = request;
  if (claimUids.length > 0) return { node };
  // What a template makes is known by its id before it is there.
  const volumes = claims?.map(({ volume, alias, template }) =>
    template === undefined ? volume : claimVolumeId(workload, alias),
  );
  return { node, namespace, ticket: { ticket, workload, volumes } };
});

/** Volumes of the programs on its host: in the namespaces in which the node may ask for claims. */
const volumesOnNode: Row<InNamespace & { readonly node: string }> = within(["node"], ({ node, namespace }) => ({
  node,
  namespace,
}));

const refsIn = (field: string, secrets: object | undefined): readonly SecretAsked[] =>
  Object.entries((secrets ?? {}) as Readonly<Record<string, SecretReference | undefined>>).map(([family, one]) => ({
    field: `${field}.${family}.ref`,
    ref: one?.ref ?? "",
  }));

interface Claiming extends InNamespace {
  readonly claims: readonly ClaimSpec[];
}
const claiming: Row<Claiming> = within(users, ({ namespace, claims }) => ({
  namespace,
  plugins: claims.map(({ template }) => template?.plugin ?? ""),
  secrets: claims.flatMap(({ template }, i) => refsIn(`claims[${i}].template.secrets`, template?.secrets)),
}));

interface Made extends InNamespace {
  readonly plugin: string;
  readonly secrets?: object | undefined;
}
const made: Row<Made> = within(users, ({ namespace, plugin, secrets }) => ({
  namespace,
  plugins: [plugin],
  secrets: refsIn("secrets", secrets),
}));
const cut: Row<Omit<Made, "plugin">> = within(users, ({ namespace, secrets }) => ({
  namespace,
  secrets: refsIn("secrets", secrets),
}));
const ofPlugin: Row<{ readonly plugin: string }> = within(users, ({ plugin }) => ({ plugins: [plugin] }));

const volumes: AccessRowsOf<typeof VolumeServiceDefinition, Asked> = {
  createVolume: made,
  registerVolume: made,
  updateVolume: cut,
  expandVolume: namespaced,
  modifyVolume: namespaced,
  deleteVolume: namespaced,
  deregisterVolume: namespaced,
  getVolume: namespaced,
  listVolumes: filtered,
  watchVolumes: filtered,
  listExternalVolumes: within(readers, ({ plugin }) => ({ plugins: [plugin] })),
  getCapacity: ofPlugin,
  getVolumeStats: namespaced,
  explainVolume: namespaced,
};

const claims: AccessRowsOf<typeof ClaimServiceDefinition, Asked> = {
  createClaims: claiming,
  waitClaims: namespaced,
  releaseClaims: namespaced,
  getListToken: open(users),
  reconcileWorkloads: within(users, ({ namespace, live }) => ({
    filter: namespace,
    others: live.map((one) => one.namespace),
  })),
  handOver: namespaced,
  getClaim: namespaced,
  listClaims: filtered,
  watchClaims: filtered,
};

const snapshots: AccessRowsOf<typeof SnapshotServiceDefinition, Asked> = {
  createSnapshot: cut,
  deleteSnapshot: namespaced,
  getSnapshot: namespaced,
  listSnapshots: filtered,
  listExternalSnapshots: within(readers, ({ namespace, plugin, secrets }) => ({
    filter: namespace,
    plugins: [plugin],
    secrets: [{ field: "secrets.ref", ref: secrets?.ref ?? "" }],
  })),
  createSnapshotGroup: cut,
  deleteSnapshotGroup: namespaced,
  getSnapshotGroup: namespaced,
  listSnapshotGroups: filtered,
  restoreSnapshotGroup: within(users, ({ namespace, members }) => ({
    namespace,
    secrets: members.flatMap(({ secrets }, i) => refsIn(`members[${i}].secrets`, secrets)),
  })),
  getMetadataAllocated: namespaced,
  getMetadataDelta: namespaced,
};

const nodes: AccessRowsOf<typeof NodeServiceDefinition, Asked> = {
  getNode: open(readers),
  listNodes: open(readers),
  watchNodes: open(readers),
  getNodeStats: open(readers),
  drainNode: decided,
  watchDrain: open(watchers),
  undrainNode: operator,
  fenceNode: operator,
  forgetNode: within(["operator"], ({ dryRun, reason }) => (dryRun ? {} : { reason })),
};

const plugins: AccessRowsOf<typeof PluginServiceDefinition, Asked> = {
  getPlugin: within(readers, ({ name }) => ({ plugins: [name] })),
  listPlugins: open(readers),
  watchPlugins: open(readers),
  setPluginProfile: decided,
  acceptPlugin: operator,
  deletePlugin: decided,
};

const repair: AccessRowsOf<typeof RepairServiceDefinition, Asked> = {
  scanOrphans: operator,
  abandonClaim: operator,
  assertDetached: operator,
  removeOrphan: operator,
  adoptVolume: operator,
  forgetVolume: operator,
  takeOver: operator,
  clearBar: operator,
  admitNode: operator,
  forgetController: operator,
  vet: operator,
  getUpgrade: open(watchers),
  finishUpgrade: operator,
  listAudit: filteredByNamespace,
  listStuck: filteredByNamespace,
};

const table = <Definition extends TsProtoServiceDefinition>(
  definition: Definition,
  rowsOfMethods: AccessRowsOf<Definition, Asked>,
) => accessRows<Definition, Asked>(definition, rowsOfMethods);

const rows: AccessRows<Asked> = new Map<string, AccessRow<Asked>>([
  ...table(VolumeServiceDefinition, volumes),
  ...table(ClaimServiceDefinition, claims),
  ...table(SnapshotServiceDefinition, snapshots),
  ...table(PlacementServiceDefinition, { checkPlacement: claiming }),
  ...table(NodeServiceDefinition, nodes),
  ...table(PluginServiceDefinition, plugins),
  ...table(RepairServiceDefinition, repair),
  ...table(SecretServiceDefinition, {
    putSecret: namespaced,
    deleteSecret: namespaced,
    listSecrets: filteredByNamespace,
  }),
  ...table(QuotaServiceDefinition, {
    setQuota: operator,
    getQuota: readInNamespace,
    listQuotas: open(readers),
    deleteQuota: operator,
  }),
  ...table(GrantServiceDefinition, {
    setGrant: operator,
    getGrant: operator,
    listGrants: open(watchers),
    deleteGrant: operator,
  }),
  ...table(EventServiceDefinition, { watchEvents: filtered }),
  ...table(TrustServiceDefinition, {
    createNodeToken: operator,
    // A node that has no certificate yet has a token.
    enrol: open(roles),
    // Of whoever the certificate names; whose is not renewed, the handler says.
    renew: open(certifiedRoles),
    revoke: decided,
    listRevoked: open(watchers),
  }),
  ...table(AgentLinkServiceDefinition, {
    // Without a name its handler says all that is wrong with it.
    register: within(["node"], ({ header }) =>
      header === undefined || header.name === "" ? {} : { node: header.name },
    ),
    report: ofNode,
    acknowledge: ofNode,
    requestClaims: claimingOnNode,
    releaseClaims: claimingOnNode,
    issueTokens: ofNode,
    getHealthSecrets: ofNode,
    makeVolume: volumesOnNode,
    removeVolume: volumesOnNode,
    findVolumes: volumesOnNode,
    greet: ofNode,
  }),
  // Of the hello, and of the first chunk.
  [servePath, ofNode],
  [transferPath, ofNode],
]);

/** A copy, by the path of the method. */
export const controllerRules = (): Map<string, AccessRow<Asked>> => new Map(rows);
