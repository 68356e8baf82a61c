/** Volumes that claims would bring, judged before they are made: nothing is stored, and nothing asked of a plugin but its room. */

import { claimVolumeId } from "@holdfast/shared/claim-volume-id";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  caller,
  capability,
  claimsInput,
  createWorld,
  volumeInput,
  type World,
} from "../../../../../test/support/controller/world.ts";
import type { ClaimSpec, CreateVolumeInput } from "../model.ts";

let world: World;
const brought = (alias: string, change: Partial<CreateVolumeInput> = {}): ClaimSpec => {
  const volume = claimVolumeId("web", alias);
  const template = { ...volumeInput(volume, { lateBinding: true, ...change }), ephemeral: { workload: "web", alias } };
  return { volume, alias, capability: capability(), readOnly: false, template };
};
const check = async (...claims: readonly ClaimSpec[]) => {
  const input = { namespace: "default", workload: "web", claims, nodes: [], after: [], feasibleOnly: false };
  const { items } = await world.placement().checkPlacement(input, { size: 10, after: undefined });
  return Object.fromEntries(items.map(({ node, reasons }) => [node, reasons.map(({ obstacle }) => obstacle)]));
};
const reason = async (...claims: readonly ClaimSpec[]) => {
  const input = { namespace: "default", workload: "web", claims, nodes: ["n1"], after: [], feasibleOnly: false };
  return (await world.placement().checkPlacement(input, { size: 10, after: undefined })).items[0]?.reasons[0];
};
const bound = (limits: { readonly volumes?: number; readonly bytes?: number }) =>
  world.quotas.change(
    "default",
    () => ({ namespace: "default", limits, createdAt: 1, updatedAt: 1, changedBy: { who: "t", why: "t" } }),
    {
      id: "audit-1",
      entry: {
        ...{ verb: "SetQuota", who: "t", reason: "t", evidence: "", confirmed: "", requestId: "", traceId: "" },
        ...{ effects: [], risks: [], subject: { namespace: "default" } },
      },
    },
  );

beforeEach(async () => {
  world = await createWorld({ nodes: ["n1", "n2"] });
});
afterEach(() => world.close());

describe("CheckPlacement of a claim that brings its volume", () => {
  it("finds the nodes that it may be made for, and makes nothing", async () => {
    const zone = (name: string, value: string) => {
      const halves = world.nodes.get(name)?.record.plugins ?? [];
      world.nodes.set(name, { plugins: halves.map((half) => ({ ...half, topology: { zone: value } })) });
    };
    zone("n1", "a");
    zone("n2", "b");
    const commits = world.store.commits();
    const small = { capacity: { required: 10, limit: 0 } };
    const topology = { required: [{ zone: "b" }], preferred: [] };
    expect(await check(brought("scratch", small), brought("cache", { ...small, topology }))).toEqual({
      n1: ["TOPOLOGY_MISMATCH"],
      n2: [],
    });
    expect(world.store.commits()).toBe(commits);
    expect(world.backend.calls.filter((call) => !call.startsWith("capacity"))).toEqual([]);
  });

  it("asks the plugin for room, and counts attach slots", async () => {
    expect(await reason(brought("scratch", { capacity: { required: 2_000_000, limit: 0 } }))).toMatchObject({
      obstacle: "CAPACITY",
    });
    const halves = world.nodes.get("n1")?.record.plugins ?? [];
    world.nodes.set("n1", { plugins: halves.map((half) => ({ ...half, maxVolumes: 1 })) });
    const small = { capacity: { required: 10, limit: 0 } };
    expect(await check(brought("scratch", small), brought("cache", small))).toEqual({ n1: ["ATTACH_LIMIT"], n2: [] });
  });

  it("says of every node what CreateClaims would refuse: an unknown plugin, a source that is not there", async () => {
    expect(await check(brought("scratch", { plugin: "nowhere.example" }))).toEqual({
      n1: ["PLUGIN_MISSING", "PLUGIN_MISSING"],
      n2: ["PLUGIN_MISSING", "PLUGIN_MISSING"],
    });
    expect(await reason(brought("scratch", { contentSource: { kind: "volume", id: "gone" } }))).toMatchObject({
      obstacle: "VOLUME_NOT_AVAILABLE",
      message: expect.stringContaining("default/gone"),
    });
  });

  it("counts all that it would make against the quota, with the numbers; what stands already counts once", async () => {
    const small = { capacity: { required: 10, limit: 0 } };
    await bound({ volumes: 1, bytes: 100 });
    expect(await check(brought("scratch", small))).toEqual({ n1: [], n2: [] });
    expect(await reason(brought("scratch", small), brought("cache", small))).toMatchObject({
      obstacle: "QUOTA_EXCEEDED",
      transient: false,
      message: expect.stringContaining("namespace default may have 1 volumes and has 0: 2 more are too many"),
    });
    await world.commands.createClaims({ ...claimsInput("web", "n1", []), claims: [brought("scratch", small)] }, caller);
    await world.idle();
    // As CreateClaims would answer the same request: with the claim that stands.
    expect(await check(brought("scratch", small))).toEqual({ n1: [], n2: [] });
    expect(await reason(brought("scratch", { capacity: { required: 11, limit: 0 } }))).toMatchObject({
      obstacle: "VOLUME_NOT_AVAILABLE",
      message: expect.stringContaining("capacity"),
    });
    const sizeless = check(brought("cache", { capacity: { required: 0, limit: 0 } }));
    await expect(sizeless).rejects.toMatchObject({ kind: "invalid" });
  });

  it("waits for a former life that is on its way out, and refuses what CreateVolume would", async () => {
    const { volume } = brought("scratch");
    await world.commands.createClaims({ ...claimsInput("web", "n1", []), claims: [brought("scratch")] }, caller);
    await world.idle();
    world.backend.script("delete", { kind: "unknown", advice: "again", code: "UNAVAILABLE" });
    await world.commands.releaseClaims({ namespace: "default", workload: "web", aliases: [], claimUids: [] }, caller);
    await world.idle();
    expect((await world.volume(volume)).goal).toBe("absent");
    expect(await reason(brought("scratch"))).toMatchObject({ obstacle: "VOLUME_NOT_AVAILABLE", transient: true });
    const wrong = await check(brought("cache", { labels: { "": "x" } })).catch((error: unknown) => error);
    expect(isHoldfastError(wrong) && wrong.violations.map(({ field }) => field.split(".")[0])).toEqual(["claims[0]"]);
  });
});
