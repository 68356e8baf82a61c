import type { CallOrder } from "@holdfast/model/call-order";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { beforeEach, describe, expect, it } from "vitest";
import type { SocketListener } from "./call-doubts.ts";
import type { CallNote } from "./call-notes.ts";
import { gateSubject } from "./gate-subject.ts";
import { codecOf } from "./messages.ts";
import type { UnaryMethod } from "./methods.ts";
import { createOpenCalls } from "./open-calls.ts";
import type { CsiTransport, WireOptions, WireReply } from "./transport.ts";

interface Sent {
  readonly method: UnaryMethod;
  readonly options: WireOptions;
  readonly answer: (reply: WireReply) => void;
}

const clock = createManualClock();
let sent: Sent[];
let stop: AbortController;
let open: ReturnType<typeof createOpenCalls>;

/** A connection to a plugin that answers when it is told to. */
const connection = (): CsiTransport => ({
  unary(method, _request, options) {
    const { promise, resolve } = Promise.withResolvers<WireReply>();
    sent.push({ method, options, answer: resolve });
    return promise;
  },
  stream: async function* () {
    yield { bytes: new Uint8Array() };
  },
});

const here: SocketListener = { socketPath: "/p.sock", incarnation: "1", gone: () => false };

const call = (
  over: CsiTransport,
  method: "ControllerPublishVolume" | "ControllerUnpublishVolume" | "CreateVolume" | "DeleteVolume",
  request: object,
  signal: AbortSignal = stop.signal,
  order?: CallOrder,
) => {
  const codec = codecOf(method);
  return over.unary(method, codec.encode(codec.complete(request)), { signal, deadlineMs: 1_000, metadata: {}, order });
};

beforeEach(() => {
  sent = [];
  stop = new AbortController();
  open = createOpenCalls({ clock });
});

const publish = { volumeId: "v", nodeId: "n1" };
const methodsSent = () => sent.map(({ method }) => method);

describe("what is kept beyond the life of the process", () => {
  const order = (sequence: number): CallOrder => ({ gen: 1, sequence, opId: `op-${sequence}` });
  let kept: string[];
  let fails: boolean;
  beforeEach(() => {
    [kept, fails] = [[], false];
    const keep = (what: string): void => void kept.push(`${sent.length} ${what}`);
    const notes = {
      note({ opId, words }: CallNote): void {
        if (fails) throw new Error("the disk is full");
        keep(`${opId} ${words}`);
      },
      strike: (subject: string) => keep(`over ${subject}`),
      detached: (words: string) => keep(`done ${words}`),
    };
    open = createOpenCalls({ clock, notes });
  });
  const attach = "ControllerPublishVolume for volume v at n1";
  const detach = "ControllerUnpublishVolume for volume v at n1";

  it("K1 an attach or a detach is noted before it leaves, and anew under the order that joins it", async () => {
    const plugin = open.over(connection(), here);
    const first = call(plugin, "ControllerPublishVolume", publish, stop.signal, order(1));
    const joined = call(plugin, "ControllerPublishVolume", publish, stop.signal, order(2));
    const made = call(plugin, "DeleteVolume", { volumeId: "w" }, stop.signal, order(3));
    expect(kept).toEqual([`0 op-1 ${attach}`, `1 op-2 ${attach}`]);
    for (const { answer } of sent) answer({ bytes: new Uint8Array() });
    await Promise.all([first, joined, made]);
    expect(kept.slice(2)).toEqual(["2 over volume v", "2 over volume w"]);
  });

  it("K1 what cannot be noted does not leave", async () => {
    fails = true;
    const reply = await call(open.over(connection(), here), "ControllerPublishVolume", publish, stop.signal, order(1));
    expect(reply).toMatchObject({ failure: { sent: false, message: expect.stringContaining("the disk is full") } });
    expect(sent).toEqual([]);
  });

  it("K2 the note of a call stands while its end is not known", async () => {
    let gone = false;
    const first = open.over(connection(), { ...here, gone: () => gone });
    const lost = call(first, "ControllerUnpublishVolume", publish, stop.signal, order(1));
    sent[0]?.answer({ failure: { code: "UNAVAILABLE", message: "reset", sent: true } });
    await lost;
    gone = true;
    expect(kept).toEqual([`0 op-1 ${detach}`]);
    const again = call(
      open.over(connection(), { ...here, incarnation: "2" }),
      "ControllerUnpublishVolume",
      publish,
      stop.signal,
      order(2),
    );
    sent[1]?.answer({ bytes: new Uint8Array() });
    await again;
    expect(kept.slice(1)).toEqual([`1 op-2 ${detach}`, `2 done ${detach}`, "2 over volume v"]);
  });
});

