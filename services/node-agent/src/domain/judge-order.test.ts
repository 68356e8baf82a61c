import { type AccessMode, accessConflictOnNode, accessModes } from "@holdfast/model/access";
import { epochBelow, zeroEpoch } from "@holdfast/model/epoch";
import { describe, expect, test } from "vitest";
import { everyRow } from "../../../../test/support/every-row.ts";
import { nothingOfDocker } from "./docker-book.ts";
import { judgeExpand, judgePermit, judgeRelease, type Standing } from "./judge-order.ts";
import { emptyRegistry } from "./plugin-registry.ts";
import type { HeldClaim, PermitFacts, VolumeState } from "./types.ts";
import { noWorkloads } from "./workload-machine.ts";

const epoch = (ctr: number, gen = 1) => ({ gen, ctr });
const facts = (claimUid: string, ctr: number, changes: Partial<PermitFacts> = {}): PermitFacts => ({
  claimUid,
  workload: "w",
  alias: "data",
  epoch: epoch(ctr),
  nodeEpoch: 3,
  accessMode: "MULTI_NODE_MULTI_WRITER",
  attachmentMode: "FILE_SYSTEM",
  readOnly: false,
  fsType: "",
  digest: "d",
  target: "/t",
  ...changes,
});
const held = (claimUid: string, ctr: number, changes: Partial<HeldClaim> = {}): HeldClaim => ({
  facts: facts(claimUid, ctr),
  phase: "published",
  goal: "mounted",
  mountId: 1,
  ...changes,
});
const standing = (changes: Partial<VolumeState> = {}, quarantined = false): Standing => ({
  agent: {
    nodeEpoch: 3,
    clusterUid: "c",
    promisedGen: 1,
    promisedTo: "",
    bootId: "b",
    plugins: emptyRegistry,
    workloads: noWorkloads,
    docker: nothingOfDocker,
  },
  quarantined,
  volume: {
    ref: { namespace: "n", volume: "v", volumeUid: "u", externalId: "x", plugin: "p" },
    floor: epoch(4),
    dead: [],
    stage: { phase: "staged", needed: true, path: "/s", shown: [], marks: [], before: [] },
    claims: {},
    ...changes,
  },
});
const failure = { reason: "PLUGIN_REFUSED", method: "NodeStageVolume", code: "INVALID_ARGUMENT" };

