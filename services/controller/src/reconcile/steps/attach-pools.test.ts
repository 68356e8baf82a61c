/** Plugins that share the places of a node: reserved with the grant, waited for in order, whichever of them gives one back. */
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createPendingCommands } from "../../../../../test/support/controller/pending-commands.ts";
import { createSecondController } from "../../../../../test/support/controller/second-controller.ts";
import { caller, claimsInput, createWorld, plugin, type World } from "../../../../../test/support/controller/world.ts";
import { sample } from "../../../../../test/support/full.ts";
import { slotKey } from "../../domain/attachment/slots.ts";
import { defaultProfile } from "../../domain/plugin/plugin-profile.ts";
import { withProfile } from "../../domain/plugin/plugin-record.ts";
import { slotEntry } from "../../records/volume/volume-codec.ts";

const other = "other.example";
const ids = ["a", "b", "c", "x", "y", "z"] as const;
/** The first half is of the one plugin, the second of the other. */
const pluginOf = (id: string): string => (id < "m" ? plugin : other);

const share = async (at: World, name: string, limit: number, pool = "nitro"): Promise<void> => {
  const profile = { ...defaultProfile, attachPool: limit === 0 ? "" : pool, attachPoolLimit: limit };
  await at.pluginRecords.change(name, (record) => withProfile(record, profile));
};

const create = async (): Promise<World> => {
  const at = await createWorld({ nodes: ["n1", "n2"], others: [other] });
  for (const id of ids) await at.makeVolume(id, { plugin: pluginOf(id) });
  return at;
};

const queued = { queue: { enabled: true, deadlineMs: undefined } };
const usedOn = async (at: World, node: string): Promise<number> => {
  const counts = await at.store.count([plugin, other].map((each) => slotEntry(slotKey(each, node))));
  return counts.reduce((sum, count) => sum + count, 0);
};

let world: World;

