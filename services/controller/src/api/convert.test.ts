import { AccessMode, AttachmentMode, type VolumeCapability } from "@holdfast/shared/gen/holdfast/v1/common";
import { CreateVolumeRequest, NodeLossPolicy, ReclaimPolicy } from "@holdfast/shared/gen/holdfast/v1/volume";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { claimStates } from "../domain/claim/claim.ts";
import { attachmentRecord, claimRecord, volumeRecord } from "../domain/testing/record-fixtures.ts";
import { volumeStates } from "../domain/volume/volume.ts";
import { createChecks } from "./check-request.ts";
import { claimMessage, claimStateMessage, claimStatesFrom } from "./claim/convert-claim.ts";
import { questionOf, readToken, writeToken } from "./page-token.ts";
import { volumeMessage, volumeStateMessage } from "./volume/convert-volume.ts";
import { createVolumeInput, volumeFilterFrom } from "./volume/convert-volume-request.ts";

const text = fc.string({ maxLength: 12 });
const map = fc.dictionary(fc.string({ minLength: 1, maxLength: 8 }), text, { maxKeys: 4, noNullPrototype: true });
const bytes = fc.bigInt({ min: 0n, max: 1n << 50n });
const places = fc.array(fc.record({ segments: map }), { maxLength: 3 });
const ref = fc.option(fc.record({ ref: fc.string({ minLength: 1, maxLength: 12 }) }), { nil: undefined });

const capability: fc.Arbitrary<VolumeCapability> = fc.record({
  attachmentMode: fc.constantFrom(
    AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
    AttachmentMode.ATTACHMENT_MODE_BLOCK_DEVICE,
  ),
  accessMode: fc.constantFrom(...Object.values(AccessMode).filter((mode) => mode > 0)),
  fsType: text,
  mountFlags: fc.array(text, { maxLength: 3 }),
  volumeMountGroup: text,
});

const request = fc
  .record({
    namespace: text,
    id: text,
    plugin: text,
    capacity: fc.record({ requiredBytes: bytes, limitBytes: bytes }),
    capabilities: fc.array(capability, { maxLength: 3 }),
    parameters: map,
    mutableParameters: map,
    topology: fc.record({ required: places, preferred: places }),
    contentSource: fc.oneof(fc.constant(undefined), fc.record({ snapshot: text }), fc.record({ volume: text })),
    secrets: fc.record({
      create: ref,
      delete: ref,
      controllerPublish: ref,
      nodeStage: ref,
      nodePublish: ref,
      list: ref,
    }),
    labels: map,
    policy: fc.record({
      reclaim: fc.constantFrom(ReclaimPolicy.RECLAIM_POLICY_RETAIN, ReclaimPolicy.RECLAIM_POLICY_DELETE),
      nodeLoss: fc.constantFrom(NodeLossPolicy.NODE_LOSS_POLICY_WAIT, NodeLossPolicy.NODE_LOSS_POLICY_FENCE),
      requiresRepublish: fc.boolean(),
      identityTokens: fc.array(
        fc.record({
          audience: text,
          ttl: fc.record({ seconds: fc.bigInt({ min: 1n, max: 9_000n }), nanos: fc.constant(0) }),
        }),
        { maxLength: 2 },
      ),
    }),
    requestId: text,
  })
  .map((made) => CreateVolumeRequest.fromPartial(made));

