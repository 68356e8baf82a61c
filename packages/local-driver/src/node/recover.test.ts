import { expect, test } from "vitest";
import { blockCapability, createNodeFixture, stagingPath, targetPath } from "../testing/node-fixture.ts";

const addLoop = (at: ReturnType<typeof createNodeFixture>, id: string, device: string) => {
  const { image } = at.memory.host.state.volumes.paths(id);
  at.memory.world.loops.set(device, { device, image, readonly: false, bytes: 64n << 20n });
};

test("in order: nothing to do, nothing to say", async () => {
  const at = createNodeFixture();
  const { id } = await at.addVolume();
  const block = await at.addVolume({ name: "raw" });
  await at.stage(id);
  await at.publish(id, 1);
  await at.stage(block.id, blockCapability, "/co/other");
  const before = structuredClone(at.memory.world.mounts);
  expect(await at.node.recover(at.signal)).toEqual([]);
  expect(at.memory.world.mounts).toEqual(before);
  expect(at.memory.world.loops.size).toBe(1);
});

test("what a killed life left frozen is thawed, wherever it is mounted", async () => {
  const at = createNodeFixture();
  const { id } = await at.addVolume();
  await at.stage(id);
  at.memory.world.frozen.add("7:0");
  await at.node.recover(at.signal);
  expect(at.memory.world.frozen.size).toBe(0);
  at.memory.write(id, 0n, 1, 1);
});

test("a loop device that nothing uses is let go of; those of others stay", async () => {
  const at = createNodeFixture();
  const one = await at.addVolume();
  const two = await at.addVolume({ name: "used" });
  await at.stage(two.id);
  addLoop(at, one.id, "/dev/loop7");
  at.memory.world.loops.set("/dev/loop9", { device: "/dev/loop9", image: "/foreign.img", readonly: false, bytes: 1n });
  expect(await at.node.recover(at.signal)).toEqual([
    `volume ${one.id} (data): let go of /dev/loop7, which nothing used`,
  ]);
  expect([...at.memory.world.loops.keys()]).toEqual(["/dev/loop0", "/dev/loop9"]);
});

test("what a reboot took away is said and left to the orchestrator", async () => {
  const at = createNodeFixture();
  const { id } = await at.addVolume();
  await at.stage(id);
  await at.publish(id, 1);
  at.memory.reboot();
  const record = at.record(id);
  expect(await at.node.recover(at.signal)).toEqual([
    `volume ${id} (data): it was staged at ${stagingPath}, where nothing is mounted now; NodeStageVolume mounts it again`,
    `volume ${id} (data): it was published at ${targetPath(1)}, where nothing is mounted now; NodePublishVolume mounts it again`,
  ]);
  expect(at.record(id)).toEqual(record);
  expect(at.mounts()).toEqual([]);
});

test("one volume in trouble keeps no other from being looked after", async () => {
  const at = createNodeFixture();
  const one = await at.addVolume();
  const two = await at.addVolume({ name: "other" });
  addLoop(at, one.id, "/dev/loop3");
  addLoop(at, two.id, "/dev/loop4");
  at.memory.world.busy.add("/dev/loop3");
  const did = await at.node.recover(at.signal);
  expect(did).toHaveLength(2);
  expect(did[0]).toMatch(/\(data\): EBUSY: \/dev\/loop3 is in use/);
  expect([...at.memory.world.loops.keys()]).toEqual(["/dev/loop3"]);
});

test("a start that is given up does not go on", async () => {
  const at = createNodeFixture();
  const { id } = await at.addVolume();
  addLoop(at, id, "/dev/loop3");
  const stop = new AbortController();
  stop.abort(new Error("stopped"));
  await expect(at.node.recover(stop.signal)).rejects.toThrow("stopped");
  expect(at.memory.world.loops.size).toBe(1);
});
