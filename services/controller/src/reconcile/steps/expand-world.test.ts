import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createFrozenGates, type FrozenGates, gates } from "../../../../../test/support/controller/frozen-gates.ts";
import { caller, capability, createWorld, type World } from "../../../../../test/support/controller/world.ts";
import { sample } from "../../../../../test/support/full.ts";
import { isPending } from "../../domain/size/expansion.ts";
import { isModifying } from "../../domain/volume/modification.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";

/**
 * Sizes and parameters over random wishes, claims, faults, deaths and releases, and gates that freeze with a call inside; the backend and the
 * hosts outlive every controller.
 */

const seed = 20_261_123;
const MB = 1_000_000;
const of = { namespace: "default", id: "data", requestId: "" };

const callFaults = fc.constantFrom(
  { kind: "lost" },
  { kind: "dropped" },
  { kind: "unknown", advice: "wait", code: "ABORTED" },
  { kind: "refused", advice: "fail", code: "OUT_OF_RANGE" },
  { kind: "refused", advice: "block", code: "FAILED_PRECONDITION" },
  { kind: "refused", advice: "block", code: "NOT_FOUND" },
) as fc.Arbitrary<Parameters<World["backend"]["script"]>[1]>;
const agentFaults = fc.constantFrom(
  { kind: "lost" },
  { kind: "dropped" },
  { kind: "code", code: "FAILED_PRECONDITION" },
  { kind: "code", code: "INTERNAL" },
) as fc.Arbitrary<Parameters<World["agents"]["script"]>[1]>;

type Op = readonly [name: string, run: (world: World, relays: FrozenGates) => Promise<unknown>];

const op = <T>(
  weight: number,
  name: string,
  args: fc.Arbitrary<T>,
  run: (world: World, args: T, relays: FrozenGates) => Promise<unknown>,
) => ({
  weight,
  arbitrary: args.map((a): Op => [`${name} ${JSON.stringify(a)}`, (world, relays) => run(world, a, relays)]),
});

const answers = new Set(["CAPACITY_LIMIT", "VOLUME_BUSY", "CLAIM_EXISTS", "VOLUME_NOT_AVAILABLE", "CLAIM_CONFLICT"]);

/** A refusal is an answer; a controller that dies under a wish gives none. */
const wish = async (world: World, promise: Promise<unknown>): Promise<void> => {
  let settled = false;
  const outcome = promise
    .catch((error: unknown) => {
      if (world.alive && !(isHoldfastError(error) && answers.has(error.reason))) throw error;
    })
    .finally(() => {
      settled = true;
    });
  // Commits whose answers are lost are tried again after a pause.
  for (let n = 0; n < 100 && !settled; n += 1) await world.clock.advance(100);
  await outcome;
};

const ops = fc.oneof(
  op(
    6,
    "expand",
    fc.record({ required: fc.integer({ min: 1, max: 9 }), limit: fc.constantFrom(0, 0, 0, 3, 6, 9) }),
    (world, { required, limit }) =>
      wish(
        world,
        world.commands.expandVolume(
          { ...of, capacity: { required: Math.min(required, limit || required) * MB, limit: limit * MB } },
          caller,
        ),
      ),
  ),
  op(
    3,
    "modify",
    fc.dictionary(fc.constantFrom("tier", "iops"), fc.constantFrom("a", "b", "c"), { minKeys: 1 }),
    (world, mutableParameters) => wish(world, world.commands.modifyVolume({ ...of, mutableParameters }, caller)),
  ),
  op(4, "claim", fc.tuple(fc.constantFrom("w1", "w2", "w3"), fc.constantFrom("n1", "n2")), (world, [workload, node]) =>
    wish(world, world.claim(workload, node, ["data"], { queue: { enabled: true, deadlineMs: undefined } })),
  ),
  op(4, "release", fc.constantFrom("w1", "w2", "w3"), (world, workload) => wish(world, world.release(workload))),
  op(
    3,
    "fault",
    fc.tuple(fc.constantFrom("expand", "modify", "expand", "publish", "unpublish"), callFaults),
    async (world, [method, fault]) => {
      // What refuses an attach for good, or says that a volume is not there, is no part of this world.
      const fits = method === "expand" || method === "modify" || fault.kind === "lost" || fault.kind === "dropped";
      if (fits) world.backend.script(method as "expand", fault);
    },
  ),
  // The case in which what may have happened is forgotten most easily.
  op(4, "lost, then refused", fc.constantFrom("expand", "modify"), async (world, method) => {
    world.backend.script(
      method as "expand",
      { kind: "lost" },
      { kind: "refused", advice: "fail", code: "OUT_OF_RANGE" },
    );
  }),
  op(1, "lose commits", fc.subarray(["before", "after", "after"] as const, { minLength: 1 }), async (world, how) =>
    world.store.loseCommits(...how),
  ),
  op(3, "agent fault", agentFaults, async (world, fault) => world.agents.script("expand", fault)),
  op(6, "pass", fc.constantFrom(0, 400, 7_000, 70_000), (world, ms) => world.pass(ms, 1_000)),
  op(
    2,
    "kill",
    fc.constantFrom(
      "controller.expand.after-commit",
      "controller.expand.after-call",
      "controller.grow.after-commit",
      "controller.grow.after-call",
      "controller.modify.after-commit",
      "controller.modify.after-call",
    ),
    async (world, point) => world.killAt(point),
  ),
  op(4, "freeze", fc.constant(undefined), async (_world, _args, relays) => relays.freeze()),
  op(2, "thaw", fc.tuple(fc.constantFrom(...gates), fc.boolean()), (_world, [gate, anew], relays) =>
    relays.thaw(gate, anew),
  ),
  op(1, "look", fc.boolean(), async (world, can) =>
    world.backend.setLook(can ? (id) => ({ capacity: world.backend.sizes()[id] ?? 0 }) : undefined),
  ),
);

