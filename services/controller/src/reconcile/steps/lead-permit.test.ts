import { createSilentLogger } from "@holdfast/shared/log/silent-logger";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../../../../../test/support/controller/world.ts";
import { attachAnswered } from "../../domain/attachment/attach-change.ts";
import { mayBeAhead } from "../../domain/claim/permit-ahead.ts";
import {
  attachmentRecord,
  claimRecord,
  momentAt,
  nodeRecord,
  volumeRecord,
} from "../../domain/testing/record-fixtures.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import type { NodeView } from "../../ports.ts";
import { type AttachEnd, leadPermit } from "./lead-permit.ts";

const vetting = { gen: 1, uid: "vetting-1" };
const marked = claimRecord("k1", { state: "ATTACHING", epoch: { gen: 1, ctr: 9 }, nodeEpoch: 1, ahead: "op-1" });
const intent = { op: "attach", node: "n1", epoch: { gen: 1, ctr: 9 }, issuer: "controller/1", opId: "op-1" } as const;
const attaching = (changes: Partial<VolumeRecord> = {}, claim = marked): VolumeRecord =>
  volumeRecord([claim], [attachmentRecord("n1", { state: "ATTACHING" })], { intent, ...changes });
const done = { kind: "done", value: { lun: "7" } } as const;
const ended: AttachEnd = {
  attempt: { opId: "op-1", outcome: done, end: "ended", unstored: false },
  vetting,
  secretRef: undefined,
};
const there: NodeView = { record: nodeRecord("n1"), live: "alive", rev: 1 };

interface Case {
  readonly known?: VolumeRecord | undefined;
  readonly end?: Partial<AttachEnd>;
  readonly node?: NodeView | undefined;
  readonly gate?: { readonly open: boolean; readonly vetting: typeof vetting };
  readonly leads?: boolean;
}

/** What is pushed, and how the answer is stored. */
const led = async (it: Case) => {
  const pushed: { readonly uid: string; readonly lun: string | undefined }[] = [];
  const known = "known" in it ? it.known : attaching();
  const deps = {
    agents: {
      publish: async (
        _node: unknown,
        { claim, attachment }: { claim: { uid: string }; attachment: { publishContext: Record<string, string> } },
      ) => {
        pushed.push({ uid: claim.uid, lun: attachment.publishContext["lun"] });
        return await new Promise(() => undefined);
      },
    },
    failpoint: () => undefined,
    gate: { state: () => it.gate ?? { open: true, vetting } },
    leads: () => it.leads ?? true,
    led: new WeakMap(),
    nodes: { get: () => ("node" in it ? it.node : there) },
    records: { recent: async () => known && { volume: known, rev: 1 } },
    sent: async () => undefined,
    signal: new AbortController().signal,
    log: createSilentLogger(),
  };
  const end = { ...ended, ...it.end };
  const storing = await leadPermit(deps as unknown as Parameters<typeof leadPermit>[0], attaching(), end);
  const store = (volume: VolumeRecord) =>
    storing(volume, (v) => attachAnswered(v, "n1", end.attempt.outcome, momentAt(0), undefined)).volume;
  return { pushed, store, kept: deps.led };
};

const refused = {
  kind: "refused",
  failure: { reason: "PLUGIN_REFUSED", message: "", advice: "fail", call: "ended" },
} as const;
const unknown = { kind: "unknown", failure: { reason: "AWAY", message: "", advice: "again", call: "ended" } } as const;
const ofAttempt = (changes: Partial<AttachEnd["attempt"]>): Case => ({
  end: { attempt: { ...ended.attempt, ...changes } },
});
const released = (volume: VolumeRecord): VolumeRecord => ({
  ...volume,
  claims: { k1: { ...(volume.claims["k1"] ?? marked), goal: "released" } },
});

