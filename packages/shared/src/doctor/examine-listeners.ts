import { isBeyondHost, parseAddress } from "../grpc/listen-address.ts";
import { type Finding, fault, warning } from "./finding.ts";

export interface ListenerExamination {
  /** Addresses that have no TLS. */
  readonly plain: readonly string[];
  readonly insecure: boolean;
}

export const examineListeners = ({ plain, insecure }: ListenerExamination): readonly Finding[] =>
  plain
    .filter((listen) => isBeyondHost(parseAddress(listen)))
    .map((listen) =>
      insecure
        ? warning(
            "insecure",
            listen,
            "listens beyond this host without TLS: whoever reaches it is believed",
            "keep that network to itself",
          )
        : fault(
            "insecure",
            listen,
            "is no loopback address, and there is no TLS",
            "listen on 127.0.0.1, or set HOLDFAST_INSECURE=1 on a network that you trust",
          ),
    );
