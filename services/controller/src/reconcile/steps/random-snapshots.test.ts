import { type CsiMethod, methods } from "@holdfast/csi/methods";
import { codes, verdictOf } from "@holdfast/csi/outcome";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import fc from "fast-check";
import { expect, it } from "vitest";
import type { WayFault } from "../../../../../test/support/controller/sim-transport.ts";
import {
  createSnapshotWorld,
  groupInput,
  type SnapshotWorld,
  simPlugin,
  snapshotInput,
} from "../../../../../test/support/controller/snapshot-world.ts";
import { volumeInput } from "../../../../../test/support/controller/world.ts";
import { sample } from "../../../../../test/support/full.ts";
import type { Seat } from "../../domain/open-call.ts";
import { nameOnNode } from "../../domain/plugin/instance-name.ts";
import type { CutKind } from "../../domain/snapshot/snapshot.ts";
import { needsVolume } from "../../domain/snapshot/snapshot-bar.ts";
import { owesRestoreEnd } from "../../domain/volume/group-restore.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import { snapshotFailpoints } from "../failpoints.ts";

/**
 * Whole controllers over random wishes for volumes, snapshots, groups and copies, with lost answers, every code, deaths, and gates that
 * freeze with calls inside, are overtaken, and come back.
 */

const restored = ["new-a", "new-b"] as const;
const volumes = ["a", "b", "copy", ...restored] as const;
const snapshots = ["s1", "s2"] as const;
const groups = ["g"] as const;
const nodes = ["g1", "g2"] as const;
type Node = (typeof nodes)[number];

type Wish =
  | { readonly op: "make" | "unmake"; readonly id: string }
  | { readonly op: "cut"; readonly id: string; readonly volume: string }
  | { readonly op: "group"; readonly id: string; readonly volumes: readonly string[] }
  | { readonly op: "restore"; readonly id: string; readonly volumes: readonly string[] }
  | { readonly op: "uncut"; readonly kind: CutKind; readonly id: string }
  | { readonly op: "copy"; readonly kind: "snapshot" | "volume"; readonly from: string };

type Op =
  | Wish
  | { readonly op: "pass"; readonly ms: number }
  | { readonly op: "restart" }
  | { readonly op: "kill-at"; readonly point: (typeof snapshotFailpoints)[number] }
  | { readonly op: "lose-commits"; readonly how: readonly ("before" | "after")[] }
  | { readonly op: "store-away" }
  | { readonly op: "gate"; readonly open: boolean }
  | { readonly op: "plugin"; readonly ready: boolean }
  /** The agent that is called freezes with the calls of a wish inside, and is missed; it thaws, or comes back in its next life. */
  | { readonly op: "freeze"; readonly inside: Wish }
  | { readonly op: "thaw" | "reborn"; readonly node: Node };

const of = <T extends Op["op"]>(op: T) => fc.constant(op);
const members = ["g-a", "g-b"] as const;

