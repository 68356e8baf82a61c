/** How many volumes a node takes: reserved with the grant, learned from refusals, waited for in order. Whole controllers, real stores. */
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createPendingCommands } from "../../../../../test/support/controller/pending-commands.ts";
import { createSecondController } from "../../../../../test/support/controller/second-controller.ts";
import {
  caller,
  capability,
  claimsInput,
  createWorld,
  plugin,
  type World,
} from "../../../../../test/support/controller/world.ts";
import { sample } from "../../../../../test/support/full.ts";
import { slotKey } from "../../domain/attachment/slots.ts";
import type { NodePlugin } from "../../domain/node/node.ts";
import { slotEntry } from "../../records/volume/volume-codec.ts";

let world: World;

const limitTo = (at: World, node: string, maxVolumes: number, change: Partial<NodePlugin> = {}): void => {
  const view = at.nodes.get(node);
  if (view === undefined) throw new Error(`no node ${node}`);
  at.nodes.set(node, { plugins: view.record.plugins.map((half) => ({ ...half, maxVolumes, ...change })) });
};

const queued = { queue: { enabled: true, deadlineMs: undefined } };
const attachedTo = (at: World, node: string): readonly string[] =>
  at.backend.attachments().filter((pair) => pair.endsWith(`@${node}`));
const usedOn = async (at: World, node: string): Promise<number> =>
  (await at.store.count([slotEntry(slotKey(plugin, node))]))[0] ?? Number.NaN;
const waitsFor = async (workload: string): Promise<readonly string[]> => {
  const views = await world.commands.selectClaims({ namespace: "default", workload, aliases: [], claimUids: [] });
  return views.map((view) => (view.kind === "living" ? view.waitingFor : ""));
};
const active = async (...workloads: readonly string[]): Promise<void> => {
  for (const workload of workloads) expect(new Set(await world.states(workload))).toEqual(new Set(["ACTIVE"]));
};

beforeEach(async () => {
  world = await createWorld({ nodes: ["n1", "n2"] });
  for (const id of ["a", "b", "c", "d", "e"]) await world.makeVolume(id);
});
afterEach(() => world.close());

describe("the limit of a node", () => {
  it("C46, O61, X46: refuses one volume more, names the limit, and writes nothing; another node takes it", async () => {
    limitTo(world, "n1", 2);
    await world.claim("w1", "n1", ["a"]);
    await world.claim("w2", "n1", ["b"]);
    await world.idle();
    const commits = world.store.commits();
    await expect(world.claim("w3", "n1", ["c"])).rejects.toMatchObject({
      reason: "ATTACH_LIMIT",
      metadata: { node: "n1", plugin, limit: "2" },
      message: expect.stringContaining("node n1 takes 2 volumes of plugin csi.example and has 2"),
    });
    expect(world.store.commits()).toBe(commits);
    expect((await world.volume("c")).claims).toEqual({});
    await world.claim("w3", "n2", ["c"]);
    await world.idle();
    await active("w1", "w2", "w3");
    expect(attachedTo(world, "n1")).toHaveLength(2);
  });

  it("W25: a volume that is there already takes no further slot, and the volumes of one request are counted", async () => {
    const many = { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] };
    await world.makeVolume("shared", many);
    limitTo(world, "n1", 2);
    await world.claim("w1", "n1", ["shared"]);
    await world.claim("w2", "n1", ["shared"]);
    await world.idle();
    await expect(world.claim("w3", "n1", ["a", "b"])).rejects.toMatchObject({ reason: "ATTACH_LIMIT" });
    await world.claim("w3", "n1", ["a", "shared"]);
    await world.idle();
    await active("w1", "w2", "w3");
    expect(attachedTo(world, "n1")).toHaveLength(2);
  });

  it("an attachment has its slot until its detach is proved", async () => {
    limitTo(world, "n1", 1);
    await world.claim("w1", "n1", ["a"]);
    await world.idle();
    world.backend.script("unpublish", { kind: "unknown", advice: "again", code: "UNAVAILABLE" });
    await world.release("w1");
    await world.idle();
    expect(await world.states("w1")).toEqual(["DETACHING"]);
    await expect(world.claim("w2", "n1", ["b"])).rejects.toMatchObject({ reason: "ATTACH_LIMIT" });
    await world.pass(3_000);
    await world.claim("w2", "n1", ["b"]);
    await world.idle();
    await active("w2");
  });

  it("a set that needs more slots than there are is refused, also when it would wait", async () => {
    limitTo(world, "n1", 2);
    const refused = world.claim("w1", "n1", ["a", "b", "c"], queued);
    await expect(refused).rejects.toMatchObject({
      reason: "ATTACH_LIMIT",
      message: expect.stringContaining("3 more are asked for together"),
    });
    for (const id of ["a", "b", "c"]) expect((await world.volume(id)).claims).toEqual({});
    expect(attachedTo(world, "n1")).toEqual([]);
  });

  it("needs three commits for a claim, as without a limit, and one read: right before the call", async () => {
    limitTo(world, "n1", 2);
    await world.claim("w0", "n1", ["a"]);
    await world.idle();
    const [commits, reads, counts] = [world.store.commits(), world.store.reads(), world.store.counts()];
    await world.claim("w1", "n1", ["b"]);
    await world.idle();
    await active("w1");
    expect(world.store.commits() - commits).toBe(3);
    expect(world.store.reads() - reads).toBe(1);
    expect(world.store.counts() - counts).toBe(0);
  });

  it("that rises lets go on what waited for it", async () => {
    limitTo(world, "n1", 1);
    await world.claim("w1", "n1", ["a"]);
    await world.claim("w2", "n1", ["b"], queued);
    await world.idle();
    expect(await world.states("w2")).toEqual(["QUEUED"]);
    limitTo(world, "n1", 2);
    await world.idle();
    await active("w1", "w2");
  });
});