describe("a pool of two plugins", () => {
  beforeEach(async () => {
    world = await create();
    await share(world, plugin, 3);
    await share(world, other, 3);
  });
  afterEach(() => world.close());

  const active = async (...workloads: readonly string[]): Promise<void> => {
    for (const workload of workloads) expect(new Set(await world.states(workload))).toEqual(new Set(["ACTIVE"]));
  };

  it("refuses one attachment more, with the numbers of each plugin, and writes nothing; another node takes it", async () => {
    await world.claim("w1", "n1", ["a", "b"]);
    await world.claim("w2", "n1", ["x"]);
    await world.idle();
    const commits = world.store.commits();
    await expect(world.claim("w3", "n1", ["y"])).rejects.toMatchObject({
      reason: "ATTACH_LIMIT",
      metadata: { node: "n1", plugin: other, limit: "3", pool: "nitro" },
      message: expect.stringContaining(
        "pool nitro on node n1: 3 of 3, of them 2 by plugin csi.example and 1 by plugin other.example (the profile of plugin csi.example says 3)",
      ),
    });
    expect(world.store.commits()).toBe(commits);
    await world.claim("w3", "n2", ["y"]);
    await world.idle();
    await active("w1", "w2", "w3");
  });

  it("a set over both plugins counts as a whole; one that never fits is refused although it would wait", async () => {
    await expect(world.claim("big", "n1", ["a", "b", "x", "y"], queued)).rejects.toMatchObject({
      reason: "ATTACH_LIMIT",
    });
    await world.claim("w1", "n1", ["a", "x"]);
    await expect(world.claim("w2", "n1", ["b", "y"])).rejects.toMatchObject({ reason: "ATTACH_LIMIT" });
    await world.claim("w2", "n1", ["b"]);
    await world.idle();
    await active("w1", "w2");
    expect(await usedOn(world, "n1")).toBe(3);
  });

  it("who waits is granted when the other plugin gives a place back, in the order of those who wait", async () => {
    await world.claim("w1", "n1", ["a", "b", "c"]);
    await world.claim("set", "n1", ["x", "y"], queued);
    await world.claim("late", "n1", ["z"], queued);
    await world.idle();
    const [view] = await world.commands.selectClaims({
      namespace: "default",
      workload: "set",
      aliases: [],
      claimUids: [],
    });
    expect(view).toMatchObject({ waitingFor: expect.stringContaining("2 more are asked for together") });
    const explained = await world.commands.explainVolume({ namespace: "default", id: "z" });
    expect(explained.claims[0]).toMatchObject({ obstacle: "ATTACH_LIMIT" });
    const selection = { namespace: "default", workload: "w1", claimUids: [] };
    await world.commands.releaseClaims({ ...selection, aliases: ["a"] }, caller);
    await world.idle();
    expect(await world.states("late")).toEqual(["QUEUED"]);
    await world.commands.releaseClaims({ ...selection, aliases: ["b"] }, caller);
    await world.idle();
    await active("set");
    expect(await world.states("late")).toEqual(["QUEUED"]);
    await world.commands.releaseClaims({ ...selection, aliases: ["c"] }, caller);
    await world.idle();
    await active("late");
    expect(world.records.slots.waiting()).toBe(0);
  });

  it("of two limits the smaller counts; one below what is there detaches nothing and grants nothing", async () => {
    await world.claim("w1", "n1", ["a", "x"]);
    await world.idle();
    await share(world, other, 1);
    expect(await world.commands.createClaims(claimsInput("w2", "n2", ["b"]), caller)).toHaveLength(1);
    await expect(world.claim("w3", "n1", ["c"])).rejects.toMatchObject({
      message: expect.stringContaining(
        "pool nitro on node n1: 2 of 1, of them 1 by plugin csi.example and 1 by plugin other.example (the profile of plugin other.example says 1)",
      ),
    });
    await world.pass(60_000, 10_000);
    await active("w1");
    // What is there is claimed again, and changed, as before.
    await share(world, other, 3);
    await world.claim("w3", "n1", ["c"]);
    await world.idle();
    await active("w3");
  });

  it("a plugin that leaves with its profile takes its attachments with it, and lets go on who waits", async () => {
    await world.claim("w1", "n1", ["a", "b", "c"]);
    await world.claim("w2", "n1", ["x"], queued);
    await world.idle();
    expect(await world.states("w2")).toEqual(["QUEUED"]);
    await share(world, other, 0);
    await world.idle();
    await active("w2");
    // It joins again: four are there, and none is given up.
    await share(world, other, 3);
    await expect(world.claim("w3", "n1", ["y"])).rejects.toMatchObject({
      message: expect.stringContaining("4 of 3"),
    });
    await active("w1", "w2");
  });

  it("is judged where volumes are placed, beside what would be released", async () => {
    await world.claim("w1", "n1", ["a", "b"]);
    await world.claim("w2", "n1", ["x"]);
    await world.idle();
    const ask = async (workload: string, volumes: readonly string[], after: readonly string[] = []) => {
      const { claims, namespace } = claimsInput(workload, "n1", volumes);
      const input = { namespace, workload, claims, nodes: ["n1"], after, feasibleOnly: false };
      return (await world.placement().checkPlacement(input, { size: 10, after: undefined })).items[0]?.reasons;
    };
    const parts = [
      { plugin, used: 2 },
      { plugin: other, used: 1 },
    ];
    expect(await ask("w3", ["y"])).toMatchObject([
      {
        obstacle: "ATTACH_LIMIT",
        plugin: "",
        transient: true,
        slots: { limit: 3, used: 3, needed: 1, pool: { name: "nitro", parts } },
      },
    ]);
    // Of what is released, the volumes that are asked about give their places back.
    expect(await ask("w3", ["a"], ["w1"])).toEqual([]);
    expect(await ask("w3", ["a", "y"], ["w1"])).toMatchObject([
      { slots: { used: 2, needed: 2, pool: { parts: [{ used: 1 }, { used: 1 }] } } },
    ]);
  });

  it("a volume that a plugin refused for want of places is tried again when the other one gives one back", async () => {
    await world.claim("w1", "n1", ["x"]);
    await world.idle();
    world.backend.script("publish", { kind: "unknown", advice: "again", code: "RESOURCE_EXHAUSTED", nodeFull: true });
    await world.claim("w2", "n1", ["a"]);
    await world.idle();
    expect(await world.states("w2")).toEqual(["ATTACHING"]);
    await world.release("w1");
    await world.idle();
    await active("w2");
  });
});

