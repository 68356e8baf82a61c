import { randomUUID } from "node:crypto";
import { createManualClock, type ManualClock } from "@holdfast/shared/async/manual-clock";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { fenceBegun, fenceEnded } from "../domain/node/fence.ts";
import type { NodePlugin, NodeRecord } from "../domain/node/node.ts";
import type { Commit } from "../domain/store-types.ts";
import type { Store } from "../ports.ts";
import { createSqliteStore, type SqliteStore } from "../store/sqlite/sqlite-store.ts";
import type { AgentHeader } from "./convert.ts";
import { createNodeRegistry } from "./node-registry.ts";
import type { AgentReport, NodeRegistry } from "./node-registry-model.ts";
import { createNodeStore } from "./node-store.ts";
import { agentHeader } from "./testing/agent-header.ts";

const grace = 3_000;
const ids = { uuid: randomUUID, random: () => 0.5 };

let clock: ManualClock;
let sqlite: SqliteStore;
let commits: Commit[];
let stop: AbortController;
let registry: NodeRegistry;
let heard: string[];
let made: number;

const controller = async (): Promise<NodeRegistry> => {
  made += 1;
  const commit: Store["commit"] = (one) => {
    commits.push(one);
    return sqlite.commit(one);
  };
  const store: Store = { ...sqlite, commit };
  const one = createNodeRegistry({
    nodes: createNodeStore({ store, clock, ids, signal: stop.signal }),
    clock,
    log: createMemoryLogger(),
    graceMs: grace,
    controllerId: `c${made}`,
    signal: stop.signal,
  });
  await one.load();
  one.watchLinks(stop.signal).catch(() => undefined);
  return one;
};

beforeEach(async () => {
  clock = createManualClock();
  sqlite = createSqliteStore({ file: ":memory:", now: clock.now, uuid: randomUUID });
  commits = [];
  heard = [];
  made = 0;
  stop = new AbortController();
  registry = await controller();
  registry.onChange((name) => void heard.push(name));
});

afterEach(async () => {
  stop.abort(new Error("over"));
  await clock.advance(0);
  expect(clock.pending()).toBe(0);
  await sqlite.close();
});

const plugin = (change: Partial<NodePlugin> = {}): NodePlugin => ({
  name: "csi.example",
  version: "1",
  instance: "a",
  role: "NODE",
  health: "HEALTHY",
  healthMessage: "",
  nodeId: "id-n1",
  maxVolumes: 0,
  topology: {},
  capabilities: {},
  ...change,
});

const word = (change: Partial<AgentReport> = {}): AgentReport => ({
  node: "n1",
  instance: "i1",
  baseRevision: 1,
  revision: 1,
  changed: [],
  removed: [],
  accepting: true,
  message: "",
  ...change,
});

/** An agent with a stream to that controller. */
const join = async (change: Partial<AgentHeader> = {}, plugins: readonly NodePlugin[] = [], by = registry) => {
  const record = await by.register(agentHeader(change), plugins);
  by.linked(record.name, record.instance);
  return record;
};

/** All streams of the process have ended for so long that its node is suspect. */
const silence = async (instance = "i1"): Promise<void> => {
  registry.unlinked("n1", instance, "the connection was closed");
  await clock.advance(2 * grace);
};

const live = (name = "n1"): string | undefined => registry.get(name)?.live;