describe("who waits for a slot", () => {
  it("says so, and is granted as soon as one is free", async () => {
    limitTo(world, "n1", 1);
    await world.claim("w1", "n1", ["a"]);
    await world.claim("w2", "n1", ["b"], queued);
    await world.idle();
    expect(await waitsFor("w2")).toEqual(["node n1 takes 1 volume of plugin csi.example and has 1"]);
    const explained = await world.commands.explainVolume({ namespace: "default", id: "b" });
    expect(explained.claims[0]).toMatchObject({ obstacle: "ATTACH_LIMIT" });
    await world.release("w1");
    await world.idle();
    await active("w2");
    expect(attachedTo(world, "n1")).toHaveLength(1);
  });

  it("a set is granted whole or not at all, and is not starved by those that come later and need less", async () => {
    limitTo(world, "n1", 2);
    await world.claim("w1", "n1", ["a"]);
    await world.claim("w2", "n1", ["b"]);
    await world.idle();
    await world.claim("set", "n1", ["c", "d"], queued);
    await world.claim("late", "n1", ["e"], queued);
    await world.idle();
    await world.release("w1");
    await world.idle();
    expect(await world.states("set")).toEqual(["QUEUED", "QUEUED"]);
    expect(await world.states("late")).toEqual(["QUEUED"]);
    expect((await waitsFor("set"))[0]).toContain("2 more are asked for together");
    expect((await waitsFor("late"))[0]).toContain("others wait for the slots that are left");
    await expect(world.claim("later", "n1", ["a"])).rejects.toMatchObject({ reason: "ATTACH_LIMIT" });
    expect(attachedTo(world, "n1")).toHaveLength(1);
    await world.release("w2");
    await world.idle();
    await active("set");
    await world.release("set");
    await world.idle();
    await active("late");
  });

  it("keeps its place when something else of its volume changes, or is told of late", async () => {
    limitTo(world, "n1", 2);
    await world.claim("w1", "n1", ["a"]);
    await world.claim("w2", "n1", ["b"]);
    await world.idle();
    await world.claim("first", "n1", ["c", "d"], queued);
    await world.idle();
    await world.release("w1");
    await world.idle();
    await world.claim("second", "n1", ["e"], queued);
    await world.idle();
    await world.records.learnOf("default/c", undefined, "n1");
    await world.idle();
    await world.records.learnOf("default/d", undefined, "n2");
    await world.idle();
    expect(await world.states("second")).toEqual(["QUEUED"]);
    await world.release("w2");
    await world.idle();
    await active("first");
  });

  it("leaves its place to the next when it is released, or its time is over", async () => {
    limitTo(world, "n1", 2);
    await world.claim("w1", "n1", ["a"]);
    await world.idle();
    await world.claim("set", "n1", ["b", "c"], queued);
    await world.claim("next", "n1", ["d"], queued);
    await world.idle();
    expect(await world.states("next")).toEqual(["QUEUED"]);
    await world.release("set");
    await world.idle();
    await active("next");
    await world.release("next");
    await world.idle();
    await world.claim("short", "n1", ["b", "c"], { queue: { enabled: true, deadlineMs: 5_000 } });
    await world.claim("last", "n1", ["d"], queued);
    await world.pass(6_000);
    expect(await world.states("short")).toEqual(["FAILED", "FAILED"]);
    await active("w1", "last");
    expect(world.records.slots.waiting()).toBe(0);
  });

  it("keeps its place when one of its members was released and the volume of that one is read", async () => {
    limitTo(world, "n1", 2);
    await world.claim("w1", "n1", ["a"]);
    await world.claim("w2", "n1", ["b"]);
    await world.claim("set", "n1", ["c", "d"], queued);
    await world.idle();
    const selection = { namespace: "default", workload: "set", aliases: ["d"], claimUids: [] };
    await world.commands.releaseClaims(selection, caller);
    await world.idle();
    await world.records.get({ namespace: "default", id: "d" });
    await world.idle();
    expect(world.records.slots.waiting()).toBe(1);
    await world.release("w1");
    await world.idle();
    expect(await world.volume("c")).toMatchObject({ attachments: { n1: { state: "ATTACHED" } } });
  });

  it("keeps no slot from others while it lacks something else as well", async () => {
    limitTo(world, "n1", 2);
    await world.claim("w1", "n1", ["a"]);
    await world.claim("holder", "n2", ["b"]);
    await world.idle();
    await world.claim("set", "n1", ["b", "c"], queued);
    await world.idle();
    await world.claim("other", "n1", ["d"]);
    await world.idle();
    await active("w1", "holder", "other");
    expect(await world.states("set")).toEqual(["QUEUED", "QUEUED"]);
  });

  it("is not lost when everything that was remembered is forgotten, or another controller wrote its volume", async () => {
    limitTo(world, "n1", 1);
    await world.claim("w1", "n1", ["a"]);
    await world.claim("w2", "n1", ["b"], queued);
    await world.claim("w3", "n1", ["c"], queued);
    await world.idle();
    world.records.forgetAll();
    await world.records.learnOf("default/b", undefined, "n1");
    await world.idle();
    expect(world.records.slots.waiting()).toBe(2);
    await world.release("w1");
    await world.idle();
    await active("w2");
    await world.release("w2");
    await world.idle();
    await active("w3");
  });

  it("leaves its place when its release was stored and the answer lost, also after everything was forgotten", async () => {
    limitTo(world, "n1", 2);
    await world.claim("w1", "n1", ["d"]);
    await world.claim("w1", "n1", ["a", "e"], queued);
    await world.pass(2_000);
    expect(world.records.slots.waiting()).toBe(1);
    world.store.loseCommits("after");
    await world.pass(2_000);
    world.records.forgetAll();
    await world.release("w1");
    await world.pass(2_000);
    expect(world.records.slots.waiting()).toBe(0);
    expect(attachedTo(world, "n1")).toEqual([]);
  });

  it("goes on after the controller was started again", async () => {
    limitTo(world, "n1", 1);
    await world.claim("w1", "n1", ["a"]);
    await world.claim("w2", "n1", ["b"], queued);
    await world.restart();
    expect(await world.states("w2")).toEqual(["QUEUED"]);
    await world.release("w1");
    await world.idle();
    await active("w2");
  });
});

