/**
 * Too much at once is refused at once: latency grows with what is in flight and throughput hardly does, and a queue that nobody sees
 * only turns overload into timeouts. Streams are not counted; they mostly wait.
 */
import { HoldfastError } from "../errors/holdfast-error.ts";
import type { CallStage } from "./call-stage.ts";
import { formatIdentity } from "./identity.ts";

export interface OverloadLimits {
  readonly maxInFlight: number;
  /** Of one identity, so that one caller cannot crowd out the others. */
  readonly maxInFlightPerCaller: number;
}

export function overloadStage(limits: OverloadLimits): CallStage {
  const inFlight = new Map<string, number>();
  let total = 0;
  return ({ requestStream, responseStream }, { identity }) => {
    if (requestStream || responseStream) return undefined;
    const caller = formatIdentity(identity);
    const own = inFlight.get(caller) ?? 0;
    if (total >= limits.maxInFlight) throw overloaded("this server", total);
    if (own >= limits.maxInFlightPerCaller) throw overloaded(`${caller} at this server`, own);
    inFlight.set(caller, own + 1);
    total += 1;
    return () => {
      total -= 1;
      const left = (inFlight.get(caller) ?? 1) - 1;
      if (left === 0) inFlight.delete(caller);
      else inFlight.set(caller, left);
    };
  };
}

function overloaded(whose: string, count: number): HoldfastError {
  const message = `${whose}: ${count} calls are in flight already; send fewer at once, or again in a moment`;
  return new HoldfastError({ kind: "exhausted", reason: "OVERLOADED", message });
}
