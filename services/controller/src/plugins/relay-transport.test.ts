import type { WireOptions, WireReply } from "@holdfast/csi/transport";
import { systemClock } from "@holdfast/shared/async/clock";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type {
  DeepPartial,
  QuiesceRequest,
  QuiesceResponse,
  RelayRequest,
  RelayResponse,
  RelayStreamResponse,
} from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import type { CallContext } from "@holdfast/shared/grpc/call-context";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { ServerError, Status } from "nice-grpc";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { DialledAgent } from "../../../../test/support/controller/dial-agent.ts";
import { createLinkHub, type LinkHub } from "../../../../test/support/controller/link-hub.ts";
import { createRelayLines, type RelayLines } from "./relay-transport.ts";

const bytes = (text: string): Uint8Array => Buffer.from(text);
const never = new AbortController().signal;

let hub: LinkHub;
let agent: DialledAgent;
let lines: RelayLines;
let asked: RelayRequest[];
let quiesced: QuiesceRequest[];
let quiesce: () => Promise<DeepPartial<QuiesceResponse>>;
let relay: (request: RelayRequest, context: CallContext) => Promise<DeepPartial<RelayResponse>>;
let items: () => AsyncIterable<DeepPartial<RelayStreamResponse>>;

const linked = (): Promise<DialledAgent> =>
  hub.linked({
    serve: {
      relay(request, context) {
        asked.push(request);
        return relay(request, context);
      },
      async *relayStream() {
        yield* items();
      },
      quiesce(request) {
        quiesced.push(request);
        return quiesce();
      },
    },
  });

beforeEach(async () => {
  asked = [];
  quiesced = [];
  quiesce = async () => ({ idle: true });
  relay = async ({ request }) => ({ response: request });
  items = async function* none() {};
  hub = await createLinkHub();
  agent = await linked();
  lines = createRelayLines({
    streams: hub.streams,
    identity: { role: "controller", name: "c1" },
    log: createMemoryLogger(),
    clock: systemClock,
    vetting: () => ({ gen: 7, uid: "vetting-7" }),
  });
});

afterEach(() => hub.close());

const wire = (change: Partial<WireOptions> = {}): WireOptions => ({
  signal: never,
  deadlineMs: 30_000,
  metadata: {},
  ...change,
});
const way = () => lines.transportTo("n1", "p");
const call = (request = bytes("hello"), change: Partial<WireOptions> = {}) =>
  way().unary("DeleteVolume", request, wire(change));
const streamed = async (change: Partial<WireOptions> = {}): Promise<readonly WireReply[]> => {
  const all: WireReply[] = [];
  for await (const item of way().stream("GetMetadataAllocated", bytes("q"), wire(change))) all.push(item);
  return all;
};

