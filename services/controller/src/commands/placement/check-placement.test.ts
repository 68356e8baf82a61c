/** What CheckPlacement says is what CreateClaims then does: asked of whole controllers over real stores. */
import { type AccessMode, accessModes, accessRules } from "@holdfast/model/access";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { capability, createWorld, type World } from "../../../../../test/support/controller/world.ts";
import { sample } from "../../../../../test/support/full.ts";
import type { NodePlugin, NodeRecord } from "../../domain/node/node.ts";
import type { PlacementObstacle } from "../../domain/placement/placement-reason.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import type { CheckPlacement, CheckPlacementInput, NodePlacement } from "./placement-model.ts";

let world: World;
let check: CheckPlacement;

const queryOf = (at: World): CheckPlacement => at.placement().checkPlacement;

const question = (volumes: readonly string[], change: Partial<CheckPlacementInput> = {}): CheckPlacementInput => ({
  namespace: "default",
  workload: "asker",
  claims: volumes.map((volume) => ({ volume, alias: "", capability: undefined, readOnly: false })),
  nodes: [],
  after: [],
  feasibleOnly: false,
  ...change,
});

const ask = async (volumes: readonly string[], change: Partial<CheckPlacementInput> = {}) =>
  (await check(question(volumes, change), { size: 500, after: undefined })).items;
const obstaclesOn = (node: string, found: readonly NodePlacement[]): readonly PlacementObstacle[] =>
  found.find((each) => each.node === node)?.reasons.map(({ obstacle }) => obstacle) ?? [];
const half = (node: string, change: Partial<NodePlugin>): Partial<NodeRecord> => ({
  plugins: (world.nodes.get(node)?.record.plugins ?? []).map((each) => ({ ...each, ...change })),
});
const reachableFrom = async (
  id: string,
  accessible: VolumeRecord["topology"]["accessible"],
  preferred = accessible,
) => {
  await world.records.change({ namespace: "default", id }, (volume) => ({
    volume: { ...volume, topology: { ...volume.topology, accessible, preferred } },
    ended: [],
    notes: [],
  }));
};

beforeEach(async () => {
  world = await createWorld({ nodes: ["n1", "n2", "n3"] });
  for (const id of ["a", "b", "c"]) await world.makeVolume(id);
  check = queryOf(world);
});
afterEach(() => world.close());

