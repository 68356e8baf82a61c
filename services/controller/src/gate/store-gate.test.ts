import { noVetting, type Vetting, withPromise } from "@holdfast/model/vetting";
import { createManualClock, type ManualClock } from "@holdfast/shared/async/manual-clock";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { OpenCall } from "../agent-ports.ts";
import type { Inventory } from "../domain/claim/permit.ts";
import type { NodeRecord } from "../domain/node/node.ts";
import type { StoreIdentity } from "../domain/store-types.ts";
import { nodeRecord, volumeRecord } from "../domain/testing/record-fixtures.ts";
import type { VolumeRecord } from "../domain/volume/volume.ts";
import { volumeKey } from "../domain/volume/volume.ts";
import type { NodeView } from "../ports.ts";
import { createStoreGate, type VettedStoreGate } from "./store-gate.ts";
import { nothingLeft } from "./testing/nothing-left.ts";

const node = (name: string, change: Partial<NodeRecord> = {}): NodeView => ({
  live: "alive",
  record: nodeRecord(name, { journalUid: `journal-${name}`, ...change }),
});

type Held = { readonly epoch: { readonly gen: number; readonly ctr: number }; readonly state: string };

const inventory = (name: string, held: readonly Held[] = [], change: Partial<Inventory> = {}): Inventory => ({
  node: name,
  journalUid: `journal-${name}`,
  nodeEpoch: 1,
  volumes:
    held.length === 0
      ? []
      : [
          {
            namespace: "ns",
            volume: "data",
            volumeUid: "volume-1",
            externalId: "ext-1",
            plugin: "model",
            held: held.map((one, i) => ({ claimUid: `c${i}`, workload: "w", alias: "data", ...one })),
          },
        ],
  orphans: [],
  ...change,
});

/** A store, its agents, and what is remembered beside it, as one test needs them. */
let identity: StoreIdentity;
let nodes: NodeView[];
let answers: Record<string, Inventory | Promise<Inventory> | Error>;
/** What each agent has promised, and what is open at the plugins of its host. */
let promises: Record<string, Vetting>;
let open: Record<string, readonly OpenCall[]>;
/** Agents that cannot write a promise. */
let full: ReadonlyMap<string, Error>;
let knownCalls: ReadonlySet<string>;
/** Vettings that this controller has seen in its store, oldest first. */
let seen: string[];
/** What the agents were asked, in order. */
let asked: string[];
let uuids: number;
let volumes: Record<string, VolumeRecord>;
let remembered: string | undefined;
let suspect: (reason: string) => void;
let nodeChanged: (name: string) => void;
let beforeIdentity: () => void;
let clock: ManualClock;
let gate: VettedStoreGate;
let told: boolean[];
let over: Set<string>;
let noted: string[];
let seenGen: number;
const notSent = new HoldfastError({ kind: "unavailable", reason: "NOT_SENT", message: "the call was not sent" });
const log = createMemoryLogger();
const signal = new AbortController().signal;

