/** The certificate that this agent shows to controllers. */
import { onAbort } from "@holdfast/shared/async/signals";
import { isBeyondHost, parseAddress } from "@holdfast/shared/grpc/listen-address";
import { createChannelCredentials } from "@holdfast/shared/grpc/tls-credentials";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Metrics } from "@holdfast/shared/metrics";
import { createCertificateKeeper } from "@holdfast/shared/trust/certificate-keeper";
import type { AgentConfig } from "./config.ts";

export interface LinkCertificates {
  readonly config: Pick<AgentConfig, "tlsDir" | "node" | "controllers">;
  readonly log: Logger;
  readonly metrics?: Metrics;
  /** Aborted: the files are not looked at any more. */
  readonly signal: AbortSignal;
}

/** Undefined where there is no TLS. Throws when the files cannot be used. */
export function openCertificates({ config, signal, ...parts }: LinkCertificates) {
  const { tlsDir, node, controllers } = config;
  if (tlsDir === undefined) {
    const open = controllers.filter((address) => isBeyondHost(parseAddress(address)));
    if (open.length > 0)
      parts.log.warn("controllers are dialled without TLS: whoever answers there is believed", { controllers: open });
    return undefined;
  }
  const wanted = { roles: ["node"], name: node } as const;
  const keeper = createCertificateKeeper({ path: tlsDir, setting: "HOLDFAST_TLS_DIR", wanted, ...parts });
  onAbort(signal, keeper.stop);
  return createChannelCredentials(keeper);
}
