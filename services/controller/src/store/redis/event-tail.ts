/**
 * The live end of the event stream: one blocking read on a connection of its own serves every watch of this process.
 *
 * T1 A watch sees each event once and in order, or ends with EVENTS_TRIMMED; it never skips.
 * T2 The tail only wakes and caches: what it did not keep is read from the stream.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { createNotifier, type Notifier } from "@holdfast/shared/async/notifier";
import type { AggregateRef } from "../../domain/store-types.ts";
import { CallFailure } from "./call-failure.ts";
import type { Connected, RedisConnection } from "./redis-connection.ts";
import { refOfMember } from "./redis-keys.ts";

export interface SequencedEvent {
  readonly seq: number;
  readonly type: string;
  readonly ref: AggregateRef;
  readonly body: string;
}

export interface EventTail {
  /** Notified whenever there may be new events, and now and then without, so that watches notice what became of the stream. */
  readonly arrived: Notifier;
  /** The events of this process from `seq` on, if they are among the newest; none = they have to be read, if there are any. */
  recent(runId: string, seq: number): readonly SequencedEvent[];
}

/** The reply of XRANGE, and of XREAD for its one stream. */
export const decodeEvents = (entries: unknown): readonly SequencedEvent[] =>
  (entries as readonly [string, readonly string[]][]).map(([id, fields]) => {
    const field = (name: string): string => fields[fields.indexOf(name) + 1] ?? "";
    return { seq: Number(id.slice(2)), type: field("t"), ref: refOfMember(field("m")), body: field("b") };
  });

export interface EventTailOptions {
  /** Of its own: a blocking read holds up everything behind it. */
  readonly connection: RedisConnection;
  readonly stream: string;
  readonly blockMs: number;
  /** How many of the newest events are kept here for watches that are close behind. */
  readonly kept: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

interface Ring {
  readonly session: number;
  readonly runId: string;
  readonly events: readonly SequencedEvent[];
  /** What the next read goes on from. */
  readonly position: number;
}

export const startEventTail = (options: EventTailOptions): EventTail => {
  const { connection, stream, blockMs, kept, clock, signal } = options;
  const arrived = createNotifier();
  let ring: Ring | undefined;

  /** Where the stream ends now; asked for anew after each connect and each idle read, as the stream may have been replaced. */
  const restart = async ({ session, runId }: Connected): Promise<Ring> => {
    const newest = decodeEvents(await connection.call("XREVRANGE", stream, "+", "-", "COUNT", 1));
    const position = newest[0]?.seq ?? 0;
    if (ring?.session === session && ring.position === position) return ring;
    return { session, runId, events: [], position };
  };

  const readOnce = async (): Promise<void> => {
    const connected = await connection.connected();
    if (ring === undefined || ring.session !== connected.session) {
      ring = await restart(connected);
      arrived.notify();
    }
    const reply = await connection.call(
      "XREAD",
      "COUNT",
      500,
      "BLOCK",
      blockMs,
      "STREAMS",
      stream,
      `0-${ring.position}`,
    );
    if (reply === null) {
      ring = await restart(connected);
      return;
    }
    const [[, entries]] = reply as [[string, unknown]];
    const events = decodeEvents(entries);
    const before = events[0]?.seq === ring.position + 1 ? ring.events : [];
    const position = events.at(-1)?.seq ?? ring.position;
    ring = { ...ring, events: [...before, ...events].slice(-kept), position };
  };

  const run = async (): Promise<never> => {
    for (;;) {
      signal.throwIfAborted();
      try {
        await readOnce();
      } catch (error) {
        if (!(error instanceof CallFailure)) throw error;
        ring = undefined;
        await clock.sleep(100, signal);
      }
      arrived.notify(); // T2
    }
  };
  // It ends with the signal; the watches look at that themselves.
  run().catch(() => arrived.notify());

  return {
    arrived,
    recent(runId, seq) {
      const first = ring?.events[0]?.seq;
      if (ring === undefined || first === undefined || ring.runId !== runId || seq < first) return [];
      return ring.events.slice(seq - first);
    },
  };
};
