import { afterEach, beforeEach, expect, test } from "vitest";
import { createWorld, type World } from "../../../../../test/support/controller/world.ts";
import { noChange } from "../../domain/change.ts";
import type { CallSite } from "../../domain/open-call.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import { owedVolumes, type StepDeps } from "../steps/step-run.ts";
import { giveBack } from "./give-back.ts";

let world: World;
let unstored: Map<string, string>;
const data = { namespace: "default", id: "data" };
const given = { op: "expand", epoch: { gen: 0, ctr: 0 }, issuer: "c1/1", opId: "its call", via: "the socket" } as const;

beforeEach(async () => {
  world = await createWorld();
  unstored = new Map();
  await world.makeVolume("data");
});
afterEach(() => world.close());

/** No step is planned for it, so that the intent stays as it is. */
const store = (change: Partial<CallSite>) =>
  world.records.change(data, (v: VolumeRecord) => noChange({ ...v, intent: { ...given, ...change } }), {});

const end = async () => {
  const { records } = owedVolumes({ records: world.records, plugins: world.backend } as unknown as StepDeps);
  const rights = { issuer: "c1/1" } as Parameters<typeof giveBack>[0]["rights"];
  await giveBack({ records, rights, unstored, log: world.log }, async () => (await world.records.get(data))?.volume);
  return (await world.volume("data")).intent;
};

test("[O3] a call that never left belongs to no instance when its controller stops", async () => {
  await store({});
  expect(await end()).toEqual({ op: "expand", epoch: { gen: 0, ctr: 0 }, issuer: "c1/1", opId: "its call" });
});

test.each([
  ["left, and whose answer is not stored", {}, "its call"],
  ["an attempt has left open", { openSince: 1, uncertainSince: 1 }, undefined],
  ["belongs to another controller", { issuer: "c2/1" }, undefined],
] as const)("[O2] a call that %s stays where it is", async (_which, change, left) => {
  await store(change);
  if (left !== undefined) unstored.set("default/data", left);
  expect(await end()).toEqual({ ...given, ...change });
});
