import { describe, expect, test } from "vitest";
import type { Capability } from "../domain/records.ts";
import {
  blockCapability,
  createNodeFixture,
  mountCapability,
  readerCapability,
  stagingPath,
  targetPath,
} from "../testing/node-fixture.ts";

const before = 64n << 20n;
const after = 128n << 20n;

const grown = async (capability: Capability = mountCapability) => {
  const at = createNodeFixture();
  const { id } = await at.addVolume();
  await at.stage(id, capability);
  await at.publish(id, 1, { capability });
  const grow = async () => {
    await at.memory.host.images.grow(at.memory.host.state.volumes.paths(id).image, after, at.signal);
    await at.memory.host.state.volumes.change(id, (record) => ({ ...record, capacityBytes: after }));
  };
  const expand = (path: string, over: Partial<Parameters<typeof at.node.expand>[0]> = {}) =>
    at.node.expand(
      { volumeId: id, path, capacity: { requiredBytes: after, limitBytes: 0n }, capability: undefined, ...over },
      at.signal,
    );
  return { at, id, grow, expand };
};

describe.each(["ext4", "xfs"] as const)("%s", (fsType) => {
  test.each([stagingPath, targetPath(1)])("grows while mounted, by %s, and twice is as once", async (path) => {
    const { at, id, grow, expand } = await grown({ ...mountCapability, fsType });
    await grow();
    expect(await expand(path)).toEqual({ capacityBytes: after });
    expect(await expand(path)).toEqual({ capacityBytes: after });
    expect(at.memory.imageOf("volumes", id).filesystemBytes).toBe(after);
    expect([...at.memory.world.loops.values()]).toMatchObject([{ bytes: after }]);
  });
});

test("grows by a target that is read-only: the staging can be written", async () => {
  const { at, id, grow, expand } = await grown();
  await at.publish(id, 2, { readonly: true });
  await grow();
  expect(await expand(targetPath(2))).toEqual({ capacityBytes: after });
  expect(at.memory.imageOf("volumes", id).filesystemBytes).toBe(after);
});

test("every device of a block volume learns the size", async () => {
  const { at, id, grow, expand } = await grown(blockCapability);
  await at.publish(id, 2, { capability: blockCapability, readonly: true });
  await grow();
  await expand(targetPath(2), { capability: blockCapability });
  expect([...at.memory.world.loops.values()].map(({ bytes }) => bytes)).toEqual([after, after]);
  expect(at.memory.calls).not.toContain("images.fitMounted");
});

test("a directory has what was noted", async () => {
  const at = createNodeFixture();
  const { id } = await at.addVolume({ type: "directory" });
  await at.stage(id);
  const capacity = { requiredBytes: 0n, limitBytes: 0n };
  expect(await at.node.expand({ volumeId: id, path: stagingPath, capacity, capability: undefined }, at.signal)).toEqual(
    {
      capacityBytes: before,
    },
  );
});

test("less than there is is answered with what there is", async () => {
  const { expand } = await grown();
  const capacity = { requiredBytes: 4096n, limitBytes: 0n };
  expect(await expand(stagingPath, { capacity })).toEqual({ capacityBytes: before });
});

describe("refuses", () => {
  test("more than ControllerExpandVolume made, and a limit below what there is", async () => {
    const { expand } = await grown();
    await expect(expand(stagingPath)).rejects.toMatchObject({
      code: "OUT_OF_RANGE",
      message: expect.stringMatching(/ControllerExpandVolume first/),
    });
    await expect(expand(stagingPath, { capacity: { requiredBytes: 0n, limitBytes: 4096n } })).rejects.toMatchObject({
      code: "OUT_OF_RANGE",
      message: expect.stringMatching(/never made smaller/),
    });
  });

  test("a path where it is not", async () => {
    const { grow, expand } = await grown();
    await grow();
    await expect(expand("/co/pods/2/target")).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  test("another access than the path has", async () => {
    const { grow, expand } = await grown();
    await grow();
    await expect(expand(stagingPath, { capability: blockCapability })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
  });

  test("a filesystem that is not mounted or only read, with the cure", async () => {
    const reader = await grown(readerCapability);
    await reader.grow();
    await expect(reader.expand(stagingPath)).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(/staged read-only.*stage it for writing/),
    });
    const { at, grow, expand } = await grown();
    await grow();
    at.memory.reboot();
    await expect(expand(stagingPath)).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(/nothing is mounted at .* call NodeStageVolume/),
    });
  });

  test("what the kernel refuses, in its words; after unstage and stage it has grown", async () => {
    const { at, id, grow, expand } = await grown();
    await grow();
    at.memory.inject({
      on: "images.fitMounted",
      kind: "fail",
      code: "FAILED_PRECONDITION",
      message: "CAP_SYS_RESOURCE",
    });
    await expect(expand(stagingPath)).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(/^volume .* on node node-a: CAP_SYS_RESOURCE/),
    });
    await at.unpublish(id, 1);
    await at.unstage(id);
    await at.stage(id);
    expect(at.memory.imageOf("volumes", id).filesystemBytes).toBe(after);
  });
});

test("a target whose device is not of the image is not said to have grown", async () => {
  const { at, grow, expand } = await grown(blockCapability);
  await grow();
  // Another file took the name of the image while it was in use.
  at.memory.world.loops.clear();
  await expect(expand(targetPath(1))).rejects.toMatchObject({
    code: "FAILED_PRECONDITION",
    message: expect.stringMatching(/something that is not of this volume is mounted at/),
  });
});