describe("calls that change something", () => {
  it("H1 H3 stay open behind the deadline of their caller, and no other call of the volume is sent beside them", async () => {
    const plugin = open.over(connection(), here);
    const first = call(plugin, "ControllerPublishVolume", publish);
    await clock.advance(1_000);
    expect(await first).toMatchObject({ failure: { code: "DEADLINE_EXCEEDED", sent: true } });
    expect(sent[0]?.options).toMatchObject({ deadlineMs: undefined });
    expect(sent[0]?.options.signal.aborted).toBe(false);
    for (const method of ["ControllerUnpublishVolume", "DeleteVolume"] as const)
      expect(await call(plugin, method, { volumeId: "v", nodeId: "n1" })).toMatchObject({
        failure: {
          code: "ABORTED",
          sent: false,
          message: expect.stringContaining("ControllerPublishVolume for volume v"),
        },
      });
    void call(plugin, "ControllerUnpublishVolume", { volumeId: "other", nodeId: "n1" });
    expect(methodsSent()).toEqual(["ControllerPublishVolume", "ControllerUnpublishVolume"]);
    sent[0]?.answer({ bytes: new Uint8Array() });
    await clock.advance(0);
    void call(plugin, "ControllerUnpublishVolume", { volumeId: "v", nodeId: "n1" });
    expect(methodsSent()).toHaveLength(3);
  });

  it("H2 are joined by the same call, also with another secret, whoever gave up waiting", async () => {
    const plugin = open.over(connection(), here);
    const given = new AbortController();
    const first = call(plugin, "ControllerPublishVolume", { ...publish, secrets: { key: "1" } }, given.signal);
    given.abort();
    expect(await first).toMatchObject({ failure: { code: "CANCELLED", sent: true } });
    const again = call(plugin, "ControllerPublishVolume", { ...publish, secrets: { key: "2" } });
    await clock.advance(0);
    expect(sent).toHaveLength(1);
    const failure = { code: "NOT_FOUND", message: "no such node", sent: true, answered: true } as const;
    sent[0]?.answer({ failure });
    expect(await again).toEqual({ failure });
  });

  it("H6 take no place of other calls once their callers have gone, and are bounded by a number of their own", async () => {
    const plugin = createOpenCalls({ clock, maxOpen: 2 }).over(connection(), here);
    const hung = call(plugin, "ControllerPublishVolume", publish);
    void call(plugin, "DeleteVolume", { volumeId: "w" });
    expect(sent[0]?.options.left?.aborted).toBe(false);
    const more = () => call(plugin, "DeleteVolume", { volumeId: "x" });
    const refused = more();
    await clock.advance(1_000);
    expect(await refused).toMatchObject({ failure: { code: "RESOURCE_EXHAUSTED", sent: false } });
    await hung;
    expect(sent[0]?.options.left?.aborted).toBe(true);
    void call(plugin, "ControllerPublishVolume", publish);
    expect(methodsSent()).toEqual(["ControllerPublishVolume", "DeleteVolume"]);
    sent[1]?.answer({ bytes: new Uint8Array() });
    await clock.advance(0);
    void more();
    expect(methodsSent()).toHaveLength(3);
  });

  it("H4 stay open over a new connection, until their own one ends; the same call is then sent over the new one", async () => {
    const before = open.over(connection(), here);
    void call(before, "ControllerPublishVolume", publish);
    const after = open.over(connection(), here);
    expect(await call(after, "ControllerUnpublishVolume", publish)).toMatchObject({ failure: { sent: false } });
    sent[0]?.answer({ failure: { code: "UNAVAILABLE", message: "the connection was lost", sent: true } });
    await clock.advance(0);
    void call(after, "ControllerPublishVolume", publish);
    expect(methodsSent()).toEqual(["ControllerPublishVolume", "ControllerPublishVolume"]);
  });

  describe("H7 that have an order", () => {
    const ordered = (
      over: CsiTransport,
      method: Parameters<typeof call>[1],
      sequence: number,
      opId = `op-${sequence}`,
      request: object = publish,
    ) => call(over, method, request, stop.signal, { gen: 1, sequence, opId });
    const answer = async (nth: number, reply: WireReply): Promise<void> => {
      sent[nth]?.answer(reply);
      await clock.advance(0);
    };
    const stale = { failure: { code: "ABORTED", sent: false, stale: true, message: expect.any(String) } };
    const done: WireReply = { bytes: new Uint8Array() };
    const refusal = (
      code: "NOT_FOUND" | "PERMISSION_DENIED" | "UNAVAILABLE" | "ABORTED",
      answered = true,
    ): WireReply => ({
      failure: { code, message: "no", sent: true, ...(answered ? { answered: true } : {}) },
    });

    it("are refused as stale once a later one of the volume has left, also over another connection and after its end", async () => {
      const [one, two] = [open.over(connection(), here), open.over(connection(), here)];
      const later = ordered(one, "ControllerPublishVolume", 7);
      expect(await ordered(two, "ControllerUnpublishVolume", 5)).toEqual(stale);
      expect(await ordered(two, "ControllerPublishVolume", 5)).toEqual(stale);
      await answer(0, done);
      expect(await later).toEqual(done);
      expect(await ordered(two, "ControllerUnpublishVolume", 6)).toEqual(stale);
      expect(methodsSent()).toEqual(["ControllerPublishVolume"]);
      void ordered(two, "ControllerUnpublishVolume", 8);
      expect(methodsSent()).toHaveLength(2);
    });

    it("are sent once when they arrive twice, and both get the answer, before and after it came", async () => {
      const [one, two] = [open.over(connection(), here), open.over(connection(), here)];
      const both = [ordered(one, "ControllerPublishVolume", 7), ordered(two, "ControllerPublishVolume", 7)];
      await clock.advance(0);
      await answer(0, done);
      expect(await Promise.all([...both, ordered(two, "ControllerPublishVolume", 7)])).toEqual([done, done, done]);
      expect(await ordered(two, "ControllerPublishVolume", 7, "another")).toEqual(stale);
      expect(methodsSent()).toHaveLength(1);
    });

    it("wait for the end of another call, and what waits does not make an earlier one stale", async () => {
      const plugin = open.over(connection(), here);
      void ordered(plugin, "ControllerPublishVolume", 7);
      const beside = { failure: { code: "ABORTED", sent: false, message: expect.stringContaining("no answer") } };
      expect(await ordered(plugin, "ControllerUnpublishVolume", 9)).toEqual(beside);
      await answer(0, refusal("UNAVAILABLE", false));
      void ordered(plugin, "ControllerPublishVolume", 7);
      expect(methodsSent()).toHaveLength(2);
    });

    it("are answered as the later attempt that joined them", async () => {
      const plugin = open.over(connection(), here);
      void ordered(plugin, "ControllerPublishVolume", 7);
      void ordered(plugin, "ControllerPublishVolume", 9, "op-7");
      expect(methodsSent()).toHaveLength(1);
      await answer(0, done);
      expect(await ordered(plugin, "ControllerPublishVolume", 7)).toEqual(stale);
      expect(await ordered(plugin, "ControllerPublishVolume", 9, "op-7")).toEqual(done);
      expect(methodsSent()).toHaveLength(1);
    });

    it.each([
      ["ControllerPublishVolume", refusal("NOT_FOUND"), 1],
      ["ControllerPublishVolume", refusal("PERMISSION_DENIED"), 1],
      ["ControllerPublishVolume", refusal("UNAVAILABLE"), 2],
      ["ControllerPublishVolume", refusal("ABORTED"), 2],
      ["ControllerPublishVolume", refusal("NOT_FOUND", false), 2],
      ["ControllerUnpublishVolume", done, 1],
      // The thing is still there, and another secret may do.
      ["ControllerUnpublishVolume", refusal("PERMISSION_DENIED"), 2],
      ["ControllerUnpublishVolume", refusal("NOT_FOUND"), 2],
      ["DeleteVolume", refusal("NOT_FOUND"), 1],
      ["DeleteVolume", { bytes: new Uint8Array(20_000) }, 1],
    ] as const)("%s answered %o is sent %i times", async (method, reply, times) => {
      const plugin = open.over(connection(), here);
      const first = ordered(plugin, method, 7);
      await answer(0, reply);
      expect(await first).toEqual(reply);
      const again = ordered(plugin, method, 7);
      await clock.advance(0);
      expect(sent).toHaveLength(times);
      if (times === 2) return;
      const kept = !("bytes" in reply) || reply.bytes.length < 16_384;
      expect(await again).toEqual(kept ? reply : stale);
    });

    it("are not compared with those of an earlier release, which have none and move nothing", async () => {
      const plugin = open.over(connection(), here);
      void ordered(plugin, "ControllerPublishVolume", 7);
      await answer(0, done);
      const failure = { code: "NOT_FOUND", message: "gone", sent: true, answered: true } as const;
      const without = call(plugin, "ControllerUnpublishVolume", publish);
      await answer(1, { failure });
      expect(await without).toEqual({ failure });
      expect(await ordered(plugin, "ControllerPublishVolume", 7)).toEqual(done);
      void call(plugin, "ControllerPublishVolume", publish);
      expect(methodsSent()).toHaveLength(3);
    });
  });

  it("H1 are of one thing by its name and by its id, as whoever knows both says", async () => {
    const plugin = open.over(connection(), here);
    const knownAs = ["volume named n", "volume v"];
    const known = (method: "CreateVolume" | "ControllerPublishVolume", sequence: number) =>
      call(plugin, method, { name: "n", ...publish }, stop.signal, {
        gen: 1,
        sequence,
        opId: `op-${sequence}`,
        knownAs,
      });
    const unsent = (words: string) => ({
      failure: { code: "ABORTED", sent: false, message: expect.stringContaining(words) },
    });
    void call(plugin, "CreateVolume", { name: "n" });
    expect(await known("ControllerPublishVolume", 1)).toMatchObject(unsent("CreateVolume for volume named n"));
    sent[0]?.answer({ bytes: new Uint8Array() });
    await clock.advance(0);
    void known("ControllerPublishVolume", 2);
    expect(await known("CreateVolume", 3)).toMatchObject(unsent("ControllerPublishVolume for volume v"));
    expect(methodsSent()).toEqual(["CreateVolume", "ControllerPublishVolume"]);
  });

  describe("H5 a volume that CreateVolume names", () => {
    // A create that is answered: volume "v".
    const made: WireReply = { bytes: Uint8Array.from([0x0a, 0x03, 0x12, 0x01, 0x76]) };

    it.each([
      ["when the create is answered", ["create", "delete"]],
      ["when the create left, and is answered first", ["delete", "create"]],
    ] as const)("is not there for good when a delete of it was open %s", async (_when, order) => {
      const plugin = open.over(connection(), here);
      void call(plugin, "DeleteVolume", { volumeId: "v" });
      const create = call(plugin, "CreateVolume", { name: "n" });
      const [deletion, creation] = sent;
      for (const one of order) {
        if (one === "create") creation?.answer(made);
        else deletion?.answer({ bytes: new Uint8Array() });
        await clock.advance(0);
      }
      const failure = { code: "ABORTED", message: expect.stringContaining("volume v"), sent: true };
      expect(await create).toEqual({ failure });
      const again = call(plugin, "CreateVolume", { name: "n" });
      sent[2]?.answer(made);
      expect(await again).toEqual(made);
    });

    it("is not asked for beside a delete of what its name was given", async () => {
      const plugin = open.over(connection(), here);
      const create = call(plugin, "CreateVolume", { name: "n" });
      sent[0]?.answer(made);
      await create;
      void call(plugin, "DeleteVolume", { volumeId: "v" });
      expect(await call(plugin, "CreateVolume", { name: "n" })).toMatchObject({
        failure: { code: "ABORTED", sent: false, message: expect.stringContaining("DeleteVolume for volume v") },
      });
      void call(plugin, "CreateVolume", { name: "other" });
      expect(methodsSent()).toEqual(["CreateVolume", "DeleteVolume", "CreateVolume"]);
      sent[1]?.answer({ bytes: new Uint8Array() });
      await clock.advance(0);
      void call(plugin, "CreateVolume", { name: "n" });
      expect(methodsSent()).toHaveLength(4);
    });

    it("is not there for good either when the delete left behind the create", async () => {
      const plugin = open.over(connection(), here);
      const create = call(plugin, "CreateVolume", { name: "n" });
      void call(plugin, "DeleteVolume", { volumeId: "v" });
      sent[0]?.answer(made);
      expect(await create).toMatchObject({ failure: { code: "ABORTED", sent: true } });
    });

    it("is there when a delete of another volume is open, or another call of it", async () => {
      const plugin = open.over(connection(), here);
      void call(plugin, "DeleteVolume", { volumeId: "other" });
      void call(plugin, "ControllerPublishVolume", publish);
      const create = call(plugin, "CreateVolume", { name: "n" });
      sent[2]?.answer(made);
      expect(await create).toEqual(made);
    });
  });
});