describe("a volume over the wire", () => {
  test("comes back as it was asked for, whatever it was", () => {
    fc.assert(
      fc.property(request, (asked) => {
        const checks = createChecks();
        const input = createVolumeInput(asked, checks);
        expect(checks.violations).toEqual([]);
        const { required, preferred } = input.topology;
        const record = volumeRecord([], [], {
          ...input,
          capacity: { ...input.capacity, actual: 0 },
          topology: { required, preferred, accessible: [] },
        });
        const shown = volumeMessage({ volume: record, rev: 7 });
        expect(shown).toMatchObject({
          namespace: asked.namespace,
          id: asked.id,
          plugin: asked.plugin,
          capacity: { ...asked.capacity, actualBytes: 0n },
          capabilities: asked.capabilities,
          parameters: asked.parameters,
          mutableParameters: asked.mutableParameters,
          topology: { ...asked.topology, accessible: [] },
          secrets: asked.secrets,
          labels: asked.labels,
          policy: asked.policy,
          revision: 7n,
        });
        expect(shown.contentSource?.snapshot).toBe(asked.contentSource?.snapshot);
        expect(shown.contentSource?.volume).toBe(asked.contentSource?.volume);
      }),
      { numRuns: 200 },
    );
  });

  test("has a word for every state, both ways", () => {
    const states = volumeStates.map(volumeStateMessage);
    expect(new Set(states).size).toBe(volumeStates.length);
    expect(volumeFilterFrom(filterOf({ states }), createChecks()).states).toEqual(volumeStates);
  });

  test("shows the first hundred holders and how many there are", () => {
    const claims = Array.from({ length: 130 }, (_, i) =>
      claimRecord(`c${i}`, { state: "ACTIVE", epoch: { gen: 1, ctr: 130 - i }, node: `n${i}` }),
    );
    const queued = claimRecord("q", { state: "QUEUED" });
    const attachments = claims.map(({ node }) => attachmentRecord(node));
    const shown = volumeMessage({ volume: volumeRecord([...claims, queued], attachments), rev: 1 });
    expect(shown.holders).toHaveLength(100);
    expect(shown.holderCount).toBe(130n);
    expect(shown.holders[0]?.claimUid, "the oldest grant first").toBe("c129");
    expect(shown.attachments).toHaveLength(100);
    expect(shown.attachmentCount).toBe(130n);
  });
});

const filterOf = (change: object) => ({
  namespace: "",
  plugin: "",
  node: "",
  states: [],
  blocked: false,
  labels: {},
  idPrefix: "",
  ...change,
});

describe("a claim over the wire", () => {
  test("has a word for every state, both ways", () => {
    const states = claimStates.map(claimStateMessage);
    expect(new Set(states).size).toBe(claimStates.length);
    expect(claimStatesFrom("states", states, createChecks())).toEqual(claimStates);
  });

  test("that failed shows why, also where no attempt is remembered", () => {
    const failure = { reason: "QUEUE_TIMEOUT", message: "held by others" };
    const tombstone = {
      uid: "c1",
      workload: "w",
      alias: "a",
      namespace: "ns",
      volume: "data",
      node: "n1",
      accessMode: "SINGLE_NODE_WRITER",
      attachmentMode: "BLOCK_DEVICE",
      readOnly: true,
      state: "FAILED",
      failure,
      requestId: "",
      createdAt: 1,
      endedAt: 2,
    } as const;
    expect(claimMessage({ kind: "over", claim: tombstone })).toMatchObject({
      state: claimStateMessage("FAILED"),
      readOnly: true,
      lastError: { ...failure, at: new Date(2) },
    });
  });
});

describe("tokens", () => {
  test("give back the cursor to the question that they were made for, and to no other", () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), fc.string(), (cursor, mine, other) => {
        const question = questionOf("List", mine);
        const token = writeToken(cursor, question);
        expect(readToken("t", token, question, createChecks())).toBe(cursor);
        const checks = createChecks();
        readToken("t", token, questionOf("List", other), checks);
        expect(checks.violations.length).toBe(mine === other ? 0 : 1);
      }),
    );
  });

  test("of nobody's making are bad input and no fault", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ minLength: 1 }), fc.base64String({ minLength: 4 }), fc.json()), (junk) => {
        const checks = createChecks();
        readToken("t", junk, questionOf("List", {}), checks);
        expect(checks.violations).toHaveLength(1);
      }),
    );
  });
});
