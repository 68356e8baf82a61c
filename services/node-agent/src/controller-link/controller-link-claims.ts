/** Claims of this host's workloads, asked of any controller with a stream. */
import type {
  DeepPartial,
  ReleaseClaimsRequest,
  ReleaseClaimsResponse,
  RequestClaimsRequest,
  RequestClaimsResponse,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import type { ControllerClaims } from "../workloads/controller-claims.ts";
import { claimSeenFrom, claimSpecMessage } from "../workloads/convert-claim.ts";
import { askControllers, type ControllersToAsk } from "./ask-controllers.ts";
import type { LinkCall } from "./controller-session.ts";

/** The calls of AgentLinkService that workloads need. */
export interface ClaimsClient {
  requestClaims(request: DeepPartial<RequestClaimsRequest>, options: LinkCall): Promise<RequestClaimsResponse>;
  releaseClaims(request: DeepPartial<ReleaseClaimsRequest>, options: LinkCall): Promise<ReleaseClaimsResponse>;
}

const callMs = 10_000;
/** How long one watch is held: long enough to be no polling, short enough that a controller that died is left. */
const holdMs = 30_000;

export function createControllerLinkClaims(options: ControllersToAsk<ClaimsClient>): ControllerClaims {
  const { node } = options;
  const ask = askControllers(options);

  const requested = async (request: DeepPartial<RequestClaimsRequest>, deadlineMs: number, signal: AbortSignal) => {
    const { claims } = await ask(
      (client) => client.requestClaims({ ...request, node }, { signal, deadlineMs }),
      signal,
    );
    return claims.map(claimSeenFrom);
  };

  return {
    request: ({ namespace, workload, claims, requestId, after, queued, ticket }, signal) =>
      requested(
        {
          namespace,
          workload,
          requestId,
          ticket,
          claims: claims.map(claimSpecMessage),
          // Workloads that are replaced are waited for; what stands in the way otherwise is told at once, unless the runner queues.
          queue: { enabled: queued === true || after.length > 0 },
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
    async mayRelease({ namespace, workload, ticket }, signal) {
      const request = { namespace, workload, node, ticket, dryRun: true };
      await ask((client) => client.releaseClaims(request, { signal, deadlineMs: callMs }), signal);
    },
    async release({ namespace, workload, claimUids, ticket }, signal) {
      const request = { namespace, workload, node, claimUids: [...claimUids], ticket };
      const { claims } = await ask((client) => client.releaseClaims(request, { signal, deadlineMs: callMs }), signal);
      return claims.map(claimSeenFrom);
    },
  };
}
