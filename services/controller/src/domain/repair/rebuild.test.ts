import { describe, expect, test } from "vitest";
import { capabilityMismatch } from "../../commands/errors.ts";
import { foreignBarred, obstacleTo } from "../claim/grant.ts";
import type { Inventory, JournalledPermit } from "../claim/permit.ts";
import type { ListedVolume } from "../listing.ts";
import { planSteps } from "../steps.ts";
import { claimRecord, goodFacts, nodeRecord } from "../testing/record-fixtures.ts";
import { chooseCapability } from "../volume/capability-match.ts";
import { rebuildVolumes } from "./rebuild.ts";
import type { HeardNode, PluginTold } from "./rebuilt-volume.ts";

type Volume = Inventory["volumes"][number];
type Held = Volume["held"][number];

const permit = (changes: Partial<JournalledPermit> = {}): JournalledPermit => ({
  accessMode: "SINGLE_NODE_WRITER",
  attachmentMode: "FILE_SYSTEM",
  readOnly: false,
  fsType: "ext4",
  nodeEpoch: 2,
  target: "/m/data",
  mountId: 77,
  releasing: false,
  ...changes,
});

const held = (claimUid: string, changes: Partial<Held> = {}): Held => ({
  claimUid,
  workload: `w-${claimUid}`,
  alias: "data",
  epoch: { gen: 3, ctr: 7 },
  state: "PUBLISHED",
  permit: permit(),
  ...changes,
});

const volume = (holds: readonly Held[], changes: Partial<Volume> = {}): Volume => ({
  namespace: "ns",
  volume: "data",
  volumeUid: "u-data",
  externalId: "ext-data",
  plugin: "model",
  held: holds,
  ...changes,
});

const plugin = (nodeId: string) => ({
  name: "model",
  version: "1.2",
  instance: "i",
  role: "NODE" as const,
  health: "HEALTHY" as const,
  healthMessage: "",
  nodeId,
  maxVolumes: 0,
  topology: {},
  capabilities: {},
});

const node = (name: string, volumes: readonly Volume[], changes: Partial<Inventory> = {}): HeardNode => ({
  record: nodeRecord(name, { plugins: [plugin(`id-${name}`)] }),
  inventory: { node: name, journalUid: "journal-1", nodeEpoch: 2, volumes, orphans: [], ...changes },
});

const listed = (externalId: string, changes: Partial<ListedVolume> = {}): ListedVolume => ({
  externalId,
  capacity: 4096,
  context: { share: "s1" },
  accessible: [{ zone: "a" }],
  sourceSnapshot: "",
  sourceVolume: "",
  ...changes,
});

const toldWith = (...all: readonly ListedVolume[]): PluginTold => ({
  attaches: "yes",
  publishesReadOnly: "no",
  listed: new Map(all.map((one) => [one.externalId, one])),
});

const rebuilt = (nodes: readonly HeardNode[], told: PluginTold = toldWith(listed("ext-data"))) =>
  rebuildVolumes({ nodes, plugin: () => told, who: "controller/x", now: 5 });

const next = { ...claimRecord("next"), accessMode: "SINGLE_NODE_WRITER" as const, node: "n2" };

describe("a hold that is wholly told", () => {
  const { volumes, rows, gen } = rebuilt([node("n1", [volume([held("c1")], { floor: { gen: 4, ctr: 1 } })])]);
  const [made] = volumes;

  test("is its claim again, under its uid and epoch, with the attachment that its release undoes", () => {
    expect(made).toMatchObject({
      namespace: "ns",
      id: "data",
      uid: "u-data",
      externalId: "ext-data",
      state: "AVAILABLE",
      context: { share: "s1" },
      capacity: { required: 4096, limit: 0, actual: 4096 },
      topology: { accessible: [{ zone: "a" }] },
      policy: { reclaim: "retain" },
      epoch: { gen: 4, ctr: 1 },
      capabilities: [{ accessMode: "SINGLE_NODE_WRITER", attachmentMode: "FILE_SYSTEM", fsType: "ext4" }],
    });
    expect(made?.claims["c1"]).toMatchObject({
      node: "n1",
      workload: "w-c1",
      state: "ACTIVE",
      goal: "active",
      epoch: { gen: 3, ctr: 7 },
      nodeEpoch: 2,
      publication: { hostPath: "/m/data", mountId: 77, bootId: "boot-1", journalUid: "journal-1" },
    });
    expect(made?.attachments).toMatchObject({
      n1: { state: "ATTACHED", nodeId: "id-n1", needsCalls: true, machineId: "machine-1", pluginVersion: "1.2" },
    });
    expect(rows).toEqual([{ subject: "ns/data", outcome: "known again", words: ["w-c1 on n1 under 3.7"] }]);
    expect(gen).toBe(4);
  });

  test("owes nothing, and keeps a second writer out", () => {
    if (made === undefined) throw new Error("none");
    expect(planSteps(made, 10).ready).toEqual([]);
    expect(obstacleTo(made, next, goodFacts)).toMatchObject({ reason: "CLAIM_CONFLICT" });
  });

  test("goes on being released, when that had begun", () => {
    const releasing = held("c1", { permit: permit({ releasing: true }) });
    const [one] = rebuilt([node("n1", [volume([releasing])])]).volumes;
    expect(one?.claims["c1"]).toMatchObject({ state: "RELEASING", goal: "released" });
  });

  test("of a plugin that attaches nothing has an attachment without calls", () => {
    const told: PluginTold = { ...toldWith(listed("ext-data")), attaches: "no" };
    expect(rebuilt([node("n1", [volume([held("c1")])])], told).volumes[0]?.attachments["n1"]?.needsCalls).toBe(false);
  });
});

