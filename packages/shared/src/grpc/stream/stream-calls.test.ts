import { Metadata } from "nice-grpc";
import { describe, expect, test } from "vitest";
import { reasonSent } from "../../errors/grpc-status.ts";
import { HoldfastError, invalidArgument } from "../../errors/holdfast-error.ts";
import { AgentLinkServiceDefinition, FromAgent, ToAgent } from "../../gen/holdfast/internal/v1/controller_link.ts";
import { failureOf } from "../../testing/failure-of.ts";
import { createStreamServices } from "../../testing/stream-services.ts";
import type { CallContext } from "../call-context.ts";
import { createGrpcClient } from "../client.ts";
import { createAbsentChannel } from "./absent-channel.ts";
import { noticeFrame } from "./frames.ts";

const idle = { asked: 0, served: 0, queuedBytes: 0 };
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
const forever = ({ signal }: CallContext) =>
  new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

describe("a call over a stream", () => {
  test("goes both ways, and what is known of it arrives with it", async () => {
    const seen: CallContext[] = [];
    const stream = createStreamServices({
      onAgent: {
        raiseFloor: async ({ promisedGen }, context) => {
          seen.push(context);
          return { promisedGen };
        },
      },
      onController: {
        greet: async ({ node }, context) => {
          seen.push(context);
          return { controllerId: `c of ${node}`, known: true };
        },
      },
    });
    const metadata = Metadata({ "x-request-id": "r-1", tracestate: "a=b" });
    expect(await stream.orders.raiseFloor({ promisedGen: 5n }, { deadlineMs: 60_000, metadata })).toMatchObject({
      promisedGen: 5n,
    });
    expect(await stream.requests.greet({ node: "n1" })).toMatchObject({ controllerId: "c of n1", known: true });
    const [order, request] = seen;
    expect(order).toMatchObject({ identity: { role: "controller", name: "c1" }, requestId: "r-1" });
    expect(order?.peer).toBe("the controller at test");
    expect(order?.metadata.get("tracestate")).toBe("a=b");
    expect(order?.remainingMs()).toBeGreaterThan(30_000);
    expect(order?.remainingMs()).toBeLessThanOrEqual(60_000);
    expect(request).toMatchObject({ identity: { role: "node", name: "n1" }, peer: "the agent of node n1" });
    expect([stream.agent.load(), stream.controller.load()]).toEqual([idle, idle]);
    expect([stream.agent.idle(), stream.controller.idle()]).toEqual([true, true]);
    expect(stream.log.lines.filter(({ message }) => message === "call")).toHaveLength(2);
  });

  test("names whom the holder of the stream knows at its other end, whatever the call says", async () => {
    const seen: CallContext[] = [];
    const stream = createStreamServices({
      identity: { role: "node", name: "n7" },
      onController: {
        greet: async (_, context) => {
          seen.push(context);
          return {};
        },
      },
    });
    await stream.requests.greet({ node: "n1" });
    expect(seen[0]?.identity).toEqual({ role: "node", name: "n7" });
  });

  test("tells its failure with all details", async () => {
    const stream = createStreamServices({
      onAgent: {
        publish: async () => {
          throw new HoldfastError({ kind: "precondition", reason: "IN_USE", message: "m", metadata: { volume: "v" } });
        },
        stats: async () => {
          throw invalidArgument([{ field: "a", description: "is missing" }]);
        },
        release: async () => {
          throw new TypeError("cannot read /etc/secret");
        },
        // biome-ignore lint/correctness/useYield: it fails before its first message
        async *inventory() {
          throw new HoldfastError({ kind: "not_found", reason: "NO_JOURNAL", message: "j" });
        },
      },
    });
    const publish = await failureOf(stream.orders.publish({}));
    expect(publish).toMatchObject({ kind: "precondition", reason: "IN_USE", metadata: { volume: "v" } });
    expect(reasonSent(publish)).toBe("IN_USE");
    expect((await failureOf(stream.orders.stats({}))).violations).toEqual([{ field: "a", description: "is missing" }]);
    const release = await failureOf(stream.orders.release({}));
    expect(release).toMatchObject({ kind: "internal" });
    expect(release.message).not.toContain("secret");
    const inventory = stream.orders.inventory({})[Symbol.asyncIterator]();
    expect(await failureOf(inventory.next())).toMatchObject({ kind: "not_found", reason: "NO_JOURNAL" });
    // One that fails before its first message needs no transfer.
    expect(stream.transfers().most).toBe(0);
    expect(stream.controller.load()).toEqual(idle);
  });

  test("fails when it sets metadata that does not go over a stream", async () => {
    const stream = createStreamServices({});
    const metadata = Metadata({ "x-other": "1" });
    expect((await failureOf(stream.orders.stats({}, { metadata }))).message).toContain("x-other");
    expect(stream.toAgent.frames).toEqual([]);
  });

  test("fails with its deadline, and the other side's work is aborted", async () => {
    let aborted: unknown;
    const stream = createStreamServices({
      onAgent: {
        stats: async (_, context) => {
          context.signal.addEventListener("abort", () => {
            aborted = context.signal.reason;
          });
          return await forever(context);
        },
      },
    });
    expect(await failureOf(stream.orders.stats({}, { deadlineMs: 30 }))).toMatchObject({ kind: "deadline" });
    await expect.poll(() => aborted).toMatchObject({ kind: "deadline" });
    await expect.poll(() => stream.agent.load()).toEqual(idle);
  });

  test("is notified of beside the calls", async () => {
    const told: Uint8Array[] = [];
    const stream = createStreamServices({ onHello: (bytes) => told.push(bytes) });
    stream.agent.notify(new Uint8Array([1, 2]));
    await expect.poll(() => told).toEqual([new Uint8Array([1, 2])]);
  });
});

