/** Who may have a volume beside whom: over nodes and workloads, as CSI's table of the second NodePublishVolume has it. */
import type { AccessMode } from "@holdfast/model/access";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { capability, createWorld, type World } from "../../../../../test/support/controller/world.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld({ nodes: ["n1", "n2", "n3"] });
});
afterEach(() => world.close());

const reads = (readOnly: boolean) => ({
  claims: [{ volume: "data", alias: "", capability: undefined, readOnly }],
});

/** What becomes of a second claim, of another workload. */
const second = async (mode: AccessMode, node: string, first: boolean, other: boolean): Promise<string> => {
  await world.makeVolume("data", { capabilities: [capability(mode)] });
  await world.claim("w1", "n1", [], reads(first));
  await world.idle();
  const outcome = await world.claim("w2", node, [], reads(other)).then(
    () => "granted",
    (error: unknown) => (isHoldfastError(error) ? error.reason : String(error)),
  );
  await world.idle();
  expect(world.violations()).toEqual([]);
  return outcome;
};

type Row = readonly [mode: AccessMode, firstReads: boolean, secondReads: boolean, same: string, other: string];

const table: readonly Row[] = [
  ["SINGLE_NODE_WRITER", false, false, "CLAIM_CONFLICT", "CLAIM_CONFLICT"],
  ["SINGLE_NODE_WRITER", false, true, "CLAIM_CONFLICT", "CLAIM_CONFLICT"],
  ["SINGLE_NODE_READER_ONLY", true, true, "CLAIM_CONFLICT", "CLAIM_CONFLICT"],
  ["SINGLE_NODE_SINGLE_WRITER", false, true, "CLAIM_CONFLICT", "CLAIM_CONFLICT"],
  ["SINGLE_NODE_MULTI_WRITER", false, false, "granted", "CLAIM_CONFLICT"],
  ["MULTI_NODE_READER_ONLY", true, true, "granted", "granted"],
  ["MULTI_NODE_SINGLE_WRITER", false, true, "granted", "granted"],
  // Its node is attached read-only, for its reader.
  ["MULTI_NODE_SINGLE_WRITER", true, false, "CLAIM_CONFLICT", "granted"],
  ["MULTI_NODE_SINGLE_WRITER", false, false, "CLAIM_CONFLICT", "CLAIM_CONFLICT"],
  ["MULTI_NODE_MULTI_WRITER", false, false, "granted", "granted"],
];

describe("a second workload", () => {
  it.each(table)(
    "[I1] C42, C43, C55, W32, V2: in mode %s (reading: %s, %s) is %s on the node, and %s on another",
    async (...row) => {
      const [mode, first, other, same, elsewhere] = row;
      expect(await second(mode, "n1", first, other)).toBe(same);
      await world.close();
      world = await createWorld({ nodes: ["n1", "n2", "n3"] });
      expect(await second(mode, "n2", first, other)).toBe(elsewhere);
      const calls = world.backend.calls.filter((call) => call.startsWith("publish"));
      expect(calls.map((call) => call.split("@")[1])).toEqual(elsewhere === "granted" ? ["n1", "n2"] : ["n1"]);
    },
  );
});

