/** A call of the controller that lasts stands on its record, whoever reads it, and goes with its answer. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { createWorld, type World } from "../../../../../test/support/controller/world.ts";

let world: World;
beforeEach(async () => {
  world = await createWorld();
  await world.makeVolume("data");
});
afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

/** The call is held, so that nothing comes to rest. */
const letPass = async (ms: number): Promise<void> => {
  for (let passed = 0; passed < ms; passed += 50) await world.clock.advance(50);
};
const callNow = async () => (await world.volume("data")).intent?.call;
const explained = () => world.commands.explainVolume({ namespace: "default", id: "data" });

test("D15: an attach that is held is told after a few seconds, with its attempt and its time", async () => {
  const held = Promise.withResolvers<void>();
  const failing = { kind: "unknown", advice: "again", code: "INTERNAL" } as const;
  world.backend.script("publish", failing, { kind: "held", until: held.promise });
  await world.claim("web", "n1", ["data"]);
  await letPass(1_000);
  const since = world.clock.now();
  expect(await callNow()).toBeUndefined();
  await letPass(3_000);
  const call = await callNow();
  expect(call).toMatchObject({ method: "publish", attempt: 2 });
  expect((call?.since ?? 0) <= since).toBe(true);
  expect(call?.deadline).toBe((call?.since ?? 0) + 60_000);
  const { claims, findings } = await explained();
  expect(claims[0]?.call).toEqual(call);
  expect(findings.join("\n")).toContain("waits for publish (attempt 2)");
  const commits = world.store.commits();
  await letPass(5_000);
  expect(world.store.commits(), "told once").toBe(commits);
  held.resolve();
  await world.idle();
  expect(await callNow()).toBeUndefined();
  expect(await world.states("web")).toEqual(["ACTIVE"]);
});

test("D15: what is not answered any more is not under way: another attempt is, later", async () => {
  const held = Promise.withResolvers<void>();
  world.backend.script("publish", { kind: "held", until: held.promise }, { kind: "lost" });
  await world.claim("web", "n1", ["data"]);
  await letPass(4_000);
  expect(await callNow()).toMatchObject({ attempt: 1 });
  held.resolve();
  await world.idle();
  expect((await explained()).claims[0]?.call).toBeUndefined();
});

test("a call that ends sooner writes nothing more than before, and leaves no timer", async () => {
  const pending = world.clock.pending();
  const commits = world.store.commits();
  await world.claim("web", "n1", ["data"]);
  await world.idle();
  expect(world.store.commits() - commits).toBe(3);
  expect(world.clock.pending()).toBe(pending);
});
