import { type Finding, warning } from "@holdfast/shared/doctor/finding";
import { isBeyondHost, parseAddress } from "@holdfast/shared/grpc/listen-address";
import type { AgentConfig } from "../config.ts";

/** Controllers that this agent reaches over a network without TLS. */
export const examineLinks = ({
  tlsDir,
  controllers,
}: Pick<AgentConfig, "tlsDir" | "controllers">): readonly Finding[] =>
  (tlsDir === undefined ? controllers : [])
    .filter((address) => isBeyondHost(parseAddress(address)))
    .map((address) =>
      warning(
        "plain-link",
        address,
        "is dialled without TLS: whoever answers there gives this agent its orders",
        "give controllers and agents certificates (HOLDFAST_TLS_DIR), or keep that network to itself",
      ),
    );
