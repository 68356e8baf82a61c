import type { Vetting } from "@holdfast/model/vetting";
import { createEmitter } from "@holdfast/shared/async/emitter";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { OpenCall } from "../agent-ports.ts";
import type { StoreIdentity } from "../domain/store-types.ts";
import { nodeRecord } from "../domain/testing/record-fixtures.ts";
import type { NodeView } from "../ports.ts";
import { createControllerGates, gatesRef } from "../records/controller-gates.ts";
import { createSqliteStore, type SqliteStore } from "../store/sqlite/sqlite-store.ts";
import { createLeftCalls, type LeftCalls } from "./left-calls.ts";
import { createStoreGate, type VettedStoreGate } from "./store-gate.ts";
import { memoryCallLog } from "./testing/memory-call-log.ts";

const signal = new AbortController().signal;
const clock = createManualClock();
const first: Vetting = { gen: 1, uid: "vetting-1" };

let records: SqliteStore;
let uuids: number;
const ids = { uuid: () => `op-${uuids++}`, random: () => 0 };
/** The store that all vet. */
let identity: Omit<StoreIdentity, "keptAll">;
let silent: ReadonlySet<string>;
let asked: string[];
/** The nodes of the store. */
let registered: readonly string[];
let nodesChange = createEmitter<[name: string]>();
/** Nodes that were kept beside the store last. */
let roster: readonly string[];
let fenced = new Set<string>();
/** Lives that have said nothing for a while. */
let away: ReadonlySet<string>;
/** By controller, what is noted in its state directory. */
let noted: Map<string, Map<number, string>>;
let stop: AbortController;

beforeEach(() => {
  uuids = 1;
  noted = new Map();
  nodesChange = createEmitter();
  stop = new AbortController();
  const uuid = () => {
    uuids += 1;
    return `00000000-0000-4000-8000-${uuids.toString(16).padStart(12, "0")}`;
  };
  records = createSqliteStore({ file: ":memory:", now: clock.now, uuid });
  identity = {
    ...{ clusterUid: "cluster-1", format: 1, vetting: first, begun: true, runId: "run-1", vettedRunId: "run-1" },
    lastVetted: first.uid,
  };
  silent = new Set();
  asked = [];
  registered = ["n1", "n2"];
  fenced = new Set();
  away = new Set();
});
afterEach(async () => {
  stop.abort(new Error("over"));
  await records.close();
  expect(clock.pending()).toBe(0);
});

const node = (name: string): NodeView => ({
  live: silent.has(name) ? "suspect" : "alive",
  record: nodeRecord(name, { journalUid: `journal-${name}`, state: fenced.has(name) ? "FENCING" : "READY" }),
});

interface Controller {
  readonly gate: VettedStoreGate;
  readonly told: string[];
  readonly left: LeftCalls;
  keptAll: boolean;
  open: readonly OpenCall[];
  plugins: readonly string[];
}