describe("[A1] a call that is given up", () => {
  test("[M4] [V2] is told once to who is at it, who aborts it and answers nothing", async () => {
    const begun: CallContext[] = [];
    let ended = 0;
    const stream = createStreamServices({
      onAgent: {
        stats: async (_, context) => {
          begun.push(context);
          await forever(context).catch(() => undefined);
          ended += 1;
          return {};
        },
      },
    });
    const give = new AbortController();
    const call = stream.orders.stats({}, { signal: give.signal });
    call.catch(() => undefined);
    await expect.poll(() => begun.length).toBe(1);
    give.abort();
    await expect(call).rejects.toThrow();
    await expect.poll(() => ended).toBe(1);
    expect(begun[0]?.signal.aborted).toBe(true);
    await turn();
    expect(
      stream.toAgent.frames.map((frame) =>
        Object.keys(ToAgent.decode(frame)).find((key) => Reflect.get(ToAgent.decode(frame), key)),
      ),
    ).toEqual(["order", "cancel"]);
    expect(stream.toController.frames).toEqual([]);
    expect([stream.agent.load(), stream.controller.load()]).toEqual([idle, idle]);
  });

  test("[M4] is taken out of the queue if it is there still", async () => {
    const stream = createStreamServices({ onAgent: { stats: async () => ({}) } });
    stream.toAgent.hold();
    const give = new AbortController();
    const call = stream.orders.stats({}, { signal: give.signal });
    call.catch(() => undefined);
    await expect.poll(() => stream.controller.load().asked).toBe(1);
    expect(stream.controller.load().queuedBytes).toBeGreaterThan(0);
    give.abort();
    await expect(call).rejects.toThrow();
    expect(stream.controller.load()).toEqual(idle);
    stream.toAgent.release();
    await turn();
    await turn();
    expect(stream.toAgent.frames).toEqual([]);
  });
});

