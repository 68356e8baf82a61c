import type { StoredEvent } from "../../domain/store-types.ts";
import { eventPage } from "../event-page.ts";
import { eventToken, seqOfToken } from "../event-token.ts";
import { eventsTrimmed } from "../store-errors.ts";
import { CallFailure } from "./call-failure.ts";
import { decodeEvents, type EventTail, type SequencedEvent } from "./event-tail.ts";
import type { RedisConnection } from "./redis-connection.ts";

export interface WatchEventsOptions {
  readonly connection: RedisConnection;
  readonly tail: EventTail;
  readonly stream: string;
  readonly after: string;
  readonly signal: AbortSignal;
}

/** Numbers have no gaps, so that a gap says what was trimmed; the newest event is never trimmed, so that none at all says it too. */
const following = (life: string, seq: number, read: readonly SequencedEvent[]): readonly SequencedEvent[] => {
  const after = eventToken(life, seq);
  const first = read[0]?.seq;
  if (first === undefined && seq > 0) throw eventsTrimmed(after, "the stream ends before it");
  if (first !== undefined && first > seq + 1)
    throw eventsTrimmed(after, "they were pruned", eventToken(life, first - 1));
  return first === seq ? read.slice(1) : read;
};

/** T1: each event once and in order, over lost connections; EVENTS_TRIMMED when that cannot be kept any more. */
export async function* watchEvents(options: WatchEventsOptions): AsyncIterable<StoredEvent> {
  const { connection, tail, stream, after, signal } = options;
  const { runId } = await connection.connected();
  const start = seqOfToken(runId, after);
  if (start === undefined) throw eventsTrimmed(after, "the store was restarted since, or the token is none");
  let seq = start;

  /** undefined: nobody knows now. */
  const read = async (): Promise<readonly SequencedEvent[] | undefined> => {
    try {
      if ((await connection.connected()).runId !== runId) throw eventsTrimmed(after, "the store was restarted");
      // From the own position on, which is there unless something was trimmed or replaced.
      const from = `0-${Math.max(seq, 1)}`;
      const reply = await connection.call("XRANGE", stream, from, "+", "COUNT", eventPage + 1);
      const events = following(runId, seq, decodeEvents(reply));
      // In a burst of our own commits the read is answered behind them: the tail knows by now whose their events are.
      const known = tail.recent(runId, events[0]?.seq ?? 0, events.length);
      return events.map((event, i) => (known[i]?.own ? { ...event, own: true } : event));
    } catch (error) {
      if (!(error instanceof CallFailure)) throw error;
      return undefined;
    }
  };

  for (;;) {
    signal.throwIfAborted();
    const seen = tail.arrived.version();
    const live = tail.recent(runId, seq + 1, eventPage + 1);
    const events = live.length > 0 ? live.slice(0, eventPage) : ((await read()) ?? []);
    const more = live.length === 0 ? events.length === eventPage : live.length > eventPage;
    for (const event of events) {
      signal.throwIfAborted();
      seq = event.seq;
      const { type, ref, body, own } = event;
      const stored = { token: eventToken(runId, seq), type, ref, body };
      yield own === undefined ? stored : { ...stored, own };
    }
    if (!more) await tail.arrived.wait(seen, signal);
  }
}
