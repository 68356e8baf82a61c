/** Weaknesses of another CSI client in claiming, attaching and letting go: each is shown to be impossible here. */
import { runChangeFeed } from "@holdfast/controller/records/change-feed";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { capability, createWorld, type World } from "../support/controller/world.ts";

let world: World;
beforeEach(async () => {
  world = await createWorld();
});
afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const claimsOf = async (id: string) => Object.values((await world.volume(id)).claims);
const codeOf = async (run: Promise<unknown>): Promise<unknown> =>
  run.then(
    () => "done",
    (error: unknown) => (error as { reason: unknown }).reason,
  );
const held = { queue: { enabled: true, deadlineMs: undefined } };
const using = (volume: string, alias: string, readOnly = false) => ({ volume, alias, capability: undefined, readOnly });

describe("letting go", () => {
  test("W6 the secret of a publish is on the record of the attachment, and goes with its undo", async () => {
    const volume = await world.makeVolume("v", { secretRefs: { controllerPublish: "env:PUBLISH" } });
    await world.claim("web", "n1", ["v"]);
    await world.idle();
    expect((await world.volume("v")).attachments["n1"]?.secretRef).toBe("env:PUBLISH");
    // What the volume says by now does not matter: the undo takes what the attachment says.
    await world.commands.updateVolume(
      { namespace: "default", id: volume.id, expectedRevision: 0, update: { secretRefs: {} } },
      { who: "test", why: "test" },
      new AbortController().signal,
    );
    expect((await world.volume("v")).attachments["n1"]?.secretRef).toBe("env:PUBLISH");
  });

  test("W7 the driver's id of the node is stored with the grant: a node that is gone from every list is detached all the same", async () => {
    await world.makeVolume("v");
    await world.claim("web", "n1", ["v"]);
    await world.idle();
    const nodeId = (await world.volume("v")).attachments["n1"]?.nodeId;
    expect(nodeId).not.toBe("");
    await world.release("web");
    await world.idle();
    expect(world.backend.calls.at(-1)).toMatch(new RegExp(`^unpublish .*@${nodeId}$`));
  });

  test("W10 one of two workloads of a node that is told to stop and still runs keeps the attachment", async () => {
    await world.makeVolume("v", { capabilities: [capability("SINGLE_NODE_MULTI_WRITER")] });
    await world.claim("a", "n1", ["v"]);
    await world.claim("b", "n1", ["v"]);
    await world.idle();
    world.agents.chance((method) => (method === "release" ? { kind: "pending", blocked: true } : undefined));
    await world.release("a");
    await world.idle();
    world.agents.chance(undefined);
    await world.release("b");
    // b is proved gone, a is only told to stop: nothing is detached for it.
    expect(world.backend.calls.filter((call) => call.startsWith("unpublish"))).toEqual([]);
    await world.pass(600_000, 30_000);
    expect(world.backend.attachments()).toEqual([]);
    expect(world.backend.calls.filter((call) => call.startsWith("unpublish"))).toHaveLength(1);
  });

  test("W11 a node that is silent for hours loses nothing: no detach, no other writer", async () => {
    await world.makeVolume("v");
    await world.claim("web", "n1", ["v"]);
    await world.idle();
    world.agents.silence("n1", true);
    world.nodes.set("n1", {}, "suspect");
    await world.release("web");
    await world.pass(6 * 3_600_000, 3_600_000);
    expect(world.backend.attachments()).toHaveLength(1);
    expect(await codeOf(world.claim("other", "n2", ["v"]))).not.toBe("done");
  });

  test("W51 a workload that uses one volume twice has two claims, and each is let go for itself", async () => {
    await world.makeVolume("v", { capabilities: [capability("SINGLE_NODE_MULTI_WRITER")] });
    await world.claim("web", "n1", [], { claims: [using("v", "data"), using("v", "copy", true)] });
    await world.idle();
    expect((await claimsOf("v")).map(({ alias, state }) => `${alias} ${state}`).sort()).toEqual([
      "copy ACTIVE",
      "data ACTIVE",
    ]);
    await world.commands.releaseClaims(
      { namespace: "default", workload: "web", aliases: ["copy"], claimUids: [] },
      { who: "test", why: "test" },
    );
    await world.idle();
    expect((await claimsOf("v")).map(({ alias, state }) => `${alias} ${state}`)).toEqual(["data ACTIVE"]);
    expect(world.backend.attachments()).toHaveLength(1);
  });

  test("W53 a release that everybody asks for at once is one detach", async () => {
    await world.makeVolume("v");
    await world.claim("web", "n1", ["v"]);
    await world.idle();
    await Promise.all([world.release("web"), world.release("web"), world.release("web")]);
    await world.idle();
    await world.release("web");
    await world.idle();
    expect(world.backend.calls.filter((call) => call.startsWith("unpublish"))).toHaveLength(1);
  });
});