const controller = (issuer: string, life = 1): Controller => {
  const store = {
    identity: async () => ({ ...identity, keptAll: one.keptAll }),
    beginVetting: async (_runId: string, vetting: Vetting) => {
      if (vetting.gen > identity.vetting.gen) identity = { ...identity, vetting, begun: true, vettedRunId: "" };
    },
    markVetted: async (runId: string, vetting: Vetting) => {
      identity = { ...identity, vettedRunId: runId, lastVetted: vetting.uid };
    },
    onSuspect: () => () => undefined,
  };
  const kept = noted.get(issuer) ?? new Map<number, string>();
  noted.set(issuer, kept);
  const lives = {
    issuer: `${issuer}/${life}`,
    isFormerLife: (other: string) => other.startsWith(`${issuer}/`) && Number(other.split("/")[1]) < life,
  };
  const vettingUid = () => identity.vetting.uid;
  const log = createMemoryLogger();
  const left = createLeftCalls({ ...lives, calls: memoryCallLog(kept), vettingUid, store, log });
  const gate = createStoreGate({
    store,
    left,
    nodes: { list: () => registered.map(node), onChange: nodesChange.on },
    agents: {
      promise: async ({ name }, vetting) => {
        if (silent.has(name)) throw new Error("nobody is there");
        asked.push(name);
        return { vetting, openCalls: [] };
      },
      inventory: async ({ name, journalUid }) => ({ node: name, journalUid, nodeEpoch: 1, volumes: [], orphans: [] }),
    },
    volumes: {
      read: async () => [],
      none: async () => false,
      ended: async () => false,
      noteForeign: async () => undefined,
    },
    controllers: {
      ...createControllerGates({
        store: records,
        clock,
        ids,
        signal,
      }),
      ...lives,
      firstLife: life === 1,
      isAway: (other) => away.has(other),
      plugins: () => one.plugins,
    },
    lineage: {
      read: () => "cluster-1",
      remember: () => undefined,
      knows: () => true,
      saw: () => undefined,
      generation: () => 0,
      nodes: () => [],
      keepNodes: (lines) => {
        roster = lines;
      },
    },
    knownCalls: async () => new Set(),
    openCalls: () => one.open,
    uuid: () => `vetting-${identity.vetting.gen + 1}`,
    clock,
    log,
  });
  const one: Controller = { gate, left, told: [], keptAll: true, open: [], plugins: ["p"] };
  gate.onChange(() => void one.told.push(gate.state("p").open ? "open" : "shut"));
  return one;
};

/** Two that work, and a store that another process has from then on. */
const lived = async (): Promise<[Controller, Controller]> => {
  const both: [Controller, Controller] = [controller("a"), controller("b")];
  for (const { gate } of both) await gate.check(signal);
  identity = { ...identity, runId: "run-2", begun: false };
  return both;
};

/** The life says nothing for more than a minute, as `a` finds it. */
const goes = async ({ gate }: Controller, life: string): Promise<void> => {
  away = new Set([...away, life]);
  await gate.check(signal);
  await clock.advance(61_000);
  await gate.check(signal);
};
const wordsOf = async (): Promise<readonly string[]> =>
  (await createControllerGates({ store: records, clock, ids, signal }).read()).words.map(({ issuer }) => issuer);

const shutBy = (gate: VettedStoreGate): readonly string[] =>
  gate.findings().map(({ kind, node: name }) => `${kind} ${name}`);

describe("a node that is silent", () => {
  it("[CW2] bars nothing where every controller lived through the change and lost nothing", async () => {
    const [a, b] = await lived();
    silent = new Set(["n2"]);
    await a.gate.check(signal);
    expect(shutBy(a.gate)).toEqual(["CONTROLLER ", "NOT_PROMISED n2"]);
    await b.gate.check(signal);
    expect(b.gate.state().open).toBe(true);
    await a.gate.check(signal);
    expect(a.gate.state()).toMatchObject({ open: true, vetting: { gen: 2, uid: "vetting-2" } });
    expect(asked).not.toContain("n2");
  });

  it("[CW2] bars nothing either when no other one is there", async () => {
    const [a] = await lived();
    silent = new Set(["n1", "n2"]);
    await a.gate.check(signal);
    expect(shutBy(a.gate)).toEqual(["CONTROLLER ", "NOT_PROMISED n1", "NOT_PROMISED n2"]);
    away = new Set(["b/1"]);
    await a.gate.check(signal);
    expect(shutBy(a.gate)).toEqual(["NOT_PROMISED n1", "NOT_PROMISED n2"]);
  });

  it.each<[string, (b: Controller) => Controller | undefined]>([
    ["has lost a commit", (b) => Object.assign(b, { keptAll: false })],
    [
      "may have a call open that the store does not know",
      (b) => Object.assign(b, { open: [{ plugin: "p", opId: "x", words: "" }] }),
    ],
    ["is another life by now, which has seen nothing", () => controller("b", 2)],
    [
      "has not answered and is away",
      () => {
        away = new Set(["b/1"]);
        return undefined;
      },
    ],
  ])("[CW2] bars everything where a controller %s", async (_what, become) => {
    const [a, b] = await lived();
    silent = new Set(["n2"]);
    await become(b)?.gate.check(signal);
    await a.gate.check(signal);
    expect(shutBy(a.gate)).toEqual(["NOT_PROMISED n2"]);
  });

  it("[CW2] bars everything where this controller has not seen the last vetting", async () => {
    const [a, b] = await lived();
    silent = new Set(["n2"]);
    identity = { ...identity, lastVetted: "of another history" };
    for (const { gate } of [a, b, a]) await gate.check(signal);
    expect([a, b].map(({ gate }) => gate.state().open)).toEqual([false, false]);
  });

  it("[CW2] a controller that never was there before has nothing to lose", async () => {
    const [a, b] = await lived();
    silent = new Set(["n2"]);
    for (const { gate } of [controller("c"), b, a]) await gate.check(signal);
    expect(a.gate.state().open).toBe(true);
  });
});

