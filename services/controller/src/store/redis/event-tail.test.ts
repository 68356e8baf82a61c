import { setImmediate as nextTurn } from "node:timers/promises";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { afterEach, describe, expect, it } from "vitest";
import { CallFailure } from "./call-failure.ts";
import { type EventTail, startEventTail } from "./event-tail.ts";
import type { RedisConnection } from "./redis-connection.ts";

const entry = (seq: number) => [`0-${seq}`, ["t", "type", "m", "v:k", "b", `${seq}`]];
type Reply = null | readonly unknown[] | Error;

/** Redis as the tail sees it: a newest event, and what the blocking reads answer, one by one. */
const scripted = () => {
  const reads: { readonly from: string; answer(reply: Reply): void }[] = [];
  let session = 1;
  let runId = "aaaa";
  let newest = 0;
  const connection: RedisConnection = {
    shown: "scripted",
    connected: async () => ({ session, runId }),
    current: () => ({ session, runId }),
    async call(command, ...args) {
      if (command === "XREVRANGE") return newest === 0 ? [] : [entry(newest)];
      const reply = await new Promise<Reply>((answer) => reads.push({ from: String(args.at(-1)), answer }));
      if (reply instanceof Error) throw reply;
      return reply === null ? null : [["events", reply]];
    },
    onConnected: () => () => undefined,
    onDemoted: () => () => undefined,
    demoted: () => undefined,
    replaced: async () => undefined,
    trouble: () => undefined,
    close: () => undefined,
  };
  return {
    connection,
    setNewest: (seq: number) => {
      newest = seq;
    },
    reconnect: (run: string) => {
      session += 1;
      runId = run;
    },
    /** The read that waits now. */
    async read() {
      await expect.poll(() => reads.length, { interval: 1 }).toBe(1);
      const [waiting] = reads.splice(0);
      if (waiting === undefined) throw new Error("no read");
      return waiting;
    },
  };
};