const wishOf: fc.Arbitrary<Wish> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ op: of("make"), id: fc.constantFrom("a", "b") }) },
  { weight: 3, arbitrary: fc.record({ op: of("unmake"), id: fc.constantFrom(...volumes) }) },
  {
    weight: 4,
    arbitrary: fc.record({ op: of("cut"), id: fc.constantFrom(...snapshots), volume: fc.constantFrom(...volumes) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      op: of("group"),
      id: fc.constantFrom(...groups),
      volumes: fc.subarray(["a", "b"], { minLength: 1 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      op: of("restore"),
      id: fc.constantFrom(...groups),
      volumes: fc.constantFrom(["a", "b"], ["a", "b"], ["a"], ["b"]),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.oneof(
      fc.record({
        op: of("uncut"),
        kind: fc.constant("snapshot" as const),
        id: fc.constantFrom(...snapshots, ...members),
      }),
      fc.record({ op: of("uncut"), kind: fc.constant("group" as const), id: fc.constantFrom(...groups) }),
    ),
  },
  {
    weight: 3,
    arbitrary: fc.oneof(
      fc.record({
        op: of("copy"),
        kind: fc.constant("snapshot" as const),
        from: fc.constantFrom(...snapshots, ...members),
      }),
      fc.record({ op: of("copy"), kind: fc.constant("volume" as const), from: fc.constantFrom("a", "b") }),
    ),
  },
);

const opOf: fc.Arbitrary<Op> = fc.oneof(
  { weight: 20, arbitrary: wishOf },
  { weight: 5, arbitrary: fc.record({ op: of("pass"), ms: fc.constantFrom(0, 600, 3_000, 70_000) }) },
  { weight: 1, arbitrary: fc.record({ op: of("restart") }) },
  { weight: 2, arbitrary: fc.record({ op: of("kill-at"), point: fc.constantFrom(...snapshotFailpoints) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      op: of("lose-commits"),
      how: fc.array(fc.constantFrom("before" as const, "after" as const), { maxLength: 3 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ op: of("store-away") }) },
  { weight: 1, arbitrary: fc.record({ op: of("gate"), open: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ op: of("plugin"), ready: fc.boolean() }) },
  { weight: 8, arbitrary: fc.record({ op: of("freeze"), inside: wishOf }) },
  { weight: 1, arbitrary: fc.record({ op: of("thaw"), node: fc.constantFrom(...nodes) }) },
  { weight: 1, arbitrary: fc.record({ op: of("reborn"), node: fc.constantFrom(...nodes) }) },
);

/** Answers to wishes that may well be refused. */
const expected = new Set([
  "VOLUME_NOT_FOUND",
  "VOLUME_NOT_AVAILABLE",
  "VOLUME_EXISTS",
  "VOLUME_IN_USE",
  "VOLUME_BUSY",
  "SNAPSHOT_NOT_FOUND",
  "SNAPSHOT_GROUP_NOT_FOUND",
  "SNAPSHOT_EXISTS",
  "SNAPSHOT_GROUP_EXISTS",
  "SNAPSHOT_NOT_READY",
  "SNAPSHOT_IN_USE",
  "STORE_UNVETTED",
  "STORE_UNAVAILABLE",
  "STORE_OUTCOME_UNKNOWN",
  "REVISION_CONFLICT",
  // A group is restored whole: it may have other volumes than are asked for.
  "INVALID_ARGUMENT",
]);

const wish = async (world: SnapshotWorld, promise: Promise<unknown>): Promise<void> => {
  let settled = false;
  const outcome = promise
    .catch((error: unknown) => {
      if (!world.alive || (isHoldfastError(error) && expected.has(error.reason))) return;
      throw error;
    })
    .finally(() => {
      settled = true;
    });
  for (let n = 0; n < 50 && !settled; n += 1) await world.clock.advance(100);
  await outcome;
};

/** The agents of a world: each is in a life, and frozen or not. */
const createAgents = (world: SnapshotWorld) => {
  const lives = { g1: 1, g2: 1 };
  const frozen = new Set<string>();
  const seatOf = (node: Node): Seat => ({
    via: nameOnNode(simPlugin, node),
    gate: `life-${lives[node]}`,
  });
  const show = () => world.setSeats(...nodes.filter((node) => !frozen.has(node)).map(seatOf));
  return {
    show,
    freeze() {
      const node = nodes.find((one) => !frozen.has(one));
      if (node === undefined) return;
      world.gates.gateOf(seatOf(node)).freeze();
      frozen.add(node);
    },
    thaw(node: Node) {
      world.gates.gateOf(seatOf(node)).thaw();
      frozen.delete(node);
      show();
    },
    reborn(node: Node) {
      world.gates.gateOf(seatOf(node)).thaw();
      lives[node] += 1;
      frozen.delete(node);
      show();
    },
  };
};

const ref = (id: string) => ({ namespace: "default", id });
const unsized = { plugin: simPlugin, capacity: { required: 0, limit: 0 } };

type Agents = ReturnType<typeof createAgents>;

const run = async (world: SnapshotWorld, op: Op, agents?: Agents): Promise<void> => {
  switch (op.op) {
    case "make":
      return await wish(world, world.commands.createVolume(volumeInput(op.id, unsized), world.caller));
    case "unmake":
      return await wish(world, world.deleteVolume(op.id));
    case "cut":
      return await wish(world, world.snapshots.createSnapshot(snapshotInput(op.id, op.volume), world.caller));
    case "group": {
      const input = groupInput(op.id, Object.fromEntries(op.volumes.map((volume) => [`${op.id}-${volume}`, volume])));
      return await wish(world, world.snapshots.createGroup(input, world.caller));
    }
    case "restore": {
      const { namespace, plugin: _p, contentSource: _c, requestId, ...own } = volumeInput("", unsized);
      const members = op.volumes.map((source) => ({ ...own, source, id: `new-${source}` }));
      const input = { namespace, requestId, group: op.id, members };
      return await wish(world, world.snapshots.restoreGroup(input, world.caller));
    }
    case "uncut": {
      const input = { kind: op.kind, ...ref(op.id), uid: "", requestId: "", forget: false };
      return await wish(world, world.snapshots.deleteCut(input, world.caller));
    }
    case "copy": {
      const contentSource = { kind: op.kind, id: op.from };
      return await wish(
        world,
        world.commands.createVolume(volumeInput("copy", { ...unsized, contentSource }), world.caller),
      );
    }
    case "pass":
      return await world.pass(op.ms, Math.max(200, op.ms / 8));
    case "restart":
      return await world.restart();
    case "kill-at":
      return world.killAt(op.point);
    case "lose-commits":
      return world.loseCommits(...op.how);
    case "store-away":
      return world.failCommits(1);
    case "gate":
      return world.setGate(op.open);
    case "plugin":
      return world.setFacts((facts) => facts, op.ready);
    case "freeze":
      agents?.freeze();
      await run(world, op.inside, agents);
      agents?.show();
      return await world.pass(8_000, 2_000);
    case "thaw":
    case "reborn":
      return agents?.[op.op](op.node);
  }
};

/** A small generator of its own, so that one number stands for all faults of a run. */
const chanceFrom = (seed: number) => {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
};

const cutting: ReadonlySet<CsiMethod> = new Set(["CreateSnapshot", "CreateVolumeGroupSnapshot"]);
const failing = codes.filter((code) => code !== "OK");

/** Every code, as a plugin may answer it: work that was done is never refused, and nothing is called gone that is there. */
const faultFor = (
  method: CsiMethod,
  random: () => number,
  later: (ms: number) => Promise<void>,
): WayFault | undefined => {
  // Given up, and done at the backend all the same, whatever happened to the snapshot since.
  if (cutting.has(method) && random() < 0.2) return { kind: "late", until: later(Math.round(random() * 200_000)) };
  const word = random();
  if (word < 0.25) return { kind: "lost" };
  if (word < 0.5) return { kind: "dropped" };
  const code = failing[Math.floor(random() * failing.length)] ?? "INTERNAL";
  const { outcome } = verdictOf(methods[method].callKind, code);
  if (outcome === "done") return undefined;
  return { kind: "code", code, when: outcome === "unknown" && random() < 0.5 ? "after" : "before" };
};

const never = new Promise<void>(() => undefined);
const all = { namespace: "default", volume: "", plugin: "", group: "", states: [], blocked: false, labels: {} };
const cutsOf = async (world: SnapshotWorld) => {
  const singles = await world.snapshots.listSnapshots(all, { size: 100, after: undefined });
  const together = await world.snapshots.listGroups(all, { size: 100, after: undefined });
  return { singles: singles.items.map(({ record }) => record), together: together.items.map(({ record }) => record) };
};

const setOf = async (world: SnapshotWorld): Promise<readonly VolumeRecord[]> =>
  (await Promise.all(restored.map((id) => world.volumeNow(id)))).filter((volume) => volume !== undefined);

/** `seen`: the sets that were looked at before, of which some may be deleted since by a wish. */
const checkSets = async (world: SnapshotWorld, seen: Set<string>): Promise<void> => {
  const there = await setOf(world);
  for (const { restore, id } of there) {
    if (restore === undefined) throw new Error(`${id} was made by something else`);
    const own = there.filter((volume) => volume.restore?.uid === restore.uid);
    if (!seen.has(restore.uid) && own.every((volume) => volume.state !== "FAILED"))
      expect(
        own.map((volume) => volume.id),
        "GR1 one commit for all",
      ).toEqual(restore.members.map((one) => one.id));
    if (restore.end === "undone")
      expect(
        own.filter((one) => one.goal === "present" && one.state !== "FAILED"),
        "GR2",
      ).toEqual([]);
    expect(restore.end, "GR2, as there are no claims").not.toBe("kept");
  }
  for (const { restore } of there) seen.add(restore?.uid ?? "");
};

/** What holds at every moment, in whatever state the world is. */
const check = async (world: SnapshotWorld): Promise<void> => {
  expect(world.backend.violations()).toEqual([]);
  const { singles, together } = await cutsOf(world);
  const state = world.backend.state();
  const owners = new Map<string, string>();
  for (const { externalId, id } of singles) {
    if (externalId === "") continue;
    expect(owners.get(externalId), "one record stands for a snapshot").toBeUndefined();
    owners.set(externalId, id);
  }
  // What the backend has is owed to a record: by its id, or by the name that it was asked for under.
  const names = new Set([...singles, ...together].map(({ name }) => name));
  for (const { id, name, group } of state.snapshots.values()) {
    const owed =
      owners.has(id) || names.has(name) || (group !== undefined && names.has(state.groups.get(group)?.name ?? ""));
    expect(owed, `[I5] snapshot ${id} that no record explains`).toBe(true);
  }
  for (const record of singles) {
    if (record.state === "READY") expect(state.snapshots.has(record.externalId), "READY and not there").toBe(true);
    const source = await world.volumeNow(record.volume);
    if (record.group === "" && needsVolume(record))
      expect([source?.uid, source?.state], "a source that is needed is kept").toEqual([record.volumeUid, "AVAILABLE"]);
  }
};

/** Everything works again and nobody wants anything: what was owed is paid. */
const windDown = async (world: SnapshotWorld, agents: Agents | undefined): Promise<void> => {
  world.transport.chance(undefined);
  world.spare();
  world.failCommits(0);
  if (!world.alive) await world.restart();
  world.setFacts((facts) => facts, true);
  world.setGate(true);
  for (const node of nodes) agents?.reborn(node);
  for (let round = 0; round < 3; round += 1) {
    await world.pass(150_000, 10_000);
    expect((await setOf(world)).filter(owesRestoreEnd), "GR2 is decided").toEqual([]);
    for (const id of groups) await run(world, { op: "uncut", kind: "group", id });
    for (const id of snapshots) await run(world, { op: "uncut", kind: "snapshot", id });
    for (const id of volumes) await run(world, { op: "unmake", id });
  }
  await world.pass(150_000, 10_000);
};

it("[I4] [I5] [I6] snapshots, groups and copies in any order, with every code and lost answers, leak nothing and stick nowhere", {
  timeout: 900_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(opOf, { minLength: 5, maxLength: 60 }),
      fc.record({ seed: fc.integer(), rate: fc.constantFrom(0, 0.15, 0.5) }),
      fc.nat(2),
      fc.boolean(),
      async (ops, { seed, rate }, snapshotPolls, onNodes) => {
        const random = chanceFrom(seed);
        const world = await createSnapshotWorld({ storage: { snapshotPolls }, random });
        const agents = onNodes ? createAgents(world) : undefined;
        agents?.show();
        const over = new AbortController();
        const seen = new Set<string>();
        const later = (ms: number) => world.clock.sleep(ms, over.signal).catch(() => never);
        try {
          for (const id of ["a", "b"]) await world.makeVolume(id, unsized);
          world.transport.chance((method) => (random() < rate ? faultFor(method, random, later) : undefined));
          for (const op of ops) {
            await run(world, op, agents);
            await world.idle();
            if (!world.alive) await world.restart();
            await check(world);
            await checkSets(world, seen);
          }
          await windDown(world, agents);
          await check(world);
          const { singles, together } = await cutsOf(world);
          expect([...singles, ...together].map(({ id, state, blocked }) => ({ id, state, blocked }))).toEqual([]);
          const { snapshots: left, groups: leftTogether, volumes: made } = world.backend.state();
          expect([left.size, leftTogether.size]).toEqual([0, 0]);
          // Of volumes only what a record is blocked for, and says so, may be left, and what that one is made from.
          const doubtful = await Promise.all(volumes.map((id) => world.volumeNow(id)));
          const sources = new Set(doubtful.map((volume) => volume?.source?.uid));
          for (const volume of doubtful)
            if (volume !== undefined && !sources.has(volume.uid))
              expect(volume.blocked?.reason).toBe("CREATE_UNCERTAIN");
          const known = new Set(doubtful.map((volume) => volume?.name));
          expect([...made.values()].filter(({ name }) => !known.has(name))).toEqual([]);
          expect(world.size()).toBe(0);
        } finally {
          over.abort();
          await world.close();
        }
      },
    ),
    { numRuns: sample(2_500, 40), seed: 20_261_122, endOnFailure: false },
  );
});
