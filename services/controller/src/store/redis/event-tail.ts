/**
 * The live end of the event stream: one blocking read on a connection of its own serves every watch of this process.
 *
 * T1 A watch sees each event once and in order, or ends with EVENTS_TRIMMED; it never skips.
 * T2 The tail only wakes and caches: what it did not keep is read from the stream.
 * T3 Our own commits end a blocked read as those of others do, and teach nothing. Their events are kept as soon as they are answered,
 *    and after a read the next one waits until that has stopped for `restMs`, or for no longer than that when a number is missing:
 *    somebody else wrote, and where several write at once each of their commits would be a read here. Twice as long when the read
 *    showed nothing but ours, ten times when nobody else wrote for a minute: who is alone with the store learns nothing from it.
 * T4 The answer to a commit comes by another connection than its events, and often behind them. What was read while one of ours was
 *    on its way is looked at once that is answered, or `restMs` later: our own would pass for somebody else's, and be learned of.
 *    Where events of others are missing before ours, the numbers of ours are remembered until they are read.
 */
import { setImmediate } from "node:timers";
import type { Clock } from "@holdfast/shared/async/clock";
import { createNotifier, type Notifier } from "@holdfast/shared/async/notifier";
import type { AggregateRef, EventWrite } from "../../domain/store-types.ts";
import { CallFailure } from "./call-failure.ts";
import type { Connected, RedisConnection } from "./redis-connection.ts";
import { refOfMember } from "./redis-keys.ts";

export interface SequencedEvent {
  readonly seq: number;
  readonly type: string;
  readonly ref: AggregateRef;
  readonly body: string;
  readonly own?: true;
}

export interface EventTail {
  /** Notified whenever there may be new events, and now and then without, so that watches notice what became of the stream. */
  readonly arrived: Notifier;
  /** At most `limit` events of this process from `seq` on, if they are among the newest; none = they have to be read, if there are any. */
  recent(runId: string, seq: number, limit: number): readonly SequencedEvent[];
  /** A commit of ours is sent. To be called when it was answered, after `committed`, or when no answer is waited for any more. */
  sent(): () => void;
  /** A commit of ours was answered by this process; `last` is the number of its last event. */
  committed(runId: string, last: number, events: readonly EventWrite[]): void;
}

/** The reply of XRANGE, and of XREAD for its one stream. */
export const decodeEvents = (entries: unknown): readonly SequencedEvent[] =>
  (entries as readonly [string, readonly string[]][]).map(([id, fields]) => {
    const field = (name: string): string => fields[fields.indexOf(name) + 1] ?? "";
    return { seq: Number(id.slice(2)), type: field("t"), ref: refOfMember(field("m")), body: field("b") };
  });

const mostRead = 500;
/** After an event of somebody else, so long is more expected. */
const companyMs = 60_000;

export interface EventTailOptions {
  /** Of its own: a blocking read holds up everything behind it. */
  readonly connection: RedisConnection;
  readonly stream: string;
  readonly blockMs: number;
  /**
   * After a read that taught something, or the last answer of our own: so much later at most, or as often as much as T3 says, are
   * events of others seen.
   */
  readonly restMs: number;
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
  const { connection, stream, blockMs, restMs, kept, clock, signal } = options;
  const arrived = createNotifier();
  const woken = createNotifier();
  let ring: Ring | undefined;
  /** When the last answer came behind which nothing was missing. */
  let heard = Number.NEGATIVE_INFINITY;
  /** When a read last showed events that were not known. */
  let taughtAt = Number.NEGATIVE_INFINITY;
  let missing = false;
  /** Numbers of our own events behind the position. T4 */
  const ours = new Set<number>();
  let tellsLater = false;
  const unanswered = new Set<() => void>();
  const answers = createNotifier();

  /** Where the stream ends now; asked for anew after each connect and each idle read, as the stream may have been replaced. */
  const restart = async ({ session, runId }: Connected): Promise<Ring> => {
    const newest = decodeEvents(await connection.call("XREVRANGE", stream, "+", "-", "COUNT", 1));
    const position = newest[0]?.seq ?? 0;
    if (ring?.session === session && ring.position === position) return ring;
    ours.clear();
    return { session, runId, events: [], position };
  };

  /** Keeps what follows; what was known before says nothing new. */
  const keep = (events: readonly SequencedEvent[]): boolean => {
    if (ring === undefined) return false;
    const { position } = ring;
    const news = events.filter(({ seq }) => seq > position);
    const last = news.at(-1);
    if (last === undefined) return false;
    const before = news[0]?.seq === position + 1 ? ring.events : [];
    const known = news.map((event) => (ours.delete(event.seq) ? { ...event, own: true as const } : event));
    ring = { ...ring, events: [...before, ...known].slice(-kept), position: last.seq };
    return true;
  };

  /** Our own: whoever committed goes on first, and has most often sent its next call when the watches are woken. */
  const tellLater = (): void => {
    if (tellsLater) return;
    tellsLater = true;
    setImmediate(() => {
      tellsLater = false;
      arrived.notify();
    });
  };

  /** T3 */
  const restAfter = (taught: boolean): number => {
    if (taught) taughtAt = clock.monotonic();
    if (taught) return restMs;
    return clock.monotonic() - taughtAt < companyMs ? 2 * restMs : 10 * restMs;
  };

  const rest = async (ms: number): Promise<void> => {
    missing = false;
    const began = clock.monotonic();
    heard = began;
    const until = (): number => (missing ? began + restMs : heard + ms);
    for (let left = ms; left > 0; left = until() - clock.monotonic()) {
      const version = woken.version();
      const cancel = clock.timer(left, woken.notify);
      await woken.wait(version, signal).finally(cancel);
    }
  };

  /** T4 */
  const answered = async (): Promise<void> => {
    const sent = [...unanswered];
    const until = clock.monotonic() + restMs;
    for (let left = restMs; left > 0 && sent.some((it) => unanswered.has(it)); left = until - clock.monotonic()) {
      const version = answers.version();
      const cancel = clock.timer(left, answers.notify);
      await answers.wait(version, signal).finally(cancel);
    }
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
      mostRead,
      "BLOCK",
      blockMs,
      "STREAMS",
      stream,
      `0-${ring.position}`,
    );
    if (reply === null) {
      ring = await restart(connected);
      arrived.notify();
      return;
    }
    const [[, entries]] = reply as [[string, unknown]];
    const events = decodeEvents(entries);
    await answered();
    const taught = keep(events);
    if (taught) arrived.notify(); // T2
    const ms = restAfter(taught);
    if (ms > 0 && events.length < mostRead) await rest(ms);
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
        arrived.notify();
      }
    }
  };
  // It ends with the signal; the watches look at that themselves.
  run().catch(() => arrived.notify());

  return {
    arrived,
    recent(runId, seq, limit) {
      const first = ring?.events[0]?.seq;
      if (ring === undefined || first === undefined || ring.runId !== runId || seq < first) return [];
      return ring.events.slice(seq - first, seq - first + limit);
    },
    sent() {
      const over = (): void => {
        if (unanswered.delete(over)) answers.notify();
      };
      unanswered.add(over);
      return over;
    },
    committed(runId, last, events) {
      if (ring === undefined || ring.runId !== runId || last <= ring.position) return;
      const first = last - events.length + 1;
      if (first > ring.position + 1) {
        for (let seq = first; seq <= last; seq += 1) ours.add(seq); // T4
        missing = true; // T3
        woken.notify();
        return;
      }
      heard = clock.monotonic();
      if (keep(events.map((event, i) => ({ ...event, seq: first + i, own: true })))) tellLater();
    },
  };
};
