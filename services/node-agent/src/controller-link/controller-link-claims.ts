/**
 * Claims of this host's workloads, asked of any controller with a stream: the one that answered last first, then the others. A call goes
 * on to the next one only when this one was not there; whether it was followed is not known then, and a repeat is the same.
 */
import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type {
  DeepPartial,
  ReleaseClaimsRequest,
  ReleaseClaimsResponse,
  RequestClaimsRequest,
  RequestClaimsResponse,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import type { ControllerClaims } from "../workloads/controller-claims.ts";
import { claimSeenFrom, claimSpecMessage } from "../workloads/convert-claim.ts";
import type { LinkCall } from "./controller-session.ts";

/** The calls of AgentLinkService that workloads need. */
export interface ClaimsClient {
  requestClaims(request: DeepPartial<RequestClaimsRequest>, options: LinkCall): Promise<RequestClaimsResponse>;
  releaseClaims(request: DeepPartial<ReleaseClaimsRequest>, options: LinkCall): Promise<ReleaseClaimsResponse>;
}

export interface ControllerLinkClaimsOptions {
  readonly node: string;
  /** With whom a stream is registered now. */
  readonly controllers: () => readonly { readonly address: string; readonly client: ClaimsClient }[];
}

const callMs = 10_000;
/** How long one watch is held: long enough to be no polling, short enough that a controller that died is left. */
const holdMs = 30_000;

export function createControllerLinkClaims(options: ControllerLinkClaimsOptions): ControllerClaims {
  const { node, controllers } = options;
  let preferred = "";

  const ask = async <T>(call: (client: ClaimsClient) => Promise<T>, signal: AbortSignal): Promise<T> => {
    let last: unknown;
    const known = controllers();
    const first = known.filter(({ address }) => address === preferred);
    for (const { address, client } of [...first, ...known.filter((it) => !first.includes(it))]) {
      signal.throwIfAborted();
      try {
        const answer = await call(client);
        preferred = address;
        return answer;
      } catch (error) {
        signal.throwIfAborted();
        if (!isHoldfastError(error) || !isAway(error)) throw error;
        last = error;
      }
    }
    const why = isHoldfastError(last) ? `: ${last.message}` : "";
    throw new HoldfastError({
      kind: "unavailable",
      reason: "CONTROLLER_UNAVAILABLE",
      message: `the agent of node ${node} reaches no controller${why}. What is mounted stays, unmounting goes on; repeat`,
      cause: last,
    });
  };

  const requested = async (request: DeepPartial<RequestClaimsRequest>, deadlineMs: number, signal: AbortSignal) => {
    const { claims } = await ask(
      (client) => client.requestClaims({ ...request, node }, { signal, deadlineMs }),
      signal,
    );
    return claims.map(claimSeenFrom);
  };

  return {
    request: ({ namespace, workload, claims, requestId, after }, signal) =>
      requested(
        {
          namespace,
          workload,
          requestId,
          claims: claims.map(claimSpecMessage),
          // Whoever is replaced is waited for; what stands in the way otherwise is told at once.
          queue: { enabled: after.length > 0 },
          afterWorkloads: [...after],
        },
        callMs,
        signal,
      ),
    watch: ({ namespace, workload, claimUids }, signal) =>
      requested(
        { namespace, workload, claimUids: [...claimUids], waitFor: { seconds: BigInt(holdMs / 1000), nanos: 0 } },
        holdMs + callMs,
        signal,
      ),
    async release({ namespace, workload, claimUids }, signal) {
      const request = { namespace, workload, node, claimUids: [...claimUids] };
      const { claims } = await ask((client) => client.releaseClaims(request, { signal, deadlineMs: callMs }), signal);
      return claims.map(claimSeenFrom);
    },
  };
}

/** Of a store that is away another controller has no better word, but it may have another store connection. */
const isAway = ({ kind, reason }: HoldfastError): boolean =>
  (kind === "unavailable" && reason !== "STORE_UNVETTED") || kind === "deadline" || kind === "cancelled";