describe("[I1] Rebuild-1: what is not wholly told is barred, and says what is missing", () => {
  const holds: readonly (readonly [string, Held, PluginTold, RegExp])[] = [
    [
      "of an agent that does not tell",
      held("c1", { permit: undefined as never }),
      toldWith(listed("ext-data")),
      /does not tell/,
    ],
    ["that is not published", held("c1", { state: "PERMITTED" }), toldWith(listed("ext-data")), /it is PERMITTED/],
    [
      "of a plugin that nobody can ask",
      held("c1"),
      { ...toldWith(listed("ext-data")), attaches: "unknown" },
      /start it/,
    ],
  ];

  test.each(holds)("a hold %s is foreign", (_what, one, told, words) => {
    const { volumes, rows } = rebuilt([node("n1", [volume([one])])], told);
    expect(volumes[0]?.claims).toEqual({});
    expect(volumes[0]?.foreign).toMatchObject([{ node: "n1", claimUid: "c1", epoch: { gen: 3, ctr: 7 } }]);
    expect(rows[0]?.outcome).toBe("not proven");
    expect(rows[0]?.words.join()).toMatch(words);
    const [hold] = volumes[0]?.foreign ?? [];
    if (volumes[0] === undefined || hold === undefined) throw new Error("none");
    expect(foreignBarred(volumes[0], hold)).toContain("holdfast repair abandon-claim");
  });

  test("a hold that is half made or half gone tells how its volume is used: its workload is told what is in the way", () => {
    const half = [
      held("c1", { state: "PERMITTED" }),
      held("c1", { state: "STAGED", permit: permit({ releasing: true }) }),
    ];
    for (const one of half) {
      const [made = expect.fail()] = rebuilt([node("n1", [volume([one])])]).volumes;
      const [capability, ...more] = made.capabilities;
      expect([capability, more]).toMatchObject([{ accessMode: "SINGLE_NODE_WRITER", fsType: "ext4" }, []]);
      expect(chooseCapability(made.capabilities, capability, false)).toMatchObject({ ok: true });
      expect(obstacleTo(made, next, goodFacts)).toMatchObject({ reason: "FOREIGN_HOLD" });
    }
  });

  test("a hold of which nobody tells how it is used has no capability, and the refusal of a claim says why, and what to do", () => {
    const [made = expect.fail()] = rebuilt([
      node("n1", [volume([held("c1", { permit: undefined as never })])]),
    ]).volumes;
    const choice = chooseCapability(made.capabilities, undefined, false);
    if (choice.ok) throw new Error("it has none");
    expect(capabilityMismatch(made, "model", choice.mismatch).message).toMatch(
      /made anew after a total loss.* UpdateVolume, or .* holdfast volume deregister data --namespace ns/,
    );
  });

  test("of two writers neither is the one that the record names", () => {
    const { volumes, rows } = rebuilt([node("n1", [volume([held("c1")])]), node("n2", [volume([held("c2")])])]);
    expect(volumes[0]?.claims).toEqual({});
    expect(volumes[0]?.foreign?.map(({ claimUid }) => claimUid)).toEqual(["c1", "c2"]);
    expect(rows[0]?.words.join()).toContain("contradict each other");
  });

  test("two readers of many nodes run on beside each other", () => {
    const reader = (uid: string) => held(uid, { permit: permit({ accessMode: "MULTI_NODE_READER_ONLY" }) });
    const { volumes } = rebuilt([node("n1", [volume([reader("c1")])]), node("n2", [volume([reader("c2")])])]);
    expect(Object.keys(volumes[0]?.claims ?? {})).toEqual(["c1", "c2"]);
    expect(volumes[0]?.foreign).toBeUndefined();
  });

  const backends: readonly (readonly [string, PluginTold, RegExp])[] = [
    ["cannot be listed", { ...toldWith(), listed: "it has no LIST_VOLUMES" }, /its context .* it has no LIST_VOLUMES/],
    ["is not listed", toldWith(), /does not list it as ext-data/],
    ["is listed without a context", toldWith(listed("ext-data", { context: {} })), /without a context/],
    [
      "is attached to a node that was not heard",
      toldWith(listed("ext-data", { publishedNodes: ["id-n1", "id-n9"] })),
      /attached to id-n9/,
    ],
  ];

  test.each(backends)("a volume that %s runs on, is released, and is not granted", (_what, told, words) => {
    const { volumes, rows } = rebuilt([node("n1", [volume([held("c1")])])], told);
    const [made] = volumes;
    if (made === undefined) throw new Error("none");
    expect(made).toMatchObject({
      state: "FAILED",
      failure: { reason: "NOT_PROVEN" },
      blocked: { reason: "NOT_PROVEN" },
    });
    expect(made.blocked?.clearWith).toContain("holdfast volume register");
    expect(made.claims["c1"]?.state).toBe("ACTIVE");
    expect(rows[0]?.words.join()).toMatch(words);
    const wanted = claimRecord("next", { node: "n2" });
    expect(obstacleTo({ ...made, claims: {} }, wanted, goodFacts)).toMatchObject({ reason: "VOLUME_NOT_AVAILABLE" });
    const released = { ...made.claims["c1"], state: "RELEASING" as const, goal: "released" as const };
    const releasing = { ...made, claims: { c1: released as (typeof made.claims)[string] } };
    expect(planSteps(releasing, 10).ready).toMatchObject([{ do: "release", node: "n1" }]);
  });

  const contradictions: readonly (readonly [string, Volume])[] = [
    ["one name for two storages", volume([held("c2")], { externalId: "ext-2", volumeUid: "u-2" })],
    ["two names for one storage", volume([held("c2")], { volume: "other", volumeUid: "u-2" })],
    ["two lives of one name", volume([held("c2")], { volumeUid: "u-2" })],
  ];

  test.each(contradictions)("%s: no record says which is which", (_what, other) => {
    const { volumes, rows } = rebuilt([node("n1", [volume([held("c1")])]), node("n2", [other])]);
    expect(volumes).toEqual([]);
    expect(rows.filter(({ words }) => words.join().includes("agents contradict each other")).length).toBeGreaterThan(0);
  });
});

