/** The certificate that this agent shows to controllers. */
import { onAbort } from "@holdfast/shared/async/signals";
import { createChannelCredentials } from "@holdfast/shared/grpc/tls-credentials";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Metrics } from "@holdfast/shared/metrics";
import { createCertificateKeeper } from "@holdfast/shared/trust/certificate-keeper";
import type { AgentConfig } from "./config.ts";

export interface LinkCertificates {
  readonly config: Pick<AgentConfig, "tlsDir" | "node">;
  readonly log: Logger;
  readonly metrics?: Metrics;
  /** Aborted: the files are not looked at any more. */
  readonly signal: AbortSignal;
}

/** Undefined where there is no TLS. Throws when the files cannot be used. */
export function openCertificates({ config, signal, ...parts }: LinkCertificates) {
  const { tlsDir, node } = config;
  if (tlsDir === undefined) return undefined;
  const wanted = { roles: ["node"], name: node } as const;
  const keeper = createCertificateKeeper({ path: tlsDir, setting: "HOLDFAST_TLS_DIR", wanted, ...parts });
  onAbort(signal, keeper.stop);
  return createChannelCredentials(keeper);
}