describe("a node that the store knows no more", () => {
  it("[NR2] keeps it shut where something may be lost, until a person accepts", async () => {
    registered = ["n1", "n2", "n3"];
    const [a, b] = await lived();
    registered = ["n1", "n2"];
    b.keptAll = false;
    for (const { gate } of [b, a]) await gate.check(signal);
    expect(shutBy(a.gate)).toEqual(["FORGOTTEN_NODE n3"]);
    await a.gate.accept("operator/ann", "n3 never ran anything");
    await a.gate.check(signal);
    expect(a.gate.state().open).toBe(true);
  });

  it("[CW2] [NR2] keeps nothing shut where nothing was lost", async () => {
    registered = ["n1", "n2", "n3"];
    const [a, b] = await lived();
    registered = ["n1", "n2"];
    for (const { gate } of [b, a, b]) await gate.check(signal);
    expect([a, b].map(({ gate }) => gate.state().open)).toEqual([true, true]);
  });
});

describe("a controller that has not promised", () => {
  beforeEach(() => {
    away = new Set(["b/1"]);
  });

  it("[CW1] bars the plugins beside it and nothing else, until it does", async () => {
    const [a, b] = await lived();
    const looking = a.gate.run(stop.signal);
    looking.catch(() => undefined);
    await a.gate.firstLook(1_000, signal);
    expect(a.gate.state()).toMatchObject({ open: true, reason: "" });
    expect(a.gate.state("q").open).toBe(true);
    expect(a.gate.state("p")).toMatchObject({
      open: false,
      reason: expect.stringContaining("controller b/1 has not promised generation 2 (vetting vetting-2)"),
    });
    expect(a.gate.findings()).toMatchObject([{ kind: "CONTROLLER", message: expect.stringContaining("plugins: p") }]);
    await b.gate.check(signal);
    expect(a.told.at(-1)).toBe("shut");
    await clock.advance(2_000);
    await expect.poll(() => a.told.at(-1)).toBe("open");
    expect(a.gate.findings()).toEqual([]);
    stop.abort(new Error("over"));
  });

  it("[CW1] and its next life bars nothing of it", async () => {
    const [a] = await lived();
    await controller("b", 2).gate.check(signal);
    await a.gate.check(signal);
    expect(a.gate.state("p").open).toBe(true);
  });

  it("[CW1] a copy of its name is no next life of it", async () => {
    const [a] = await lived();
    await controller("b", 0).gate.check(signal);
    await a.gate.check(signal);
    expect(a.gate.state("p").reason).toContain("controller b/1 has not promised");
  });

  it("[CW1] bars them at itself, too, while a call that the store does not know is open", async () => {
    const [a, b] = await lived();
    for (const { gate } of [b, a]) await gate.check(signal);
    a.open = [{ plugin: "p", opId: "x", words: "" }];
    identity = { ...identity, runId: "run-3", begun: false };
    for (const { gate } of [b, a, b, a]) await gate.check(signal);
    expect(a.gate.state()).toMatchObject({ open: true });
    expect(a.gate.state("p").reason).toContain("controller a/1 has not promised");
    a.open = [];
    await a.gate.check(signal);
    expect(a.gate.state("p").open).toBe(true);
  });

  it("[CW1] has promised for good: a call that it makes under the vetting may end between two questions about it", async () => {
    const [a, b] = await lived();
    away = new Set();
    for (const { gate } of [a, b, a, b]) await gate.check(signal);
    a.open = [{ plugin: "p", opId: "x", words: "" }];
    for (const { gate } of [a, b]) await gate.check(signal);
    expect([a, b].map(({ gate }) => gate.state("p").open)).toEqual([true, true]);
  });

  it("[CW1] is taken for gone on somebody's word", async () => {
    const [a] = await lived();
    await a.gate.check(signal);
    expect(a.gate.state("p").open).toBe(false);
    await a.gate.accept("operator/ann", "b is switched off");
    expect(a.gate.state("p").open).toBe(true);
  });

  it("[CW4] is forgotten when it is gone, if it had promised and the store is vetted", async () => {
    const [a, b] = await lived();
    await goes(a, "b/1");
    expect(a.gate.state("p").open).toBe(false);
    await b.gate.check(signal);
    await goes(a, "b/1");
    expect(await wordsOf()).toEqual(["a/1"]);
    identity = { ...identity, runId: "run-3", begun: false };
    await a.gate.check(signal);
    expect(a.gate.state("p").open).toBe(true);
  });

  it("[CW3] keeps what it lost in mind while the store is not vetted, also when its life is over", async () => {
    const [a, b] = await lived();
    silent = new Set(["n2"]);
    b.keptAll = false;
    for (const { gate } of [b, a]) await gate.check(signal);
    await goes(a, "b/1");
    expect(shutBy(a.gate)).toEqual(["NOT_PROMISED n2"]);
  });

  it("[CW3] stays while the store is not vetted", async () => {
    const [a, b] = await lived();
    for (const { gate } of [a, b]) await gate.check(signal);
    identity = { ...identity, runId: "run-3", begun: false };
    silent = new Set(["n1"]);
    await goes(a, "b/1");
    silent = new Set();
    await a.gate.check(signal);
    expect(a.gate.state("p").reason).toContain("controller b/1 has not promised");
  });

  it("[CW4] and whose end was missed by those that were there then, is forgotten by one that comes later", async () => {
    const [a, b] = await lived();
    for (const { gate } of [b, a]) await gate.check(signal);
    identity = { ...identity, runId: "run-3", begun: false };
    b.plugins = [];
    for (const { gate } of [b, a]) await gate.check(signal);
    identity = { ...identity, runId: "run-4", begun: false };
    const c = controller("c");
    for (const { gate } of [c, a]) await gate.check(signal);
    await goes(c, "b/1");
    expect(await wordsOf()).toEqual(["c/1", "a/1"]);
  });

  it("[CW4] is not forgotten for a silence that ended", async () => {
    const [a, b] = await lived();
    for (const { gate } of [b, a]) await gate.check(signal);
    away = new Set(["b/1"]);
    await a.gate.check(signal);
    away = new Set();
    await a.gate.check(signal);
    await clock.advance(61_000);
    away = new Set(["b/1"]);
    await a.gate.check(signal);
    expect(await wordsOf()).toContain("b/1");
  });
});

