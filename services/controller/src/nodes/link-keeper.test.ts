import { randomUUID } from "node:crypto";
import { createManualClock, type ManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger, type MemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { NodeRecord } from "../domain/node/node.ts";
import type { Commit } from "../domain/store-types.ts";
import { createSqliteStore, type SqliteStore } from "../store/sqlite/sqlite-store.ts";
import type { AgentHeader } from "./convert.ts";
import { createNodeRegistry } from "./node-registry.ts";
import type { NodeRegistry } from "./node-registry-model.ts";
import { createNodeStore } from "./node-store.ts";
import { agentHeader } from "./testing/agent-header.ts";

const grace = 3_000;
const ids = { uuid: randomUUID, random: () => 0.5 };
const closed = "the connection was closed";

interface Controller {
  readonly id: string;
  readonly registry: NodeRegistry;
  readonly log: MemoryLogger;
  /** Of node records, in order. */
  readonly commits: Commit[];
  /** Commits at once, at most. */
  most: number;
  away: boolean;
  crash(): void;
}

let clock: ManualClock;
let sqlite: SqliteStore;
let stop: AbortController;
let cell: Controller[];

/** A controller that hears of the others' commits; it dies by its signal. */
const start = async (id: string): Promise<Controller> => {
  const life = new AbortController();
  const signal = AbortSignal.any([stop.signal, life.signal]);
  const log = createMemoryLogger();
  const commits: Commit[] = [];
  let running = 0;
  const commit: SqliteStore["commit"] = async (one) => {
    running += 1;
    made.most = Math.max(made.most, running);
    try {
      await clock.sleep(1, signal);
      if (made.away) throw new Error("the store is away");
      const result = await sqlite.commit(one);
      if (result.ok) commits.push(one);
      for (const other of result.ok ? cell : [])
        if (other !== made) void other.registry.learnOf(one.writes[0]?.ref.key ?? "").catch(() => undefined);
      return result;
    } finally {
      running -= 1;
    }
  };
  const registry = createNodeRegistry({
    nodes: createNodeStore({ store: { ...sqlite, commit }, clock, ids, signal }),
    ...{ clock, log, graceMs: grace, controllerId: id, signal },
  });
  const made: Controller = {
    ...{ id, registry, log, commits, most: 0, away: false },
    crash() {
      life.abort(new Error("killed"));
      cell = cell.filter((one) => one !== made);
    },
  };
  cell.push(made);
  await registry.load();
  registry.watchLinks(signal).catch(() => undefined);
  return made;
};

beforeEach(() => {
  clock = createManualClock();
  sqlite = createSqliteStore({ file: ":memory:", now: clock.now, uuid: randomUUID });
  stop = new AbortController();
  cell = [];
});

afterEach(async () => {
  stop.abort(new Error("over"));
  await clock.advance(0);
  expect(clock.pending()).toBe(0);
  await sqlite.close();
});

const run = async <T>(work: Promise<T>): Promise<T> => {
  let done = false;
  const end = () => {
    done = true;
  };
  work.then(end, end);
  for (let n = 0; n < 500 && !done; n += 1) await clock.advance(1);
  return await work;
};

/** The agent's stream to that controller: it dials, and registers. */
const link = async ({ registry }: Controller, change: Partial<AgentHeader> = {}): Promise<NodeRecord> => {
  const record = await run(registry.register(agentHeader(change), []));
  registry.linked(record.name, record.instance);
  return record;
};
const unlink = ({ registry }: Controller, node = "n1", instance = "i1"): void =>
  registry.unlinked(node, instance, closed);

const live = ({ registry }: Controller, node = "n1") => registry.get(node)?.live;
const marks = ({ registry }: Controller, node = "n1") => {
  const { linkDoubt, linkLost } = registry.get(node)?.record ?? {};
  return { doubt: linkDoubt?.by, lost: linkLost !== undefined };
};
const none = { doubt: undefined, lost: false };
const names = (count: number) => Array.from({ length: count }, (_none, n) => `n${n}`);

describe("one controller", () => {
  test("shows the end of a link at once, and calls the node suspect a grace later", async () => {
    const a = await start("a");
    await link(a);
    const told: string[] = [];
    a.registry.onChange((node) => void told.push(node));
    const at = clock.now();
    unlink(a);
    expect(told).toEqual(["n1"]);
    expect(a.registry.details("n1")).toMatchObject({ linkEnd: { at, why: closed }, lastHeard: at });
    expect(a.registry.get("n1")).toMatchObject({ live: "alive", linked: false });
    await clock.advance(grace);
    expect(live(a)).toBe("alive");
    await clock.advance(grace);
    expect(live(a)).toBe("suspect");
    expect(a.log.lines.filter(({ level }) => level === "warn")).toHaveLength(2);
  });

  test("takes it back with the registration, in one write", async () => {
    const a = await start("a");
    await link(a);
    unlink(a);
    await clock.advance(2 * grace);
    expect(a.commits).toHaveLength(3);
    await link(a);
    expect(live(a)).toBe("alive");
    expect([marks(a), a.commits.length]).toEqual([none, 4]);
    expect(a.registry.details("n1")).toMatchObject({ linkEnd: undefined, lastHeard: clock.now() });
  });

  test("writes nothing where the agent dials again within a third of the grace", async () => {
    const a = await start("a");
    await link(a);
    for (let n = 0; n < 5; n += 1) {
      unlink(a);
      await clock.advance(grace / 4);
      await link(a);
      await clock.advance(grace * 5);
    }
    expect(a.commits).toHaveLength(1);
  });

  test("goes by its monotonic clock alone", async () => {
    const a = await start("a");
    await link(a);
    unlink(a);
    clock.setWall(clock.now() + 365 * 86_400_000);
    await clock.advance(grace / 2);
    expect(live(a)).toBe("alive");
  });

  test("[NL1] counts the stream of the recorded process alone", async () => {
    const a = await start("a");
    await link(a);
    await link(a, { instance: "i2", nodeEpoch: 1 });
    unlink(a);
    await clock.advance(5 * grace);
    expect([live(a), marks(a)]).toEqual(["alive", none]);
    unlink(a, "n1", "i2");
    await clock.advance(2 * grace);
    expect(live(a)).toBe("suspect");
  });

  test("a node that does not accept work is suspect, and says why", async () => {
    const a = await start("a");
    await link(a);
    const report = { node: "n1", instance: "i1", baseRevision: 1, revision: 1, changed: [], removed: [] };
    await a.registry.report({ ...report, accepting: false, message: "the journal is full" });
    expect(a.registry.get("n1")).toMatchObject({ live: "suspect", linked: true });
    expect(a.registry.details("n1")?.message).toBe("the journal is full");
    await a.registry.report({ ...report, accepting: true, message: "" });
    expect(live(a)).toBe("alive");
  });

  test("that cannot write for a while does so later, and tells it once", async () => {
    const a = await start("a");
    await link(a);
    unlink(a);
    a.away = true;
    await clock.advance(10 * grace);
    expect(live(a)).toBe("alive");
    expect(a.log.lines.filter(({ message }) => message.includes("could not be stored"))).toHaveLength(1);
    a.away = false;
    await clock.advance(2 * grace);
    expect(live(a)).toBe("suspect");
  });
});

describe("of two controllers", () => {
  test("one that has the link answers the doubt of the other, which asks again after ten graces", async () => {
    const a = await start("a");
    const b = await start("b");
    await link(a);
    await link(b);
    unlink(b);
    await clock.advance(9 * grace);
    expect([live(a), live(b), marks(a)]).toEqual(["alive", "alive", none]);
    expect([a.commits.length, b.commits.length]).toEqual([2, 1]);
    await clock.advance(20 * grace);
    expect([a.commits.length, b.commits.length]).toEqual([4, 3]);
    expect(live(b)).toBe("alive");
  });

  test("one that could not answer at once answers as soon as it can", async () => {
    const a = await start("a");
    await link(a);
    const b = await start("b");
    a.away = true;
    await clock.advance(1.5 * grace);
    expect(marks(a)).toEqual({ doubt: "b", lost: false });
    a.away = false;
    await clock.advance(grace / 5);
    expect([marks(a), live(b)]).toEqual([none, "alive"]);
  });

  test("each makes the loss known to the other, and the first that gets the link takes it back for both", async () => {
    const a = await start("a");
    const b = await start("b");
    await link(a);
    await link(b);
    unlink(a);
    unlink(b);
    await clock.advance(2 * grace);
    expect([live(a), live(b)]).toEqual(["suspect", "suspect"]);
    expect(a.commits.length + b.commits.length, "a registration, a doubt and the loss").toBe(3);
    await link(a);
    expect([live(a), live(b)]).toEqual(["alive", "alive"]);
  });

  test("one finishes what the other has begun", async () => {
    const a = await start("a");
    const b = await start("b");
    await link(a);
    await link(b);
    unlink(a);
    await clock.advance(10);
    unlink(b);
    await clock.advance(grace / 2);
    expect(marks(b)).toEqual({ doubt: "a", lost: false });
    a.crash();
    await clock.advance(grace);
    expect(live(b)).toBe("suspect");
  });

  test("one that a node registers with finds out by itself when the stream ends before it is noted", async () => {
    const a = await start("a");
    const b = await start("b");
    await link(a);
    await link(b);
    unlink(b);
    await clock.advance(2 * grace);
    a.crash();
    await run(b.registry.register(agentHeader(), []));
    await clock.advance(2 * grace);
    expect(live(b)).toBe("suspect");
  });

  test("one starts anew under 200 agents: no state changes, and nothing is written", async () => {
    const a = await start("a");
    const b = await start("b");
    for (const name of names(200)) {
      await link(a, { name });
      await link(b, { name });
    }
    const written = (): number => a.commits.length;
    const before = written();
    b.crash();
    const again = await start("b");
    const states = new Set<string | undefined>();
    for (const one of [a, again])
      one.registry.onChange((name) => void states.add(`${one.registry.get(name)?.record.state} ${live(one, name)}`));
    await clock.advance(grace / 2);
    for (const name of names(200)) await link(again, { name });
    await clock.advance(30 * grace);
    expect([...states]).toEqual(["READY alive"]);
    expect([written(), again.commits.length]).toEqual([before, 0]);
  });

  test("[NL2] one that starts says that it does not know, and doubts nothing for a grace", async () => {
    const a = await start("a");
    await link(a);
    a.crash();
    const b = await start("b");
    const told: string[] = [];
    b.registry.onChange(() => void told.push(live(b) ?? ""));
    await clock.advance(grace - 1);
    expect([live(b), b.commits.length]).toEqual(["unknown", 0]);
    await clock.advance(grace / 2);
    expect(marks(b)).toEqual({ doubt: "b", lost: false });
    expect(told[0]).toBe("alive");
    await clock.advance(grace);
    expect(live(b)).toBe("suspect");
  });
});

test("when a rack goes away the commits are few at a time, and the log has one line for each node", async () => {
  const a = await start("a");
  for (const name of names(150)) await link(a, { name });
  const before = a.log.lines.length;
  for (const name of names(150)) unlink(a, name);
  await clock.advance(2 * grace);
  for (const name of names(150)) expect(live(a, name)).toBe("suspect");
  expect(a.most).toBeLessThanOrEqual(16);
  const lines = a.log.lines.slice(before);
  expect(lines.filter(({ message }) => message.startsWith("the link to the agent"))).toHaveLength(150);
  expect(lines.length - 150).toBeLessThan(5);
  await clock.advance(50 * grace);
  expect(a.log.lines.slice(before)).toHaveLength(lines.length);
});
