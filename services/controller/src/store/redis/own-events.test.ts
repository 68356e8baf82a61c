import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { expect, it, onTestFinished } from "vitest";
import type { Commit } from "../../domain/store-types.ts";
import { eventToken } from "../event-token.ts";
import type { RedisConnection } from "./redis-connection.ts";
import { createRedisStore } from "./redis-store.ts";

const runId = "aaaa";
const entry = (seq: number) => [`0-${seq}`, ["t", "type", "m", "v:k", "b", `${seq}`]];

/** A connection on which each command waits for its answer, but for reads of the stream: it ends with event 5. */
const scripted = () => {
  const sent: { readonly command: string; answer(reply: unknown): void }[] = [];
  const connection: RedisConnection = {
    shown: "scripted",
    connected: async () => ({ session: 1, runId }),
    current: () => ({ session: 1, runId }),
    call: async (command) =>
      command === "XRANGE" || command === "XREVRANGE"
        ? [entry(5)]
        : await new Promise((answer) => sent.push({ command, answer })),
    onConnected: () => () => undefined,
    onDemoted: () => () => undefined,
    demoted: () => undefined,
    replaced: async () => undefined,
    trouble: () => undefined,
    close: () => undefined,
  };
  const next = async (command: string): Promise<(reply: unknown) => void> => {
    await expect.poll(() => sent.map((one) => one.command), { interval: 1, timeout: 30_000 }).toEqual([command]);
    const [one] = sent.splice(0);
    if (one === undefined) throw new Error("nothing was sent");
    return one.answer;
  };
  return { connection, next };
};

it("an event of a commit of ours is ours, also when it is read before the commit is answered", async () => {
  const [main, tail, clock] = [scripted(), scripted(), createManualClock()];
  const store = createRedisStore({
    connection: main.connection,
    tailConnection: tail.connection,
    cell: "test",
    clusterUid: "uid",
    runId,
    format: 1,
    formats: { oldest: 1, newest: 1 },
    gen: 1,
    sequence: 0,
    maxEvents: 100,
    settleMs: 1_000,
    blockMs: 1_000,
    restMs: 10,
    clock,
    log: createMemoryLogger(),
  });
  const stop = new AbortController();
  onTestFinished(async () => {
    stop.abort();
    await store.close();
  });
  const events = store.watch(eventToken(runId, 5), stop.signal)[Symbol.asyncIterator]();
  const first = events.next();
  const blocked = await tail.next("XREAD");

  const ref = { kind: "volume", key: "k" } as const;
  const commit: Commit = {
    opId: "one",
    writes: [{ ref, expectedRev: 0, body: "{}", indexes: [], due: [] }],
    events: [{ type: "type", ref, body: "6" }],
    requiresVetted: false,
  };
  const done = store.commit(commit);
  const answer = await main.next("FCALL");
  blocked([["events", [entry(6)]]]);
  // Its answer is waited for, as long as a rest at most.
  await expect.poll(() => clock.pending(), { interval: 1, timeout: 30_000 }).toBe(1);
  answer(["ok", 6, "1"]);
  expect(await done).toMatchObject({ ok: true, revs: [1] });
  expect(await first).toMatchObject({ value: { body: "6", own: true } });
});