const make = (): VettedStoreGate => {
  const made = createStoreGate({
    left: nothingLeft(),
    store: {
      identity: async () => {
        const now = { ...identity };
        beforeIdentity();
        return now;
      },
      beginVetting: async (runId, vetting) => {
        if (runId !== identity.runId) throw new Error("another process");
        if (vetting.gen > identity.vetting.gen) identity = { ...identity, vetting, begun: true, vettedRunId: "" };
      },
      markVetted: async (runId, vetting) => {
        if (!identity.begun || runId !== identity.runId || vetting.uid !== identity.vetting.uid)
          throw new Error("that vetting was not begun");
        identity = { ...identity, vettedRunId: runId };
      },
      onSuspect: (listener) => {
        suspect = listener;
        return () => undefined;
      },
    },
    nodes: {
      list: () => nodes,
      onChange: (listener) => {
        nodeChanged = listener;
        return () => undefined;
      },
    },
    agents: {
      promise: async ({ name }, vetting) => {
        asked.push(`promise ${name} ${vetting.gen}`);
        const failure = full.get(name);
        if (failure !== undefined) throw failure;
        promises[name] = withPromise(promises[name] ?? noVetting, vetting);
        return { vetting: promises[name], openCalls: open[name] ?? [] };
      },
      inventory: async ({ name }) => {
        asked.push(`inventory ${name}`);
        const answer = answers[name] ?? new Error("no answer");
        if (answer instanceof Error) throw answer;
        return answer;
      },
    },
    volumes: {
      read: async (refs) => refs.map((ref) => volumes[volumeKey(ref)]),
      none: async () => Object.keys(volumes).length === 0,
      ended: async ({ uid }) => over.has(uid),
      noteForeign: async ({ name }) => void noted.push(name),
    },
    lineage: {
      read: () => remembered,
      remember: (uid) => {
        remembered = uid;
      },
      ...{ nodes: () => [], keepNodes: () => undefined },
      knows: (uid) => seen.includes(uid),
      saw: ({ gen, uid }) => {
        seen.push(uid);
        seenGen = Math.max(seenGen, gen);
      },
      generation: () => seenGen,
    },
    controllers: undefined,
    knownCalls: async () => knownCalls,
    openCalls: () => open[""] ?? [],
    uuid: () => {
      uuids += 1;
      return `vetting-${uuids}`;
    },
    clock,
    log,
  });
  made.onChange(() => void told.push(made.state().open));
  return made;
};

beforeEach(() => {
  const vetting = { gen: 3, uid: "before" };
  identity = {
    ...{ clusterUid: "cluster-1", format: 1, vetting, begun: false, runId: "run-2", vettedRunId: "run-1" },
    ...{ lastVetted: "before", keptAll: true },
  };
  promises = { n1: vetting, n2: vetting };
  open = {};
  full = new Map();
  knownCalls = new Set();
  seen = [];
  seenGen = 0;
  asked = [];
  uuids = 0;
  nodes = [node("n1"), node("n2")];
  answers = { n1: inventory("n1"), n2: inventory("n2") };
  volumes = { "ns/data": volumeRecord([], [], { epoch: { gen: 1, ctr: 9 } }) };
  remembered = "cluster-1";
  beforeIdentity = () => undefined;
  over = new Set(["c0"]);
  noted = [];
  told = [];
  clock = createManualClock();
  log.clear();
  gate = make();
});

afterEach(() => expect(clock.pending()).toBe(0));

describe("[I8] the gate opens", () => {
  test("at once for the process that was vetted, whatever the agents say", async () => {
    identity = { ...identity, vettedRunId: "run-2" };
    answers = {};
    expect(gate.state().open).toBe(false);
    await gate.check(signal);
    expect(gate.state()).toEqual({ open: true, vetting: { gen: 3, uid: "before" }, reason: "" });
    expect(asked).toEqual([]);
    // Its vetting counts before it is open.
    expect(told).toEqual([false, true]);
  });

  test("for a store that holds nothing and nobody knows of, and remembers whose it is", async () => {
    nodes = [];
    volumes = {};
    remembered = undefined;
    identity = { ...identity, vetting: noVetting, vettedRunId: "" };
    await gate.check(signal);
    const vetting = { gen: 1, uid: "vetting-1" };
    expect(gate.state()).toEqual({ open: true, vetting, reason: "" });
    expect(identity).toMatchObject({ vettedRunId: "run-2", vetting });
    expect(remembered).toBe("cluster-1");
  });

  test("once every READY node has told of nothing newer than the records", async () => {
    answers["n1"] = inventory("n1", [{ epoch: { gen: 1, ctr: 9 }, state: "PUBLISHED" }]);
    await gate.check(signal);
    expect(gate.state().open).toBe(true);
    expect(identity.vettedRunId).toBe("run-2");
  });

  test("[I1] beside a hold that the store does not know, once that hold bars its volume", async () => {
    const epoch = { gen: 1, ctr: 9 };
    answers["n1"] = inventory("n1", [
      { epoch, state: "PUBLISHED" },
      { epoch, state: "PUBLISHED" },
    ]);
    await gate.check(signal);
    expect(gate.findings()).toMatchObject([{ node: "n1", volume: "data" }]);
    const hold = { node: "n1", claimUid: "c1", workload: "w", alias: "data", epoch, since: 1 };
    const noted = (...foreign: readonly (typeof hold)[]): void => {
      volumes = { "ns/data": volumeRecord([], [], { epoch, foreign }) };
    };
    for (const other of [
      { ...hold, node: "n2" },
      { ...hold, claimUid: "c8" },
    ]) {
      noted(other);
      await gate.check(signal);
      expect(gate.state().open).toBe(false);
    }
    noted(hold);
    await gate.check(signal);
    expect(gate.state().open).toBe(true);
  });

  test("without asking nodes that are fenced already and silent", async () => {
    nodes = [node("n1"), { ...node("n2", { state: "QUARANTINED" }), live: "suspect" }];
    delete answers["n2"];
    await gate.check(signal);
    expect(gate.state().open).toBe(true);
  });
});