const workloads = ["w1", "w2", "w3", "w4", "w5", "w6"] as const;
const op = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      op: fc.constant("claim" as const),
      by: fc.nat(1),
      workload: fc.constantFrom(...workloads),
      node: fc.constantFrom("n1", "n1", "n2"),
      volumes: fc.subarray([...ids], { minLength: 1, maxLength: 3 }),
      queue: fc.boolean(),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      op: fc.constant("release" as const),
      by: fc.nat(1),
      workload: fc.constantFrom(...workloads),
    }),
  },
  { weight: 2, arbitrary: fc.record({ op: fc.constant("pass" as const) }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("tell" as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      op: fc.constant("limit" as const),
      plugin: fc.constantFrom(plugin, other),
      limit: fc.integer({ min: 0, max: 4 }),
    }),
  },
);

describe("two controllers that grant at once", () => {
  const runs = sample(300, 25);
  it(`never have more in a pool than its limit, over ${runs} interleavings`, { timeout: 900_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(op, { maxLength: 25 }), async (ops) => {
        const at = await create();
        const two = createSecondController(at);
        try {
          const limits = new Map([plugin, other].map((each) => [each, 3]));
          const allowed = new Map<string, number>();
          for (const [name, limit] of limits) await share(at, name, limit);
          // With one plugin outside, each is bounded by nothing here.
          const most = (): number =>
            [...limits.values()].includes(0) ? Number.POSITIVE_INFINITY : Math.min(...limits.values());
          const check = async (): Promise<void> => {
            for (const node of ["n1", "n2"]) {
              const used = await usedOn(at, node);
              expect(used).toBeLessThanOrEqual(Math.max(most(), allowed.get(node) ?? 0));
              allowed.set(node, used > most() ? used : 0);
            }
          };
          const { quiet, settle } = createPendingCommands(at);
          for (const each of ops) {
            if (each.op === "claim") {
              const { commands } = each.by === 0 ? at : two;
              const input = claimsInput(each.workload, each.node, each.volumes, each.queue ? queued : {});
              quiet(commands.createClaims(input, caller));
            }
            if (each.op === "release") {
              const { commands } = each.by === 0 ? at : two;
              const { workload } = each;
              quiet(commands.releaseClaims({ namespace: "default", workload, aliases: [], claimUids: [] }, caller));
            }
            if (each.op === "limit") {
              // What is under way was decided by the limit before; what is there may only become less.
              await settle();
              for (const node of ["n1", "n2"]) allowed.set(node, await usedOn(at, node));
              limits.set(each.plugin, each.limit);
              await share(at, each.plugin, each.limit);
            }
            if (each.op === "tell") for (const { records } of [at, two]) records.forgetAll();
            if (each.op === "pass") await settle();
            await check();
          }
          await settle();
          await check();
          at.records.forgetAll();
          for (const workload of workloads) {
            quiet(at.release(workload));
            await settle();
          }
          await at.pass(130_000, 10_000);
          expect([await usedOn(at, "n1"), await usedOn(at, "n2")]).toEqual([0, 0]);
          expect(at.records.slots.waiting()).toBe(0);
          expect(at.violations()).toEqual([]);
        } finally {
          await at.close();
        }
      }),
      { numRuns: runs },
    );
  });
});
