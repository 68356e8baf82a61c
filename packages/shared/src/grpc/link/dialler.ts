/**
 * A link that is dialled when a call needs it, and again after it was lost.
 *
 * D1 Whoever calls while it is being dialled waits for that; after a dial that failed, calls fail at once for a while that grows with
 *    each failure, so that nobody waits for an address where nobody is.
 * D2 A link that is lost is replaced by the next call; calls in flight on it run to their end.
 */
import type { Socket } from "node:net";
import { backoffDelay } from "../../async/backoff.ts";
import type { Clock } from "../../async/clock.ts";
import { type Keepalive, type Link, openLink } from "./link.ts";

export interface Dialler {
  /** A promise that is rejected with what is wrong. */
  link(): Link | Promise<Link>;
  /** Calls in flight run to their end. */
  close(): void;
}

export interface DiallerOptions {
  readonly dial: () => Socket;
  readonly clock: Pick<Clock, "timer" | "monotonic">;
  readonly random: () => number;
  readonly keepalive?: Keepalive | undefined;
}

const greetingMs = 5_000;
const pauses = { baseMs: 100, capMs: 1_000 };

export function createDialler({ dial, clock, random, keepalive }: DiallerOptions): Dialler {
  let current: Link | undefined;
  let dialling: Promise<Link> | undefined;
  let failures = 0;
  let failure = new Error("closed");
  let notBefore = Number.NEGATIVE_INFINITY;
  let closed = false;

  const attempt = async (): Promise<Link> => {
    const link = openLink({ socket: dial(), clock, greetingMs, keepalive });
    const ready = await link.ready;
    dialling = undefined;
    if (ready && !closed) {
      failures = 0;
      current = link;
      return link;
    }
    link.destroy();
    notBefore = clock.monotonic() + backoffDelay(failures, pauses, random);
    failures += 1;
    failure = new Error(closed ? "closed" : (link.trouble() ?? "the connection was closed"));
    throw failure;
  };

  return {
    link() {
      if (current?.isOpen() === true) return current;
      if (dialling !== undefined) return dialling;
      if (closed || clock.monotonic() < notBefore) return Promise.reject(failure);
      dialling = attempt();
      return dialling;
    },
    close() {
      closed = true;
      failure = new Error("closed");
      current?.close();
    },
  };
}