describe("what a peer sends", () => {
  test("[A2] answers that nobody waits for change nothing", async () => {
    const stream = createStreamServices({ onAgent: { raiseFloor: async (request) => request } });
    const answer = FromAgent.encode(FromAgent.fromPartial({ answer: { head: { seq: 99n }, stats: {} } })).finish();
    stream.controller.take(answer);
    await stream.orders.raiseFloor({ promisedGen: 1n });
    for (const frame of stream.toController.frames) stream.controller.take(frame);
    expect(stream.controller.load()).toEqual(idle);
    stream.controller.take(FromAgent.encode(FromAgent.fromPartial({ cancel: { seq: 99n } })).finish());
  });

  test("[V1] a number that is open is not asked again: the stream ends", async () => {
    const stream = createStreamServices({ onAgent: { stats: async (_, context) => await forever(context) } });
    stream.orders.stats({}).catch(() => undefined);
    await expect.poll(() => stream.agent.load().served).toBe(1);
    const [first] = stream.toAgent.frames;
    if (first === undefined) throw new Error("nothing came");
    expect(() => stream.agent.take(first)).toThrow(HoldfastError);
    expect(() => stream.agent.take(first)).toThrow(/the controller at test.*second time/);
    stream.cut();
    await stream.agent.ended;
  });

  test("a frame that cannot be read is thrown, and says whose it was", () => {
    const stream = createStreamServices({});
    expect(() => stream.controller.take(new Uint8Array([1, 2, 3]))).toThrow(/the agent of node n1 cannot be taken/);
    expect(() => stream.controller.take(noticeFrame(new Uint8Array(70_000)))).toThrow(/65536/);
    stream.cut();
    stream.controller.take(new Uint8Array([1, 2, 3]));
  });

  test("a body that cannot be read fails its call alone", async () => {
    const stream = createStreamServices({ onAgent: { raiseFloor: async (request) => request } });
    const damaged = (frame: Uint8Array) => Buffer.from(frame).fill(0xff, frame.length - 2);
    const inner = stream.agent.take;
    const order = ToAgent.encode(
      ToAgent.fromPartial({ order: { head: { seq: 50n }, raiseFloor: { promisedGen: 300n } } }),
    );
    inner(damaged(order.finish()));
    await expect.poll(() => stream.toController.frames.length).toBe(1);
    const [refusal = new Uint8Array(0)] = stream.toController.frames;
    expect(Buffer.from(FromAgent.decode(refusal).answer?.head?.failure ?? []).toString()).toContain("cannot be read");
    // And one that asks and is answered with such a body.
    stream.toController.onFrame = (frame) => {
      stream.controller.take(damaged(frame));
      return "drop";
    };
    expect(await failureOf(stream.orders.raiseFloor({ promisedGen: 300n }))).toMatchObject({ kind: "internal" });
    stream.toController.onFrame = () => "deliver";
    expect(await stream.orders.raiseFloor({ promisedGen: 1n })).toMatchObject({ promisedGen: 1n });
    expect([stream.agent.load(), stream.controller.load()]).toEqual([idle, idle]);
  });

  test("a head with letters that no header can have fails its call alone, and says so", async () => {
    const stream = createStreamServices({ onAgent: { raiseFloor: async (request) => request } });
    const order = { head: { seq: 50n, requestId: "\ufeff" }, raiseFloor: { promisedGen: 300n } };
    stream.agent.take(ToAgent.encode(ToAgent.fromPartial({ order })).finish());
    await expect.poll(() => stream.toController.frames.length).toBe(1);
    const [refusal = new Uint8Array(0)] = stream.toController.frames;
    expect(Buffer.from(FromAgent.decode(refusal).answer?.head?.failure ?? []).toString()).toContain("cannot be read");
    expect(stream.agent.load()).toEqual(idle);
  });

  test("what is of another version is refused by itself", async () => {
    const stream = createStreamServices({});
    const head = ToAgent.encode(ToAgent.fromPartial({ order: { head: { seq: 4n } } })).finish();
    stream.agent.take(head);
    await expect.poll(() => stream.toController.frames.length).toBe(1);
    const [refusal = new Uint8Array(0)] = stream.toController.frames;
    expect(Buffer.from(FromAgent.decode(refusal).answer?.head?.failure ?? []).toString()).toContain("versions");
  });

  test("an answer with another method's body fails that call", async () => {
    const stream = createStreamServices({ onAgent: { stats: async (_, context) => await forever(context) } });
    const call = stream.orders.stats({});
    await expect.poll(() => stream.agent.load().served).toBe(1);
    stream.controller.take(
      FromAgent.encode(FromAgent.fromPartial({ answer: { head: { seq: 1n }, relay: {} } })).finish(),
    );
    expect(await failureOf(call)).toMatchObject({ kind: "internal" });
    stream.cut();
  });
});

describe("[T2] the end of a stream", () => {
  test("tells what was not sent from what may have been, and aborts what is served", async () => {
    let reason: unknown;
    const release = Promise.withResolvers<void>();
    const stream = createStreamServices({
      onAgent: {
        stats: async (_, context) => {
          await forever(context).catch((error: unknown) => {
            reason = error;
          });
          await release.promise;
          return {};
        },
      },
    });
    const sent = failureOf(stream.orders.stats({}));
    await expect.poll(() => stream.agent.load().served).toBe(1);
    // One frame is taken where the wire waits for it already; it does not arrive either.
    stream.toAgent.hold();
    const taken = failureOf(stream.orders.stats({}));
    const queued = failureOf(stream.orders.stats({}));
    await expect.poll(() => stream.controller.load().asked).toBe(3);
    stream.cut("the host is gone");
    for (const call of [sent, taken]) {
      const error = await call;
      expect([error.kind, reasonSent(error)]).toEqual(["unavailable", "STREAM_ENDED"]);
      expect(error.message).toContain("the host is gone");
    }
    const unsent = await queued;
    expect([unsent.kind, reasonSent(unsent)]).toEqual(["unavailable", "NOT_SENT"]);
    expect(reasonSent(await failureOf(stream.orders.stats({})))).toBe("NOT_SENT");
    expect(reason).toMatchObject({ kind: "cancelled" });
    expect(stream.controller.load()).toEqual(idle);
    await stream.controller.ended;
    let ended = false;
    void stream.agent.ended.then(() => {
      ended = true;
    });
    await turn();
    expect([ended, stream.agent.load().served]).toEqual([false, 1]);
    release.resolve();
    await stream.agent.ended;
    expect(stream.agent.load()).toEqual(idle);
    stream.agent.end("again");
  });

  test("wakes who waits for the next frame", async () => {
    const stream = createStreamServices({});
    const next = stream.agent.frames[Symbol.asyncIterator]().next();
    stream.agent.end("x");
    expect((await next).done).toBe(true);
  });
});

