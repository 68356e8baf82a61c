import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { RegisterResponse, ReportResponse } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { expect, onTestFinished, test } from "vitest";
import { fakeFingerprints } from "../testing/link-rig.ts";
import { startModelAgent } from "../testing/model-agent.ts";
import { createAddressLoop } from "./address-loop.ts";
import type { ControllerStream, OpenControllerStream } from "./controller-stream.ts";

interface FakeStream {
  /** The controller ends it. */
  cut(): void;
  reconnect(jitterMs: number): void;
  setIdle(idle: boolean): void;
  /** Why the agent ended it, or undefined. */
  endedFor(): string | undefined;
}

/** A loop over streams that a test plays, with a random number that is always 1/2. */
async function startLoop(register: () => Promise<void> = async () => undefined) {
  const clock = createManualClock();
  const life = new AbortController();
  const log = createMemoryLogger();
  const agent = await startModelAgent();
  const streams: FakeStream[] = [];
  let wanted = true;
  let away = 0;
  const open: OpenControllerStream = (_address, onReconnect) => {
    const ended = Promise.withResolvers<unknown>();
    let idle = true;
    let endedFor: string | undefined;
    streams.push({
      cut: () => ended.resolve(new HoldfastError({ kind: "unavailable", reason: "STREAM_ENDED", message: "cut" })),
      reconnect: (jitterMs) => onReconnect({ jitterMs, reason: "the leaf ends" }),
      setIdle(next) {
        idle = next;
      },
      endedFor: () => endedFor,
    });
    const client = {
      register: async () => {
        await register();
        return RegisterResponse.fromPartial({});
      },
      report: async () => ReportResponse.fromPartial({ known: true, nodeEpoch: 1n }),
    } as Partial<ControllerStream["client"]> as ControllerStream["client"];
    const end = async (why: string) => {
      endedFor ??= why;
      ended.resolve(why);
    };
    return { client, idle: () => idle, ended: ended.promise, end };
  };
  const loop = createAddressLoop({
    address: { target: "10.0.0.1:7602", name: "cell:7602 (10.0.0.1:7602)" },
    open,
    wanted: () => wanted,
    onAway() {
      away += 1;
    },
    self: {
      node: "node-a",
      machineId: "m",
      bootId: "b",
      lockId: "8:1",
      hostIdentity: "",
      instance: "i",
      version: "0",
      rootDir: "/hf",
      scope: "own-namespace",
      fingerprints: fakeFingerprints().board,
      health: () => ({ notAccepting: undefined, publications: 0, blocked: 0, unacknowledged: 0 }),
      lost: () => [],
      news: () => ({ ailing: [], calls: [] }),
    },
    ledger: agent.ledger(),
    reconnectMaxMs: 10_000,
    clock,
    random: () => 0.5,
    onRegistered: async () => undefined,
    onState: () => undefined,
    quarantined: () => false,
    doubts: () => 0,
    forget: async () => undefined,
    log,
    signal: life.signal,
  });
  const running = loop.run().catch((error: unknown) => {
    if (!life.signal.aborted) throw error;
  });
  onTestFinished(async () => {
    life.abort(new DOMException("the test is over", "AbortError"));
    await running;
  });
  await clock.advance(0);
  const unwant = () => {
    wanted = false;
  };
  return { clock, loop, log, streams, running, away: () => away, unwant };
}

test("Loop-2: after a stream that held, the next one is opened at once; after one that did not, when the wait is over", async () => {
  const { clock, loop, streams } = await startLoop();
  expect(loop.registered()).toBeDefined();
  await clock.advance(1_000);
  streams[0]?.cut();
  await clock.advance(0);
  expect(streams).toHaveLength(2);
  streams[1]?.cut();
  await clock.advance(99);
  expect(streams).toHaveLength(2);
  expect(loop.registered()).toBeUndefined();
  await clock.advance(1);
  expect(streams).toHaveLength(3);
});

test("a registration without an answer ends the stream; each wait is longer, and the outage is told once", async () => {
  const silent = new HoldfastError({ kind: "deadline", reason: "DEADLINE_EXCEEDED", message: "no answer" });
  const { clock, log, streams, away } = await startLoop(() => Promise.reject(silent));
  for (const [streamsBefore, waitMs] of [
    [1, 100],
    [2, 200],
    [3, 400],
  ] as const) {
    expect(streams).toHaveLength(streamsBefore);
    expect(streams.at(-1)?.endedFor()).toBeDefined();
    expect(away()).toBe(streamsBefore);
    await clock.advance(waitMs);
  }
  expect(log.lines.filter(({ level }) => level === "warn")).toMatchObject([
    { fields: { reason: "DEADLINE_EXCEEDED" } },
  ]);
});

test("Loop-1: the other stream is opened within the jitter; the old one ends when nothing is under way on it", async () => {
  const { clock, streams } = await startLoop();
  streams[0]?.setIdle(false);
  streams[0]?.reconnect(1_000);
  await clock.advance(499);
  expect(streams).toHaveLength(1);
  await clock.advance(1);
  expect(streams).toHaveLength(2);
  await clock.advance(20_000);
  expect(streams[0]?.endedFor()).toBeUndefined();
  streams[0]?.setIdle(true);
  await clock.advance(100);
  expect(streams[0]?.endedFor()).toBe("another stream has taken its place");
  expect(streams).toHaveLength(2);
});

test("Loop-1: a call that hangs keeps the old stream for 30 seconds at most", async () => {
  const { clock, streams } = await startLoop();
  streams[0]?.setIdle(false);
  streams[0]?.reconnect(0);
  await clock.advance(29_000);
  expect(streams[0]?.endedFor()).toBeUndefined();
  await clock.advance(1_500);
  expect(streams[0]?.endedFor()).toBeDefined();
  expect(streams[1]?.endedFor()).toBeUndefined();
});

test("an address that is not wanted any more keeps its stream until that ends, and gets no other", async () => {
  const { clock, streams, running, unwant } = await startLoop();
  unwant();
  streams[0]?.reconnect(0);
  await clock.advance(60_000);
  expect(streams).toHaveLength(1);
  expect(streams[0]?.endedFor()).toBeUndefined();
  streams[0]?.cut();
  await clock.advance(1_000);
  await running;
  expect(streams).toHaveLength(1);
});