describe("a call through an agent", () => {
  test("T3 passes bytes both ways, with the method, the node, the time and the store's generation", async () => {
    expect(await call()).toEqual({ bytes: expect.anything() });
    expect(asked).toMatchObject([
      {
        plugin: "p",
        method: "/csi.v1.Controller/DeleteVolume",
        node: "n1",
        gen: 7n,
        deadline: { seconds: 30n, nanos: 0 },
      },
    ]);
    const large = new Uint8Array(8 << 20).fill(7);
    const back = await call(large);
    expect("bytes" in back && Buffer.compare(back.bytes, large)).toBe(0);
    relay = async () => ({ response: new Uint8Array() });
    expect(await call()).toMatchObject({ bytes: { length: 0 } });
  });

  test("T4 carries the order of its attempt, and tells of a stale one only what never left", async () => {
    const knownAs = ["volume named n", "volume v"];
    await call(bytes("hello"), { order: { gen: 3, sequence: 2 ** 52, opId: "op", knownAs } });
    await call();
    expect(asked.map(({ order }) => order)).toEqual([{ gen: 3n, sequence: 2n ** 52n, opId: "op", knownAs }, undefined]);
    relay = async () => ({ failure: { code: 10, message: "late", notSent: true, staleOrder: true } });
    expect(await call()).toEqual({ failure: { code: "ABORTED", message: "late", sent: false, stale: true } });
    relay = async () => ({ failure: { code: 10, message: "late", notSent: false, staleOrder: true } });
    expect(await call()).toEqual({ failure: { code: "ABORTED", message: "late", sent: true } });
  });

  test("T4 names the life of the agent that it is for, or none", async () => {
    const order = { gen: 1, sequence: 1, opId: "op" };
    for (const gate of ["life-1", undefined]) await call(bytes("hello"), { order: { ...order, gate } });
    await call();
    expect(asked.map(({ gate }) => gate)).toEqual(["life-1", "", ""]);
  });

  test("tells what the plugin answered, and whether it saw the call", async () => {
    relay = async () => ({ failure: { code: 9, message: "in use", notSent: false } });
    expect(await call()).toEqual({ failure: { code: "FAILED_PRECONDITION", message: "in use", sent: true } });
    relay = async () => ({ failure: { code: 14, message: "away", notSent: true } });
    expect(await call()).toEqual({ failure: { code: "UNAVAILABLE", message: "away", sent: false } });
    relay = async () => ({});
    expect(await call()).toMatchObject({ failure: { code: "INTERNAL", sent: true } });
  });

  test.each([
    ["precondition", "GENERATION"],
    ["permission", "PERMISSION_DENIED"],
    ["precondition", "NODE_MISMATCH"],
    ["unavailable", "AGENT_STARTING"],
    ["exhausted", "OVERLOADED"],
  ] as const)("T2 the agent's own refusal (%s %s) is not the plugin's: nothing was sent", async (kind, reason) => {
    relay = async () => {
      throw new HoldfastError({ kind, reason, message: "no" });
    };
    expect(await call()).toMatchObject({
      failure: { code: "UNAVAILABLE", sent: false, message: expect.stringContaining("agent of node n1") },
    });
  });

  test.each(["INVALID_ARGUMENT", "PERMISSION_DENIED"] as const)(
    "T2 a bare %s is a proxy's or a library's: nobody knows whether the call was sent",
    async (code) => {
      relay = async () => {
        throw new ServerError(Status[code], "no");
      };
      const reply = await call();
      expect(reply).toMatchObject({ failure: { code, sent: true } });
      expect(reply).not.toHaveProperty("failure.answered");
    },
  );

  test("T1 a node without a stream has not been sent anything; a call that was cut off may have been done", async () => {
    relay = () => {
      agent.cut();
      return new Promise(() => undefined);
    };
    expect(await call()).toMatchObject({ failure: { code: "UNAVAILABLE", sent: true } });
    await expect.poll(() => hub.service.load().streams).toBe(0);
    const away = { code: "UNAVAILABLE", sent: false, message: expect.stringContaining("has no stream") };
    expect(await call()).toMatchObject({ failure: away });
    expect(await streamed()).toMatchObject([{ failure: away }]);
    agent = await linked();
    relay = async ({ request }) => ({ response: request });
    expect(await call()).toMatchObject({ bytes: expect.anything() });
  });

  test("T1 above what may wait for one plugin of a node is refused, and was not sent; so is what was given up as it waited", async () => {
    relay = () => new Promise(() => undefined);
    const given = new AbortController();
    const waiting = Array.from({ length: 64 + 4096 }, () => call(bytes("x"), { signal: given.signal }));
    expect(await call()).toMatchObject({ failure: { code: "UNAVAILABLE", sent: false } });
    await expect.poll(() => asked.length).toBe(64);
    // Another plugin of the host is not kept out.
    relay = async ({ request }) => ({ response: request });
    expect(await lines.transportTo("n1", "other").unary("ListVolumes", bytes("q"), wire())).toHaveProperty("bytes");
    expect(asked.splice(64).map(({ plugin }) => plugin)).toEqual(["other"]);
    given.abort(new Error("enough"));
    const ends = await Promise.all(waiting);
    const sent = ends.filter((end) => "failure" in end && end.failure.sent);
    expect(sent).toHaveLength(64);
    expect(asked).toHaveLength(64);
  });

  test("is made again when its agent went away and it only asks; one that changes anything never is", async () => {
    relay = async ({ request }) => {
      if (asked.length === 1) throw new ServerError(Status.UNAVAILABLE, "the agent went away");
      return { response: request };
    };
    expect(await way().unary("ListVolumes", bytes("q"), wire())).toMatchObject({ bytes: expect.anything() });
    expect(asked).toHaveLength(2);
    asked = [];
    expect(await call()).toMatchObject({ failure: { code: "UNAVAILABLE", sent: true } });
    expect(asked).toHaveLength(1);
  });

  test("ends as unknown when it is given up, and as unsent when it was given up before", async () => {
    const given = new AbortController();
    relay = () =>
      new Promise(() => {
        given.abort(new Error("enough"));
      });
    expect(await call(bytes("x"), { signal: given.signal })).toMatchObject({
      failure: { code: "CANCELLED", sent: true },
    });
    expect(await call(bytes("x"), { signal: given.signal })).toMatchObject({
      failure: { code: "CANCELLED", sent: false },
    });
    expect(asked).toHaveLength(1);
  });
});

