/**
 * Too much at once is refused at once: latency grows with what is in flight and throughput hardly does, and a queue that nobody sees
 * only turns overload into timeouts. Streams are not counted; they mostly wait.
 */
import type { ServerMiddleware } from "nice-grpc-common";
import { HoldfastError } from "../errors/holdfast-error.ts";
import { formatIdentity, type IdentityContext } from "./identity.ts";

export interface OverloadLimits {
  readonly maxInFlight: number;
  /** Of one identity, so that one caller cannot crowd out the others. */
  readonly maxInFlightPerCaller: number;
}

export function overloadMiddleware(limits: OverloadLimits): ServerMiddleware<object, IdentityContext> {
  const inFlight = new Map<string, number>();
  let total = 0;
  return async function* bounded(call, context) {
    if (call.requestStream || call.responseStream) return yield* call.next(call.request, context);
    const caller = formatIdentity(context.identity);
    const own = inFlight.get(caller) ?? 0;
    if (total >= limits.maxInFlight) throw overloaded("this server", total);
    if (own >= limits.maxInFlightPerCaller) throw overloaded(`${caller} at this server`, own);
    inFlight.set(caller, own + 1);
    total += 1;
    try {
      return yield* call.next(call.request, context);
    } finally {
      total -= 1;
      const left = (inFlight.get(caller) ?? 1) - 1;
      if (left === 0) inFlight.delete(caller);
      else inFlight.set(caller, left);
    }
  };
}

function overloaded(whose: string, count: number): HoldfastError {
  const message = `${whose}: ${count} calls are in flight already; send fewer at once, or again in a moment`;
  return new HoldfastError({ kind: "exhausted", reason: "OVERLOADED", message });
}