describe("what is too much", () => {
  test("to be queued fails that call alone, and a call can still be given up", async () => {
    const begun: CallContext[] = [];
    const stream = createStreamServices({
      onAgent: {
        stats: async (_, context) => {
          begun.push(context);
          return await forever(context);
        },
        raiseFloor: async (request) => request,
      },
    });
    const give = new AbortController();
    const first = failureOf(
      stream.orders.stats({}, { signal: give.signal }).catch(() => {
        throw new HoldfastError({ kind: "cancelled", reason: "C", message: "" });
      }),
    );
    await expect.poll(() => begun.length).toBe(1);
    stream.toAgent.hold();
    const volumeUids = ["x".repeat(60_000)];
    const calls = Array.from({ length: 160 }, () => failureOf(stream.orders.stats({ volumeUids })));
    await expect.poll(() => stream.controller.load().asked).toBeGreaterThan(100);
    await turn();
    const refused = await Promise.race(calls);
    expect([refused.kind, reasonSent(refused)]).toEqual(["exhausted", "STREAM_FULL"]);
    expect(stream.controller.load().queuedBytes).toBeLessThanOrEqual(8 * 1024 * 1024);
    give.abort();
    await first;
    expect(begun[0]?.signal.aborted).toBe(false);
    stream.toAgent.release();
    await expect.poll(() => begun[0]?.signal.aborted).toBe(true);
    stream.cut();
    await Promise.all(calls);
  });

  test("[V4] to be served is refused by itself", async () => {
    const stream = createStreamServices({ onAgent: { stats: async (_, context) => await forever(context) } });
    const calls = Array.from({ length: 1025 }, () => failureOf(stream.orders.stats({})));
    const refused = await Promise.race(calls);
    expect([refused.kind, refused.reason]).toEqual(["exhausted", "OVERLOADED"]);
    expect(stream.agent.load().served).toBe(1024);
    stream.cut();
    await Promise.all(calls);
    await stream.agent.ended;
  });

  test("[V4] to be answered ends a stream whose peer asks on and reads nothing", async () => {
    const stream = createStreamServices({});
    stream.toController.hold();
    const ask = (seq: number) =>
      stream.agent.take(ToAgent.encode(ToAgent.fromPartial({ order: { head: { seq: BigInt(seq) } } })).finish());
    expect(() => {
      for (let seq = 1; seq < 100_000; seq += 1) ask(seq);
    }).toThrow(/it asks on/);
    expect(stream.agent.load().queuedBytes).toBeLessThan(8 * 1024 * 1024);
    stream.cut();
  });

  test("for one message fails that call alone, whoever would send it", async () => {
    const stream = createStreamServices({
      onAgent: { relay: async () => ({ response: Buffer.alloc(17 * 1024 * 1024) }), raiseFloor: async (r) => r },
    });
    const asked = await failureOf(stream.orders.relay({ request: Buffer.alloc(17 * 1024 * 1024) }));
    expect([asked.kind, reasonSent(asked)]).toEqual(["exhausted", "MESSAGE_TOO_LARGE"]);
    expect(stream.toAgent.frames).toEqual([]);
    const answered = await failureOf(stream.orders.relay({}));
    expect([answered.kind, reasonSent(answered)]).toEqual(["exhausted", "MESSAGE_TOO_LARGE"]);
    expect(await stream.orders.raiseFloor({ promisedGen: 2n })).toMatchObject({ promisedGen: 2n });
    await expect.poll(() => stream.agent.load()).toEqual(idle);
  });
});

test("where there is no stream a call fails at once, and is told to be not sent", async () => {
  const { log } = createStreamServices({});
  const client = createGrpcClient(AgentLinkServiceDefinition, createAbsentChannel("no controller was reached"), {
    log,
  });
  const error = await failureOf(client.greet({}));
  expect([error.kind, reasonSent(error)]).toEqual(["unavailable", "NOT_SENT"]);
  expect(error.message).toContain("no controller was reached");
});
