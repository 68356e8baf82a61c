/**
 * A stream outlives the certificates that its connection began with. Before the first of them ends the agent is asked for another stream,
 * over a connection that begins with new ones; at the end the call is ended whatever came of it.
 */
import { alarm } from "@holdfast/shared/async/alarm";
import type { Clock } from "@holdfast/shared/async/clock";

export interface CertificateEnd {
  readonly clock: Pick<Clock, "now" | "timer">;
  /** Of the first that ends; Infinity: there is none. */
  readonly notAfter: number;
  readonly reconnect: (reason: string, jitterMs: number) => void;
}

const leadMs = 5 * 60_000;
/** So that streams that began together do not end together. */
const mostJitterMs = 60_000;
/** Too late to ask. */
const leastMs = 2_000;

/** Answers how to stop. */
export const renewBeforeEnd = ({ clock, notAfter, reconnect }: CertificateEnd): (() => void) => {
  const left = notAfter - clock.now();
  if (left < leastMs || left === Infinity) return () => undefined;
  // An agent whose certificate is not renewed comes back with the same one: it is asked ever sooner, and not over and over.
  const askedBefore = left > 2 * leadMs ? leadMs : left / 2;
  return alarm(clock, notAfter - askedBefore, () =>
    reconnect("a certificate of this connection ends soon", Math.floor(Math.min(mostJitterMs, askedBefore / 4))),
  );
};
