/** Streams that end in every way that there is: nothing is lost without a word, and nothing is left behind. */
import { connect, createServer, type Socket } from "node:net";
import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import { createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, describe, expect, test } from "vitest";
import { createLinkHub, type HubOptions, type LinkHub } from "../../../../test/support/controller/link-hub.ts";

const hubs: LinkHub[] = [];
const open = async (options?: HubOptions): Promise<LinkHub> => {
  const hub = await createLinkHub(options);
  hubs.push(hub);
  return hub;
};
afterEach(async () => {
  for (const hub of hubs.splice(0)) await hub.close();
});

const orders = (hub: LinkHub) =>
  createGrpcClient(AgentServiceDefinition, hub.streams.channelTo("n1"), { log: createMemoryLogger() });
const reasonOf = (run: Promise<unknown>): Promise<unknown> =>
  run.then(
    () => "answered",
    (error: { reason?: string }) => error.reason ?? error,
  );
const nothingLeft = { streams: 0, asked: 0, served: 0, queuedBytes: 0 };

/** Handlers that have begun and not ended, whatever became of their callers. */
const counted = () => {
  let running = 0;
  return {
    running: () => running,
    async run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
      running += 1;
      try {
        const given = new Promise<never>((_, reject) => {
          if (signal.aborted) reject(signal.reason);
          signal.addEventListener("abort", () => reject(signal.reason), { once: true });
        });
        return await Promise.race([work(), given]);
      } finally {
        running -= 1;
      }
    },
  };
};
const soon = () => new Promise<void>((resolve) => setTimeout(resolve, 2));

describe("a stream that is cut", () => {
  test.each([1, 2, 3, 5, 8, 12, 16, 20])(
    "LS3 at message %i: every call has an end, every handler too, and nothing waits",
    async (at) => {
      const here = counted();
      const there = counted();
      const hub = await open({
        link: { greet: (_request, { signal }) => here.run(signal, () => soon().then(() => ({}))) },
      });
      let frames = 0;
      const agent = hub.agent({
        serve: {
          raiseFloor: ({ promisedGen }, { signal }) => there.run(signal, () => soon().then(() => ({ promisedGen }))),
        },
        onFrame() {
          frames += 1;
          if (frames === at) agent.cut();
          return true;
        },
      });
      const asked = Array.from({ length: 10 }, () => reasonOf(agent.link.greet({ node: "n1" })));
      const registered = reasonOf(agent.register());
      hub.streams.onLink(() => {
        for (let n = 0; n < 10; n += 1) asked.push(reasonOf(orders(hub).raiseFloor({ promisedGen: BigInt(n) })));
      });
      await registered;
      await agent.over;
      await expect.poll(hub.service.load).toEqual(nothingLeft);
      for (const end of await Promise.all(asked)) expect(end).toMatch(/^(answered|STREAM_ENDED|NOT_SENT)$/);
      await expect.poll(() => [here.running(), there.running()]).toEqual([0, 0]);
      expect(agent.calls.load()).toEqual({ asked: 0, served: 0, queuedBytes: 0 });
    },
  );

  test("LS3 by the end of the server is woken, and its call ends after its last handler", async () => {
    let finish = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const hub = await open({ link: { greet: () => held.then(() => ({})) } });
    const agent = await hub.linked();
    const asked = reasonOf(agent.link.greet({ node: "n1" }));
    await expect.poll(() => hub.service.load().served).toBe(1);
    const stopped = hub.stop();
    await expect.poll(() => hub.told.at(-1)).toBe("unlinked n1/i1");
    let over = false;
    void agent.over.then(() => {
      over = true;
    });
    for (let n = 0; n < 20; n += 1) await soon();
    expect(over).toBe(false);
    finish();
    await stopped;
    expect(await asked).toBe("STREAM_ENDED");
    await agent.over;
  });

  test("LS3 silently is found dead, although nobody sends anything", async () => {
    const hub = await open({ listen: "127.0.0.1:0", limits: { keepalive: { timeMs: 100, timeoutMs: 100 } } });
    const sockets: Socket[] = [];
    const [host = "", port = ""] = hub.address.split(":");
    const proxy = createServer((near) => {
      const far = connect(Number(port), host);
      sockets.push(near, far);
      near.pipe(far).pipe(near);
      for (const socket of [near, far]) socket.on("error", () => undefined);
    });
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    const at = proxy.address();
    if (at === null || typeof at === "string") throw new Error("it listens nowhere");
    try {
      const agent = await hub.linked({
        at: `127.0.0.1:${at.port}`,
        serve: { raiseFloor: () => new Promise(() => undefined) },
      });
      const underWay = reasonOf(orders(hub).raiseFloor({}));
      await expect.poll(() => agent.calls.load().served).toBe(1);
      for (const socket of sockets) socket.unpipe().pause();
      expect(await underWay).toBe("STREAM_ENDED");
      await expect.poll(hub.service.load).toEqual(nothingLeft);
      expect(hub.told).toEqual(["linked n1/i1", "unlinked n1/i1"]);
      agent.cut();
    } finally {
      for (const socket of sockets) socket.destroy();
      proxy.close();
    }
  });

  test("loses the answer, not the order: sent again on the next stream it is answered there, and once", async () => {
    const hub = await open();
    const done: bigint[] = [];
    const serve = {
      raiseFloor: async ({ promisedGen }: { promisedGen: bigint }) => {
        done.push(promisedGen);
        return { promisedGen };
      },
    };
    const first = await hub.linked({
      serve: {
        async raiseFloor(request) {
          const answer = await serve.raiseFloor(request);
          // The answer is handed to a stream that is dying.
          first.cut();
          return answer;
        },
      },
    });
    expect(await reasonOf(orders(hub).raiseFloor({ promisedGen: 3n }))).toBe("STREAM_ENDED");
    await hub.linked({ serve });
    expect((await orders(hub).raiseFloor({ promisedGen: 3n })).promisedGen).toBe(3n);
    expect(done).toEqual([3n, 3n]);
  });

  test("loses the controller's answer too: what the agent asked is done, and asked again it is answered", async () => {
    let acknowledged = 0;
    const hub = await open({
      link: {
        async acknowledge() {
          acknowledged += 1;
          if (acknowledged === 1) first.cut();
          return { forgottenClaimUids: ["c1"] };
        },
      },
    });
    const first = await hub.linked();
    expect(await reasonOf(first.link.acknowledge({ node: "n1" }))).toBe("STREAM_ENDED");
    await first.over;
    const second = await hub.linked();
    expect((await second.link.acknowledge({ node: "n1" })).forgottenClaimUids).toEqual(["c1"]);
    expect(acknowledged).toBe(2);
    await expect.poll(() => hub.service.load()).toMatchObject({ streams: 1, served: 0 });
  });
});

