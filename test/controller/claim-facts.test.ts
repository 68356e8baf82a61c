/** Facts that another CSI client's tests pin down about claims, and how it is here (docs/nomad-differences.md). */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { caller, capability, createWorld, volumeInput, type World } from "../support/controller/world.ts";

let world: World;
beforeEach(async () => {
  world = await createWorld();
});
afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const asked = (mode: Parameters<typeof capability>[0], readOnly = false) => ({
  claims: [{ volume: "v", alias: "", capability: capability(mode), readOnly }],
});
const states = async (): Promise<readonly string[]> =>
  Object.values((await world.volume("v")).claims)
    .map(({ workload, state }) => `${workload} ${state}`)
    .sort();

describe("many nodes, one of which may write", () => {
  const mode = "MULTI_NODE_SINGLE_WRITER";
  beforeEach(() => world.makeVolume("v", { capabilities: [capability(mode)] }));

  test("X22 X24 a reader beside the writer changes nothing for it, and the same asked again is the same claim", async () => {
    await world.claim("writer", "n1", [], asked(mode));
    await world.idle();
    const [first] = await world.claim("reader", "n2", [], asked(mode, true));
    const [again] = await world.claim("reader", "n2", [], asked(mode, true));
    expect(again?.claim.uid).toBe(first?.claim.uid);
    await world.idle();
    expect(await states()).toEqual(["reader ACTIVE", "writer ACTIVE"]);
    expect((await world.volume("v")).attachments["n1"]?.accessMode).toBe(mode);
  });

  test("X23 the writer's place is taken until its release is proved, and free then although the reader stays", async () => {
    await world.claim("writer", "n1", [], asked(mode));
    await world.claim("reader", "n2", [], asked(mode, true));
    await world.idle();
    world.agents.chance((method) => (method === "release" ? { kind: "pending", blocked: false } : undefined));
    await world.release("writer");
    await world.idle();
    await expect(world.claim("next", "n1", [], asked(mode))).rejects.toMatchObject({ reason: "CLAIM_CONFLICT" });
    world.agents.chance(undefined);
    await world.pass(60_000);
    await world.claim("next", "n1", [], asked(mode));
    await world.idle();
    expect(await states()).toEqual(["next ACTIVE", "reader ACTIVE"]);
  });
});

test("X25 a volume of the wrong kind is refused for that, before anybody counts who holds it", async () => {
  await world.makeVolume("v", { capabilities: [capability("SINGLE_NODE_WRITER")] });
  await world.claim("a", "n1", ["v"]);
  const block = { ...capability("SINGLE_NODE_WRITER"), attachmentMode: "BLOCK_DEVICE", fsType: "" } as const;
  await expect(
    world.claim("b", "n2", [], { claims: [{ volume: "v", alias: "", capability: block, readOnly: false }] }),
  ).rejects.toMatchObject({ reason: "CAPABILITY_MISMATCH" });
});

test("X28 a detach that fails keeps its claim counted, and one that is done does not", async () => {
  const mode = "MULTI_NODE_READER_ONLY";
  await world.makeVolume("v", { capabilities: [capability(mode)] });
  await world.claim("a", "n1", [], asked(mode, true));
  await world.claim("b", "n2", [], asked(mode, true));
  await world.idle();
  world.backend.chance((method) => (method === "unpublish" ? { kind: "dropped" } : undefined));
  await world.release("a");
  await world.idle();
  expect(await states()).toEqual(["a DETACHING", "b ACTIVE"]);
  world.backend.chance(undefined);
  await world.pass(60_000);
  expect(await states()).toEqual(["b ACTIVE"]);
});

test("X32 the context that the plugin answered is the volume's, whole", async () => {
  const volume = await world.makeVolume("v", { parameters: { kind: "fast" } });
  expect(volume.context).not.toMatchObject({ kind: "fast" });
  expect((await world.volume("v")).parameters).toEqual({ kind: "fast" });
});

test("X33 a volume that is not there is named, and nothing is called", async () => {
  await expect(
    world.commands.deleteVolume({ namespace: "default", id: "bad", uid: "", requestId: "" }, caller),
  ).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND", metadata: { volume: "bad" } });
  await expect(world.commands.createVolume(volumeInput("v", { plugin: "csi.none" }), caller)).rejects.toMatchObject({
    reason: "PLUGIN_NOT_FOUND",
  });
  expect(world.backend.calls).toEqual([]);
});

test("X44 what changed while no controller ran is taken up by the next one", async () => {
  await world.makeVolume("v");
  await world.claim("web", "n1", ["v"]);
  await world.idle();
  world.kill();
  const [claim] = Object.values((await world.volume("v")).claims);
  world.agents.releaseLocally("n1", claim?.uid ?? "");
  await world.restart();
  await world.release("web");
  await world.pass(60_000);
  expect(await states()).toEqual([]);
  expect(world.backend.attachments()).toEqual([]);
});

test("X45 a record never holds more writers than its mode allows, whatever is asked at once", async () => {
  await world.makeVolume("v", { capabilities: [capability("SINGLE_NODE_WRITER")] });
  const results = await Promise.allSettled(
    ["a", "b", "c"].map((workload, n) => world.claim(workload, `n${(n % 2) + 1}`, ["v"])),
  );
  expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  await world.idle();
  expect(await states()).toHaveLength(1);
});