describe("registering", () => {
  test("a new node gets its first incarnation, and is stored before anybody sees it", async () => {
    const record = await registry.register(agentHeader(), [plugin()]);
    expect(record).toMatchObject({ name: "n1", nodeEpoch: 1, state: "READY", plugins: [plugin()] });
    expect(live()).toBe("alive");
    expect(heard).toEqual(["n1"]);
    expect(commits).toHaveLength(1);
    expect(commits[0]).toMatchObject({
      requiresVetted: false,
      writes: [{ ref: { kind: "node", key: "n1" }, expectedRev: 0 }],
      events: [{ type: "node", ref: { kind: "node", key: "n1" } }],
    });
  });

  test("[F4] a fenced node keeps its fence and its epoch, and takes no work before its agent says so", async () => {
    await join();
    await silence();
    const fence = { kind: "power-off", who: "ops", evidence: "off", since: 1 } as const;
    await registry.change("n1", (record) => fenceBegun(record, fence));
    const back = await join({ instance: "i2", nodeEpoch: 1 });
    expect(back).toMatchObject({ state: "FENCING", nodeEpoch: 2, fence: { ...fence, spoke: true } });
    expect(back.linkLost).toBeUndefined();
    expect([live(), registry.get("n1")?.linked]).toEqual(["suspect", true]);
    await registry.change("n1", fenceEnded);
    expect(live()).toBe("suspect");
    await registry.report(word({ instance: "i2" }));
    expect(live()).toBe("alive");
    expect((await join({ instance: "i3", nodeEpoch: 2 })).fence).toBeUndefined();
    expect(live()).toBe("alive");
  });

  test("again with the same content stores nothing", async () => {
    await registry.register(agentHeader(), [plugin(), plugin({ instance: "b" })]);
    await registry.register(agentHeader(), [plugin({ instance: "b" }), plugin()]);
    expect(commits).toHaveLength(1);
  });

  test("a restart of the agent keeps the incarnation", async () => {
    await registry.register(agentHeader(), []);
    const record = await registry.register(agentHeader({ instance: "i2", nodeEpoch: 1 }), []);
    expect(record).toMatchObject({ instance: "i2", nodeEpoch: 1 });
  });

  test("an agent that kept its journal brings its incarnation back to a store that lost it", async () => {
    expect(await registry.register(agentHeader({ nodeEpoch: 7 }), [])).toMatchObject({ nodeEpoch: 7 });
    expect(await registry.register(agentHeader({ instance: "i2", nodeEpoch: 3 }), [])).toMatchObject({ nodeEpoch: 7 });
  });

  test("of another installation is refused", async () => {
    await expect(registry.register(agentHeader({ clusterUid: "another" }), [])).rejects.toMatchObject({
      reason: "CLUSTER_MISMATCH",
      metadata: { cluster_uid: "another" },
    });
    expect(registry.get("n1")).toBeUndefined();
    // It is no node here, and is told all the same, as long as it asks.
    expect(registry.disputes?.()).toMatchObject([{ node: "n1", reason: "CLUSTER_MISMATCH", machineId: "machine-1" }]);
    await clock.advance(11 * grace);
    expect(registry.disputes?.()).toEqual([]);
  });

  test("of another installation is told of a bounded number of names", async () => {
    for (let n = 0; n < 1_100; n += 1)
      await registry.register(agentHeader({ name: `n${n}`, clusterUid: "another" }), []).catch(() => undefined);
    const told = registry.disputes?.() ?? [];
    expect([told.length, told.at(-1)?.node]).toEqual([1_000, "n1099"]);
  });

  test("two controllers that learn of one node at the same time both succeed", async () => {
    const other = await controller();
    const both = await Promise.all([
      registry.register(agentHeader(), [plugin()]),
      other.register(agentHeader(), [plugin()]),
    ]);
    expect(both.map(({ nodeEpoch }) => nodeEpoch)).toEqual([1, 1]);
    await other.register(agentHeader({ version: "0.2.0" }), [plugin()]);
    expect(registry.get("n1")?.record.version).toBe("0.1.0");
    await registry.learnOf("n1");
    expect(registry.get("n1")?.record.version).toBe("0.2.0");
  });
});

test("of another controller's word the listeners hear, also when a decision here has read it before", async () => {
  await registry.register(agentHeader(), []);
  const other = await controller();
  await other.register(agentHeader({ instance: "i2", bootId: "boot-2" }), []);
  // Made from what is remembered, refused by the store, made again from what stands there: nothing is left to change.
  await registry.change("n1", (record) => (record.instance === "i2" ? record : { ...record, version: "2" }));
  expect(registry.get("n1")?.record.instance).toBe("i2");
  heard.length = 0;
  await registry.learnOf("n1");
  expect(heard).toEqual(["n1"]);
  await registry.learnOf("n1");
  expect(heard).toEqual(["n1"]);
});

