import { describe, expect, test } from "vitest";
import { blockCapability, createNodeFixture, mountCapability } from "../testing/node-fixture.ts";

const health = async (at: ReturnType<typeof createNodeFixture>, volumeId: string) =>
  (await at.node.volumeHealth({ volumeId }, at.signal)).map(({ status, reason }) => `${status} ${reason}`);

const inUse = async (capability = mountCapability) => {
  const at = createNodeFixture();
  const { id } = await at.addVolume();
  await at.stage(id, capability);
  await at.publish(id, 1, { capability });
  return { at, id, image: at.memory.host.state.volumes.paths(id).image };
};

describe("the health of a volume", () => {
  test.each([
    ["mounted", mountCapability],
    ["a device", blockCapability],
  ])("in use and sound has nothing adverse: %s", async (_, capability) => {
    const { at, id } = await inUse(capability);
    expect(await health(at, id)).toEqual([]);
  });

  test("that was never staged is told as well, and one that is unknown is NOT_FOUND", async () => {
    const at = createNodeFixture();
    const { id } = await at.addVolume();
    expect(await health(at, id)).toEqual([]);
    at.memory.world.files.delete(at.memory.host.state.volumes.paths(id).image);
    expect(await health(at, id)).toEqual(["DATA_LOSS ContentsDamaged"]);
    await expect(health(at, "gone")).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  test("whose image was cut has lost data", async () => {
    const { at, id, image } = await inUse();
    const file = at.memory.world.files.get(image);
    if (file?.kind !== "image") throw new Error("there is no image");
    file.bytes = 1n;
    expect(await health(at, id)).toEqual(["DATA_LOSS ContentsDamaged"]);
  });

  test("whose image cannot be looked at is inaccessible", async () => {
    const { at, id } = await inUse();
    at.memory.inject({ on: "images.sizeOf", kind: "fail", code: "INTERNAL", message: "EIO" });
    expect(await health(at, id)).toEqual(["INACCESSIBLE ContentsUnreadable"]);
  });

  test.each([
    ["mounted", mountCapability],
    ["a device", blockCapability],
  ])("whose loop device was taken away is inaccessible: %s", async (_, capability) => {
    const { at, id } = await inUse(capability);
    at.memory.world.loops.clear();
    expect(await health(at, id)).toEqual(["INACCESSIBLE LoopDeviceGone"]);
  });

  test("whose filesystem the kernel has shut down is inaccessible", async () => {
    const { at, id } = await inUse();
    const { mounts } = at.memory.world;
    for (const [n, entry] of mounts.entries()) mounts[n] = { ...entry, superOptions: ["shutdown"] };
    expect(await health(at, id)).toEqual(["INACCESSIBLE NotMountedRight"]);
  });
});

test("a full disk of the state directory degrades the storage of the node", async () => {
  const at = createNodeFixture();
  expect(await at.node.storageHealth()).toEqual([]);
  at.memory.world.diskBytes = 1n << 20n;
  expect(await at.node.storageHealth()).toMatchObject([
    { status: "STORAGE_DEGRADED", reason: "DiskFull", message: expect.stringContaining("bytes left") },
  ]);
});