describe("two controllers", () => {
  it("a set gives its place up when the other one has ended it", async () => {
    limitTo(world, "n1", 2);
    await world.claim("w1", "n1", ["a"]);
    await world.idle();
    await world.claim("first", "n1", ["c", "d"], queued);
    await world.claim("second", "n1", ["e"], queued);
    await world.idle();
    const { commands } = createSecondController(world);
    await commands.releaseClaims({ namespace: "default", workload: "first", aliases: [], claimUids: [] }, caller);
    await world.records.learnOf("default/c", undefined, undefined);
    await world.idle();
    await active("second");
    expect(world.records.slots.waiting()).toBe(0);
  });

  it("a set gives its place up when the other one has ended it and a list has shown that before the event", async () => {
    limitTo(world, "n1", 2);
    await world.claim("w1", "n1", ["a"]);
    await world.idle();
    await world.claim("first", "n1", ["c", "d"], queued);
    await world.claim("second", "n1", ["e"], queued);
    await world.idle();
    const { commands } = createSecondController(world);
    await commands.releaseClaims({ namespace: "default", workload: "first", aliases: [], claimUids: [] }, caller);
    const { volumes } = await world.records.list("volume-namespace", "default", { limit: 10 });
    for (const { volume, rev } of volumes)
      if (["c", "d"].includes(volume.id)) await world.records.learnOf(`default/${volume.id}`, rev);
    await world.idle();
    await active("second");
    expect(world.records.slots.waiting()).toBe(0);
  });

  it("a slot that the other one freed is found before a claim is refused", async () => {
    limitTo(world, "n1", 1);
    await world.claim("w1", "n1", ["a"]);
    await world.idle();
    const other = createSecondController(world);
    await expect(other.commands.createClaims(claimsInput("w2", "n1", ["b"]), caller)).rejects.toMatchObject({
      reason: "ATTACH_LIMIT",
    });
    await world.release("w1");
    await world.idle();
    const [view] = await other.commands.createClaims(claimsInput("w2", "n1", ["b"]), caller);
    expect(view?.claim.state).toBe("ATTACHING");
  });

  const op = fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({
        op: fc.constant("claim" as const),
        by: fc.nat(1),
        workload: fc.constantFrom("w1", "w2", "w3", "w4", "w5"),
        node: fc.constantFrom("n1", "n2"),
        volumes: fc.subarray(["a", "b", "c", "d", "e"], { minLength: 1, maxLength: 3 }),
        queue: fc.boolean(),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        op: fc.constant("release" as const),
        by: fc.nat(1),
        workload: fc.constantFrom("w1", "w2", "w3", "w4", "w5"),
      }),
    },
    { weight: 2, arbitrary: fc.record({ op: fc.constant("pass" as const) }) },
    { weight: 1, arbitrary: fc.record({ op: fc.constant("tell" as const) }) },
    { weight: 1, arbitrary: fc.record({ op: fc.constant("lose" as const), how: fc.constantFrom("before", "after") }) },
    { weight: 1, arbitrary: fc.record({ op: fc.constant("limit" as const), limit: fc.integer({ min: 1, max: 4 }) }) },
  );

  it(`I1, C46: never attach more than the node takes, over ${sample(400, 25)} interleavings`, {
    timeout: 900_000,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(op, { maxLength: 30 }), async (ops) => {
        const at = await createWorld({ nodes: ["n1", "n2"] });
        try {
          for (const id of ["a", "b", "c", "d", "e"]) await at.makeVolume(id);
          const other = createSecondController(at);
          let limit = 2;
          const allowed = new Map<string, number>();
          const set = (next: number): void => {
            limit = next;
            for (const node of ["n1", "n2"]) limitTo(at, node, next);
          };
          set(2);
          const check = async (): Promise<void> => {
            for (const node of ["n1", "n2"]) {
              const most = Math.max(limit, allowed.get(node) ?? 0);
              const used = await usedOn(at, node);
              expect(used).toBeLessThanOrEqual(most);
              expect(attachedTo(at, node).length).toBeLessThanOrEqual(most);
              allowed.set(node, used > limit ? used : 0);
            }
          };
          const { quiet, settle } = createPendingCommands(at);
          for (const each of ops) {
            if (each.op === "claim") {
              const commands = each.by === 0 ? at.commands : other.commands;
              const change = each.queue ? queued : {};
              quiet(commands.createClaims(claimsInput(each.workload, each.node, each.volumes, change), caller));
            }
            if (each.op === "release") {
              const commands = each.by === 0 ? at.commands : other.commands;
              const selection = { namespace: "default", workload: each.workload, aliases: [], claimUids: [] };
              quiet(commands.releaseClaims(selection, caller));
            }
            if (each.op === "lose") at.store.loseCommits(each.how === "before" ? "before" : "after");
            if (each.op === "limit") {
              // What is under way was decided by the limit before; what is there may only become less.
              await settle();
              for (const node of ["n1", "n2"]) allowed.set(node, await usedOn(at, node));
              set(each.limit);
            }
            if (each.op === "tell") {
              at.records.forgetAll();
              other.records.forgetAll();
            }
            if (each.op === "pass") await settle();
            await check();
          }
          await settle();
          await check();
          // From wherever that led, everything comes to its end once nobody wants anything any more.
          at.records.forgetAll();
          for (const workload of ["w1", "w2", "w3", "w4", "w5"]) {
            // A commit that was lost twice is made again after a pause: the clock has to move meanwhile.
            quiet(at.release(workload));
            await settle();
          }
          await at.pass(130_000, 10_000);
          expect(attachedTo(at, "n1")).toEqual([]);
          expect(attachedTo(at, "n2")).toEqual([]);
          expect([await usedOn(at, "n1"), await usedOn(at, "n2")]).toEqual([0, 0]);
          expect(at.records.slots.waiting()).toBe(0);
          expect(at.violations()).toEqual([]);
        } finally {
          await at.close();
        }
      }),
      { numRuns: sample(400, 25) },
    );
  });
});