describe("H8 a subject that is asked to be quiet", () => {
  const subject = gateSubject("volume", { id: "v" });
  const at = (sequence: number) => ({ gen: 1, sequence });
  const ordered = (over: CsiTransport, sequence: number, opId = `op-${sequence}`) =>
    call(over, "ControllerPublishVolume", publish, stop.signal, { ...at(sequence), opId });
  const quiesce = (sequence: number, signal = stop.signal) => open.quiesce(subject, at(sequence), 500, signal);
  const stale = { failure: { sent: false, stale: true } };
  const done: WireReply = { bytes: new Uint8Array() };
  const lost: WireReply = { failure: { code: "UNAVAILABLE", message: "lost", sent: true } };
  const aborted: WireReply = { failure: { code: "ABORTED", message: "busy", sent: true, answered: true } };
  const busy = { idle: false, words: expect.stringContaining("ControllerPublishVolume for volume v") };
  const doubt = { ...busy, doubt: true };
  const answer = async (nth: number, reply: WireReply): Promise<void> => {
    sent[nth]?.answer(reply);
    await clock.advance(0);
  };

  it("stands with the name of its call while that is open or in doubt, and not afterwards", async () => {
    const plugin = open.over(connection(), here);
    void ordered(plugin, 7);
    const words = expect.stringContaining("ControllerPublishVolume for volume v");
    expect(open.standing()).toEqual([{ subject, opId: "op-7", words }]);
    await answer(0, lost);
    expect(open.standing()).toEqual([{ subject, opId: "op-7", words }]);
    const other = open.over(connection(), here);
    void call(other, "DeleteVolume", { volumeId: "w" });
    expect(open.standing().map(({ opId }) => opId)).toEqual(["", "op-7"]);
    await answer(1, done);
    expect(open.standing().map(({ opId }) => opId)).toEqual(["op-7"]);
  });

  it("is quiet at once when no call was seen, and lets no call of an equal or a lower order leave from then on", async () => {
    const plugin = open.over(connection(), here);
    expect(await quiesce(7)).toEqual({ idle: true });
    for (const sequence of [6, 7]) expect(await ordered(plugin, sequence)).toMatchObject(stale);
    expect(sent).toEqual([]);
    expect(await quiesce(7)).toEqual({ idle: true });
    void ordered(plugin, 8);
    expect(methodsSent()).toEqual(["ControllerPublishVolume"]);
  });

  it("is raised before its open call ends, is quiet with the end of it, and keeps the answer from the order that it had", async () => {
    const plugin = open.over(connection(), here);
    const before = ordered(plugin, 5);
    const quiet = quiesce(7);
    expect(await ordered(plugin, 5)).toMatchObject(stale);
    await clock.advance(499);
    await answer(0, done);
    expect(await quiet).toEqual({ idle: true });
    expect(await before).toEqual(done);
    expect(await ordered(plugin, 5)).toMatchObject(stale);
    expect(sent).toHaveLength(1);
  });

  it("is not quiet while its call is open, when the time is up and when the one who asks has gone", async () => {
    void ordered(open.over(connection(), here), 5);
    const quiet = quiesce(7);
    await clock.advance(500);
    expect(await quiet).toEqual(busy);
    const gone = new AbortController();
    const given = quiesce(7, gone.signal);
    gone.abort();
    expect(await given).toEqual(busy);
    expect(await quiesce(7, gone.signal)).toEqual(busy);
  });

  it("is not quiet for an order below one that has left, also when that one leaves during the wait", async () => {
    const superseded = { idle: false, superseded: true, words: expect.stringContaining("9 of generation 1") };
    const plugin = open.over(connection(), here);
    void ordered(plugin, 5);
    const quiet = quiesce(7);
    void ordered(plugin, 9);
    await answer(0, done);
    expect(await quiet).toEqual(superseded);
    expect(await quiesce(8)).toEqual(superseded);
    expect(await ordered(plugin, 9)).toEqual(done);
  });

  it("is not quiet while a call without an order is open", async () => {
    const plugin = open.over(connection(), here);
    void call(plugin, "ControllerPublishVolume", publish);
    const quiet = quiesce(7);
    await clock.advance(500);
    expect(await quiet).toEqual(busy);
  });

  it.each([
    ["a connection that broke", lost],
    ["ABORTED", aborted],
  ] as const)("H9 stays in doubt after %s, whatever other call is answered", async (_how, reply) => {
    const plugin = open.over(connection(), here);
    void ordered(plugin, 5);
    await answer(0, reply);
    expect(await quiesce(7)).toEqual(doubt);
    void call(plugin, "ControllerUnpublishVolume", publish);
    await answer(1, done);
    expect(await quiesce(7)).toEqual(doubt);
    expect(await open.quiesce("volume other", at(7), 500, stop.signal)).toEqual({ idle: true });
  });

  it("H9 is in no doubt once the process that said ABORTED has answered the same call", async () => {
    const plugin = open.over(connection(), here);
    for (const [nth, reply] of [aborted, done].entries()) {
      void ordered(plugin, 5 + nth);
      await answer(nth, reply);
    }
    expect(await quiesce(7)).toEqual({ idle: true });
  });

  const answerOver = async (sequence: number, listener: SocketListener, reply: WireReply): Promise<void> => {
    void ordered(open.over(connection(), listener), sequence);
    await answer(sent.length - 1, reply);
  };

  it("H9 is in doubt after a connection that broke until the next process on the socket has answered", async () => {
    const first = { ...here, gone: () => true };
    await answerOver(1, first, lost);
    await answerOver(2, first, done);
    expect(await quiesce(2)).toEqual(doubt);
    await answerOver(4, { ...here, socketPath: "/q.sock", incarnation: "2" }, done);
    expect(await quiesce(4)).toEqual(doubt);
    await answerOver(5, { ...here, incarnation: "2" }, done);
    expect(await quiesce(5)).toEqual({ idle: true });
  });

  it("H9 stays in doubt after a process that cut off the call alone, until that process has gone", async () => {
    const life = { gone: false };
    await answerOver(1, { ...here, gone: () => life.gone }, lost);
    await answerOver(3, { ...here, incarnation: "2" }, done);
    expect(await quiesce(3)).toEqual(doubt);
    life.gone = true;
    await answerOver(4, { ...here, incarnation: "2" }, done);
    expect(await quiesce(4)).toEqual({ idle: true });
  });

  it("H8 H9 of one socket is quiet whatever is open or in doubt at another", async () => {
    const at7 = (socketPath: string) => open.quiesce(subject, at(7), 0, stop.signal, socketPath);
    await answerOver(1, here, lost);
    const elsewhere = { ...here, socketPath: "/q.sock" };
    expect(await at7(here.socketPath)).toEqual(doubt);
    expect(await at7(elsewhere.socketPath)).toEqual({ idle: true });
    void ordered(open.over(connection(), elsewhere), 8);
    const later = (socketPath: string) => open.quiesce(subject, at(9), 0, stop.signal, socketPath);
    expect(await later(here.socketPath)).toEqual(doubt);
    const asked = later(elsewhere.socketPath);
    await clock.advance(1);
    expect(await asked).toEqual(busy);
  });

  it("H9 is in no doubt of a create that was answered, also where a delete of what it made is open", async () => {
    const plugin = open.over(connection(), here);
    void call(plugin, "DeleteVolume", { volumeId: "v" });
    const create = call(plugin, "CreateVolume", { name: "n" });
    await answer(1, { bytes: Uint8Array.from([0x0a, 0x03, 0x12, 0x01, 0x76]) });
    expect(await create).toMatchObject({ failure: { code: "ABORTED" } });
    const named = gateSubject("volume", { name: "n" });
    expect(await open.quiesce(named, at(7), 500, stop.signal)).toEqual({ idle: true });
  });

  it("H9 is in no doubt of a call that never left, or that the plugin answered with a refusal", async () => {
    const plugin = open.over(connection(), here);
    for (const failure of [
      { code: "UNAVAILABLE", message: "no connection", sent: false },
      { code: "INTERNAL", message: "no", sent: true, answered: true },
    ] as const) {
      void ordered(plugin, sent.length + 1);
      await answer(sent.length - 1, { failure });
    }
    expect(await quiesce(7)).toEqual({ idle: true });
  });
});
