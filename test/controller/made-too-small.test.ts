/** A volume that the plugin makes too small is deleted again by a call of its own: whoever goes on with it repeats that delete. */
import { GetVolumeRequest, GetVolumeResponse, type Volume, VolumeState } from "@holdfast/shared/gen/holdfast/v1/volume";
import { afterEach, expect, test } from "vitest";
import { type ApiWorld, createApiWorld } from "../support/controller/api-world.ts";
import { makeSmallVolume, smallBytes } from "../support/controller/make-small-volume.ts";

const [namespace, id] = ["default", "a"];
/** So long the plugin works on the first delete, for whoever waits for it. */
const workMs = 30_000;

let world: ApiWorld;
afterEach(async () => {
  expect(world.broken).toEqual([]);
  await world.close();
});

const volume = async (): Promise<Volume | undefined> =>
  GetVolumeResponse.fromPartial(
    await world.api.volumes.getVolume(GetVolumeRequest.fromPartial({ namespace, id }), world.context()),
  ).volume;
const calls = () => world.backend.record().filter(({ method }) => /^(Create|Delete)Volume$/.test(method));

const making = async (): Promise<void> => {
  let deletes = 0;
  world.chance((method) => {
    if (method !== "DeleteVolume") return undefined;
    deletes += 1;
    return deletes === 1 ? { kind: "slow", ms: workMs, done: true } : undefined;
  }, undefined);
  world.alter((method, response) => {
    if (method !== "CreateVolume") return response;
    const made = (response as { readonly volume: object }).volume;
    return { volume: { ...made, capacityBytes: smallBytes / 2n } };
  });
  await makeSmallVolume(world, id);
  await world.pass(1_000, 100);
  world.alter(undefined);
};

test.each([
  ["its next life", ["c1"], 0],
  ["another controller", ["c1", "c2"], 60_000],
] as const)(
  "[I4] whose controller dies while the delete is open: %s makes nothing of that name, and repeats the delete",
  async (_whose, controllers, downMs) => {
    world = await createApiWorld({ nodes: { n1: {} }, controllers: [...controllers] });
    await world.pass(10_000, 1_000);
    await making();
    const first = calls();
    expect(first.map(({ method }) => method)).toEqual(["CreateVolume", "DeleteVolume"]);
    expect(await volume()).toMatchObject({ state: VolumeState.VOLUME_STATE_DELETING, deleteWanted: false });
    world.controllers.find((one) => first[1]?.instance.startsWith(one.id))?.die(downMs);
    await world.pass(25_000, 1_000);
    expect(await volume()).toMatchObject({ state: VolumeState.VOLUME_STATE_DELETING });
    await world.pass(180_000, 1_000);
    const repeats = calls().slice(first.length);
    expect(repeats.length).toBeGreaterThan(0);
    expect(new Set(repeats.map(({ method }) => method))).toEqual(new Set(["DeleteVolume"]));
    expect(await volume()).toMatchObject({
      state: VolumeState.VOLUME_STATE_FAILED,
      externalId: "",
      lastError: { reason: "PLUGIN_REFUSED", message: expect.stringMatching(/made \d+ bytes although at least/) },
    });
    expect([...world.backend.state().volumes]).toEqual([]);
  },
);