describe("the event tail", () => {
  let stop = new AbortController();
  const clock = createManualClock();
  afterEach(() => {
    stop.abort();
    stop = new AbortController();
  });

  const seqs = (tail: EventTail, runId: string, seq: number) => tail.recent(runId, seq, 99).map((event) => event.seq);

  it("keeps the newest events of one process without a gap, or none", async () => {
    const redis = scripted();
    redis.setNewest(5);
    const tail = startEventTail({
      connection: redis.connection,
      stream: "events",
      blockMs: 1,
      restMs: 0,
      kept: 4,
      clock,
      signal: stop.signal,
    });
    const answered = async (reply: Reply): Promise<void> => {
      const version = tail.arrived.version();
      (await redis.read()).answer(reply);
      await tail.arrived.wait(version, undefined);
    };
    const first = await redis.read();
    expect(first.from).toBe("0-5");
    first.answer([entry(6), entry(7)]);
    await expect.poll(() => seqs(tail, "aaaa", 6), { interval: 1 }).toEqual([6, 7]);
    expect(seqs(tail, "aaaa", 7)).toEqual([7]);
    expect(seqs(tail, "aaaa", 8)).toEqual([]);
    // Not kept, or of another process: to be read.
    expect(seqs(tail, "aaaa", 5)).toEqual([]);
    expect(seqs(tail, "bbbb", 6)).toEqual([]);

    await answered([entry(8), entry(9), entry(10)]);
    expect(seqs(tail, "aaaa", 7)).toEqual([7, 8, 9, 10]);
    expect(tail.recent("aaaa", 8, 2).map(({ seq }) => seq)).toEqual([8, 9]);
    expect(seqs(tail, "aaaa", 6)).toEqual([]);

    // 11 and 12 were pruned before they were read: what comes after does not follow what is kept.
    await answered([entry(13)]);
    expect(seqs(tail, "aaaa", 10)).toEqual([]);
    expect(seqs(tail, "aaaa", 13)).toEqual([13]);

    // Nothing came, and the stream ends where it did.
    redis.setNewest(13);
    await answered(null);
    expect(seqs(tail, "aaaa", 13)).toEqual([13]);
    // Nothing came, because the stream was replaced by a shorter one.
    redis.setNewest(2);
    await answered(null);
    expect(seqs(tail, "aaaa", 13)).toEqual([]);
    expect((await redis.read()).from).toBe("0-2");
  });

  it("begins anew after a lost connection, and tells those who wait", async () => {
    const again = new AbortController();
    const redis = scripted();
    redis.setNewest(1);
    const { connection } = redis;
    const tail = startEventTail({
      connection,
      stream: "events",
      blockMs: 1,
      restMs: 0,
      kept: 9,
      clock,
      signal: again.signal,
    });
    (await redis.read()).answer([entry(2)]);
    await expect.poll(() => seqs(tail, "aaaa", 2), { interval: 1 }).toEqual([2]);
    const version = tail.arrived.version();
    redis.reconnect("bbbb");
    redis.setNewest(40);
    (await redis.read()).answer(new CallFailure("unknown", "connection lost"));
    await expect.poll(() => clock.pending(), { interval: 1 }).toBe(1);
    expect(seqs(tail, "aaaa", 2)).toEqual([]);
    await clock.advance(100);
    expect(await tail.arrived.wait(version, undefined)).toBeGreaterThan(version);
    expect((await redis.read()).from).toBe("0-40");
    again.abort();
  });

  describe("beside our own commits", () => {
    const own = (...bodies: readonly string[]) =>
      bodies.map((body) => ({ type: "type", ref: { kind: "volume", key: "k" } as const, body }));
    const started = async () => {
      const redis = scripted();
      redis.setNewest(5);
      const { connection } = redis;
      const time = createManualClock();
      const tail = startEventTail({
        connection,
        stream: "events",
        blockMs: 1,
        restMs: 10,
        kept: 9,
        clock: time,
        signal: stop.signal,
      });
      return { redis, tail, time, read: await redis.read() };
    };

    it("keeps them once, whichever answer comes first, and says that they are ours", async () => {
      const { redis, tail, time, read } = await started();
      const version = tail.arrived.version();
      tail.committed("aaaa", 7, own("6", "7"));
      // Whoever committed goes on first.
      expect(tail.arrived.version()).toBe(version);
      await nextTurn();
      expect(tail.arrived.version()).toBe(version + 1);
      expect(tail.recent("aaaa", 6, 99).map(({ seq, body, own: ours }) => [seq, body, ours])).toEqual([
        [6, "6", true],
        [7, "7", true],
      ]);
      read.answer([entry(6), entry(7)]);
      await expect.poll(() => time.pending(), { interval: 1 }).toBe(1);
      // Nobody is woken for what is known, and the next read goes on behind it.
      expect(tail.arrived.version()).toBe(version + 1);
      tail.committed("aaaa", 8, own("8"));
      // Nobody else was ever heard: the rest is ten times as long.
      await time.advance(99);
      expect(time.pending()).toBe(1);
      await time.advance(1);
      const next = await redis.read();
      expect(next.from).toBe("0-8");
      next.answer([entry(9)]);
      await expect.poll(() => seqs(tail, "aaaa", 6), { interval: 1 }).toEqual([6, 7, 8, 9]);
      const then = tail.arrived.version();
      tail.committed("aaaa", 9, own("9"));
      await nextTurn();
      expect(tail.arrived.version()).toBe(then);
      expect(seqs(tail, "aaaa", 6)).toEqual([6, 7, 8, 9]);
    });

    it("rests longer after a read that showed only ours, and longest when nobody else wrote for a minute", async () => {
      const { redis, tail, time, read } = await started();
      /** What was read is known already; answers how long it rests then. */
      const restAfterOwn = async (seq: number, { answer }: { answer(entries: unknown): void }): Promise<number> => {
        tail.committed("aaaa", seq, own(`${seq}`));
        answer([entry(seq)]);
        await expect.poll(() => time.pending(), { interval: 1 }).toBe(1);
        const since = time.monotonic();
        while (time.pending() === 1) await time.advance(1);
        return time.monotonic() - since;
      };
      expect(await restAfterOwn(6, read)).toBe(100);
      (await redis.read()).answer([entry(7)]);
      await expect.poll(() => time.pending(), { interval: 1 }).toBe(1);
      await time.advance(10);
      expect(await restAfterOwn(8, await redis.read())).toBe(20);
      await time.advance(60_000);
      expect(await restAfterOwn(9, await redis.read())).toBe(100);
    });

    it("reads nothing while our own answers leave nothing out", async () => {
      const { redis, tail, time, read } = await started();
      read.answer([entry(6)]);
      await expect.poll(() => time.pending(), { interval: 1 }).toBe(1);
      for (const seq of [7, 8, 9]) {
        await time.advance(9);
        tail.committed("aaaa", seq, own(`${seq}`));
      }
      await time.advance(9);
      expect(time.pending()).toBe(1);
      await time.advance(1);
      expect((await redis.read()).from).toBe("0-9");
    });

    it("rests after a read, and no longer for our own when the numbers say that somebody else wrote", async () => {
      const { redis, tail, time, read } = await started();
      read.answer([entry(6)]);
      await expect.poll(() => time.pending(), { interval: 1 }).toBe(1);
      await time.advance(9);
      tail.committed("aaaa", 7, own("7"));
      // 8 is not ours.
      tail.committed("aaaa", 9, own("9"));
      await time.advance(1);
      const next = await redis.read();
      expect(next.from).toBe("0-7");
      expect(time.pending()).toBe(0);
      next.answer([entry(8), entry(9)]);
      await expect.poll(() => seqs(tail, "aaaa", 6), { interval: 1 }).toEqual([6, 7, 8, 9]);
      // Ours is known as ours, though its answer came before an event of others was known.
      expect(tail.recent("aaaa", 8, 99).map(({ own: ours }) => ours)).toEqual([undefined, true]);
    });

    it("reads no more often than every few milliseconds, however much others write", async () => {
      const { redis, tail, time, read } = await started();
      read.answer([entry(6)]);
      await expect.poll(() => time.pending(), { interval: 1 }).toBe(1);
      // 7, 9 and 11 are not ours.
      for (const seq of [8, 10, 12]) tail.committed("aaaa", seq, own(`${seq}`));
      await time.advance(9);
      expect(time.pending()).toBe(1);
      await time.advance(1);
      expect((await redis.read()).from).toBe("0-6");
    });

    it("takes no event of another stream for ours", async () => {
      const { redis, tail, read } = await started();
      // 6 is missing.
      tail.committed("aaaa", 7, own("7"));
      redis.setNewest(2);
      read.answer(null);
      const next = await redis.read();
      expect(next.from).toBe("0-2");
      next.answer([3, 4, 5, 6, 7].map(entry));
      await expect.poll(() => seqs(tail, "aaaa", 7), { interval: 1 }).toEqual([7]);
      expect(tail.recent("aaaa", 7, 99).map(({ own: ours }) => ours)).toEqual([undefined]);
    });

    it("waits for the answer of a commit whose events were read first, and not for long", async () => {
      const { redis, tail, time, read } = await started();
      const [first, later] = [tail.sent(), tail.sent()];
      const version = tail.arrived.version();
      read.answer([entry(6), entry(7)]);
      await expect.poll(() => time.pending(), { interval: 1 }).toBe(1);
      tail.committed("aaaa", 6, own("6"));
      first();
      // The other is not answered in time: what was read is told as it is.
      await time.advance(9);
      expect(tail.recent("aaaa", 6, 99).map(({ seq, own: ours }) => [seq, ours])).toEqual([[6, true]]);
      await time.advance(1);
      await expect.poll(() => tail.arrived.version(), { interval: 1 }).toBe(version + 2);
      const told = [
        [6, true],
        [7, undefined],
      ];
      expect(tail.recent("aaaa", 6, 99).map(({ seq, own: ours }) => [seq, ours])).toEqual(told);
      later();
      await expect.poll(() => time.pending(), { interval: 1 }).toBe(1);
      await time.advance(10);
      const next = await redis.read();
      // Nothing of ours is on its way: nothing is waited for.
      next.answer([entry(8)]);
      await expect.poll(() => seqs(tail, "aaaa", 6), { interval: 1 }).toEqual([6, 7, 8]);
    });

    it("takes none of another process, and ends its rest with the signal", async () => {
      const { tail, time, read } = await started();
      tail.committed("bbbb", 6, own("6"));
      expect(seqs(tail, "aaaa", 6)).toEqual([]);
      read.answer([entry(6)]);
      await expect.poll(() => time.pending(), { interval: 1 }).toBe(1);
      stop.abort();
      await expect.poll(() => time.pending(), { interval: 1 }).toBe(0);
    });
  });
});