describe("what is asked for", () => {
  it("W31, X21: has to be a capability of the volume, and what differs is named; ours fixes no mode for others", async () => {
    const both = [capability("MULTI_NODE_READER_ONLY"), capability("SINGLE_NODE_WRITER")];
    await world.makeVolume("data", { capabilities: both });
    const asked = (mode: AccessMode, readOnly: boolean) => ({
      claims: [{ volume: "data", alias: "", capability: capability(mode), readOnly }],
    });
    await expect(world.claim("w0", "n1", [], asked("MULTI_NODE_MULTI_WRITER", false))).rejects.toMatchObject({
      reason: "CAPABILITY_MISMATCH",
      metadata: { field: "access_mode", wanted: "MULTI_NODE_MULTI_WRITER" },
    });
    await world.claim("w1", "n1", [], asked("MULTI_NODE_READER_ONLY", true));
    await world.idle();
    // Nomad calls the volume unschedulable here; ours names the holder and the mode.
    await expect(world.claim("w2", "n1", [], asked("SINGLE_NODE_WRITER", false))).rejects.toMatchObject({
      reason: "CLAIM_CONFLICT",
      metadata: { holder_workload: "w1" },
      message: expect.stringContaining("held in mode MULTI_NODE_READER_ONLY"),
    });
    await world.release("w1");
    await world.idle();
    await world.claim("w2", "n1", [], asked("SINGLE_NODE_WRITER", false));
  });

  it("X25: differs in the attachment mode before it is a matter of who else has it", async () => {
    await world.makeVolume("data");
    await world.claim("w1", "n1", ["data"]);
    const block = { ...capability(), attachmentMode: "BLOCK_DEVICE" as const, fsType: "" };
    const asked = { claims: [{ volume: "data", alias: "", capability: block, readOnly: false }] };
    await expect(world.claim("w2", "n1", [], asked)).rejects.toMatchObject({
      reason: "CAPABILITY_MISMATCH",
      metadata: { field: "attachment_mode" },
    });
  });

  it("X24: again by the same workload is the same claim", async () => {
    await world.makeVolume("data", { capabilities: [capability("MULTI_NODE_SINGLE_WRITER")] });
    const [first] = await world.claim("w1", "n1", [], reads(false));
    const [again] = await world.claim("w1", "n1", [], reads(false));
    expect(again?.claim.uid).toBe(first?.claim.uid);
  });
});

describe("the slot of a writer", () => {
  it("X23: is free only once the one before is detached, although readers stay", async () => {
    await world.makeVolume("data", { capabilities: [capability("MULTI_NODE_SINGLE_WRITER")] });
    await world.claim("reader", "n2", [], reads(true));
    await world.claim("w1", "n1", [], reads(false));
    await world.idle();
    world.backend.script("unpublish", { kind: "unknown", advice: "again", code: "UNAVAILABLE" });
    await world.release("w1");
    await world.idle();
    await expect(world.claim("w2", "n3", [], reads(false))).rejects.toMatchObject({ reason: "CLAIM_CONFLICT" });
    await world.pass(3_000);
    await world.claim("w2", "n3", [], reads(false));
    await world.idle();
    expect([await world.states("w2"), await world.states("reader")]).toEqual([["ACTIVE"], ["ACTIVE"]]);
  });

  it("W32: is on the node that is attached for writing as long as anybody keeps that attachment", async () => {
    await world.makeVolume("data", { capabilities: [capability("MULTI_NODE_SINGLE_WRITER")] });
    await world.claim("w1", "n1", [], reads(false));
    await world.claim("reader", "n1", [], reads(true));
    await world.idle();
    await world.release("w1");
    await world.idle();
    await expect(world.claim("w2", "n2", [], reads(false))).rejects.toMatchObject({
      reason: "CLAIM_CONFLICT",
      metadata: { holder_workload: "reader" },
      message: expect.stringContaining("node n1 has it attached for a writer"),
    });
    await world.claim("w2", "n1", [], reads(false));
    await world.idle();
    expect(await world.states("w2")).toEqual(["ACTIVE"]);
  });

  it("is not taken again and again by readers that come after a writer in the queue", async () => {
    await world.makeVolume("data", {
      capabilities: [capability("MULTI_NODE_READER_ONLY"), capability("SINGLE_NODE_WRITER")],
    });
    const asked = (mode: AccessMode, readOnly: boolean) => ({
      claims: [{ volume: "data", alias: "", capability: capability(mode), readOnly }],
      queue: { enabled: true, deadlineMs: undefined },
    });
    await world.claim("r1", "n1", [], asked("MULTI_NODE_READER_ONLY", true));
    await world.idle();
    await world.claim("writer", "n2", [], asked("SINGLE_NODE_WRITER", false));
    await world.claim("r2", "n2", [], asked("MULTI_NODE_READER_ONLY", true));
    await world.idle();
    expect([await world.states("writer"), await world.states("r2")]).toEqual([["QUEUED"], ["QUEUED"]]);
    await world.release("r1");
    await world.idle();
    expect([await world.states("writer"), await world.states("r2")]).toEqual([["ACTIVE"], ["QUEUED"]]);
    await world.release("writer");
    await world.idle();
    expect(await world.states("r2")).toEqual(["ACTIVE"]);
  });
});