describe("a lost journal", () => {
  const lost = { instance: "i2", journalUid: "journal-2" };

  test("is another incarnation, once", async () => {
    await join();
    await silence();
    expect(await join(lost)).toMatchObject({ nodeEpoch: 2, journalUid: "journal-2" });
    expect(await join({ ...lost, nodeEpoch: 2 })).toMatchObject({ nodeEpoch: 2 });
  });

  test("is not believed while the link of the one with the journal is here: the second is refused and both are flagged", async () => {
    await join();
    await clock.advance(5 * grace);
    const stranger = agentHeader({ ...lost, machineId: "machine-2" });
    await expect(registry.register(stranger, [])).rejects.toMatchObject({
      kind: "already_exists",
      reason: "NODE_CONFLICT",
      metadata: { node: "n1", machine_id: "machine-2" },
    });
    expect(registry.get("n1")).toMatchObject({ live: "alive", record: { machineId: "machine-1", nodeEpoch: 1 } });
    expect(registry.details("n1")?.dispute).toMatchObject({ machineId: "machine-2" });
    await clock.advance(11 * grace);
    expect(registry.details("n1")?.dispute).toBeUndefined();
  });

  test("nor while any other controller may have that link", async () => {
    await join();
    const other = await controller();
    await expect(other.register(agentHeader(lost), [])).rejects.toMatchObject({ reason: "NODE_CONFLICT" });
    await clock.advance(grace);
    await expect(other.register(agentHeader(lost), [])).rejects.toMatchObject({ reason: "NODE_CONFLICT" });
    registry.unlinked("n1", "i1", "the connection was closed");
    await expect(registry.register(agentHeader(lost), [])).rejects.toMatchObject({ reason: "NODE_CONFLICT" });
    await clock.advance(2 * grace);
    expect(await other.register(agentHeader(lost), [])).toMatchObject({ nodeEpoch: 2 });
  });
});

test("an agent that was started again is the node at once, though the stream of the process before has not ended here", async () => {
  await join();
  expect(await join({ instance: "i2", nodeEpoch: 1 })).toMatchObject({ instance: "i2", nodeEpoch: 1 });
  heard.length = 0;
  registry.unlinked("n1", "i1", "the connection was closed");
  await clock.advance(5 * grace);
  expect([heard, live()]).toEqual([[], "alive"]);
  expect(registry.details("n1")?.linkEnd).toBeUndefined();
});

test("of two copies of one machine the earlier is refused when it comes back", async () => {
  await join();
  await join({ instance: "i2", bootId: "boot-2" });
  expect((await registry.report(word())).known).toBe(false);
  await expect(registry.register(agentHeader(), [])).rejects.toMatchObject({ reason: "NODE_CONFLICT" });
  expect(registry.get("n1")?.record.instance).toBe("i2");
});

test("and is the node again by itself once the later one was stopped, under an incarnation of its own", async () => {
  await join();
  await join({ instance: "i2", bootId: "boot-2" });
  await expect(registry.register(agentHeader(), [])).rejects.toMatchObject({ reason: "NODE_CONFLICT" });
  registry.unlinked("n1", "i2", "the connection was closed");
  await clock.advance(3 * grace);
  expect(await registry.register(agentHeader(), [])).toMatchObject({ instance: "i1", nodeEpoch: 3 });
});