it("[NR1] a stop writes the nodes that came last", async () => {
  const a = controller("a");
  await a.gate.check(signal);
  roster = [];
  registered = ["n1", "n2", "n3"];
  nodesChange.tell("n3");
  await a.gate.signOff();
  expect(roster).toEqual(["n1 1", "n2 1", "n3 1"]);
});

it("[CW5] what is granted rests on the words of the last look, and on no later ones", async () => {
  const [a, b] = await lived();
  for (const { gate } of [b, a, b, a]) await gate.check(signal);
  const gates = createControllerGates({ store: records, clock, ids, signal });
  const { rev } = await gates.read();
  expect(a.gate.judgedBy()).toEqual([{ ref: gatesRef, expectedRev: rev }]);
  await gates.remove(({ issuer }) => issuer === "a/1");
  expect(a.gate.judgedBy()).toEqual([{ ref: gatesRef, expectedRev: rev }]);
  await a.gate.check(signal);
  expect(a.gate.judgedBy()).toEqual([{ ref: gatesRef, expectedRev: rev + 2 }]);
  expect(await wordsOf()).toContain("a/1");
});

it("[CW5] whoever found that the words have changed waits for the next look", async () => {
  away = new Set(["b/1"]);
  const [a] = await lived();
  const looking = a.gate.run(stop.signal);
  looking.catch(() => undefined);
  await a.gate.firstLook(1_000, signal);
  const gates = createControllerGates({ store: records, clock, ids, signal });
  await gates.remove(({ issuer }) => issuer === "a/1");
  await a.gate.lookAgain(signal);
  expect(a.gate.judgedBy()).toEqual([{ ref: gatesRef, expectedRev: (await gates.read()).rev }]);
  expect(await wordsOf()).toContain("a/1");
  stop.abort(new Error("over"));
});

