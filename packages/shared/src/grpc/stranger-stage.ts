/** Callers without a certificate, where others have one: they may enrol, ask for health and for public keys, and that now and then. */
import { HoldfastError } from "../errors/holdfast-error.ts";
import type { CallStage } from "./call-stage.ts";

const callsPerSecond = 5;
const secondMs = 1_000;

/** Counts by address and forgets all of it every second, so that no number of addresses fills the memory. */
export function strangerStage(monotonic: () => number = () => performance.now()): CallStage {
  const calls = new Map<string, number>();
  let since = Number.NEGATIVE_INFINITY;
  return (_method, { identity, peer }) => {
    if (identity.role !== "anonymous") return undefined;
    const now = monotonic();
    if (now - since >= secondMs) {
      calls.clear();
      since = now;
    }
    const address = peer.replace(/:\d+$/, "");
    const before = calls.get(address) ?? 0;
    if (before >= callsPerSecond) throw tooMany(address);
    calls.set(address, before + 1);
    return undefined;
  };
}

const tooMany = (address: string): HoldfastError =>
  new HoldfastError({
    kind: "exhausted",
    reason: "OVERLOADED",
    message: `${address} has made ${callsPerSecond} calls without a certificate in this second; wait for the next one, or call with a certificate`,
    metadata: { address },
  });
