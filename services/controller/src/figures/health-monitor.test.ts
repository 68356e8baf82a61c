import type { VolumeHealthEntry } from "@holdfast/model/health";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../../../../test/support/controller/world.ts";
import type { Outcome } from "../domain/outcome.ts";
import type { OrphanFinding } from "../domain/repair/orphan.ts";
import { readListing } from "../reconcile/two-way/two-way-listing.ts";
import { createHealthMonitor, type HealthMonitor } from "./health-monitor.ts";
import { createLostVolumes } from "./lost-volumes.ts";

let world: World;
let monitor: HealthMonitor;
/** What the backend would say, by external id. */
let truth: Map<string, readonly VolumeHealthEntry[]>;
/** Rows that a listing misses. */
let hidden: Set<string>;
let asked: string[];
let broken: "never" | "list" | "get";
/** External ids that the backend does not know when it is asked how the volume is, and what ControllerGetVolume says of them then. */
let unknown: Map<string, "gone" | "there" | "no answer">;
let single: "yes" | "no";
let looks: string[];
let orphans: OrphanFinding[];

const entry = (status: VolumeHealthEntry["status"], reason = "Told"): VolumeHealthEntry => ({
  status,
  reason,
  message: "why",
});
const failed: Outcome<never> = {
  kind: "unknown",
  failure: { reason: "UNAVAILABLE", message: "no answer", advice: "again", code: "UNAVAILABLE" },
};
const listedVolume = {
  externalId: "",
  capacity: 1,
  context: {},
  accessible: [],
  sourceSnapshot: "",
  sourceVolume: "",
};
const notFound: Outcome<never> = {
  kind: "refused",
  failure: { reason: "NOT_AT_BACKEND", message: "no such volume", advice: "block", code: "NOT_FOUND" },
};
const external = async (id: string) => (await world.volume(id)).externalId;
const health = async (id = "a") => (await world.volume(id)).health ?? {};
const sides = async (id = "a") =>
  Object.fromEntries(
    Object.entries(await health(id)).map(([side, view]) => [side, view?.entries.map(({ status }) => status)]),
  );
const events = async (work: () => Promise<unknown>): Promise<string[]> => {
  const from = await world.store.head();
  await work();
  const found: string[] = [];
  const end = await world.store.head();
  if (end === from) return found;
  const watch = world.store.watch(from, AbortSignal.timeout(20_000))[Symbol.asyncIterator]();
  for (;;) {
    const { value } = await watch.next();
    const { health: word, said } = JSON.parse(value.body);
    if (word !== undefined) found.push(`${word}: ${said}`);
    if (value.token === end) break;
  }
  await watch.return?.();
  return found;
};

beforeEach(async () => {
  world = await createWorld();
  for (const id of ["a", "b", "c"]) await world.makeVolume(id);
  truth = new Map();
  hidden = new Set();
  asked = [];
  broken = "never";
  unknown = new Map();
  single = "yes";
  looks = [];
  orphans = [];
  const signal = new AbortController().signal;
  const lost = createLostVolumes({
    records: world.records,
    listings: {
      can: () => ({ ready: true, reason: "", volumes: "no", publishedNodes: "no", snapshots: "no", single }),
      tells: () => true,
      volume: async (_, externalId) => {
        looks.push(externalId);
        const said = unknown.get(externalId);
        if (said === "no answer") return failed;
        return { kind: "done", value: said === "gone" ? undefined : { ...listedVolume, externalId } };
      },
    },
    orphans: {
      async found(finding) {
        orphans.push(finding);
        return { ...finding, id: "o", foundAt: 0, seenAt: 0 };
      },
    },
    clock: world.clock,
    random: () => 0,
    signal,
    baseMs: 60_000,
  });
  world.backend.setFacts({ tellsHealth: "yes", listsHealth: "yes" });
  monitor = createHealthMonitor({
    records: world.records,
    plugins: world.backend,
    health: {
      // One row a page.
      list: async (_, { token }) => {
        if (broken === "list" && token !== "") return failed;
        const rows = [...truth].filter(([id, entries]) => entries.length > 0 && !hidden.has(id));
        const at = token === "" ? 0 : Number(token);
        const page = rows.slice(at, at + 1).map(([externalId, entries]) => ({ externalId, entries }));
        return { kind: "done", value: { entries: page, next: at + 1 < rows.length ? String(at + 1) : "" } };
      },
      of: async ({ id, externalId }) => {
        asked.push(id);
        if (unknown.has(externalId)) return notFound;
        return broken === "get" ? failed : { kind: "done", value: truth.get(externalId) ?? [] };
      },
    },
    readAll: (ask) => readListing({ ask, pageSize: 1, maxPages: 9, maxRestarts: 1 }),
    clock: world.clock,
    random: () => 0.5,
    log: createMemoryLogger(),
    signal,
    lost,
  });
});

afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

describe("what a backend says is wrong", () => {
  it("is stored at once, with an event for each change and no other write", async () => {
    truth.set(await external("a"), [entry("DEGRADED")]);
    truth.set(await external("b"), [entry("DATA_LOSS", "DisksLost"), entry("UNRECOGNISED(9)", "New")]);
    await monitor.round();
    expect([await sides("a"), await sides("b"), await sides("c")]).toEqual([
      { backend: ["DEGRADED"] },
      { backend: ["DATA_LOSS", "UNRECOGNISED(9)"] },
      {},
    ]);
    expect(asked).toEqual([]);
    const commits = world.store.commits();
    await monitor.round();
    expect(world.store.commits()).toBe(commits);
    expect(monitor.unwell()).toEqual(
      expect.arrayContaining([
        { plugin: "csi.example", side: "backend", status: "DEGRADED", count: 1 },
        { plugin: "csi.example", side: "backend", status: "DATA_LOSS", count: 1 },
        { plugin: "csi.example", side: "backend", status: "UNRECOGNISED(9)", count: 1 },
      ]),
    );
  });

  it("[C73] stays when a listing misses it, until ControllerGetVolumeHealth says that it is over", async () => {
    const id = await external("a");
    truth.set(id, [entry("INACCESSIBLE")]);
    await monitor.round();
    hidden.add(id);
    await monitor.round();
    expect(asked).toEqual(["a"]);
    expect(await sides()).toEqual({ backend: ["INACCESSIBLE"] });
    truth.set(id, []);
    broken = "get";
    await monitor.round();
    expect(await sides()).toEqual({ backend: ["INACCESSIBLE"] });
    broken = "never";
    await monitor.round();
    expect(await sides()).toEqual({});
    expect(asked).toEqual(["a", "a", "a"]);
    expect(monitor.unwell()).toEqual([]);
  });

  it("[H2] of a listing that breaks off adds, and takes nothing back", async () => {
    truth.set(await external("a"), [entry("DEGRADED")]);
    await monitor.round();
    truth.clear();
    truth.set(await external("b"), [entry("DEGRADED")]);
    truth.set(await external("c"), [entry("DEGRADED")]);
    broken = "list";
    await monitor.round();
    expect([await sides("a"), await sides("b"), await sides("c")]).toEqual([
      { backend: ["DEGRADED"] },
      { backend: ["DEGRADED"] },
      {},
    ]);
    expect(asked).toEqual([]);
  });

  it("is asked volume by volume of a plugin that does not list, and not at all of one of before 1.13", async () => {
    world.backend.setFacts({ listsHealth: "no" });
    truth.set(await external("b"), [entry("DEGRADED")]);
    await monitor.round();
    expect(asked.toSorted()).toEqual(["a", "b", "c"]);
    expect(await sides("b")).toEqual({ backend: ["DEGRADED"] });
    world.backend.setFacts({ tellsHealth: "no" });
    await monitor.round();
    expect(asked).toHaveLength(3);
  });
});

describe("[C76] what a node says is wrong", () => {
  const hear = async (entries: readonly VolumeHealthEntry[] | undefined, node = "n1") =>
    monitor.heard(node, [
      {
        volumeUid: (await world.volume("a")).uid,
        usage: [],
        ...(entries === undefined ? {} : { health: entries }),
      },
    ]);

  beforeEach(async () => {
    await world.claim("web", "n1", ["a"]);
    await world.idle();
  });

  it("is its own view, beside the backend's, and goes when the node says so", async () => {
    truth.set(await external("a"), [entry("DEGRADED")]);
    await monitor.round();
    await hear([entry("INACCESSIBLE")]);
    expect(await sides()).toEqual({ backend: ["DEGRADED"], "node n1": ["INACCESSIBLE"] });
    await monitor.round();
    await hear(undefined);
    expect(await sides()).toEqual({ backend: ["DEGRADED"], "node n1": ["INACCESSIBLE"] });
    await hear([]);
    expect(await sides()).toEqual({ backend: ["DEGRADED"] });
  });

  it("is believed for a while after the volume has left the node, and then forgotten", async () => {
    await hear([entry("INACCESSIBLE")]);
    await world.release("web");
    await world.idle();
    await monitor.round();
    expect(await sides()).toEqual({ "node n1": ["INACCESSIBLE"] });
    await world.clock.advance(600_001);
    await monitor.round();
    expect(await sides()).toEqual({});
  });
});