test("[G7] a vetting begins no generation below one that was seen, and the same one is not begun twice", async () => {
  seenGen = 9;
  answers["n2"] = new Error("connection refused");
  for (let look = 0; look < 2; look += 1) {
    await gate.check(signal);
    expect(identity.vetting.gen).toBe(9);
  }
});

describe("[I8] it stays shut and names", () => {
  const findings = async (): Promise<readonly string[]> => {
    await gate.check(signal);
    expect(gate.state()).toMatchObject({ open: false });
    expect(identity.vettedRunId, "nothing was vetted").not.toBe(identity.runId);
    return gate.findings().map(({ kind, node: name, volume, message }) => `${kind}|${name}|${volume}|${message}`);
  };

  test("the node that does not answer", async () => {
    answers["n2"] = new Error("connection refused");
    expect(await findings()).toEqual(["NOT_TOLD|n2||node n2 did not tell what it holds: connection refused"]);
    expect(gate.state().reason).toContain("node n2");
  });

  test("the node whose agent is away, with what to do", async () => {
    full = new Map([["n2", notSent]]);
    expect(await findings()).toEqual([
      "NOT_PROMISED|n2||node n2 did not promise generation 4: its agent has no stream to this controller: start it, or mend the network between",
    ]);
  });

  test("the node that does not promise the generation; it is asked nothing else", async () => {
    full = new Map([["n2", new Error("no space left on device")]]);
    expect(await findings()).toEqual([
      "NOT_PROMISED|n2||node n2 did not promise generation 4: no space left on device",
    ]);
    expect(asked).not.toContain("inventory n2");
  });

  test("[I1] the fenced node that was heard since, and is silent again: it may have mounted what the store has lost", async () => {
    const fence = { kind: "power-off", who: "ops", evidence: "off", since: 1 } as const;
    const silent = (heard: boolean): NodeView => ({
      ...node("n2", { state: "QUARANTINED", fence: heard ? { ...fence, spoke: true } : fence }),
      live: "suspect",
    });
    answers["n2"] = new Error("no stream");
    nodes = [node("n1"), silent(true)];
    expect(await findings()).toEqual([expect.stringMatching(/^NOT_TOLD\|n2\|/)]);
    nodes = [node("n1"), silent(false)];
    await gate.check(signal);
    expect(gate.state().open).toBe(true);
  });

  test("what a node holds whose fence may be over since", async () => {
    nodes = [node("n1"), node("n2", { state: "QUARANTINED" })];
    answers["n2"] = inventory("n2", [{ epoch: { gen: 1, ctr: 10 }, state: "PUBLISHED" }]);
    expect(await findings()).toEqual([expect.stringMatching(/^HOLD\|n2\|data\|/)]);
  });

  test("the volume that was granted by a store that is gone", async () => {
    answers["n1"] = inventory("n1", [{ epoch: { gen: 1, ctr: 10 }, state: "PUBLISHED" }]);
    expect(await findings()).toEqual([
      "HOLD|n1|data|node n1 holds volume ns/data under epoch 1.10, and the store has granted 1.9 only",
    ]);
  });

  test("[I1] a claim without a tombstone that the record does not name, whatever its epoch; its volume is barred", async () => {
    over.clear();
    answers["n1"] = inventory("n1", [{ epoch: { gen: 1, ctr: 1 }, state: "PUBLISHED" }]);
    expect(await findings()).toEqual([
      "HOLD|n1|data|node n1 holds volume ns/data for claim c0 of workload w, which the store does not know",
    ]);
    expect(noted).toContain("n1");
    over.add("c0");
    await gate.check(signal);
    expect(gate.state().open).toBe(true);
  });

  test("a higher epoch also when it is only remembered as released", async () => {
    answers["n1"] = inventory("n1", [{ epoch: { gen: 2, ctr: 1 }, state: "RELEASED" }]);
    expect(await findings()).toHaveLength(1);
  });

  test("the volume that the store does not know, unless it is over", async () => {
    volumes = {};
    answers["n1"] = inventory("n1", [{ epoch: { gen: 1, ctr: 1 }, state: "PERMITTED" }]);
    expect(await findings()).toEqual(["HOLD|n1|data|node n1 holds volume ns/data, which the store does not know"]);
    answers["n1"] = inventory("n1", [{ epoch: { gen: 1, ctr: 1 }, state: "RELEASED" }]);
    await gate.check(signal);
    expect(gate.state().open).toBe(true);
  });

  test("the volume of which the store has another life", async () => {
    volumes = { "ns/data": volumeRecord([], [], { uid: "volume-2", epoch: { gen: 1, ctr: 9 } }) };
    answers["n1"] = inventory("n1", [{ epoch: { gen: 1, ctr: 1 }, state: "PUBLISHED" }]);
    expect(await findings()).toHaveLength(1);
  });

  test("the node whose journal is not the one that it registered with", async () => {
    answers["n1"] = inventory("n1", [], { journalUid: "another" });
    expect(await findings()).toEqual(["HOLD|n1||node n1 has another journal than it registered with"]);
  });

  test("the installation, when it is another one", async () => {
    remembered = "cluster-0";
    identity = { ...identity, vettedRunId: "run-2" };
    await gate.check(signal);
    expect(gate.state()).toMatchObject({ open: false, reason: expect.stringContaining("cluster-0") });
    expect(remembered).toBe("cluster-0");
  });

  test("[G7] a master that was vetted, and was replaced since; a person's word begins a generation above all that was seen", async () => {
    identity = { ...identity, vettedRunId: "run-2" };
    seenGen = 5;
    await gate.check(signal);
    expect(gate.state().open).toBe(false);
    expect(gate.findings()).toMatchObject([
      { kind: "OTHER_HISTORY", message: expect.stringContaining("HOLDFAST_STORE") },
    ]);
    expect([asked, identity.vetting.gen]).toEqual([[], 3]);
    await gate.accept("ops", "it is the true one");
    expect([gate.state().open, identity.vetting.gen]).toEqual([true, 6]);
    await gate.check(signal);
    expect(gate.state().open).toBe(true);
  });

  test("that nobody can say what is held: volumes, and no node", async () => {
    nodes = [];
    expect(await findings()).toEqual(["NO_WITNESS|||no node is READY to say what it holds"]);
  });

  test("the store, when it does not answer", async () => {
    beforeIdentity = () => {
      throw new Error("timed out");
    };
    await gate.check(signal);
    expect(gate.state()).toMatchObject({ open: false, reason: "the store cannot be used: timed out" });
  });
});