describe("reports", () => {
  test("without a change cost no write", async () => {
    await registry.register(agentHeader(), [plugin()]);
    for (let n = 0; n < 10; n += 1) expect((await registry.report(word())).known).toBe(true);
    expect(commits).toHaveLength(1);
  });

  test("carry what changed and what is gone", async () => {
    await registry.register(agentHeader(), [plugin(), plugin({ instance: "b" })]);
    const change = word({
      revision: 2,
      changed: [plugin({ health: "UNHEALTHY" }), plugin({ name: "other", instance: "c" })],
      removed: [{ plugin: "csi.example", instance: "b" }],
    });
    expect(await registry.report(change)).toMatchObject({ known: true });
    expect(registry.get("n1")?.record.plugins).toEqual([
      plugin({ health: "UNHEALTHY" }),
      plugin({ name: "other", instance: "c" }),
    ]);
    expect(commits).toHaveLength(2);
    expect(await registry.report(change), "the same again").toMatchObject({ known: true });
    expect(commits).toHaveLength(2);
  });

  test.each([
    ["that nobody knows", { node: "n2" }],
    ["of an earlier process", { instance: "i0" }],
    ["that build on what this controller does not have", { baseRevision: 5, revision: 6 }],
  ])("%s ask for a registration", async (_what, change) => {
    await registry.register(agentHeader(), []);
    expect((await registry.report(word(change))).known).toBe(false);
  });

  test("whose changes cannot be stored are made again", async () => {
    await join();
    const commit = sqlite.commit;
    Object.assign(sqlite, { commit: () => Promise.reject(new Error("the store is away")) });
    await expect(registry.report(word({ revision: 2, changed: [plugin()] }))).rejects.toThrow("away");
    Object.assign(sqlite, { commit });
    expect(live()).toBe("alive");
    expect(await registry.report(word({ revision: 2, changed: [plugin()] }))).toMatchObject({ known: true });
    expect(registry.get("n1")?.record.plugins).toEqual([plugin()]);
  });
});

