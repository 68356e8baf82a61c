import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { noAttempts } from "../outcome.ts";
import {
  attachmentRecord,
  barRecord,
  claimRecord,
  goodFacts,
  momentAt,
  volumeRecord,
} from "../testing/record-fixtures.ts";
import type { VolumeRecord } from "../volume/volume.ts";
import type { Claim } from "./claim.ts";
import { type GrantFacts, grant, inTheWay, nodeReaches, obstacleTo, queueBefore, queueOf } from "./grant.ts";

const at = momentAt(5_000);
const single = { accessMode: "SINGLE_NODE_SINGLE_WRITER" } as const;
const queued = (uid: string, changes: Partial<Claim> = {}) => claimRecord(uid, changes);
const held = (uid: string, changes: Partial<Claim> = {}) =>
  claimRecord(uid, { state: "ACTIVE", epoch: { gen: 1, ctr: 3 }, ...changes });
const busy = (op: "attach" | "detach", node: string): Partial<VolumeRecord> => ({
  intent: { op, node, epoch: { gen: 1, ctr: 9 }, issuer: "controller/1", opId: "op-1" },
});

const lateDetach = { why: "late", since: 1, attempts: noAttempts } as const;

describe("obstacleTo", () => {
  const me = queued("me", single);
  const rows: readonly (readonly [string, VolumeRecord, Partial<GrantFacts>, string | undefined])[] = [
    ["nothing", volumeRecord([me]), {}, undefined],
    ["a volume that is being made", volumeRecord([me], [], { state: "CREATING" }), {}, "VOLUME_NOT_AVAILABLE"],
    ["a volume without a name at the backend", volumeRecord([me], [], { externalId: "" }), {}, "VOLUME_NOT_AVAILABLE"],
    ["a volume that is to go", volumeRecord([me], [], { goal: "absent" }), {}, "VOLUME_NOT_AVAILABLE"],
    ["a holder", volumeRecord([me, held("other", single)]), {}, "CLAIM_CONFLICT"],
    [
      "a holder that is being detached",
      volumeRecord([me, held("o", { ...single, state: "DETACHING" })]),
      {},
      "CLAIM_CONFLICT",
    ],
    ["another before it in the queue", volumeRecord([me, queued("earlier", single)]), {}, "CLAIM_CONFLICT"],
    ["another after it in the queue", volumeRecord([me, queued("z-later", single)]), {}, undefined],
    ["an unvetted store", volumeRecord([me]), { unvetted: "it changed" }, "STORE_UNVETTED"],
    ["a node that is not ready", volumeRecord([me]), { nodeReady: false }, "NODE_NOT_READY"],
    ["a plugin without a name for the node", volumeRecord([me]), { nodeId: "" }, "PLUGIN_NOT_READY"],
    ["not knowing whether to attach", volumeRecord([me]), { attaches: "unknown" }, "PLUGIN_NOT_READY"],
    [
      "another zone",
      volumeRecord([me], [], { topology: { required: [], preferred: [], accessible: [{ zone: "b" }] } }),
      { topology: { zone: "a" } },
      "TOPOLOGY_MISMATCH",
    ],
    ["a bar on its node", volumeRecord([me], [], { bars: [barRecord("n1")] }), {}, "NODE_BARRED"],
    ["a bar on another node", volumeRecord([me], [], { bars: [barRecord("n2")] }), {}, undefined],
    ["a detach in progress", volumeRecord([me], [], busy("detach", "n2")), {}, "VOLUME_BUSY"],
    ["an attach elsewhere", volumeRecord([me], [], busy("attach", "n2")), {}, "VOLUME_BUSY"],
    [
      "an attach to its own node, which it joins",
      volumeRecord([me], [attachmentRecord("n1", { state: "ATTACHING" })], busy("attach", "n1")),
      {},
      undefined,
    ],
    [
      "the detach of another node where no claim has it",
      volumeRecord([me], [attachmentRecord("n2", { state: "DETACHING", owed: lateDetach })]),
      {},
      "VOLUME_BUSY",
    ],
    [
      "the same, of a volume for many nodes that was attached for one",
      volumeRecord(
        [{ ...me, accessMode: "MULTI_NODE_MULTI_WRITER" }],
        [attachmentRecord("n2", { state: "DETACHING", owed: lateDetach, ...single })],
      ),
      {},
      "VOLUME_BUSY",
    ],
    [
      "its own node being left",
      volumeRecord([me], [attachmentRecord("n1", { state: "DETACHING" })]),
      {},
      "VOLUME_BUSY",
    ],
  ];

  it.each(rows)("%s", (_, volume, facts, reason) => {
    expect(obstacleTo(volume, me, { ...goodFacts, ...facts })?.reason).toBe(reason);
    // The same judgement is the guard of the grant itself (G1).
    const change = grant(volume, "me", { ...goodFacts, ...facts }, at);
    expect(change.volume === volume).toBe(reason !== undefined);
  });

  it("[I1] names every holder in the way, and says what it does with the volume", () => {
    const volume = volumeRecord([me, held("a", { ...single, node: "n2" }), queued("b", single)]);
    const obstacle = obstacleTo(volume, me, goodFacts);
    expect(obstacle?.holders.map((h) => h.uid)).toEqual(["a", "b"]);
    expect(obstacle?.message).toBe(
      "volume ns/data is held by workload workload-a on node n2 (ACTIVE): mode SINGLE_NODE_SINGLE_WRITER allows one node",
    );
  });

  it("the same claim in its former life is in the way, even where the mode would allow it", () => {
    const former = held("former", { workload: "w", state: "RELEASING", goal: "released" });
    const again = queued("again", { workload: "w" });
    expect(inTheWay(volumeRecord([former, again]), again).map((b) => b.why)).toEqual([
      "the same claim is still being released",
    ]);
  });
});