describe("a controller that stops in order", () => {
  beforeEach(() => {
    away = new Set(["b/1"]);
  });

  it("[CW3] leaves no word in a vetted store, and a look that is under way tells it no more", async () => {
    const [a, b] = await lived();
    for (const { gate } of [b, a, b]) await gate.check(signal);
    await b.gate.signOff();
    await b.gate.check(signal);
    expect(await wordsOf()).toEqual(["a/1"]);
  });

  it("[CW3] while the store is not vetted: bars nothing, and what it saw is not forgotten", async () => {
    const [a, b] = await lived();
    silent = new Set(["n2"]);
    b.keptAll = false;
    await b.gate.check(signal);
    await b.gate.signOff();
    await a.gate.check(signal);
    expect(shutBy(a.gate)).toEqual(["NOT_PROMISED n2"]);
    silent = new Set();
    identity = { ...identity, runId: "run-3", begun: false };
    await a.gate.check(signal);
    expect(a.gate.state("p").open).toBe(true);
  });

  it("[CW1] while the store is not vetted, and with a call open: bars its plugins", async () => {
    const [a, b] = await lived();
    silent = new Set(["n2"]);
    b.open = [{ plugin: "p", opId: "x", words: "" }];
    await b.gate.check(signal);
    await b.gate.signOff();
    silent = new Set();
    await a.gate.check(signal);
    expect(a.gate.state("p").reason).toContain("controller b/1 has not promised");
  });
});

describe("a call that a life before left, and that the store has lost", () => {
  /** `a` has another life, and `b` has seen it. */
  const leaves = async (): Promise<[Controller, Controller]> => {
    const [a, b] = await lived();
    const detach = { subject: "volume v", opId: "op", words: "ControllerUnpublishVolume for volume v at n1" };
    a.left.notesOf("p").note(detach);
    const next = Object.assign(controller("a", 2), { plugins: ["p", "q"] });
    for (const { gate } of [next, b]) await gate.check(signal);
    return [next, b];
  };
  const opens = async (...all: readonly Controller[]): Promise<readonly boolean[]> => {
    for (const { gate } of all) await gate.check(signal);
    return all.flatMap(({ gate }) => ["p", "q"].map((plugin) => gate.state(plugin).open));
  };

  it("[LC3] bars its plugin at all controllers, and nothing else", async () => {
    const [a, b] = await leaves();
    expect(await opens(a, b)).toEqual([false, true, false, true]);
    expect(b.gate.state("p").reason).toContain("controller a/1 has not promised generation 2");
    expect(a.gate.findings().map(({ message }) => message)).toEqual([
      expect.stringContaining("restart that plugin"),
      expect.stringContaining("ControllerUnpublishVolume for volume v at n1, left by a/1"),
    ]);
  });

  it("[LC3] bars it no more once the plugin has answered the same detach", async () => {
    const [a, b] = await leaves();
    a.left.notesOf("p").detached("ControllerUnpublishVolume for volume v at n1");
    expect(await opens(a, b)).toEqual([true, true, true, true]);
  });

  it.each([
    ["there", 0],
    ["at another controller", 1],
  ])("[LC3] bars it no more once a person accepts %s, and not in the next life either", async (_where, at) => {
    const both = await leaves();
    await both[at]?.gate.accept("operator/ann", "the plugin was restarted");
    expect(await opens(...both)).toEqual([true, true, true, true]);
    expect(await opens(controller("a", 3))).toEqual([true, true]);
  });
});

