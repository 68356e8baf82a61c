/** What the agent says of itself. */
import type {
  AcknowledgeRequest,
  AgentHealth,
  DeepPartial,
  RegisterRequest,
  ReportRequest,
  ClaimNews as WireNews,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { VerificationScope } from "@holdfast/shared/gen/holdfast/v1/common";
import type { PluginFingerprint } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { epochMessage } from "@holdfast/shared/grpc/convert-model";
import { blockedMessage } from "../api/convert-words.ts";
import type { ClaimNews } from "../domain/claim-news.ts";
import type { DeadEpoch, LostClaim, VolumeRef } from "../domain/types.ts";
import type { Ledger, MountTable } from "../ports.ts";

export interface AgentSelf {
  readonly node: string;
  readonly machineId: string;
  readonly bootId: string;
  /** What no copy of the host has; empty when there is nothing. */
  readonly hostIdentity: string;
  /** Of the state directory. */
  readonly lockId: string;
  /** Random, of this process. */
  readonly instance: string;
  readonly version: string;
  readonly rootDir: string;
  readonly scope: MountTable["scope"];
  readonly fingerprints: Fingerprints;
  readonly health: () => HealthFacts;
  /** Publications that vanished or died under their workloads. */
  readonly lost: () => readonly LostClaim[];
  readonly news: () => ClaimNews;
}

/** The plugins of this host, with a number that rises at each change. */
export interface Fingerprints {
  revision(): number;
  all(): readonly PluginFingerprint[];
  changes(since: number):
    | {
        readonly changed: readonly PluginFingerprint[];
        readonly removed: readonly { readonly plugin: string; readonly instanceId: string }[];
      }
    | undefined;
  wait(since: number, signal: AbortSignal): Promise<number>;
}

export interface HealthFacts {
  /** Why no permit is taken, or undefined. */
  readonly notAccepting: string | undefined;
  readonly publications: number;
  readonly blocked: number;
  readonly unacknowledged: number;
}

/** As many as a controller takes in one report. */
const maxNews = 500;

export interface LateRelease {
  readonly ref: VolumeRef;
  readonly dead: DeadEpoch;
}

const scopes: Record<MountTable["scope"], VerificationScope> = {
  host: VerificationScope.VERIFICATION_SCOPE_HOST,
  "own-namespace": VerificationScope.VERIFICATION_SCOPE_OWN_NAMESPACE,
};

export function registerMessage(
  self: AgentSelf,
  ledger: Pick<Ledger, "uid" | "agent">,
): { readonly message: DeepPartial<RegisterRequest>; readonly revision: number } {
  const agent = ledger.agent();
  const revision = self.fingerprints.revision();
  const header = {
    name: self.node,
    machineId: self.machineId,
    bootId: self.bootId,
    instance: self.instance,
    journalUid: ledger.uid,
    version: self.version,
    rootDir: self.rootDir,
    verificationScope: scopes[self.scope],
    nodeEpoch: BigInt(agent.nodeEpoch),
    clusterUid: agent.clusterUid,
    fingerprintRevision: BigInt(revision),
    promisedGen: BigInt(agent.promisedGen),
    lockId: self.lockId,
    hostIdentity: self.hostIdentity,
  };
  return { message: { header, plugins: [...self.fingerprints.all()] }, revision };
}

/** Undefined when the receiver is too far behind: it has to be told everything. */
export function reportMessage(
  self: AgentSelf,
  ledger: Pick<Ledger, "agent">,
  baseRevision: number,
  health: HealthFacts,
  news: ClaimNews,
): { readonly message: DeepPartial<ReportRequest>; readonly revision: number } | undefined {
  const revision = self.fingerprints.revision();
  const changes = self.fingerprints.changes(baseRevision);
  if (changes === undefined) return undefined;
  const message = {
    node: self.node,
    instance: self.instance,
    nodeEpoch: BigInt(ledger.agent().nodeEpoch),
    baseRevision: BigInt(baseRevision),
    revision: BigInt(revision),
    changed: [...changes.changed],
    removed: [...changes.removed],
    health: healthMessage(health),
    claims: newsMessages(self, news),
  };
  return { message, revision };
}

function newsMessages({ node }: AgentSelf, { ailing, calls }: ClaimNews): DeepPartial<WireNews>[] {
  const of = ({ ref, claimUid }: { readonly ref: VolumeRef; readonly claimUid: string }) => ({
    namespace: ref.namespace,
    volume: ref.volume,
    volumeUid: ref.volumeUid,
    claimUid,
  });
  return [
    ...ailing.map((one) => ({
      ...of(one),
      epoch: epochMessage(one.epoch),
      ailing: blockedMessage(one.halt, new Date(one.since)),
    })),
    ...calls.map((one) => ({
      ...of(one),
      call: {
        method: one.method,
        plugin: one.ref.plugin,
        instance: one.instance,
        node,
        since: new Date(one.since),
        deadline: new Date(one.deadline),
        attempt: one.attempt,
      },
    })),
  ].slice(0, maxNews);
}

function healthMessage({ notAccepting, publications, blocked, unacknowledged }: HealthFacts): AgentHealth {
  const accepting = notAccepting === undefined;
  return { accepting, message: notAccepting ?? "", publications, blocked, unacknowledged };
}

export function lateReleases(ledger: Pick<Ledger, "volumes">): readonly LateRelease[] {
  const found: LateRelease[] = [];
  for (const { ref, dead } of ledger.volumes()) {
    for (const one of dead) if (one.late) found.push({ ref, dead: one });
  }
  return found;
}

export function acknowledgeMessage(
  self: AgentSelf,
  ledger: Pick<Ledger, "agent">,
  late: readonly LateRelease[],
  lost: readonly LostClaim[],
): DeepPartial<AcknowledgeRequest> {
  return {
    node: self.node,
    instance: self.instance,
    nodeEpoch: BigInt(ledger.agent().nodeEpoch),
    released: late.map(({ ref, dead }) => ({
      namespace: ref.namespace,
      volume: ref.volume,
      volumeUid: ref.volumeUid,
      claimUid: dead.claimUid,
      epoch: epochMessage(dead.epoch),
      verificationScope: scopes[self.scope],
    })),
    lost: lost.map(({ ref, claimUid, epoch, since, reason }) => ({
      namespace: ref.namespace,
      volume: ref.volume,
      volumeUid: ref.volumeUid,
      claimUid,
      epoch: epochMessage(epoch),
      since: new Date(since),
      reason,
    })),
  };
}