describe("[C77] placement", () => {
  const obstacles = async () => {
    const question = { namespace: "default", workload: "asker", nodes: [], after: [], feasibleOnly: false };
    const claims = [{ volume: "a", alias: "", capability: undefined, readOnly: false }];
    const { items } = await world.placement().checkPlacement({ ...question, claims }, { size: 10, after: undefined });
    return Object.fromEntries(items.map(({ node, reasons }) => [node, reasons.map(({ obstacle }) => obstacle)]));
  };
  const said = async (...statuses: VolumeHealthEntry["status"][]) => {
    truth.set(
      await external("a"),
      statuses.map((status) => entry(status)),
    );
    await monitor.round();
  };

  it("counts INACCESSIBLE at the backend for every node, and no other status", async () => {
    await said("DEGRADED", "DATA_LOSS", "UNRECOGNISED(7)");
    expect(Object.values(await obstacles()).flat()).toEqual([]);
    await said("INACCESSIBLE");
    expect(await obstacles()).toEqual({
      n1: ["STORAGE_INACCESSIBLE"],
      n2: ["STORAGE_INACCESSIBLE"],
      n3: ["STORAGE_INACCESSIBLE"],
    });
  });

  it("counts INACCESSIBLE of a node for that node alone, also when the volume has left it", async () => {
    await world.claim("web", "n1", ["a"]);
    await world.idle();
    await monitor.heard("n1", [
      { volumeUid: (await world.volume("a")).uid, usage: [], health: [entry("INACCESSIBLE")] },
    ]);
    await world.release("web");
    await world.idle();
    expect(await obstacles()).toEqual({ n1: ["STORAGE_INACCESSIBLE"], n2: [], n3: [] });
    await world.claim("web", "n1", ["a"]);
    await world.idle();
    expect((await world.volume("a")).attachments["n1"]).toBeDefined();
  });
});

it("DATA_LOSS is told with the way back, and an unknown number without any", async () => {
  const id = await external("a");
  truth.set(id, [entry("DATA_LOSS", "DisksLost")]);
  expect(await events(() => monitor.round())).toEqual([
    "DATA_LOSS: its backend says DATA_LOSS (DisksLost): why; restore it from a snapshot: holdfast snapshot list --volume a --namespace default",
  ]);
  truth.set(id, [entry("UNRECOGNISED(9)", "New")]);
  expect(await events(() => monitor.round())).toEqual(["UNRECOGNISED: its backend says UNRECOGNISED(9) (New): why"]);
  truth.set(id, []);
  expect(await events(() => monitor.round())).toEqual(["GOOD: its backend knows of nothing adverse any more"]);
});

describe("[C82] a volume that its backend does not know when it is asked how it is", () => {
  const minute = 60_000;
  const rounds = async (count: number) => {
    for (let n = 0; n < count; n += 1) {
      await world.clock.advance(minute);
      await monitor.round();
    }
  };
  beforeEach(async () => {
    world.backend.setFacts({ tellsHealth: "yes", listsHealth: "no" });
    await world.clock.advance(5 * minute);
  });

  it("is looked up, and written down for a person when it is gone; all others are asked as ever", async () => {
    unknown.set(await external("a"), "gone");
    await rounds(1);
    expect(asked).toEqual(["a", "b", "c"]);
    expect(looks).toEqual([await external("a")]);
    expect(orphans).toMatchObject([{ kind: "record", namespace: "default", volume: "a" }]);
    expect(await world.volume("a")).toMatchObject({ state: "AVAILABLE" });
    expect((await world.volume("a")).blocked).toBeUndefined();
  });

  it("is asked about again after ever longer pauses, until it answers", async () => {
    unknown.set(await external("a"), "gone");
    await rounds(16);
    expect(asked.filter((id) => id === "b")).toHaveLength(16);
    // Half of 2, 4, 8 and 16 minutes.
    expect(asked.filter((id) => id === "a")).toHaveLength(5);
    unknown.clear();
    await rounds(20);
    const before = asked.filter((id) => id === "a").length;
    await rounds(3);
    expect(asked.filter((id) => id === "a")).toHaveLength(before + 3);
    unknown.set(await external("a"), "gone");
    await rounds(4);
    expect(asked.filter((id) => id === "a")).toHaveLength(before + 6);
  });

  it.each(["there", "no answer"] as const)("is not written down when the look says otherwise: %s", async (said) => {
    unknown.set(await external("a"), said);
    await rounds(1);
    expect([looks.length, orphans]).toEqual([1, []]);
  });

  it("nor without a plugin that can be looked at, nor while it changes", async () => {
    unknown.set(await external("a"), "gone");
    single = "no";
    await rounds(1);
    expect([looks, orphans]).toEqual([[], []]);
    single = "yes";
    unknown.set(await external("b"), "gone");
    await world.claim("web", "n1", ["b"]);
    await world.idle();
    await monitor.round();
    expect([looks, orphans]).toEqual([[await external("b")], []]);
  });
});