describe("[I8] a suspicion", () => {
  test("shuts the gate at once, before anybody looks", async () => {
    identity = { ...identity, vettedRunId: "run-2" };
    await gate.check(signal);
    suspect("the connection was made anew");
    expect(gate.state()).toMatchObject({ open: false, reason: expect.stringContaining("made anew") });
    expect(told).toEqual([false, true, false]);
  });

  test("during a vetting makes it begin anew", async () => {
    let looks = 0;
    beforeIdentity = () => {
      looks += 1;
      if (looks !== 1) return;
      suspect("another process");
      identity = { ...identity, runId: "run-3" };
    };
    await gate.check(signal);
    // Once more when its own vetting has begun.
    expect(looks).toBe(3);
    expect(identity.vettedRunId).toBe("run-3");
    expect(gate.state().open).toBe(true);
  });
});

describe("running", () => {
  let stop: AbortController;
  let running: Promise<unknown>;

  beforeEach(() => {
    stop = new AbortController();
    running = Promise.resolve();
  });
  afterEach(async () => {
    stop.abort(new Error("over"));
    await running;
  });

  const run = async (): Promise<void> => {
    running = gate.run(stop.signal).catch(() => undefined);
    await clock.advance(0);
  };

  test("asks again when a node changed, and after a pause", async () => {
    delete answers["n2"];
    await run();
    expect(gate.state().open).toBe(false);
    answers["n2"] = inventory("n2");
    nodeChanged("n2");
    await clock.advance(0);
    expect(gate.state().open).toBe(true);
  });

  test("asks again after a pause although nothing was told", async () => {
    delete answers["n2"];
    await run();
    answers["n2"] = inventory("n2");
    await clock.advance(2_000);
    expect(gate.state().open).toBe(true);
  });

  test("a start waits for the first look, and not for a node that is out of reach", async () => {
    let started = 0;
    const count = (): void => {
      started += 1;
    };
    void gate.firstLook(2_000, stop.signal).then(count);
    await clock.advance(1_999);
    expect(started).toBe(0);
    await clock.advance(1);
    expect(started).toBe(1);
    await run();
    void gate.firstLook(2_000, stop.signal).then(count);
    await clock.advance(0);
    expect(started).toBe(2);
  });

  test("an open gate is not looked at for nothing, and closes and opens again by itself", async () => {
    let looks = 0;
    beforeIdentity = () => {
      looks += 1;
    };
    await run();
    expect(gate.state().open).toBe(true);
    nodeChanged("n1");
    await clock.advance(600_000);
    expect(looks).toBe(2);
    identity = { ...identity, begun: false, runId: "run-3" };
    suspect("a new process");
    await clock.advance(0);
    expect(identity.vettedRunId).toBe("run-3");
    // Shut under the vetting that begins, open, and the same once more.
    expect(told).toEqual([false, true, false, false, true]);
  });
});