describe("G3: may this permit be followed?", () => {
  test.each([
    ["a new epoch above the floor", standing(), facts("a", 5), { kind: "new", floor: epoch(4) }],
    [
      "the first permit of a volume",
      { ...standing(), volume: undefined },
      facts("a", 5),
      { kind: "new", floor: epoch(4) },
    ],
    ["at the floor", standing(), facts("a", 4), { kind: "refused", reason: "FLOOR", floor: epoch(4) }],
    ["below the floor", standing(), facts("a", 3), { kind: "refused", reason: "FLOOR" }],
    [
      "another incarnation of the node",
      standing(),
      facts("a", 5, { nodeEpoch: 2 }),
      { kind: "refused", reason: "NODE_EPOCH", nodeEpoch: 3 },
    ],
    [
      "a later incarnation of the node",
      standing(),
      facts("a", 5, { nodeEpoch: 4 }),
      { kind: "refused", reason: "NODE_EPOCH" },
    ],
    [
      "a generation below the promise",
      standing(),
      facts("a", 5, { epoch: epoch(9, 0) }),
      { kind: "refused", reason: "GENERATION" },
    ],
    ["in quarantine", standing({}, true), facts("a", 5), { kind: "refused", reason: "QUARANTINED" }],
    [
      "a dead epoch",
      standing({ dead: [{ claimUid: "a", epoch: epoch(5), late: false }] }),
      facts("a", 5),
      { kind: "refused", reason: "DEAD" },
    ],
    [
      "a dead epoch that ended without a mount",
      standing({ dead: [{ claimUid: "a", epoch: epoch(5), late: false, failure }] }),
      facts("a", 5),
      { kind: "not-mounted", failure },
    ],
    ["a held epoch", standing({ claims: { a: held("a", 5) } }), facts("a", 5), { kind: "repeat" }],
    [
      "a held epoch, other contents",
      standing({ claims: { a: held("a", 5) } }),
      facts("a", 5, { digest: "e" }),
      { kind: "changed" },
    ],
    [
      "a held epoch at the floor",
      standing({ claims: { a: held("a", 4) } }),
      facts("a", 4),
      { kind: "refused", reason: "FLOOR" },
    ],
    [
      "a held epoch whose release began",
      standing({ claims: { a: held("a", 5, { goal: "released" }) } }),
      facts("a", 5),
      { kind: "refused", reason: "DEAD" },
    ],
    [
      "a held epoch that the plugin refused",
      standing({ claims: { a: held("a", 5, { goal: "released", failure }) } }),
      facts("a", 5),
      { kind: "repeat" },
    ],
    [
      "refused by the plugin, and the floor has passed it",
      standing({ floor: epoch(9), claims: { a: held("a", 5, { goal: "released", failure }) } }),
      facts("a", 5),
      { kind: "repeat" },
    ],
    [
      "the claim under another epoch",
      standing({ claims: { a: held("a", 5) } }),
      facts("a", 6),
      { kind: "refused", reason: "ACCESS_CONFLICT", holderClaimUid: "a" },
    ],
    ["beside a claim that allows it", standing({ claims: { a: held("a", 5) } }), facts("b", 6), { kind: "new" }],
    [
      "beside a claim in another mode",
      standing({ claims: { a: held("a", 5) } }),
      facts("b", 6, { accessMode: "SINGLE_NODE_WRITER" }),
      { kind: "refused", reason: "ACCESS_CONFLICT" },
    ],
    [
      "beside one that is on its way out",
      standing({
        claims: {
          a: held("a", 5, {
            goal: "released",
            phase: "gone",
            facts: facts("a", 5, { accessMode: "SINGLE_NODE_WRITER" }),
          }),
        },
      }),
      facts("b", 6, { accessMode: "SINGLE_NODE_WRITER" }),
      { kind: "refused", reason: "ACCESS_CONFLICT", holderClaimUid: "a" },
    ],
  ] as const)("%s", (_name, at, permit, judged) => {
    expect(judgePermit(at, permit, permit.epoch)).toMatchObject(judged);
  });

  test("the floor goes to just below the oldest epoch that lives, and never down", () => {
    expect(judgePermit(standing(), facts("a", 9), epoch(7))).toMatchObject({ floor: epoch(6) });
    expect(judgePermit(standing(), facts("a", 9), epoch(2))).toMatchObject({ floor: epoch(4) });
  });
});

describe("G4: may this release be followed?", () => {
  const order = (ctr: number, nodeEpoch = 3) => ({ claimUid: "a", epoch: epoch(ctr), nodeEpoch });
  test.each([
    ["a held claim", standing({ claims: { a: held("a", 5) } }), order(5), { kind: "held" }],
    ["a held claim under a newer epoch", standing({ claims: { a: held("a", 5) } }), order(6), { kind: "held" }],
    [
      "[I2] a held claim under an older epoch",
      standing({ claims: { a: held("a", 5) } }),
      order(4),
      { kind: "refused", reason: "FLOOR" },
    ],
    [
      "one that was released",
      standing({ dead: [{ claimUid: "a", epoch: epoch(5), late: false }] }),
      order(5),
      { kind: "released" },
    ],
    ["one that never came", standing(), order(5), { kind: "unseen" }],
    ["of a volume that is not known", { ...standing(), volume: undefined }, order(5), { kind: "unseen" }],
    ["another incarnation of the node", standing(), order(5, 2), { kind: "refused", reason: "NODE_EPOCH" }],
    ["in quarantine", standing({ claims: { a: held("a", 5) } }, true), order(5), { kind: "held" }],
  ] as const)("%s", (_name, at, release, judged) => expect(judgeRelease(at, release)).toMatchObject(judged));
});