describe("CheckPlacement", () => {
  it("answers for a workload without a name as for one that has no claim", async () => {
    await world.claim("holder", "n1", ["a"]);
    const unnamed = await ask(["a", "b"], { workload: "" });
    expect(unnamed).toEqual(await ask(["a", "b"], { workload: "new" }));
    expect(obstaclesOn("n2", unnamed)).not.toEqual([]);
    expect(await ask(["a", "b"], { workload: "holder" })).not.toEqual(unnamed);
  });

  it("says of every node, in the order of names, that nothing speaks against it", async () => {
    const found = await ask(["a", "b"]);
    expect(found.map(({ node, reasons, score }) => [node, reasons.length, score])).toEqual([
      ["n1", 0, 40],
      ["n2", 0, 40],
      ["n3", 0, 40],
    ]);
    expect(new Set(found.map(({ placementClass }) => placementClass)).size).toBe(1);
  });

  it("X46, P1: a missing volume is a reason on every node, beside all others", async () => {
    const found = await ask(["none", "a"]);
    for (const node of ["n1", "n2", "n3"]) expect(obstaclesOn(node, found)).toEqual(["VOLUME_NOT_FOUND"]);
    await world.claim("holder", "n1", ["a"]);
    await world.idle();
    expect(obstaclesOn("n2", await ask(["none", "a"]))).toEqual(["VOLUME_NOT_FOUND", "CLAIM_CONFLICT"]);
  });

  it("names the holder of a conflict, and counts neither the asker's own claims nor those that will be gone", async () => {
    await world.claim("holder", "n1", ["a"]);
    await world.idle();
    const [reason] = (await ask(["a"])).find(({ node }) => node === "n2")?.reasons ?? [];
    expect(reason).toMatchObject({
      obstacle: "CLAIM_CONFLICT",
      holder: { workload: "holder", node: "n1" },
      transient: true,
      message: expect.stringContaining("held by workload holder on node n1"),
    });
    for (const change of [{ workload: "holder" }, { after: ["holder"] }])
      expect(obstaclesOn("n2", await ask(["a"], change))).toEqual([]);
  });

  it("tells a node's state, drain, plugin and its health apart", async () => {
    world.nodes.set("n1", {}, "suspect");
    world.nodes.set("n2", { drain: { since: 1, reason: "", mode: "wait" }, ...half("n2", { health: "UNHEALTHY" }) });
    world.nodes.set("n3", { plugins: [] });
    const found = await ask(["a"]);
    expect(obstaclesOn("n1", found)).toEqual(["NODE_NOT_READY"]);
    expect(obstaclesOn("n2", found)).toEqual(["NODE_DRAINED", "PLUGIN_UNHEALTHY"]);
    expect(obstaclesOn("n3", found)).toEqual(["PLUGIN_MISSING"]);
    expect(new Set(found.map(({ placementClass }) => placementClass)).size).toBe(3);
    world.backend.setFacts({ attaches: "unknown" });
    expect(obstaclesOn("n2", await ask(["a"]))).toContain("CONTROLLER_PLUGIN_MISSING");
    world.gate.set(false);
    expect(obstaclesOn("n1", await ask(["a"]))[0]).toBe("STORE_UNVETTED");
  });

  it("C40, O22, X46: tells a topology key by key, without regard to the case of keys; no topology never matches", async () => {
    world.nodes.set("n1", half("n1", { topology: { Zone: "a", rack: "1" } }));
    world.nodes.set("n2", half("n2", { topology: { zone: "b", rack: "1" } }));
    await reachableFrom("a", [
      { zone: "a", rack: "1" },
      { zone: "c", rack: "1" },
    ]);
    const found = await ask(["a"]);
    expect(obstaclesOn("n1", found)).toEqual([]);
    const second = found.find(({ node }) => node === "n2")?.reasons[0];
    expect(second).toMatchObject({
      obstacle: "TOPOLOGY_MISMATCH",
      transient: false,
      topology: [{ key: "zone", wanted: ["a", "c"], has: "b" }],
      message: expect.stringContaining("zone has to be a or c and is b"),
    });
    expect(found.find(({ node }) => node === "n3")?.reasons[0]?.topology).toEqual([
      { key: "zone", wanted: ["a", "c"], has: "" },
      { key: "rack", wanted: ["1"], has: "" },
    ]);
  });

  it("[C78] counts storage that a node does not reach for the uses that it names, and a degraded way by ten points", async () => {
    const said = { reason: "PortalsDown", message: "no portal answers" };
    const node = (entry: object) =>
      half("n1", { storageHealth: [{ status: "STORAGE_UNREACHABLE", ...said, ...entry }] });
    world.nodes.set("n1", node({}));
    const found = await ask(["a"]);
    expect(obstaclesOn("n1", found)).toEqual(["STORAGE_UNREACHABLE"]);
    expect(found.find(({ node: name }) => name === "n1")?.reasons[0]?.message).toContain(
      "STORAGE_UNREACHABLE (PortalsDown): no portal answers",
    );
    expect(obstaclesOn("n2", found)).toEqual([]);
    const others = [
      { attachmentMode: "BLOCK_DEVICE" as const },
      { accessMode: "MULTI_NODE_MULTI_WRITER" as const },
      { accessMode: "UNRECOGNISED(77)" as const },
      { status: "UNRECOGNISED(9)" as const },
    ];
    for (const other of others) {
      world.nodes.set("n1", node(other));
      expect(obstaclesOn("n1", await ask(["a"])), JSON.stringify(other)).toEqual([]);
    }
    world.nodes.set("n1", node({ attachmentMode: "FILE_SYSTEM", accessMode: "SINGLE_NODE_SINGLE_WRITER" }));
    expect(obstaclesOn("n1", await ask(["a"]))).toEqual(["STORAGE_UNREACHABLE"]);
    world.nodes.set("n1", node({ status: "STORAGE_DEGRADED" }));
    const scores = Object.fromEntries((await ask(["a"])).map(({ node: name, score }) => [name, score]));
    expect(scores).toEqual({ n1: 30, n2: 40, n3: 40 });
  });

  it("P2, W25: counts other workloads' volumes and those of this request against the slots of a node", async () => {
    world.nodes.set("n1", half("n1", { maxVolumes: 2 }));
    world.nodes.set("n2", half("n2", { maxVolumes: 1 }));
    await world.claim("holder", "n1", ["c"]);
    await world.idle();
    const found = await ask(["a", "b"]);
    expect(found.find(({ node }) => node === "n1")?.reasons).toMatchObject([
      { obstacle: "ATTACH_LIMIT", transient: true, slots: { limit: 2, used: 1, needed: 2 } },
    ]);
    expect(found.find(({ node }) => node === "n2")?.reasons).toMatchObject([
      { obstacle: "ATTACH_LIMIT", transient: false, slots: { limit: 1, used: 0, needed: 2 } },
    ]);
    expect(obstaclesOn("n1", await ask(["c", "a"], { after: ["holder"] }))).toEqual([]);
  });

  it("prefers where volumes are attached, then what they wish for, then free slots", async () => {
    const many = { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] };
    await world.makeVolume("shared", many);
    await reachableFrom("shared", [], [{ zone: "x" }, { zone: "y" }]);
    world.nodes.set("n1", half("n1", { topology: { zone: "y" }, maxVolumes: 4 }));
    world.nodes.set("n2", half("n2", { topology: { zone: "x" }, maxVolumes: 4 }));
    await world.claim("holder", "n3", ["shared"]);
    await world.idle();
    const scores = Object.fromEntries((await ask(["shared"])).map(({ node, score }) => [node, score]));
    expect(scores).toEqual({ n1: 30, n2: 40, n3: 80 });
  });

  it("answers named nodes, pages, and leaves out what is not feasible", async () => {
    world.nodes.set("n2", {}, "suspect");
    const named = await check(question(["a"], { nodes: ["n3", "n1", "n3"] }), { size: 1, after: undefined });
    expect([named.items.map(({ node }) => node), named.next]).toEqual([["n1"], "n1"]);
    const rest = await check(question(["a"], { nodes: ["n3", "n1"] }), { size: 1, after: named.next });
    expect([rest.items.map(({ node }) => node), rest.next]).toEqual([["n3"], undefined]);
    const feasible = await check(question(["a"], { feasibleOnly: true }), { size: 500, after: undefined });
    expect(feasible.items.map(({ node }) => node)).toEqual(["n1", "n3"]);
    await expect(ask(["a"], { nodes: ["n1", "nowhere"] })).rejects.toMatchObject({ reason: "NODE_NOT_FOUND" });
  });

  it("refuses bad input with every violation", async () => {
    const bad = question(["a", "a"], { namespace: "", workload: "a/b", nodes: ["N"], after: [" a"] });
    const failure = await check(bad, { size: 10, after: undefined }).catch((error: unknown) => error);
    expect(isHoldfastError(failure) && failure.violations.map(({ field }) => field)).toEqual([
      "namespace",
      "workload",
      "claims[1].alias",
      "nodes[0]",
      "after_workloads[0]",
    ]);
  });

  it("asks the store for nothing but volumes that nobody knows, once for all of them", async () => {
    world.nodes.set("n1", half("n1", { maxVolumes: 3 }));
    await ask(["a", "b", "c"]);
    const before = [world.store.reads(), world.store.counts(), world.store.commits()];
    await ask(["a", "b", "c"]);
    expect([world.store.reads(), world.store.counts(), world.store.commits()]).toEqual(before);
    world.records.forgetAll();
    await ask(["a", "b", "c"]);
    expect(world.store.reads() - (before[0] ?? 0)).toBe(1);
  });
});

