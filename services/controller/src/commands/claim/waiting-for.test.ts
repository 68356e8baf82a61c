import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../../../../../test/support/controller/world.ts";

let world: World;
const data = { namespace: "default", id: "data" };

beforeEach(async () => {
  world = await createWorld();
  await world.makeVolume("data");
});

afterEach(() => world.close());

describe("what waits for a plugin that is away", () => {
  const away = { ready: false, reason: "the controller half of plugin csi.example is waiting" };

  it.each(["ATTACHING", "DETACHING"] as const)("[I6] says so: a claim that is %s", async (state) => {
    if (state === "DETACHING") {
      await world.claim("web", "n1", ["data"]);
      await world.idle();
    }
    world.backend.setFacts(away);
    if (state === "DETACHING") await world.release("web");
    else await world.claim("web", "n1", ["data"]);
    await world.pass(60_000);
    const explained = await world.commands.explainVolume(data);
    expect(explained.claims[0]?.claim.state).toBe(state);
    expect(explained.claims[0]?.waitingFor).toBe(away.reason);
    expect(explained.nextActions).toContain("holdfast plugin status csi.example");
    world.backend.setFacts({ ready: true, reason: "" });
    await world.idle();
    expect(world.backend.attachments()).toHaveLength(state === "ATTACHING" ? 1 : 0);
  });

  it("[I6] says so: a volume that is to be deleted", async () => {
    world.backend.setFacts(away);
    await world.commands.deleteVolume({ ...data, uid: "", requestId: "" }, { who: "t", why: "t" });
    await world.pass(60_000);
    const explained = await world.commands.explainVolume(data);
    expect(explained.volume.state).toBe("DELETING");
    expect(explained.findings).toContainEqual(expect.stringContaining(away.reason));
    expect(explained.nextActions).toContain("holdfast plugin status csi.example");
  });

  it("says so too when the plugin is there and its calls are held back; the claim itself is granted all the same", async () => {
    const callsHeld = "plugin csi.example has not answered for 4 s; its calls wait";
    world.backend.setFacts({ callsHeld });
    world.backend.script("publish", { kind: "unknown", advice: "again", code: "UNAVAILABLE" });
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    const explained = await world.commands.explainVolume(data);
    expect(explained.claims[0]).toMatchObject({ claim: { state: "ATTACHING" }, waitingFor: callsHeld });
    expect(explained.findings).toContainEqual(expect.stringContaining(callsHeld));
    expect(explained.nextActions).toContain("holdfast plugin status csi.example");
  });
});