describe("queue", () => {
  it("hand-overs first, then by ticket; only what waits", () => {
    const volume = volumeRecord([
      queued("c", { ticket: "3" }),
      queued("a", { ticket: "1" }),
      held("h"),
      queued("d", { ticket: "9", after: "w" }),
      queued("b", { ticket: "2" }),
    ]);
    expect(queueOf(volume).map((c) => c.uid)).toEqual(["d", "a", "b", "c"]);
  });

  it("is one order: of two claims exactly one is before the other", () => {
    const claim = fc.record({
      ticket: fc.string({ maxLength: 3 }),
      after: fc.option(fc.constant("w"), { nil: undefined }),
    });
    fc.assert(
      fc.property(claim, claim, (x, y) => {
        const [a, b] = [x, y].map(({ ticket, after }) =>
          queued("q", { ticket, ...(after === undefined ? {} : { after }) }),
        );
        if (a === undefined || b === undefined) return;
        expect(Math.sign(queueBefore(a, b)) + Math.sign(queueBefore(b, a))).toBe(0);
      }),
      { seed: 9, numRuns: 500 },
    );
  });
});

describe("grant", () => {
  it("[I4] epoch, attachment and intent in one record, before any call", () => {
    const { volume } = grant(volumeRecord([queued("me", single)]), "me", goodFacts, at);
    expect(volume).toMatchObject({
      epoch: { gen: 1, ctr: 10 },
      claims: { me: { state: "ATTACHING", epoch: { gen: 1, ctr: 10 }, stateSince: 5_000 } },
      attachments: { n1: { state: "ATTACHING", nodeId: "id-n1", needsCalls: true, nodeEpoch: 1 } },
      intent: { op: "attach", node: "n1", epoch: { gen: 1, ctr: 10 }, issuer: "controller/1", opId: "op-9" },
    });
  });

  it("a plugin that does not attach: offered at once, and the record still says who has it", () => {
    const { volume } = grant(volumeRecord([queued("me")]), "me", { ...goodFacts, attaches: "no" }, at);
    expect(volume).toMatchObject({
      claims: { me: { state: "OFFERED" } },
      attachments: { n1: { state: "ATTACHED", needsCalls: false } },
    });
    expect(volume?.intent).toBeUndefined();
  });

  it("a node that has it already: offered without a call, the attachment stays as it was made", () => {
    const standing = attachmentRecord("n1", { publishContext: { lun: "4" }, pluginVersion: "0.9" });
    const { volume } = grant(volumeRecord([held("a"), queued("me")], [standing]), "me", goodFacts, at);
    expect(volume?.attachments["n1"]).toBe(standing);
    expect(volume?.claims["me"]).toMatchObject({ state: "OFFERED", epoch: { gen: 1, ctr: 10 } });
    expect(volume?.intent).toBeUndefined();
  });

  it("joins an attach in progress: a new epoch, the same intent", () => {
    const before = volumeRecord(
      [held("a", { state: "ATTACHING" }), queued("me")],
      [attachmentRecord("n1", { state: "ATTACHING" })],
      busy("attach", "n1"),
    );
    const { volume } = grant(before, "me", goodFacts, at);
    expect(volume?.claims["me"]).toMatchObject({ state: "ATTACHING", epoch: { gen: 1, ctr: 10 } });
    expect(volume?.intent).toBe(before.intent);
  });

  it.each([
    [{ gen: 3, ctr: 7 }, 1, { gen: 3, ctr: 8 }],
    [{ gen: 3, ctr: 7 }, 4, { gen: 4, ctr: 8 }],
  ])("[I3] after %j in a store of generation %i: %j", (epoch, storeGen, next) => {
    const before = volumeRecord([queued("me")], [], { epoch });
    expect(grant(before, "me", { ...goodFacts, storeGen }, at).volume?.epoch).toEqual(next);
  });

  it("gives nothing to who is not waiting, or not there", () => {
    const volume = volumeRecord([held("a")]);
    expect(grant(volume, "a", goodFacts, at).volume).toBe(volume);
    expect(grant(volume, "nobody", goodFacts, at).volume).toBe(volume);
  });

  it.each([
    ["MULTI_NODE_READER_ONLY", "yes", true],
    ["MULTI_NODE_READER_ONLY", "no", false],
    ["MULTI_NODE_READER_ONLY", "unknown", false],
    ["MULTI_NODE_SINGLE_WRITER", "yes", true],
    ["MULTI_NODE_SINGLE_WRITER", "no", false],
    ["MULTI_NODE_MULTI_WRITER", "yes", false],
  ] as const)("attaches %s read-only where the plugin says %s: %s", (accessMode, publishesReadOnly, readOnly) => {
    const before = volumeRecord([queued("me", { accessMode, readOnly: true })]);
    const { volume } = grant(before, "me", { ...goodFacts, publishesReadOnly }, at);
    expect(volume?.attachments["n1"]?.readOnly).toBe(readOnly);
  });
});

describe("nodeReaches", () => {
  it.each([
    ["no restriction", [], {}, true],
    ["one of two segments fits", [{ zone: "a" }, { zone: "b" }], { zone: "b", rack: "1" }, true],
    ["keys are compared without case, values with it", [{ "Topology.X/Zone": "a" }], { "topology.x/zone": "a" }, true],
    ["a value of another case", [{ zone: "A" }], { zone: "a" }, false],
    ["half of a segment", [{ zone: "a", rack: "1" }], { zone: "a" }, false],
  ] as const)("%s", (_, accessible, node, reaches) => {
    const volume = volumeRecord([], [], { topology: { required: [], preferred: [], accessible } });
    expect(nodeReaches(volume, node)).toBe(reaches);
  });
});