/** What CreateClaims would say for each obstacle. */
const reasonOf: Record<PlacementObstacle, readonly string[]> = {
  VOLUME_NOT_FOUND: ["VOLUME_NOT_FOUND"],
  VOLUME_NOT_AVAILABLE: ["VOLUME_NOT_AVAILABLE"],
  CAPABILITY_MISMATCH: ["CAPABILITY_MISMATCH"],
  CLAIM_CONFLICT: ["CLAIM_CONFLICT"],
  NODE_NOT_READY: ["NODE_NOT_READY"],
  NODE_DRAINED: ["NODE_NOT_READY", "NODE_DRAINED"],
  PLUGIN_MISSING: ["PLUGIN_NOT_READY"],
  PLUGIN_UNHEALTHY: ["PLUGIN_NOT_READY"],
  CONTROLLER_PLUGIN_MISSING: ["PLUGIN_NOT_READY"],
  TOPOLOGY_MISMATCH: ["TOPOLOGY_MISMATCH"],
  ATTACH_LIMIT: ["ATTACH_LIMIT"],
  CAPACITY: ["QUEUED"],
  NODE_BARRED: ["NODE_BARRED"],
  VOLUME_BUSY: ["QUEUED"],
  // What a plugin says is a counsel: who asks for a claim gets it.
  STORAGE_INACCESSIBLE: [],
  STORAGE_UNREACHABLE: [],
  STORE_UNVETTED: ["STORE_UNVETTED"],
  QUOTA_EXCEEDED: ["QUOTA_EXCEEDED"],
};

const modes = accessModes.filter((mode) => mode !== "UNKNOWN");
const nodes = ["n1", "n2", "n3"] as const;
const zone = fc.constantFrom("x", "y", "");

const situation = fc.record({
  modes: fc.tuple(fc.constantFrom(...modes), fc.constantFrom(...modes), fc.constantFrom(...modes)),
  zones: fc.tuple(zone, zone, zone),
  nodes: fc.tuple(
    ...nodes.map(() =>
      fc.record({
        zone,
        silent: fc.constantFrom(false, false, false, true),
        drained: fc.constantFrom(false, false, true),
        health: fc.constantFrom("HEALTHY" as const, "HEALTHY" as const, "UNHEALTHY" as const),
        max: fc.integer({ min: 0, max: 3 }),
        away: fc.constantFrom(false, false, false, true),
      }),
    ),
  ),
  before: fc.array(
    fc.record({
      node: fc.constantFrom(...nodes),
      volumes: fc.subarray(["a", "b", "c"], { minLength: 1, maxLength: 2 }),
      queue: fc.boolean(),
      release: fc.boolean(),
      settle: fc.boolean(),
    }),
    { maxLength: 4 },
  ),
  open: fc.constantFrom(true, true, true, true, false),
  volumes: fc.subarray(["a", "b", "c", "missing"], { minLength: 1 }),
  readOnly: fc.boolean(),
});