/** What holds after every step, whatever happened. */
const check = (world: World, volume: VolumeRecord, before: VolumeRecord): void => {
  const size = world.backend.sizes()[volume.externalId] ?? 0;
  if (volume.capacity.actual > size)
    throw new Error(`[E1] ${volume.capacity.actual} bytes on record, ${size} at the backend`);
  if (volume.capacity.actual < before.capacity.actual) throw new Error("[E1] the record shrank");
  const { expansion, modification, intent } = volume;
  if (expansion?.state === "CALLING" && intent?.op !== "expand") throw new Error("[E2] CALLING without its intent");
  if (modification?.state === "CALLING" && intent?.op !== "modify") throw new Error("[I4] CALLING without its intent");
  // The backend is bigger than the record only while that may be so.
  if (size > volume.capacity.actual && !isPending(expansion))
    throw new Error("[E3] growth at the backend was forgotten");
};

const settleDown = async (world: World, relays: FrozenGates): Promise<void> => {
  world.backend.script("expand");
  for (const gate of gates) await relays.thaw(gate);
  world.spare();
  if (!world.alive) await world.restart();
  await world.pass(20 * 60_000, 20_000);
};

const isSettled = (world: World, volume: VolumeRecord): void => {
  expect(world.violations()).toEqual([]);
  expect(volume.intent).toBeUndefined();
  expect(isPending(volume.expansion) && volume.expansion.blocked === undefined).toBe(false);
  expect(isModifying(volume.modification) && volume.modification.blocked === undefined).toBe(false);
  const using = Object.values(volume.claims).filter((c) => c.state === "ACTIVE");
  for (const [node, { refusedBeside }] of Object.entries(volume.growth?.nodes ?? {}))
    if (using.some((c) => c.node === node)) expect(refusedBeside, `growth owed on ${node}`).toBeDefined();
  if (volume.growth !== undefined && using.length > 0) {
    const waits = using.every(
      (c) => volume.growth?.nodes[c.node]?.refusedBeside !== undefined || volume.growth?.done.includes(c.node),
    );
    expect(waits, "somebody has it, nobody refused, and it was not grown").toBe(true);
  }
  for (const [key, value] of Object.entries(world.backend.parameters(volume.externalId)))
    if (!isModifying(volume.modification)) expect(volume.mutableParameters[key]).toBe(value);
};

describe("[I4] [I6] sizes and parameters", () => {
  it("agree with the backend in the end, whatever was lost, refused, asked for at once or killed", {
    timeout: 600_000,
  }, async () => {
    let overtaken = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(ops, { maxLength: 30, size: "max" }), fc.boolean(), async (commands, onlyUnused) => {
        const world = await createWorld({ nodes: ["n1", "n2"] });
        const relays = createFrozenGates(world);
        try {
          if (onlyUnused) world.backend.setFacts({ expandsOnline: "no", expandsOffline: "yes" });
          world.backend.chance((_method, via) => relays.fault(via));
          let before = await world.makeVolume("data", { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] });
          for (const [, run] of commands) {
            await run(world, relays);
            await world.idle().catch((error: unknown) => {
              if (world.alive) throw error;
            });
            if (!world.alive) await world.restart();
            const now = await world.volume("data");
            check(world, now, before);
            before = now;
          }
          await settleDown(world, relays);
          isSettled(world, await world.volume("data"));
          for (const workload of ["w1", "w2", "w3"]) await wish(world, world.release(workload));
          await world.pass(20 * 60_000, 20_000);
          const left = await world.volume("data");
          isSettled(world, left);
          expect(left.claims).toEqual({});
          // The bar of an attach may wait for the detach of its pair.
          expect(left.bars).toEqual([]);
          expect(isPending(left.expansion)).toBe(false);
          await wish(world, world.commands.deleteVolume({ ...of, uid: "" }, caller));
          await world.pass(60_000, 10_000);
          expect(world.backend.volumes()).toEqual([]);
          expect(world.violations()).toEqual([]);
          overtaken += world.log.lines.filter(({ message }) => message.startsWith("a gate does not answer")).length;
        } finally {
          await world.close();
        }
      }),
      { seed, numRuns: sample(2_000, 80) },
    );
    // Otherwise the worlds say nothing about bars.
    expect(overtaken).toBeGreaterThan(0);
  });
});