describe("[I1] the eight modes on one host", () => {
  const use = (accessMode: AccessMode, readOnly = false) =>
    ({ accessMode, attachmentMode: "FILE_SYSTEM", readOnly }) as const;
  const many = {
    UNKNOWN: "no",
    SINGLE_NODE_WRITER: "no",
    SINGLE_NODE_READER_ONLY: "no",
    MULTI_NODE_READER_ONLY: "yes",
    MULTI_NODE_SINGLE_WRITER: "readers",
    MULTI_NODE_MULTI_WRITER: "yes",
    SINGLE_NODE_SINGLE_WRITER: "no",
    SINGLE_NODE_MULTI_WRITER: "yes",
  };

  test.each(accessModes)("%s: a second workload", (mode) => {
    const both = accessConflictOnNode(use(mode), use(mode)) === undefined;
    const reading = accessConflictOnNode(use(mode, true), use(mode)) === undefined;
    expect({ both, reading }).toEqual(
      {
        yes: { both: true, reading: true },
        readers: { both: false, reading: true },
        no: { both: false, reading: false },
      }[many[mode]],
    );
  });

  const pairs = accessModes.flatMap((a) => accessModes.filter((b) => a !== b).map((b) => [a, b] as const));
  const refused = ([a, b]: (typeof pairs)[number]) =>
    expect(accessConflictOnNode(use(a), use(b))).toMatch(/is held in mode/);
  test("each mode beside each other one is refused", () => everyRow(pairs, ([a, b]) => `${a} beside ${b}`, refused));

  test("a block device beside a file system is refused", () => {
    expect(
      accessConflictOnNode(
        { ...use("MULTI_NODE_MULTI_WRITER"), attachmentMode: "BLOCK_DEVICE" },
        use("MULTI_NODE_MULTI_WRITER"),
      ),
    ).toMatch(/FILE_SYSTEM/);
  });
});

test.each([
  [epoch(5), epoch(4)],
  [epoch(0, 2), { gen: 1, ctr: Number.MAX_SAFE_INTEGER }],
  [zeroEpoch, zeroEpoch],
])("the epoch just below %o is %o", (of, below) => expect(epochBelow(of)).toEqual(below));

describe("[I1] whose orders are followed", () => {
  const promised = (sender: Standing["sender"], changes: Partial<VolumeState> = {}, quarantined = false): Standing => {
    const before = standing(changes, quarantined);
    return { ...before, agent: { ...before.agent, promisedGen: 5, promisedTo: "mine" }, sender };
  };
  const mine = { gen: 5, uid: "mine" };
  const order = { claimUid: "a", epoch: epoch(5), nodeEpoch: 3 };

  test.each([
    ["the vetting that was promised", mine, true],
    ["a later one", { gen: 6, uid: "later" }, true],
    ["a controller that names none, of the same generation", { gen: 5, uid: "" }, true],
    ["an earlier one", { gen: 4, uid: "mine" }, false],
    ["another one of the same generation", { gen: 5, uid: "other" }, false],
  ])("%s", (_who, sender, follows) => {
    const refused = { kind: "refused", reason: "GENERATION" };
    const claims = { a: held("a", 5) };
    // The epoch is of the first generation: claims outlive vettings.
    const permit = judgePermit(promised(sender, { claims }), facts("a", 5), epoch(4));
    expect(permit).toMatchObject(follows ? { kind: "repeat" } : refused);
    expect(judgeRelease(promised(sender, { claims }), order)).toMatchObject(follows ? { kind: "held" } : refused);
    const grown = judgeExpand(promised(sender), 3);
    if (follows) expect(grown).toBeUndefined();
    else expect(grown).toMatchObject(refused);
  });

  test("a permit of a controller of an earlier version, by its epoch", () => {
    expect(judgePermit(promised(undefined), facts("a", 5), epoch(5))).toMatchObject({ reason: "GENERATION" });
    const now = { gen: 5, ctr: 5 };
    expect(judgePermit(promised(undefined), facts("a", 5, { epoch: now }), now)).toMatchObject({ kind: "new" });
    expect(judgeRelease(promised(undefined, { claims: { a: held("a", 5) } }), order)).toEqual({ kind: "held" });
  });

  test("a release also after a promise that no vetting has reached: it is the way back", () => {
    const before = promised({ gen: 5, uid: "mine" }, { claims: { a: held("a", 5) } });
    const inError = { ...before, agent: { ...before.agent, promisedGen: 2 ** 52, promisedTo: "" } };
    expect(judgeRelease(inError, order)).toEqual({ kind: "held" });
    expect(judgePermit(inError, facts("a", 5), epoch(5))).toMatchObject({ reason: "GENERATION" });
  });
});