/** Whatever is asked of the backend from now on is under way until it is let go. */
const holdCalls = ({ backend }: World): (() => void) => {
  const { promise, resolve } = Promise.withResolvers<void>();
  backend.chance(() => ({ kind: "held", until: promise }));
  return () => {
    backend.chance(undefined);
    resolve();
  };
};

/** Until nothing moves but calls that are held: what is found then is still so when the next request is decided. */
const standStill = async ({ store, backend, agents, clock }: World): Promise<void> => {
  const moved = () =>
    [store.commits(), store.reads(), store.counts(), backend.calls.length, agents.calls.length].join();
  for (let [quiet, turns] = [0, 0]; quiet < 10; turns += 1) {
    if (turns > 1_000) throw new Error("the controller never comes to rest");
    const before = moved();
    await clock.advance(5);
    quiet = moved() === before ? quiet + 1 : 0;
  }
};

const specsOf = (volumes: readonly string[], readOnly: (volume: string) => boolean) =>
  volumes.map((volume) => ({ volume, alias: "", capability: undefined, readOnly: readOnly(volume) }));

describe("a verdict", () => {
  it(`is what a grant then does, over ${sample(3000, 60)} situations`, { timeout: 900_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(situation, fc.constantFrom(...nodes), async (found, node) => {
        const at = await createWorld({ nodes });
        try {
          const modeOf = new Map<string, AccessMode>(
            ["a", "b", "c"].map((id, i) => [id, found.modes[i] ?? modes[0] ?? "UNKNOWN"]),
          );
          for (const [i, id] of ["a", "b", "c"].entries()) {
            await at.makeVolume(id, { capabilities: [capability(modeOf.get(id))] });
            const wanted = found.zones[i] ?? "";
            if (wanted === "") continue;
            await at.records.change({ namespace: "default", id }, (volume) => ({
              volume: { ...volume, topology: { ...volume.topology, accessible: [{ zone: wanted }] } },
              ended: [],
              notes: [],
            }));
          }
          const reads = (id: string): boolean =>
            found.readOnly || accessRules[modeOf.get(id) ?? "UNKNOWN"].writers === "none";
          const held: (() => void)[] = [];
          for (const [i, each] of found.before.entries()) {
            if (each.settle) for (const letGo of held.splice(0)) letGo();
            else held.push(holdCalls(at));
            const change = {
              claims: specsOf(each.volumes, reads),
              queue: { enabled: each.queue, deadlineMs: undefined },
            };
            await at.claim(`before-${i}`, each.node, [], change).catch((error: unknown) => {
              if (!isHoldfastError(error)) throw error;
            });
            await standStill(at);
            if (each.release) await at.release(`before-${i}`);
            await standStill(at);
          }
          for (const [i, name] of nodes.entries()) {
            const how = found.nodes[i];
            const record = at.nodes.get(name)?.record;
            if (how === undefined || record === undefined) continue;
            const topology: NodePlugin["topology"] = how.zone === "" ? {} : { zone: how.zone };
            const plugins = how.away
              ? []
              : record.plugins.map((each) => ({ ...each, topology, health: how.health, maxVolumes: how.max }));
            const drain = how.drained ? { drain: { since: 1, reason: "", mode: "wait" as const } } : {};
            at.nodes.set(name, { plugins, ...drain }, how.silent ? "suspect" : "alive");
          }
          at.gate.set(found.open);
          await standStill(at);
          const claims = specsOf(found.volumes, reads);
          const input = { ...question([]), claims, nodes: [node] };
          const { items } = await queryOf(at)(input, { size: 500, after: undefined });
          const verdict = items[0];
          const outcome = await at.claim("asker", node, [], { claims }).then(
            (views) => (views.some(({ claim }) => claim.state === "QUEUED") ? "QUEUED" : "granted"),
            (error: unknown) => {
              if (isHoldfastError(error)) return error.reason;
              throw error;
            },
          );
          const allowed = (verdict?.reasons ?? []).flatMap(({ obstacle }) => reasonOf[obstacle]);
          expect(allowed.length === 0 ? ["granted"] : allowed).toContain(outcome);
        } finally {
          await at.close();
        }
      }),
      { numRuns: sample(3000, 60) },
    );
  });
});