describe("[I1] a vetting", () => {
  test("has a generation of its own, which each node promises before it tells what it holds", async () => {
    nodes = [node("n1")];
    await gate.check(signal);
    expect(asked).toEqual(["promise n1 4", "inventory n1"]);
    expect(gate.state()).toMatchObject({ open: true, vetting: { gen: 4, uid: "vetting-1" } });
    expect(promises["n1"]).toEqual({ gen: 4, uid: "vetting-1" });
  });

  test("goes on under what another controller has begun for the same process", async () => {
    identity = { ...identity, vetting: { gen: 7, uid: "of-another" }, begun: true };
    await gate.check(signal);
    expect(gate.state()).toMatchObject({ open: true, vetting: { gen: 7, uid: "of-another" } });
    expect(uuids).toBe(0);
  });

  test("asks a node again as long as another one keeps the gate shut, under one generation", async () => {
    answers["n2"] = new Error("connection refused");
    await gate.check(signal);
    await gate.check(signal);
    expect(gate.state()).toMatchObject({ open: false, vetting: { gen: 4 } });
    expect(asked.filter((it) => it === "inventory n1")).toHaveLength(2);
  });

  test.each([4, 9])(
    "passes generation %i, which the store has lost since this controller saw it there",
    async (gen) => {
      promises["n2"] = { gen, uid: "lost" };
      seen = ["lost"];
      await gate.check(signal);
      expect(gate.state()).toMatchObject({ open: true, vetting: { gen: gen + 1 } });
      expect(promises["n1"]).toEqual(promises["n2"]);
    },
  );

  test.each([4, 9])(
    "stays shut beside generation %i of a vetting that it never saw, until a person decides",
    async (gen) => {
      promises["n2"] = { gen, uid: "of-another-history" };
      await gate.check(signal);
      await gate.check(signal);
      expect(gate.state()).toMatchObject({ open: false, reason: expect.stringMatching(/^OTHER_HISTORY: node n2/) });
      expect(gate.findings().map(({ kind }) => kind)).toEqual(["OTHER_HISTORY"]);
      expect(promises["n2"]).toEqual({ gen, uid: "of-another-history" });
      await gate.accept("operator/ann", "the other store is gone");
      // Above it: else the node would follow no order of this store.
      expect(gate.state()).toMatchObject({ open: true, vetting: { gen: gen + 1 } });
    },
  );

  test("never follows a node to a number that no vetting has reached", async () => {
    promises["n2"] = { gen: 2 ** 52, uid: "" };
    await gate.check(signal);
    expect(gate.state()).toMatchObject({ open: false, vetting: { gen: 4 } });
    expect(gate.state().reason).toContain("node n2 has promised generation 4503599627370496");
    await gate.accept("operator/ann", "n2 is drained");
    expect(gate.state().vetting.gen).toBe(4);
  });

  test("waits for the end of a call that no record has, on a node and beside the controller", async () => {
    const call = { plugin: "sim", opId: "op-1", words: "ControllerUnpublishVolume for volume ext-1" };
    for (const where of ["n1", ""]) {
      open = { [where]: [call, { ...call, opId: "op-2" }] };
      knownCalls = new Set(["op-2"]);
      await gate.check(signal);
      expect(gate.state().open).toBe(false);
      expect(gate.findings().map(({ node: name, message }) => [name, message])).toEqual([
        [where, expect.stringContaining("ControllerUnpublishVolume for volume ext-1")],
      ]);
    }
    knownCalls = new Set(["op-1", "op-2"]);
    await gate.check(signal);
    expect(gate.state().open).toBe(true);
  });
});

test("somebody's word opens it, and stays in the log", async () => {
  answers["n2"] = new Error("burnt down");
  await gate.check(signal);
  await gate.accept("operator/ann", "ticket 4711");
  expect(gate.state().open).toBe(true);
  expect(identity.vettedRunId).toBe("run-2");
  expect(log.lines).toContainEqual(
    expect.objectContaining({
      level: "warn",
      message: expect.stringContaining("audit"),
      fields: expect.objectContaining({ who: "operator/ann", why: "ticket 4711" }),
    }),
  );
});

test("[I8] G2 somebody's word is not undone by a look that was under way", async () => {
  let fail = (): void => undefined;
  const silent = new Promise<Inventory>((_, reject) => {
    fail = () => reject(new Error("burnt down"));
  });
  answers["n2"] = silent;
  const look = gate.check(signal);
  await clock.advance(0);
  expect(asked).toContain("inventory n2");
  await gate.accept("operator/ann", "ticket 4711");
  const before = told.length;
  fail();
  await look;
  expect(told.slice(before)).not.toContain(false);
  expect(gate.state().open).toBe(true);
});
