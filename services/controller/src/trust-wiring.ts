/** A part of the composition root: who has certificates, and which ones are taken no more. */
import type { Clock } from "@holdfast/shared/async/clock";
import type { CallMiddleware, GrpcServer, ServerCertificates } from "@holdfast/shared/grpc/server";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Metrics } from "@holdfast/shared/metrics";
import type { Tracing } from "@holdfast/shared/tracing";
import { issueLeaf, leafTtlMs } from "@holdfast/shared/trust/authority";
import type { CertificateKeeper } from "@holdfast/shared/trust/certificate-keeper";
import { isDirectory } from "@holdfast/shared/trust/credential-files";
import { renewCertificate } from "@holdfast/shared/trust/renew-certificate";
import type { ServedService } from "./api/audit/audit-middleware.ts";
import { addForAgents, createTrustService } from "./api/trust/trust-service.ts";
import { createTrustCommands } from "./commands/trust/trust-commands.ts";
import type { IssuingAuthority } from "./commands/trust/trust-model.ts";
import type { ControllerConfig } from "./config.ts";
import { isDeniedBy } from "./domain/trust/denial.ts";
import type { NodeStore } from "./nodes/node-store.ts";
import type { Ids, Store } from "./ports.ts";
import type { AuditRecords } from "./records/audit-records.ts";
import type { DamagedRecords } from "./records/damaged-records.ts";
import type { DenialRecords } from "./records/trust/denial-records.ts";
import { createTokenRecords } from "./records/trust/token-records.ts";
import { checkAtStart, createIssuingDirectory } from "./trust/issuing-directory.ts";

export interface TrustParts {
  readonly config: Pick<ControllerConfig, "caDir" | "tlsDir" | "tlsRenew">;
  readonly keeper: CertificateKeeper | undefined;
  readonly store: Store;
  readonly nodeStore: Pick<NodeStore, "read">;
  readonly damages: DamagedRecords;
  readonly denials: DenialRecords;
  readonly audit: AuditRecords;
  readonly tracing: Tracing;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly signal: AbortSignal;
  /** What surrounds the calls of a service. */
  readonly around: (definition: ServedService) => readonly CallMiddleware[];
  /** Where agents reach this controller. */
  readonly agentAddress: () => string;
}

/** What listens asks it at each call, and ends connections by it. */
export const denialOf = ({
  of,
  onDenied,
}: Pick<DenialRecords, "of" | "onDenied">): Required<Pick<ServerCertificates, "isDenied" | "onDenied">> => ({
  isDenied: ({ serial, notBefore }, name) => isDeniedBy({ serial, notBefore, name }, of),
  onDenied,
});

/** undefined: this controller renews nothing, as another program does. */
const ownRenewal = (parts: TrustParts, authority: IssuingAuthority): (() => Promise<never>) | undefined => {
  const { config, keeper, clock, ids, log, metrics, signal } = parts;
  const { caDir, tlsDir, tlsRenew } = config;
  if (keeper === undefined || caDir === undefined || tlsDir === undefined) return undefined;
  if (!tlsRenew || !isDirectory(tlsDir)) return undefined;
  const certify = async (key: string) => {
    const { leaf, roots } = keeper.current();
    const from = await authority.current();
    if (!roots.includes(from.root)) throw new Error("HOLDFAST_CA_DIR has another root than HOLDFAST_TLS_DIR");
    const chain = await issueLeaf(from, { identity: leaf.id, key, ttlMs: leafTtlMs, now: clock.now() });
    return { chain, roots: from.roots };
  };
  const wanted = { roles: ["controller"] } as const;
  return () =>
    renewCertificate({
      ...{ keeper, directory: tlsDir, wanted, certify, clock, log, metrics, signal },
      random: ids.random,
    });
};

export const wireTrust = async (parts: TrustParts) => {
  const { config, keeper, nodeStore, clock, log } = parts;
  const issuing = {
    directory: config.caDir,
    trustDomain: () => keeper?.current().leaf.id.trustDomain,
    now: clock.now,
  };
  await checkAtStart(issuing, log);
  const authority = createIssuingDirectory(issuing);
  const tokens = createTokenRecords(parts);
  const trust = createTrustCommands({ ...parts, authority, tokens, readNode: nodeStore.read });
  const service = createTrustService({ ...parts, trust });
  return {
    service,
    addForAgents: (server: Pick<GrpcServer, "add">) => addForAgents(server, service, parts.around),
    renewOwn: ownRenewal(parts, authority),
  };
};