describe("a stream through an agent", () => {
  test("is complete when it ends, and says so when it breaks", async () => {
    items = async function* two() {
      yield { response: bytes("1") };
      yield { response: bytes("2") };
    };
    expect(await streamed()).toMatchObject([{ bytes: expect.anything() }, { bytes: expect.anything() }]);
    items = async function* broken() {
      yield { response: bytes("1") };
      yield { failure: { code: 10, message: "changed", notSent: false } };
    };
    expect(await streamed()).toMatchObject([{ bytes: expect.anything() }, { failure: { code: "ABORTED" } }]);
    items = async function* cut() {
      yield { response: bytes("1") };
      throw new HoldfastError({ kind: "internal", reason: "INTERNAL", message: "gone" });
    };
    expect((await streamed()).at(-1)).toMatchObject({ failure: { code: "INTERNAL", sent: true } });
  });

  test("that falls silent is given up", async () => {
    items = async function* silent() {
      yield { response: bytes("1") };
      await new Promise((resolve) => setTimeout(resolve, 20_000).unref());
    };
    expect((await streamed({ deadlineMs: 500 })).at(-1)).toMatchObject({ failure: { code: "DEADLINE_EXCEEDED" } });
  });
});

describe("an agent that is asked to let go of a subject", () => {
  const question = { gate: "life-1", subject: "volume v", order: { gen: 3, sequence: 2 ** 52 }, waitMs: 5_000 };
  const ask = (signal = never) => lines.quiesce("n1", "p", question, signal);

  test("gets the question with its order, and is idle only for an order that was not superseded", async () => {
    expect(await ask()).toEqual({ kind: "idle" });
    const order = { gen: 3n, sequence: 2n ** 52n };
    const wait = { seconds: 5n, nanos: 0 };
    const vettingUid = "vetting-7";
    expect(quiesced).toEqual([
      { node: "n1", plugin: "p", gate: "life-1", subject: "volume v", ...order, wait, vettingUid },
    ]);
    const words = "because";
    quiesce = async () => ({ idle: true, superseded: true, words });
    expect(await ask()).toEqual({ kind: "open", words });
    quiesce = async () => ({ words });
    expect(await ask()).toEqual({ kind: "open", words });
    quiesce = async () => ({ inDoubt: true, words });
    expect(await ask()).toEqual({ kind: "in-doubt", words });
    quiesce = async () => ({ inDoubt: true, superseded: true, words });
    expect(await ask()).toEqual({ kind: "open", words });
  });

  test.each([
    ["is of a release that does not know the question", "unimplemented", "METHOD_UNKNOWN"],
    ["runs in another life", "precondition", "GATE_LIFE"],
    ["has promised a later generation", "precondition", "GENERATION"],
    ["fails", "internal", "INTERNAL"],
  ] as const)("is away when it %s", async (_why, kind, reason) => {
    quiesce = async () => {
      throw new HoldfastError({ kind, reason, message: "no" });
    };
    expect(await ask()).toEqual({ kind: "away", words: expect.stringContaining("through the agent of node n1") });
  });

  test("is away without a stream, and is not answered for when the one who asks has gone", async () => {
    const gone = new AbortController();
    quiesce = () => {
      gone.abort();
      return new Promise(() => undefined);
    };
    await expect(ask(gone.signal)).rejects.toThrow();
    agent.cut();
    await expect.poll(() => hub.service.load().streams).toBe(0);
    expect(await ask()).toEqual({ kind: "away", words: expect.stringContaining("has no stream") });
  });

  test("is asked past the calls that wait for their turn: they may be what is asked about", async () => {
    relay = () => new Promise(() => undefined);
    const gone = new AbortController();
    const hung = Array.from({ length: 65 }, () => call(bytes("hello"), { signal: gone.signal }));
    await expect.poll(() => asked).toHaveLength(64);
    expect(await ask()).toEqual({ kind: "idle" });
    gone.abort();
    await Promise.all(hung);
  });
});
