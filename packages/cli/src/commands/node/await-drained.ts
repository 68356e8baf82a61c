import type { WireDuration } from "@holdfast/model/wire-duration";
import type { DrainMode, DrainNodeResponse } from "@holdfast/shared/gen/holdfast/v1/node";
import type { Context } from "../../frame/context.ts";
import { failIfAllBlocked } from "./all-blocked.ts";

/** What is blocked is seen between rounds alone. */
const roundSeconds = 2n;

/** The same in every round: other words would replace those before. */
export interface DrainRequest {
  readonly name: string;
  readonly reason: string;
  readonly mode: DrainMode;
  readonly deadline?: WireDuration;
}

/** Draining is idempotent: each round holds the answer until the node is empty or the round is over. */
async function* rounds(context: Context, request: DrainRequest, signal: AbortSignal) {
  while (!signal.aborted)
    yield await context.clients.nodes.drainNode(
      { ...request, waitFor: { seconds: roundSeconds, nanos: 0 } },
      { signal, deadlineMs: 30_000 },
    );
}

export const awaitDrained = (context: Context, request: DrainRequest): Promise<DrainNodeResponse> =>
  context.wait({
    what: `node ${request.name} to be empty`,
    watch: (signal) => rounds(context, request, signal),
    line: ({ remainingCount, remaining }) =>
      `${remainingCount} claims are left on ${request.name}: ${remaining
        .slice(0, 3)
        .map(({ workload, volume }) => `${workload} has ${volume}`)
        .join(", ")}`,
    settled: (answer) => {
      if (answer.remainingCount === 0n) return answer;
      failIfAllBlocked(request.name, answer);
      return undefined;
    },
    look: `holdfast claim list -A --node ${request.name}`,
    stop: `holdfast node undrain ${request.name}`,
  });
