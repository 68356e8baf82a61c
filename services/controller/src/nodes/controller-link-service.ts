/** What agents say to this controller over their streams. That a node which is named is the caller's own was judged before (api/access/rules.ts). */

import type { Clock } from "@holdfast/shared/async/clock";
import { type FieldViolation, HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import type {
  AcknowledgeRequest,
  AgentLinkServiceDefinition,
  ClaimNews,
  RegisterHeader,
  RegisterRequest,
  ReleasedClaim,
  ReportRequest,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import type { PluginFingerprint } from "@holdfast/shared/gen/holdfast/v1/plugin";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { Logger } from "@holdfast/shared/log/logger";
import { checkId, checkPlugin, checkRequired, checkString } from "../domain/limits.ts";
import type { NodeRecord } from "../domain/node/node.ts";
import type { Acknowledgements, ReportedClaim, ReportedNews } from "./acknowledgements.ts";
import { checkEpoch, checkNews, checkNumber } from "./check-told.ts";
import { epochFrom, headerFrom } from "./convert.ts";
import { nodePluginFrom } from "./convert-plugin.ts";
import type { NodeRegistry } from "./node-registry-model.ts";
import type { ToldNews } from "./told-news.ts";

type AgentLink = Implementation<typeof AgentLinkServiceDefinition>;

export interface ControllerLinkOptions {
  readonly registry: Pick<NodeRegistry, "register" | "report" | "get">;
  readonly acknowledgements: Acknowledgements;
  readonly news: ToldNews;
  readonly clock: Pick<Clock, "now">;
  readonly log: Logger;
  readonly controllerId: string;
  readonly clusterUid: () => Promise<string>;
}

/** Plugins of one host; a host with more is not what it says. */
const maxPlugins = 256;
const maxClaims = 1000;

export const createControllerLinkService = (
  options: ControllerLinkOptions,
): Pick<AgentLink, "register" | "report" | "acknowledge" | "greet"> => {
  const { registry, acknowledgements, news, clock, log, controllerId } = options;

  return {
    async register(request) {
      const header = registeringHeader(request);
      const record = await registry.register(headerFrom(header), request.plugins.map(nodePluginFrom));
      return {
        nodeEpoch: BigInt(record.nodeEpoch),
        controllerId,
        clusterUid: await options.clusterUid(),
        state: stateOf(record),
      };
    },

    async report(request) {
      checkReport(request);
      const { known, record } = await registry.report({
        node: request.node,
        instance: request.instance,
        baseRevision: Number(request.baseRevision),
        revision: Number(request.revision),
        changed: request.changed.map(nodePluginFrom),
        removed: request.removed.map(({ plugin, instanceId }) => ({ plugin, instance: instanceId })),
        accepting: request.health?.accepting ?? true,
        message: request.health?.message ?? "",
      });
      if (known) await news.take(reporterOf(request), request.claims.map(newsOf));
      return {
        known,
        nodeEpoch: BigInt(record?.nodeEpoch ?? 0),
        state: record === undefined ? NodeState.NODE_STATE_UNSPECIFIED : stateOf(record),
      };
    },

    async acknowledge(request) {
      checkAcknowledge(request);
      if (registry.get(request.node) === undefined) throw unknownNode(request.node);
      for (const event of request.events)
        log.info("an agent reports", {
          node: request.node,
          event: event.reason,
          detail: event.message,
          plugin: event.plugin,
          volume: event.volume === "" ? "" : `${event.namespace}/${event.volume}`,
          claim: event.claimUid,
        });
      const reporter = reporterOf(request);
      await acknowledgements.lost(
        reporter,
        request.lost.map((one) => ({ ...reportOf(one), ...(one.reason === "" ? {} : { reason: one.reason }) })),
      );
      const forgotten = await acknowledgements.released(reporter, request.released.map(reportOf));
      return { forgottenClaimUids: [...forgotten] };
    },

    async greet({ node }) {
      refuse(checkId("node", node));
      return { controllerId, now: new Date(clock.now()), known: registry.get(node) !== undefined };
    },
  };
};

const reportOf = (claim: Pick<ReleasedClaim, "namespace" | "volume" | "volumeUid" | "claimUid" | "epoch">) =>
  ({
    namespace: claim.namespace,
    volume: claim.volume,
    volumeUid: claim.volumeUid,
    claimUid: claim.claimUid,
    epoch: epochFrom(claim.epoch),
  }) satisfies ReportedClaim;

const reporterOf = ({ node, nodeEpoch, instance }: Pick<ReportRequest, "node" | "nodeEpoch" | "instance">) => ({
  node,
  nodeEpoch: Number(nodeEpoch),
  instance,
});

const newsOf = ({ namespace, volume, volumeUid, claimUid, epoch, ailing, call }: ClaimNews): ReportedNews => ({
  ...{ namespace, volume, volumeUid, claimUid },
  ...(epoch === undefined ? {} : { epoch: epochFrom(epoch) }),
  ...(ailing === undefined
    ? {}
    : {
        ailing: {
          since: ailing.since?.getTime() ?? 0,
          reason: ailing.reason,
          message: ailing.message,
          missingProof: ailing.missingProof,
          clearWith: ailing.clearWith,
        },
      }),
  ...(call === undefined
    ? {}
    : {
        call: {
          method: call.method,
          instance: call.instance,
          since: call.since?.getTime() ?? 0,
          deadline: call.deadline?.getTime() ?? 0,
          attempt: call.attempt,
        },
      }),
});

const stateOf = ({ state }: NodeRecord): NodeState => NodeState[`NODE_STATE_${state}`];

const unknownNode = (node: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "NODE_MISMATCH",
    message: `node ${node} is not registered here; register first`,
    metadata: { node, wanted: node },
  });

const registeringHeader = ({ header, plugins }: RegisterRequest): RegisterHeader => {
  const violations = [
    ...(header === undefined ? [{ field: "header", description: "is required" }] : checkHeader(header)),
    ...checkPlugins("plugins", plugins),
  ];
  if (header === undefined || violations.length > 0) throw invalidArgument(violations);
  return header;
};

const checkHeader = (header: RegisterHeader): readonly FieldViolation[] => [
  ...checkId("header.name", header.name),
  ...checkRequired("header.machine_id", header.machineId),
  ...checkRequired("header.boot_id", header.bootId),
  ...checkRequired("header.instance", header.instance),
  ...checkRequired("header.journal_uid", header.journalUid),
  ...checkString("header.lock_id", header.lockId),
  ...checkString("header.host_identity", header.hostIdentity),
  ...checkString("header.version", header.version),
  ...checkString("header.cluster_uid", header.clusterUid),
  ...checkNumber("header.node_epoch", header.nodeEpoch),
  ...checkNumber("header.fingerprint_revision", header.fingerprintRevision),
];

const maxNodeIdBytes = 256;

const checkPlugins = (field: string, plugins: readonly PluginFingerprint[]): readonly FieldViolation[] => [
  ...(plugins.length > maxPlugins ? [{ field, description: `more than ${maxPlugins}` }] : []),
  ...plugins
    .slice(0, maxPlugins)
    .flatMap((plugin, i) => [
      ...checkPlugin(`${field}[${i}].plugin`, plugin.plugin),
      ...checkRequired(`${field}[${i}].instance_id`, plugin.instanceId),
      ...(plugin.maxVolumes < 0n ? [{ field: `${field}[${i}].max_volumes`, description: "must not be negative" }] : []),
      ...(Buffer.byteLength(plugin.nodeId) > maxNodeIdBytes
        ? [{ field: `${field}[${i}].node_id`, description: `is longer than ${maxNodeIdBytes} bytes` }]
        : []),
    ]),
];

const refuse = (violations: readonly FieldViolation[]): void => {
  if (violations.length > 0) throw invalidArgument(violations);
};

const checkReport = (request: ReportRequest): void =>
  refuse([
    ...checkId("node", request.node),
    ...checkRequired("instance", request.instance),
    ...checkPlugins("changed", request.changed),
    ...(request.removed.length > maxPlugins ? [{ field: "removed", description: `more than ${maxPlugins}` }] : []),
    ...checkNumber("node_epoch", request.nodeEpoch),
    ...checkNumber("base_revision", request.baseRevision),
    ...checkNumber("revision", request.revision),
    ...checkClaims("claims", request.claims),
    ...request.claims.slice(0, maxClaims).flatMap((claim, n) => checkNews(`claims[${n}]`, claim)),
  ]);

const checkClaims = (
  field: string,
  claims: readonly Pick<ReleasedClaim, "namespace" | "volume" | "epoch">[],
): readonly FieldViolation[] => [
  ...(claims.length > maxClaims ? [{ field, description: `more than ${maxClaims}` }] : []),
  ...claims.flatMap(({ namespace, volume, epoch }, n) => [
    ...checkEpoch(`${field}[${n}].epoch`, epoch),
    ...checkId(`${field}[${n}].namespace`, namespace),
    ...checkId(`${field}[${n}].volume`, volume),
  ]),
];

const checkAcknowledge = (request: AcknowledgeRequest): void =>
  refuse([
    ...checkId("node", request.node),
    ...checkNumber("node_epoch", request.nodeEpoch),
    ...checkClaims("released", request.released),
    ...checkClaims("lost", request.lost),
  ]);
