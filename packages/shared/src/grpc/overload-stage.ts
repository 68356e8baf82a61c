/**
 * Too much at once is refused at once: latency grows with what is in flight and throughput hardly does, and a queue that nobody sees
 * only turns overload into timeouts. A call counts until its handler has ended: one that its caller reset goes on to count, or a caller
 * could have any number of them under way.
 */
import { HoldfastError } from "../errors/holdfast-error.ts";
import { withoutStack } from "../errors/without-stack.ts";
import { createCallRates } from "./call-rates.ts";
import type { CallStage } from "./call-stage.ts";
import { formatIdentity, type Identity } from "./identity.ts";

export interface OverloadLimits {
  readonly maxInFlight: number;
  /** Of one identity, so that one caller cannot crowd out the others. */
  readonly maxInFlightPerCaller: number;
  /** Calls and streams that one identity begins; Infinity is no bound. */
  readonly maxPerSecondPerCaller: number;
  /** Calls and streams of one TCP connection; a unix socket does not tell its connections apart. */
  readonly maxInFlightPerConnection: number;
  /** Of all callers; streams mostly wait, and are counted on their own. */
  readonly maxOpenStreams: number;
  /** Of one identity. */
  readonly maxOpenStreamsPerCaller: number;
}

export function overloadStage(limits: OverloadLimits, onStreams: (open: number) => void): CallStage {
  const callers = createCounts();
  const watchers = createCounts();
  const { maxPerSecondPerCaller } = limits;
  const rates = Number.isFinite(maxPerSecondPerCaller) ? createCallRates(maxPerSecondPerCaller) : undefined;
  const connections = createCounts();
  let unary = 0;
  let streams = 0;
  const enterStream = (caller: string): (() => void) => {
    const own = watchers.of(caller);
    if (streams >= limits.maxOpenStreams) throw overloaded("this server", streams, "streams");
    if (own >= limits.maxOpenStreamsPerCaller) throw overloaded(`${caller} at this server`, own, "streams");
    streams += 1;
    onStreams(streams);
    const leave = watchers.enter(caller);
    return () => {
      streams -= 1;
      onStreams(streams);
      leave();
    };
  };
  const enterCall = (caller: string): (() => void) => {
    const own = callers.of(caller);
    if (unary >= limits.maxInFlight) throw overloaded("this server", unary, "calls");
    if (own >= limits.maxInFlightPerCaller) throw overloaded(`${caller} at this server`, own, "calls");
    unary += 1;
    const leave = callers.enter(caller);
    return () => {
      unary -= 1;
      leave();
    };
  };

  return ({ requestStream, responseStream }, { identity, peer }) => {
    const caller = callerOf(identity, peer);
    if (rates?.take(caller, performance.now()) === false) throw tooOften(caller, maxPerSecondPerCaller);
    const here = connections.of(peer);
    const known = tcpPeer.test(peer);
    if (known && here >= limits.maxInFlightPerConnection)
      throw overloaded(`${caller} on this connection`, here, "calls and streams");
    const leave = requestStream || responseStream ? enterStream(caller) : enterCall(caller);
    const leaveConnection = known ? connections.enter(peer) : undefined;
    return () => {
      leave();
      leaveConnection?.();
    };
  };
}

const tcpPeer = /:\d+$/;

/** Who has no name is told apart by the address alone, as is everything that a caller cannot choose. */
const callerOf = (identity: Identity, peer: string): string =>
  identity.role === "anonymous" ? `anonymous at ${peer.replace(tcpPeer, "")}` : formatIdentity(identity);

interface Counts {
  of(key: string): number;
  enter(key: string): () => void;
}

function createCounts(): Counts {
  const counts = new Map<string, number>();
  return {
    of: (key) => counts.get(key) ?? 0,
    enter(key) {
      counts.set(key, (counts.get(key) ?? 0) + 1);
      return () => {
        const left = (counts.get(key) ?? 1) - 1;
        if (left === 0) counts.delete(key);
        else counts.set(key, left);
      };
    },
  };
}

const refused = (message: string): HoldfastError =>
  withoutStack(() => new HoldfastError({ kind: "exhausted", reason: "OVERLOADED", message }));

const overloaded = (whose: string, count: number, what: string): HoldfastError =>
  refused(`${whose}: ${count} ${what} are in flight already; send fewer at once, or again in a moment`);

const tooOften = (whose: string, perSecond: number): HoldfastError =>
  refused(`${whose} begins more than ${perSecond} calls a second; send fewer, or again in a moment`);
