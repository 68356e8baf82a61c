import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { capability, createWorld, type World } from "../../../../../test/support/controller/world.ts";
import { released } from "../../domain/claim/claim-change.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld();
  await world.makeVolume("data");
});

afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

describe("the same key asked again while its former life is detached", () => {
  it("[I6] after a release that only the agent was asked for: a new life, queued behind it", async () => {
    const [old] = await world.claim("web", "n1", ["data"]);
    await world.idle();
    const uid = old?.claim.uid ?? "";
    world.backend.script("unpublish", { kind: "dropped" });
    world.agents.releaseLocally("n1", uid);
    await world.records.change({ namespace: "default", id: "data" }, (v, at) => released(v, uid, at));
    await world.idle();
    expect((await world.volume("data")).claims[uid]?.state).toBe("DETACHING");
    const [again] = await world.claim("web", "n1", ["data"]);
    expect(again?.claim.uid).not.toBe(uid);
    expect(again?.claim.state).toBe("QUEUED");
    await world.pass(120_000);
    expect((await world.volume("data")).claims[again?.claim.uid ?? ""]?.state).toBe("ACTIVE");
  });

  it("[I6] after a mount that failed: a new life, and not the failure of the old one", async () => {
    world.agents.script("publish", { kind: "not-mounted" });
    world.backend.script("unpublish", { kind: "dropped" });
    const [old] = await world.claim("web", "n1", ["data"]);
    await world.idle();
    expect(await world.states("web")).toEqual(["DETACHING"]);
    const [again] = await world.claim("web", "n1", ["data"]);
    expect(again?.claim.uid).not.toBe(old?.claim.uid);
    await world.pass(120_000);
    expect((await world.volume("data")).claims[again?.claim.uid ?? ""]?.state).toBe("ACTIVE");
  });
});

describe("a volume with very many claims", () => {
  it("[I6] takes no more of them while there is room left for all to be released", async () => {
    await world.makeVolume("shared", { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] });
    const ref = { namespace: "default", id: "shared" };
    const [first] = await world.claim("w", "n1", ["shared"]);
    await world.idle();
    // Claims that nobody works on, as many as a record takes.
    const uid = first?.claim.uid ?? "";
    await world.records.change(ref, (v) => {
      const claim = v.claims[uid];
      if (claim === undefined) throw new Error("the claim is gone");
      const message = "m".repeat(1024);
      const copies = Array.from({ length: 480 }, (_, n) => [
        `c${n}`,
        { ...claim, uid: `c${n}`, failure: { reason: "X", message } },
      ]);
      return { volume: { ...v, claims: { ...v.claims, ...Object.fromEntries(copies) } }, ended: [], notes: [] };
    });
    await expect(world.claim("late", "n1", ["shared"])).rejects.toMatchObject({
      kind: "exhausted",
      reason: "TOO_MANY_CLAIMS",
      metadata: { volume: "shared", claims: "481" },
    });
    await world.release("w", [uid]);
    await world.idle();
    expect((await world.volume("shared")).claims[uid]).toBeUndefined();
  });
});