describe("a peer that reads slowly", () => {
  test("has a bounded queue: orders above it are refused, and its end leaves nothing", async () => {
    const hub = await open();
    let read = (): void => undefined;
    const held = new Promise<boolean>((resolve) => {
      read = () => resolve(true);
    });
    let frames = 0;
    const agent = await hub.linked({
      // It reads the answer to its registration and then no more.
      onFrame: () => {
        frames += 1;
        return frames === 1 ? true : held;
      },
      serve: { relay: async () => ({ response: new Uint8Array() }) },
    });
    const asked = Array.from({ length: 400 }, () =>
      reasonOf(orders(hub).relay({ node: "n1", plugin: "p", method: "m", request: new Uint8Array(60_000) })),
    );
    await expect.poll(() => hub.service.load().queuedBytes).toBeGreaterThan(4 << 20);
    expect(hub.service.load().queuedBytes).toBeLessThanOrEqual(8 << 20);
    const refused = await Promise.race(asked);
    expect(refused).toBe("STREAM_FULL");
    agent.cut();
    read();
    const ends = await Promise.all(asked);
    // What waited in the queue is known not to have left.
    expect(new Set(ends)).toEqual(new Set(["STREAM_FULL", "STREAM_ENDED", "NOT_SENT"]));
    await expect.poll(hub.service.load).toEqual(nothingLeft);
  });
});

describe("a storm of calls that are given up", () => {
  test("ends their handlers on both sides, leaves the queues empty and the stream as it was", async () => {
    const here = counted();
    const there = counted();
    const never = () => new Promise<never>(() => undefined);
    const hub = await open({ link: { greet: (_request, { signal }) => here.run(signal, never) } });
    const agent = await hub.linked({
      serve: {
        raiseFloor: (_request, { signal }) => there.run(signal, never),
        stats: async () => ({ volumes: [] }),
      },
    });
    const given = new AbortController();
    const { signal } = given;
    const asked = [
      ...Array.from({ length: 300 }, () => reasonOf(orders(hub).raiseFloor({}, { signal }))),
      ...Array.from({ length: 300 }, () => reasonOf(agent.link.greet({ node: "n1" }, { signal }))),
    ];
    await expect.poll(() => [here.running(), there.running()]).toEqual([300, 300]);
    given.abort(new DOMException("enough", "AbortError"));
    expect(new Set(await Promise.all(asked))).toEqual(new Set(["CANCELLED"]));
    await expect.poll(() => [here.running(), there.running()]).toEqual([0, 0]);
    await expect.poll(() => hub.service.load()).toEqual({ ...nothingLeft, streams: 1 });
    expect(agent.calls.load()).toEqual({ asked: 0, served: 0, queuedBytes: 0 });
    await orders(hub).stats({});
  });
});