describe("decisions of operators", () => {
  const drained = { since: 1, reason: "new kernel", mode: "wait" } as const;
  const drain = (record: NodeRecord): NodeRecord => ({ ...record, drain: drained });
  const forget = (record: NodeRecord): NodeRecord => ({ ...record, plugins: [], forgottenAt: clock.now() });
  const nothing = { index: "claim-node", value: "n1" };

  /** Something of the volume index carries the node. */
  const occupy = (rev: number, there: boolean) =>
    sqlite.commit({
      opId: randomUUID(),
      writes: [
        {
          ref: { kind: "volume", key: "default/data" },
          expectedRev: rev,
          body: there ? "{}" : null,
          indexes: there ? [nothing] : [],
          due: [],
        },
      ],
      events: [],
      requiresVetted: false,
    });

  test("a drain is kept over restarts of the agent, of the controller, and over reports", async () => {
    await registry.register(agentHeader(), [plugin()]);
    await registry.change("n1", drain);
    await registry.report(word({ revision: 2, changed: [plugin({ version: "2" })] }));
    await registry.register(agentHeader({ instance: "i2" }), []);
    expect(registry.get("n1")?.record.drain).toEqual(drained);
    expect((await controller()).get("n1")?.record.drain).toEqual(drained);
  });

  test("that change nothing store nothing, and nobody is told", async () => {
    await registry.register(agentHeader(), []);
    await registry.change("n1", drain);
    const [stored, told] = [commits.length, heard.length];
    await registry.change("n1", drain);
    expect([commits.length, heard.length]).toEqual([stored, told]);
    expect(await registry.change("n9", drain)).toBeUndefined();
  });

  test("of two controllers are both kept", async () => {
    await registry.register(agentHeader(), []);
    const other = await controller();
    await Promise.all([
      registry.change("n1", drain),
      other.change("n1", (record) => ({ ...record, changedBy: { who: "a", why: "b", at: 1 } })),
    ]);
    const after = (await controller()).get("n1")?.record;
    expect(after).toMatchObject({ drain: drained, changedBy: { who: "a" } });
  });

  test("at a controller that has not heard of another one's are made over the record in the store", async () => {
    await registry.register(agentHeader(), []);
    const other = await controller();
    await registry.change("n1", drain);
    const opened = await other.change("n1", ({ drain: _over, ...open }) => open);
    expect(opened?.record).not.toHaveProperty("drain");
    expect((await controller()).get("n1")?.record).not.toHaveProperty("drain");
  });

  test("whose answer was lost are settled by reading", async () => {
    await registry.register(agentHeader(), []);
    const commit = sqlite.commit;
    let lost = 0;
    sqlite.commit = async (one) => {
      const result = await commit(one);
      lost += 1;
      if (lost > 1) return result;
      throw new HoldfastError({ kind: "unavailable", reason: "STORE_OUTCOME_UNKNOWN", message: "lost" });
    };
    expect((await registry.change("n1", drain))?.record.drain).toEqual(drained);
    expect(lost).toBe(1);
  });

  test("[I8] a node is forgotten only from a vetted store, and while nothing is on it, whatever this controller believes", async () => {
    await registry.register(agentHeader(), []);
    await occupy(0, true);
    expect(await registry.forget("n1", forget, nothing)).toBe("in use");
    expect(registry.get("n1")).toBeDefined();
    await occupy(1, false);
    expect(await registry.forget("n1", forget, nothing)).toBe("forgotten");
    expect(commits.at(-1)).toMatchObject({ requiresVetted: true, alone: nothing });
    expect(registry.get("n1")).toBeUndefined();
    expect(registry.list()).toEqual([]);
    expect(heard.at(-1)).toBe("n1");
    expect(await registry.forget("n1", forget, nothing)).toBe("unknown");
    expect(await registry.forget("n9", forget, nothing)).toBe("unknown");
    expect((await controller()).list()).toEqual([]);
  });

  test("other controllers lose sight of it as well, also one that missed the event", async () => {
    await registry.register(agentHeader(), []);
    const [told, blind] = [await controller(), await controller()];
    await registry.forget("n1", forget, nothing);
    await told.learnOf("n1");
    await blind.load();
    expect([told.get("n1"), blind.get("n1")]).toEqual([undefined, undefined]);
    expect(await blind.report(word())).toMatchObject({ known: false });
  });

  test("[I3] a forgotten name never gets an incarnation twice, and begins like a new one otherwise", async () => {
    await registry.register(agentHeader({ nodeEpoch: 4 }), []);
    await registry.change("n1", drain);
    await registry.forget("n1", ({ drain: _gone, ...record }) => forget(record), nothing);
    await clock.advance(1_000);
    const other = agentHeader({ machineId: "machine-2", journalUid: "journal-2", instance: "i9" });
    expect(await registry.register(other, [])).toMatchObject({ nodeEpoch: 5, registeredAt: clock.now() });
    expect(registry.get("n1")?.record.drain).toBeUndefined();
  });

  test("nothing is remembered here of the life of a node that was forgotten", async () => {
    await registry.register(agentHeader(), []);
    await registry.forget("n1", forget, nothing);
    expect(registry.details("n1")).toBeUndefined();
    expect(await registry.report(word())).toEqual({ known: false, record: undefined });
    // Nor does its silence make a noise.
    const told = heard.length;
    await clock.advance(grace * 15);
    expect(heard.length).toBe(told);
  });

  test("a forgotten node that comes back with its own journal is itself", async () => {
    await registry.register(agentHeader({ nodeEpoch: 4 }), []);
    await registry.forget("n1", forget, nothing);
    expect(await registry.register(agentHeader({ instance: "i2", nodeEpoch: 4 }), [])).toMatchObject({ nodeEpoch: 4 });
    expect(registry.list()).toHaveLength(1);
  });

  test("say since when a state is shown", async () => {
    await join();
    const since = clock.now();
    expect(registry.details("n1")?.since).toBe(since);
    await silence();
    expect(live()).toBe("suspect");
    const silent = registry.details("n1")?.since ?? 0;
    expect(silent).toBeGreaterThan(since);
    await registry.register(agentHeader({ instance: "i2" }), []);
    expect(registry.details("n1")?.since).toBeGreaterThanOrEqual(silent);
  });
});
