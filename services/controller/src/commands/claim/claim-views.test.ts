import { expect, it, onTestFinished } from "vitest";
import { createWorld } from "../../../../../test/support/controller/world.ts";
import type { GrantFacts } from "../../domain/claim/grant.ts";
import { livingView } from "./claim-views.ts";

it("asks what a claim waits for when an answer says it, and not for a claim that is ACTIVE", async () => {
  const world = await createWorld();
  onTestFinished(() => world.close());
  const volume = await world.makeVolume("data");
  await world.claim("web", "n1", ["data"]);
  let asked = 0;
  const factsOf = (): GrantFacts => {
    asked += 1;
    throw new Error("asked");
  };
  const viewNow = async () => {
    const found = await world.records.current({ namespace: "default", id: "data" });
    if (found === undefined) throw new Error(`no volume ${JSON.stringify(volume)}`);
    const [claim] = Object.values(found.volume.claims);
    if (claim === undefined) throw new Error("no claim");
    return livingView(found, claim, factsOf);
  };
  const attaching = await viewNow();
  expect(asked).toBe(0);
  expect(attaching).toMatchObject({ kind: "living", claim: { state: "ATTACHING" } });
  expect(() => "waitingFor" in attaching && attaching.waitingFor).toThrow("asked");
  await world.idle();
  expect(await viewNow()).toMatchObject({ claim: { state: "ACTIVE" }, waitingFor: "" });
  expect(asked).toBe(1);
});
