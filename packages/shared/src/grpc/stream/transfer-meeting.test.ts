import { describe, expect, test } from "vitest";
import { createManualClock } from "../../async/manual-clock.ts";
import { createPace, type Pace } from "../../async/pace.ts";
import { TransferBody, type TransferChunk, TransferOpen } from "../../gen/holdfast/internal/v1/controller_link.ts";
import { unpaced } from "../../testing/unpaced.ts";
import type { MessagePieces } from "./message-pieces.ts";
import { maxFrameBytes } from "./serve-wire.ts";
import { chunksOf, openingChunk } from "./transfer-chunks.ts";
import { createTransferMeeting } from "./transfer-meeting.ts";
import { createTransferOpener } from "./transfer-opener.ts";

const { TRANSFER_BODY_ORDER: toAgent, TRANSFER_BODY_ANSWER: fromAgent } = TransferBody;
const openOf = (seq: number, body: TransferBody = fromAgent) => TransferOpen.fromPartial({ body, seq: BigInt(seq) });
const never = new AbortController().signal;

async function* messages(...texts: readonly string[]): AsyncGenerator<MessagePieces> {
  for (const text of texts) yield [Buffer.from(text)];
}
async function all<T>(of: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of of) found.push(one);
  return found;
}
const textsOf = async (read: AsyncIterable<Uint8Array>) =>
  (await all(read)).map((message) => Buffer.from(message).toString());
const settled = async (promise: Promise<unknown>) => {
  let done = false;
  const mark = () => {
    done = true;
  };
  promise.then(mark, mark);
  await new Promise<void>((resolve) => setImmediate(resolve));
  return done;
};

function meeting(clock = createManualClock(), pace: Pick<Pace, "take"> = unpaced) {
  return { clock, ...createTransferMeeting({ clock, patienceMs: 1_000, pace }) };
}

describe("whichever comes first", () => {
  test("waits for the other", async () => {
    const { bodies, arrived, clock } = meeting();
    const early = textsOf(bodies.receive(fromAgent, 1, never));
    await clock.advance(500);
    const first = all(arrived(openOf(1), chunksOf(messages("a", "b"), never), never));
    expect(await early).toEqual(["a", "b"]);
    expect(await first).toEqual([]);

    const second = all(arrived(openOf(2), chunksOf(messages("c"), never), never));
    await clock.advance(500);
    expect(await textsOf(bodies.receive(fromAgent, 2, never))).toEqual(["c"]);
    expect(await second).toEqual([]);
    expect(clock.pending()).toBe(0);
  });

  test("the opening chunk may be among those that are read", async () => {
    const { bodies, arrived } = meeting();
    async function* opened(): AsyncGenerator<TransferChunk> {
      yield openingChunk(openOf(1));
      yield* chunksOf(messages("a"), never);
    }
    const answers = all(arrived(openOf(1), opened(), never));
    expect(await textsOf(bodies.receive(fromAgent, 1, never))).toEqual(["a"]);
    await answers;
  });

  test("[J1] a body whose opener never comes fails after the patience", async () => {
    const { bodies, clock } = meeting();
    const received = textsOf(bodies.receive(fromAgent, 1, never));
    const sent = bodies.send(toAgent, 1, messages("a"), never);
    await clock.advance(999);
    expect([await settled(received), await settled(sent)]).toEqual([false, false]);
    await clock.advance(1);
    await expect(received).rejects.toMatchObject({ reason: "TRANSFER_CUT", kind: "unavailable" });
    await expect(sent).rejects.toMatchObject({ reason: "TRANSFER_CUT" });
    expect(clock.pending()).toBe(0);
  });

  test("[J2] a transfer that nobody expects is refused after the patience, and its place is free again", async () => {
    const { bodies, arrived, clock } = meeting();
    const lost = all(arrived(openOf(1), chunksOf(messages("a"), never), never));
    await clock.advance(999);
    expect(await settled(lost)).toBe(false);
    await expect(all(arrived(openOf(1), chunksOf(messages("b"), never), never))).rejects.toMatchObject({
      reason: "TRANSFER_UNEXPECTED",
    });
    await clock.advance(1);
    await expect(lost).rejects.toMatchObject({ kind: "not_found", reason: "TRANSFER_UNEXPECTED" });
    const again = all(arrived(openOf(1), chunksOf(messages("c"), never), never));
    expect(await textsOf(bodies.receive(fromAgent, 1, never))).toEqual(["c"]);
    await again;
    expect(clock.pending()).toBe(0);
  });

  test("[J2] no more than 64 wait to be expected", async () => {
    const { arrived, end } = meeting();
    const waiting = Array.from({ length: 64 }, (_, at) => all(arrived(openOf(at + 1), bare(), never)));
    const over = all(arrived(openOf(65), bare(), never));
    await expect(over).rejects.toMatchObject({ reason: "TRANSFER_UNEXPECTED" });
    end();
    for (const one of waiting) await expect(one).rejects.toMatchObject({ reason: "TRANSFER_CUT" });
  });

  test("[J1] a call that gives up leaves nothing", async () => {
    const { bodies, clock } = meeting();
    const given = new AbortController();
    const received = textsOf(bodies.receive(fromAgent, 1, given.signal));
    given.abort(new Error("given up"));
    await expect(received).rejects.toThrow("given up");
    expect(clock.pending()).toBe(0);
  });

  test("[J1] nobody waits after the end of the stream", async () => {
    const { bodies, arrived, end, clock } = meeting();
    const received = textsOf(bodies.receive(fromAgent, 1, never));
    const lost = all(arrived(openOf(2), bare(), never));
    await settled(lost);
    end();
    await expect(received).rejects.toMatchObject({ reason: "TRANSFER_CUT" });
    await expect(lost).rejects.toMatchObject({ reason: "TRANSFER_CUT" });
    await expect(textsOf(bodies.receive(fromAgent, 3, never))).rejects.toMatchObject({ reason: "TRANSFER_CUT" });
    expect(clock.pending()).toBe(0);
  });
});

