/** A create that was overtaken is repeated at its gate while the volume is used: the gate knows both calls as of one volume. */
import { ClaimState, CreateClaimsRequest, GetClaimRequest } from "@holdfast/shared/gen/holdfast/v1/claim";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type ApiWorld, createApiWorld } from "../support/controller/api-world.ts";
import { makeSmallVolume } from "../support/controller/make-small-volume.ts";

const [namespace, id, node, workload] = ["default", "a", "n1", "w"];

let world: ApiWorld;
beforeEach(async () => {
  world = await createApiWorld({ nodes: { [node]: {} }, controllers: ["c1", "c2"] });
  await world.pass(10_000, 1_000);
});
afterEach(async () => {
  expect(world.broken).toEqual([]);
  await world.close();
});

const calls = (method: string) => world.backend.record().filter((call) => call.method === method);
const controllerOf = (call: { readonly instance: string } | undefined) => {
  const found = world.controllers.find((one) => call?.instance.startsWith(`${one.id}:`));
  if (found === undefined) throw new Error("no controller has made the call");
  return found;
};

test("no attach is sent beside the repeat, and it is when that has ended", async () => {
  let creates = 0;
  world.chance((method) => {
    if (method !== "CreateVolume") return undefined;
    creates += 1;
    if (creates === 1) return { kind: "lost" };
    return creates === 3 ? { kind: "slow", ms: 60_000, done: true } : undefined;
  }, undefined);
  await makeSmallVolume(world, id);
  await world.pass(100, 100);
  const owner = controllerOf(calls("CreateVolume")[0]);
  owner.stop(15_000);
  await world.pass(20_000, 1_000);
  const [, overtaking, repeat] = calls("CreateVolume");
  const other = controllerOf(overtaking);
  expect([other.id === owner.id, controllerOf(repeat) === owner]).toEqual([false, true]);

  other.stop(200_000);
  await owner.api.claims.createClaims(
    CreateClaimsRequest.fromPartial({ namespace, workload, node, claims: [{ volume: id }] }),
    owner.context(),
  );
  await world.pass(30_000, 1_000);
  expect(calls("CreateVolume").filter(({ endSeq }) => endSeq === undefined)).toHaveLength(1);
  expect(calls("ControllerPublishVolume")).toEqual([]);
  await world.pass(90_000, 1_000);
  expect(controllerOf(calls("ControllerPublishVolume")[0])).toBe(owner);
  const { claim } = await owner.api.claims.getClaim(
    GetClaimRequest.fromPartial({ namespace, volume: id, workload, alias: id }),
    owner.context(),
  );
  expect(claim?.state).toBe(ClaimState.CLAIM_STATE_ACTIVE);
});