describe("what no agent holds", () => {
  const released = held("c0", { state: "RELEASED", epoch: { gen: 5, ctr: 2 }, permit: undefined as never });

  test("Rebuild-3 gets no record, and is named with the way to one", () => {
    const told = toldWith(listed("ext-data"), listed("ext-9"));
    const { volumes, rows, gen } = rebuilt([node("n1", [volume([released])])], told);
    expect(volumes).toEqual([]);
    expect(gen).toBe(5);
    expect(rows).toMatchObject(
      [
        { subject: "model/ext-9", outcome: "no record", words: ["no agent knows its name", /register/] },
        { subject: "model/ext-data", outcome: "no record", words: ["it was ns/data", /register/] },
      ].map((row) => ({ ...row, words: [row.words[0], expect.stringMatching(row.words[1] as RegExp)] })),
    );
  });

  test("is named too where its backend cannot be asked, and not where it is gone", () => {
    const silent = rebuilt([node("n1", [volume([released])])], { ...toldWith(), listed: "it does not answer" });
    expect(silent.rows[0]?.words).toContain("whether it is still there is not known");
    expect(rebuilt([node("n1", [volume([released])])], toldWith()).rows).toEqual([]);
  });

  test("says all the same how far the epochs of the volume have come", () => {
    const { volumes } = rebuilt([node("n1", [volume([held("c1")])]), node("n2", [volume([released])])]);
    expect(volumes[0]?.epoch).toEqual({ gen: 5, ctr: 2 });
    expect(rebuilt([node("n1", [], { promisedGen: 8 })]).gen).toBe(8);
  });
});