describe("access", () => {
  test("W31 a claim for a mode that the volume does not have is refused, with the field that differs", async () => {
    await world.makeVolume("v", { capabilities: [capability("SINGLE_NODE_WRITER")] });
    const asked = { ...using("v", ""), capability: capability("MULTI_NODE_MULTI_WRITER") };
    await expect(world.claim("web", "n1", [], { claims: [asked] })).rejects.toMatchObject({
      reason: "CAPABILITY_MISMATCH",
      metadata: { field: "access_mode" },
    });
  });

  test("W32 single-node is one node, not one claim: a second workload there is granted by its mode, another node never", async () => {
    await world.makeVolume("v", { capabilities: [capability("SINGLE_NODE_MULTI_WRITER")] });
    await world.claim("a", "n1", ["v"]);
    await world.claim("b", "n1", ["v"]);
    await world.idle();
    expect((await claimsOf("v")).map(({ state }) => state)).toEqual(["ACTIVE", "ACTIVE"]);
    expect(await codeOf(world.claim("c", "n2", ["v"]))).toBe("CLAIM_CONFLICT");
    expect(await codeOf(world.claim("d", "n2", [], { claims: [using("v", "", true)] }))).toBe("CLAIM_CONFLICT");
  });

  test("W52 no mode is ever the volume's: it is the claim's, and gone with it", async () => {
    const writer = capability("SINGLE_NODE_WRITER");
    const reader = capability("MULTI_NODE_READER_ONLY");
    await world.makeVolume("v", { capabilities: [writer, reader] });
    const as = (mode: typeof writer, readOnly: boolean) => ({
      claims: [{ ...using("v", "", readOnly), capability: mode }],
    });
    await world.claim("reader", "n1", [], as(reader, true));
    await world.idle();
    expect(await codeOf(world.claim("writer", "n1", [], as(writer, false)))).toBe("CLAIM_CONFLICT");
    await world.release("reader");
    await world.idle();
    expect(await codeOf(world.claim("writer", "n1", [], as(writer, false)))).toBe("done");
  });
});

describe("what is asked and told", () => {
  test("W41 what failed has its attempts, its next try and its last error on record, and needs no event to be tried", async () => {
    await world.makeVolume("v");
    world.backend.script("publish", { kind: "dropped" }, { kind: "dropped" });
    await world.claim("web", "n1", ["v"]);
    await world.idle();
    const [waiting] = await claimsOf("v");
    expect(waiting?.attempts.count).toBeGreaterThan(0);
    expect(waiting?.attempts.nextTry).toBeGreaterThan(world.clock.now());
    expect(waiting?.attempts.lastError).toMatchObject({ code: "UNAVAILABLE" });
    await world.pass(60_000);
    expect((await claimsOf("v")).map(({ state }) => state)).toEqual(["ACTIVE"]);
  });

  test("W42 an error is a reason with its subjects as fields; no text has to be read", async () => {
    await world.makeVolume("v");
    await world.claim("a", "n1", ["v"]);
    await world.idle();
    await expect(world.claim("b", "n2", ["v"])).rejects.toMatchObject({
      kind: "precondition",
      reason: "CLAIM_CONFLICT",
      metadata: { namespace: "default", volume: "v", holder_workload: "a", holder_node: "n1" },
    });
  });

  test("W44 a hundred failed tries leave the record as small as one, and what was told before them is still told", async () => {
    const start = await world.store.head();
    await world.makeVolume("v");
    world.backend.chance((method) => (method === "publish" ? { kind: "dropped" } : undefined));
    await world.claim("web", "n1", ["v"]);
    await world.pass(5_000);
    const early = JSON.stringify(await world.volume("v")).length;
    await world.pass(1_800_000, 60_000);
    expect((await claimsOf("v"))[0]?.attempts.count).toBeGreaterThan(10);
    expect(JSON.stringify(await world.volume("v")).length).toBeLessThan(early + 100);
    const stop = new AbortController();
    for await (const { type, body } of world.store.watch(start, stop.signal)) {
      expect([type, JSON.parse(body).state]).toEqual(["volume", "CREATING"]);
      break;
    }
    stop.abort();
  });

  test("W39 a watch that cannot read waits before it tries again", async () => {
    let asked = 0;
    const stop = new AbortController();
    const head = (): Promise<never> => {
      asked += 1;
      return Promise.reject(new Error("away"));
    };
    const feed = runChangeFeed({
      store: { ...world.store, head },
      records: world.records,
      learnOfPlugin: async () => undefined,
      secretChanged: () => undefined,
      changes: world.changes,
      clock: world.clock,
      log: world.log,
      signal: stop.signal,
    } as never);
    feed.catch(() => undefined);
    await world.clock.advance(0);
    expect(asked).toBe(1);
    await world.clock.advance(10_000);
    expect(asked).toBeLessThanOrEqual(11);
    stop.abort();
  });

  test("W43 a call to a node ends, whatever the node does, and what it owes stays owed", async () => {
    await world.makeVolume("v");
    world.agents.script("publish", { kind: "dropped" });
    await world.claim("web", "n1", ["v"], held);
    await world.idle();
    expect((await claimsOf("v"))[0]).toMatchObject({ state: "OFFERED", attempts: { count: 1 } });
    await world.pass(60_000);
    expect((await claimsOf("v"))[0]?.state).toBe("ACTIVE");
  });
});