it("a gate that shows a plugin for the first time tells the others", async () => {
  away = new Set(["b/1"]);
  const [a, b] = await lived();
  for (const { gate } of [a, b]) await gate.check(signal);
  b.plugins = ["p", "q"];
  await b.gate.check(signal);
  identity = { ...identity, runId: "run-3", begun: false };
  await a.gate.check(signal);
  expect(["p", "q", "r"].map((plugin) => a.gate.state(plugin).open)).toEqual([false, false, true]);
});

it("a plugin that is called here waits until the others are told so", async () => {
  const [a] = await lived();
  away = new Set(["b/1"]);
  await a.gate.check(signal);
  a.plugins = ["p", "q"];
  expect(a.gate.state("q").reason).toContain("not told yet that q is called here");
  await a.gate.check(signal);
  expect(a.gate.state("q").open).toBe(true);
});

describe("a controller whose word was taken out, as it was silent for long", () => {
  /** It goes on under the vetting that it had, and the store changes hands again. */
  const goesOn = async (): Promise<Controller> => {
    const [a, b] = await lived();
    for (const { gate } of [a, b, a]) await gate.check(signal);
    await goes(a, "b/1");
    expect(await wordsOf()).toEqual(["a/1"]);
    await b.gate.check(signal);
    identity = { ...identity, runId: "run-3", begun: false };
    away = new Set(["b/1"]);
    return a;
  };

  it("[CW2] has its word again: what it saw may be lost", async () => {
    const a = await goesOn();
    silent = new Set(["n2"]);
    await a.gate.check(signal);
    expect(shutBy(a.gate)).toEqual(["NOT_PROMISED n2"]);
  });

  it("[CW1] has its word again: its plugins are barred", async () => {
    const a = await goesOn();
    await a.gate.check(signal);
    expect([a.gate.state().open, a.gate.state("p").open]).toEqual([true, false]);
  });
});

it("[NR2] a node that one controller misses keeps it shut for those, too, that never saw it", async () => {
  registered = ["n1", "n2", "n3"];
  const a = controller("a");
  await a.gate.check(signal);
  registered = ["n1", "n2"];
  identity = { ...identity, runId: "run-2", begun: false };
  a.keptAll = false;
  await a.gate.check(signal);
  expect(shutBy(a.gate)).toEqual(["FORGOTTEN_NODE n3"]);
  const b = controller("b", 2);
  for (const { gate } of [b, a, b]) await gate.check(signal);
  expect([a, b].map(({ gate }) => shutBy(gate))).toEqual([["FORGOTTEN_NODE n3"], ["FORGOTTEN_NODE n3"]]);
});

it("[NR2] the end of a fence that the store has lost: the node is missed, as it may hold something", async () => {
  registered = ["n1", "n2", "n3"];
  const a = controller("a");
  await a.gate.check(signal);
  identity = { ...identity, runId: "run-2", begun: false };
  a.keptAll = false;
  fenced = new Set(["n3"]);
  silent = new Set(["n3"]);
  await a.gate.check(signal);
  expect(shutBy(a.gate)).toEqual(["FORGOTTEN_NODE n3"]);
});