async function* bare(): AsyncGenerator<TransferChunk> {
  yield openingChunk(openOf(1));
}

describe("[J3] a transfer that is cut", () => {
  test("by an agent that is gone fails what is sent and what is received", async () => {
    const { bodies, arrived } = meeting();
    const gone = new AbortController();
    const stuck = () => new Promise<never>(() => undefined);
    // biome-ignore lint/correctness/useYield: an agent that says nothing
    async function* silent(): AsyncGenerator<TransferChunk> {
      await stuck();
    }
    async function* slow(): AsyncGenerator<MessagePieces> {
      yield [Buffer.from("a")];
      await stuck();
    }
    const received = textsOf(bodies.receive(fromAgent, 1, never));
    const sent = bodies.send(toAgent, 1, slow(), never);
    const both = [
      all(arrived(openOf(1), silent(), gone.signal)),
      all(arrived(openOf(1, toAgent), silent(), gone.signal)),
    ];
    expect([await settled(received), await settled(sent)]).toEqual([false, false]);
    gone.abort(new Error("the connection is gone"));
    await expect(received).rejects.toMatchObject({ reason: "TRANSFER_CUT" });
    await expect(sent).rejects.toMatchObject({ reason: "TRANSFER_CUT" });
    for (const one of both) await expect(one).rejects.toThrow();
  });

  test("by its reader ends the agent's", async () => {
    const { bodies, arrived } = meeting();
    const reader = bodies.receive(fromAgent, 1, never)[Symbol.asyncIterator]();
    const first = reader.next();
    const agent = all(arrived(openOf(1), chunksOf(messages("a", "b"), never), never));
    await first;
    await reader.return?.();
    await expect(agent).rejects.toMatchObject({ reason: "TRANSFER_CUT" });
  });

  test("[K1] without its end, or within a message, is no body", async () => {
    const { bodies, arrived } = meeting();
    async function* cutShort(): AsyncGenerator<TransferChunk> {
      for await (const chunk of chunksOf(messages("a"), never)) if (chunk.complete !== true) yield chunk;
    }
    async function* cutWithin(): AsyncGenerator<TransferChunk> {
      for await (const chunk of chunksOf(messages("a"), never)) yield { ...chunk, endsMessage: false };
    }
    for (const [seq, chunks] of [cutShort(), cutWithin()].entries()) {
      const agent = all(arrived(openOf(seq), chunks, never));
      await expect(textsOf(bodies.receive(fromAgent, seq, never))).rejects.toMatchObject({ reason: "TRANSFER_CUT" });
      await expect(agent).rejects.toMatchObject({ reason: "TRANSFER_CUT" });
    }
  });
});

test("[K6] bodies that are read at once share the pace, chunk by chunk", async () => {
  const clock = createManualClock();
  const { bodies, arrived } = meeting(clock, createPace({ clock, perSecond: maxFrameBytes }));
  const large = async function* (): AsyncGenerator<MessagePieces> {
    yield [Buffer.alloc(2 * maxFrameBytes)];
  };
  const both = [1, 2].map((seq) => {
    void all(arrived(openOf(seq), chunksOf(large(), never), never));
    return all(bodies.receive(fromAgent, seq, never));
  });
  const done = Promise.all(both);
  for (let second = 0; second < 3; second += 1) {
    expect(await settled(done)).toBe(false);
    await clock.advance(1_000);
  }
  for (const messages of both) expect((await messages)[0]).toHaveLength(2 * maxFrameBytes);
});

test("[O2] a body that the other side did not take to its end was not sent", async () => {
  const opener = createTransferOpener({
    node: "n1",
    stream: "s1",
    limit: 1,
    pace: unpaced,
    // biome-ignore lint/correctness/useYield: it ends at once
    open: async function* () {
      return;
    },
  });
  await expect(opener.send(fromAgent, 1, messages("a"), never)).rejects.toMatchObject({ reason: "TRANSFER_CUT" });
});

test("[O1] whoever waits for a place may give up, and takes none", async () => {
  const opened: number[] = [];
  const block = Promise.withResolvers<void>();
  const opener = createTransferOpener({
    node: "n1",
    stream: "s1",
    limit: 1,
    pace: unpaced,
    // biome-ignore lint/correctness/useYield: it reads, and answers nothing
    async *open(chunks) {
      for await (const { open } of chunks) if (open !== undefined) opened.push(Number(open.seq));
      await block.promise;
    },
  });
  const first = opener.send(fromAgent, 1, messages("a"), never);
  const given = new AbortController();
  const second = opener.send(fromAgent, 2, messages("b"), given.signal);
  const third = textsOf(opener.receive(toAgent, 3, never));
  given.abort(new Error("given up"));
  await expect(second).rejects.toThrow("given up");
  block.resolve();
  await first;
  await expect(third).rejects.toMatchObject({ reason: "TRANSFER_CUT" });
  expect(opened).toEqual([1, 3]);
});
