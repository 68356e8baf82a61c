import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../../../../../test/support/controller/world.ts";
import type { ClaimState } from "../../domain/claim/claim.ts";
import { attachmentRecord, claimRecord, nodeRecord, volumeRecord } from "../../domain/testing/record-fixtures.ts";
import type { NodeView } from "../../ports.ts";
import { leadReleases } from "./lead-releases.ts";

const vetting = { gen: 1, uid: "vetting-1" };
const there: NodeView = { record: nodeRecord("n1"), live: "alive", rev: 1 };
const inState = (state: ClaimState) =>
  volumeRecord(
    [claimRecord("k1", { state, epoch: { gen: 1, ctr: 9 }, nodeEpoch: 1 })],
    [attachmentRecord("n1", { machineId: there.record.machineId })],
  );

interface Case {
  readonly before?: ClaimState;
  readonly after?: ClaimState;
  readonly node?: NodeView | undefined;
  readonly open?: boolean;
  readonly ends?: boolean;
}

const led = async (it: Case) => {
  const orders: object[] = [];
  const taking = new AbortController();
  if (it.ends) taking.abort();
  const ledReleases = new WeakMap();
  const after = inState(it.after ?? "RELEASING");
  const deps = {
    agents: {
      release: async (_node: unknown, { claimUid, epoch }: { claimUid: string; epoch: object }) => {
        orders.push({ claimUid, epoch });
        return { kind: "released" };
      },
    },
    gate: { state: () => ({ open: it.open ?? true, vetting }) },
    ledReleases,
    nodes: { get: () => ("node" in it ? it.node : there) },
    sent: async () => undefined,
    signal: new AbortController().signal,
    taking: taking.signal,
  };
  await leadReleases(deps as unknown as Parameters<typeof leadReleases>[0], inState(it.before ?? "ACTIVE"), after);
  const claim = after.claims["k1"];
  return { orders, answer: claim && (await ledReleases.get(claim)) };
};

describe("the release that a caller asks for", () => {
  it("[LR1] [LR3] leaves for that claim and epoch, and its answer is kept", async () => {
    expect(await led({})).toEqual({
      orders: [{ claimUid: "k1", epoch: { gen: 1, ctr: 9 } }],
      answer: { kind: "released" },
    });
  });

  it.each<[string, Case]>([
    ["of a claim that is not ACTIVE", { before: "OFFERED" }],
    ["of a claim that stays", { after: "ACTIVE" }],
    ["to a node that is not known", { node: undefined }],
    ["to a node that is silent", { node: { ...there, live: "suspect" } }],
    ["to a node whose link another controller has", { node: { ...there, linked: false } }],
    ["to another machine that has the name", { node: { ...there, record: { ...there.record, machineId: "m2" } } }],
    ["under a store that is not vetted", { open: false }],
    ["when this controller ends", { ends: true }],
  ])("does not leave ahead %s", async (_, changed) => {
    expect(await led(changed)).toEqual({ orders: [], answer: undefined });
  });
});

describe("a controller and an agent", () => {
  let world: World;
  const minute = 60_000;
  const releases = () => world.agents.calls.filter((call) => call.startsWith("release "));
  const stored = async () =>
    Object.values((await world.records.get({ namespace: "default", id: "data" }))?.volume.claims ?? {})[0]?.state;

  beforeEach(async () => {
    world = await createWorld();
    await world.makeVolume("data");
    await world.claim("web", "n1", ["data"]);
    await world.idle();
  });
  afterEach(async () => {
    expect(world.violations()).toEqual([]);
    await world.close();
  });

  it("[LR3] the agent is asked before the wish is stored, and once", async () => {
    const seen: (string | undefined)[] = [];
    const { release } = world.agents;
    world.agents.release = async (...asked) => {
      seen.push(await stored());
      return await release(...asked);
    };
    await world.release("web");
    await world.pass(minute);
    expect(seen).toEqual(["ACTIVE"]);
    expect(await world.states("web")).toEqual(["RELEASED"]);
    expect(world.backend.attachments()).toEqual([]);
  });

  it("[LR2] [I2] a wish that cannot be stored detaches nothing, and ends when it is asked for again", async () => {
    const { commit } = world.store;
    const away = new HoldfastError({ kind: "unavailable", reason: "STORE_UNAVAILABLE", message: "away" });
    world.store.commit = async () => {
      throw away;
    };
    await expect(world.release("web")).rejects.toMatchObject({ reason: "STORE_UNAVAILABLE" });
    world.store.commit = commit;
    await world.pass(minute);
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(world.agents.mounts()).toEqual([]);
    expect(world.backend.attachments()).toHaveLength(1);
    await world.release("web");
    await world.pass(minute);
    expect(await world.states("web")).toEqual(["RELEASED"]);
    expect(world.backend.attachments()).toEqual([]);
    expect(releases()).toHaveLength(2);
  });

  it("an answer that cannot be stored is asked for again", async () => {
    const { release } = world.agents;
    world.agents.release = async (...asked) => {
      world.agents.release = release;
      world.store.failCommits(1, 1);
      return await release(...asked);
    };
    await world.release("web");
    await world.pass(minute);
    expect(await world.states("web")).toEqual(["RELEASED"]);
    expect(releases()).toHaveLength(2);
  });

  it("a drain does not lead: it may be taken back before its wish is stored", async () => {
    const seen: (string | undefined)[] = [];
    const { release } = world.agents;
    world.agents.release = async (...asked) => {
      seen.push(await stored());
      return await release(...asked);
    };
    const { volume } = (await world.records.get({ namespace: "default", id: "data" })) ?? {};
    if (volume === undefined) throw new Error("the volume is not there");
    const { releaseWholeSets } = await import("../../records/release-whole-sets.ts");
    await releaseWholeSets(world.records, [volume], () => true, undefined);
    await world.pass(minute);
    expect(seen).toEqual(["RELEASING"]);
    expect(await world.states("web")).toEqual(["RELEASED"]);
  });
});
