/** What listens without TLS: on this host, or elsewhere on somebody's word, which the log and the metrics repeat. */
import { HoldfastError } from "../errors/holdfast-error.ts";
import type { Logger } from "../log/logger.ts";
import type { Metrics } from "../metrics.ts";
import { type Address, formatAddress, isBeyondHost } from "./listen-address.ts";

export interface PlainListener {
  /** The operator's word that the network is trusted. */
  readonly insecure: boolean | undefined;
  /** What anyone there can do. */
  readonly risk: string;
  readonly log: Logger;
  readonly metrics?: Pick<Metrics, "gauge"> | undefined;
}

export function refuseOpenPlaintext(address: Address, { insecure, risk, log, metrics }: PlainListener): void {
  if (!isBeyondHost(address)) return;
  const shown = formatAddress(address);
  if (insecure === true) {
    metrics
      ?.gauge({
        name: "holdfast_insecure_listeners",
        help: "Addresses beyond loopback without TLS.",
        labels: ["address"],
      })
      .set({ address: shown }, 1);
    log.warn(`listening without TLS: ${risk}`, { address: shown });
    return;
  }
  throw new HoldfastError({
    kind: "precondition",
    reason: "INSECURE_ADDRESS",
    message:
      `refusing to listen on ${shown} without TLS: ${risk}. ` +
      "Use a loopback address or a unix socket, or set HOLDFAST_INSECURE=1 on a network that you trust",
    metadata: { address: shown },
  });
}