describe("the permit of a claim whose attach is answered", () => {
  it("[PA1] [PA2] leaves at once, and its answer is kept for the offered claim", async () => {
    const { pushed, store, kept } = await led({});
    expect(pushed).toEqual([{ uid: "k1", lun: "7" }]);
    const after = store(attaching());
    expect(after?.claims["k1"]).toMatchObject({ state: "OFFERED" });
    expect(after?.claims["k1"]).not.toHaveProperty("ahead");
    expect(kept.get(after?.claims["k1"] ?? marked)).toMatchObject({ permit: { claim: { uid: "k1" } } });
  });

  it("[PA3] is recalled when the claim is not wanted any more, as the store shows it", async () => {
    const { pushed, store } = await led({});
    expect(pushed).toHaveLength(1);
    const after = store(released(attaching()));
    expect(after?.claims["k1"]).toMatchObject({ state: "RELEASING" });
    expect(after?.attachments["n1"]).toMatchObject({ state: "ATTACHED" });
  });

  it.each<[string, Case]>([
    ["that had no certain answer", ofAttempt({ outcome: unknown })],
    ["that nobody wants any more", { known: released(attaching()) }],
    ["in a store of a format before", { leads: false }],
    ["whose node is not known", { node: undefined }],
    ["whose node is silent", { node: { ...there, live: "suspect" } }],
    ["whose node is fenced", { node: { ...there, record: { ...there.record, state: "FENCING" } } }],
    [
      "whose node is another machine by now",
      { node: { ...there, record: { ...there.record, nodeEpoch: 2, speaksFrom: 2 } } },
    ],
    [
      "whose volume another agent holds",
      {
        known: attaching({
          foreign: [{ node: "n2", claimUid: "x", workload: "x", alias: "x", epoch: { gen: 1, ctr: 1 }, since: 0 }],
        }),
      },
    ],
  ])("[PA2] does not leave for one %s, and nobody waits for its agent", async (_, changed) => {
    const { pushed, store } = await led(changed);
    expect(pushed).toEqual([]);
    // The claim is given up without a word of the agent.
    expect(store(released(attaching()))?.claims["k1"]).toMatchObject({ state: "DETACHING" });
  });

  it.each<[string, Case]>([
    ["while the store is not vetted", { gate: { open: false, vetting } }],
    ["under another vetting than that of the plan", { gate: { open: true, vetting: { gen: 2, uid: "vetting-2" } } }],
    [
      "under another vetting than that of the grant",
      { gate: { open: true, vetting: { gen: 2, uid: "v" } }, end: { vetting: { gen: 2, uid: "v" } } },
    ],
    ["after an attempt whose answer was not stored", ofAttempt({ unstored: true })],
    ["under an intent that took the call over", ofAttempt({ opId: "op-2" })],
    ["of a record that is not there", { known: undefined }],
  ])("[PA2] [PA3] does not leave %s, and its agent is asked before the claim is given up", async (_, changed) => {
    const { pushed, store } = await led(changed);
    expect(pushed).toEqual([]);
    expect(store(released(attaching()))?.claims["k1"]).toMatchObject({ state: "RELEASING" });
  });

  it("[PA2] is never kept back for certain once the answer of an attempt was not stored", async () => {
    const { store } = await led(ofAttempt({ unstored: true, outcome: unknown }));
    const after = store(attaching());
    expect(after?.claims["k1"]).toMatchObject({ state: "ATTACHING" });
    const again = await led({ known: after ?? undefined, ...ofAttempt({ outcome: refused }) });
    expect(again.store(after ?? attaching())?.claims["k1"]).toMatchObject({ state: "RELEASING", goal: "released" });
  });
});

describe("a controller and an agent", () => {
  let world: World;
  const minute = 60_000;
  const data = { namespace: "default", id: "data" };
  const claimNow = async () => Object.values((await world.records.get(data))?.volume.claims ?? {})[0];
  const ofAgent = (verb: string) => world.agents.calls.filter((call) => call.startsWith(`${verb} `));

  beforeEach(async () => {
    world = await createWorld();
    await world.makeVolume("data");
  });
  afterEach(async () => {
    expect(world.violations()).toEqual([]);
    await world.close();
  });

  it("the agent has the permit before the answer of the attach is stored, and once", async () => {
    const seen: (string | undefined)[] = [];
    const { publish } = world.agents;
    world.agents.publish = async (...asked) => {
      seen.push((await claimNow())?.state);
      return await publish(...asked);
    };
    await world.claim("web", "n1", ["data"]);
    await world.pass(minute);
    expect(seen).toEqual(["ATTACHING"]);
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(await claimNow()).not.toHaveProperty("ahead");
  });

  it("an answer that cannot be stored is asked for again", async () => {
    const { publish } = world.agents;
    world.agents.publish = async (...asked) => {
      world.agents.publish = publish;
      world.store.failCommits(1, 1);
      return await publish(...asked);
    };
    await world.claim("web", "n1", ["data"]);
    await world.pass(minute);
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(ofAgent("publish")).toHaveLength(2);
  });

  it("[PA3] [I2] a controller that ends between the permit and its commit: a release asks the agent before anything is detached", async () => {
    world.killAt("controller.attach.after-lead");
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    expect(world.alive).toBe(false);
    expect(world.agents.mounts()).toEqual(["default/data@n1"]);
    const left = await claimNow();
    expect(left !== undefined && mayBeAhead(left)).toBe(true);
    world.backend.script("publish", { kind: "refused", advice: "fail", code: "INVALID_ARGUMENT" });
    const { unpublish } = world.backend;
    const mountsAtDetach: (readonly string[])[] = [];
    world.backend.unpublish = async (...asked) => {
      mountsAtDetach.push(world.agents.mounts());
      return await unpublish(...asked);
    };
    await world.restart();
    await world.release("web");
    await world.pass(5 * minute);
    expect(mountsAtDetach).toEqual([[]]);
    expect(ofAgent("release")).toHaveLength(1);
    expect(world.backend.attachments()).toEqual([]);
    expect(["RELEASED", "FAILED"]).toContain((await world.states("web"))[0]);
  });

  it("[PA3] what its agent holds of such a claim bars nothing: the claim goes on", async () => {
    world.killAt("controller.attach.after-lead");
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    await world.restart();
    world.nodes.set("n1", {}, "suspect");
    world.nodes.set("n1", {}, "alive");
    await world.pass(minute);
    expect((await world.volume("data")).foreign).toBeUndefined();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(world.agents.mounts()).toEqual(["default/data@n1"]);
  });
});
