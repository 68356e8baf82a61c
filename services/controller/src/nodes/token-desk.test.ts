import type { CallContext } from "@holdfast/shared/grpc/call-context";
import type { Identity } from "@holdfast/shared/grpc/identity";
import { expect, test } from "vitest";
import type { Claim } from "../domain/claim/claim.ts";
import type { Publishing } from "../domain/plugin/publishing.ts";
import { attachmentRecord, claimRecord, nodeRecord, volumeRecord } from "../domain/testing/record-fixtures.ts";
import type { NodeView } from "../ports.ts";
import { createTokenDesk } from "./token-desk.ts";

const epoch = { gen: 2, ctr: 9 };
const wire = { gen: 2n, ctr: 9n };

const rig = () => {
  const claim = claimRecord("c1", { state: "ACTIVE", epoch, nodeEpoch: 1 });
  const volume = volumeRecord([claim], [attachmentRecord("n1"), attachmentRecord("n2")]);
  const world = {
    volume,
    node: { record: nodeRecord("n1"), live: "alive" } as NodeView,
    open: true,
    wanted: {
      tokens: [{ audience: "vault", ttlSeconds: 600 }],
      inVolumeContext: false,
      againMs: 1_000,
    } as Publishing,
    signed: [] as unknown[],
    words: 0,
    claim(change: Partial<Claim>) {
      world.volume = { ...volume, claims: { c1: { ...claim, ...change } } };
    },
  };
  const desk = createTokenDesk({
    records: { current: async ({ id }) => (id === "data" ? { volume: world.volume, rev: 1 } : undefined) },
    nodes: { get: (name) => (name === "n1" ? world.node : undefined) },
    gate: { state: () => ({ open: world.open, vetting: { gen: 2, uid: "v" }, reason: "not vetted" }) },
    publishing: { of: () => world.wanted },
    permitWords: async () => {
      world.words += 1;
      return { message: { claimUid: "c1" }, sensitive: [] };
    },
    signer: {
      async sign(subject, requests) {
        world.signed.push(subject);
        return requests.map(({ audience }) => ({ audience, token: "t", expiresAt: 5_000 }));
      },
    },
  });
  const ask = (change: Partial<Parameters<typeof desk>[0]> = {}, identity: Identity = { role: "node", name: "n1" }) =>
    desk(
      {
        ...{ node: "", claimUid: "c1", namespace: volume.namespace, volume: "data", epoch: wire, again: false },
        instance: world.node.record.instance,
        ...change,
      },
      { identity } as CallContext,
    );
  return { world, ask };
};

test("a claim that is out gets its tokens, for the node of the stream", async () => {
  const { world, ask } = rig();
  expect(await ask()).toEqual({
    tokens: [{ audience: "vault", token: "t", expiresAt: new Date(5_000) }],
    inVolumeContext: false,
  });
  const { namespace } = world.volume;
  expect(world.signed).toEqual([
    { namespace, workload: world.volume.claims["c1"]?.workload, node: "n1", volume: "data" },
  ]);
  expect(world.words).toBe(0);
});

test("with the permit as it stands only where NodePublishVolume is wanted again", async () => {
  const { world, ask } = rig();
  expect(await ask({ again: true })).toMatchObject({
    publish: { permit: { claimUid: "c1" }, vetting: { gen: 2n, uid: "v" } },
  });
  world.wanted = { ...world.wanted, againMs: 0 };
  expect(await ask({ again: true })).toEqual({});
  expect(world.signed).toHaveLength(1);
});

const refusals: readonly (readonly [string, (world: ReturnType<typeof rig>["world"]) => void, string])[] = [
  ["another node has it", (w) => w.claim({ node: "n2" }), "CLAIM_NOT_HELD"],
  ["it is being released", (w) => w.claim({ state: "RELEASING", goal: "released" }), "CLAIM_NOT_HELD"],
  ["it is to be released", (w) => w.claim({ goal: "released" }), "CLAIM_NOT_HELD"],
  ["its attach goes on", (w) => w.claim({ state: "ATTACHING" }), "CLAIM_NOT_HELD"],
  ["it waits", (w) => w.claim({ state: "QUEUED" }), "CLAIM_NOT_HELD"],
  ["it has another epoch", (w) => w.claim({ epoch: { gen: 2, ctr: 10 } }), "CLAIM_NOT_HELD"],
  [
    "its grant was to an earlier life of the node",
    (w) => {
      w.node = { ...w.node, record: { ...w.node.record, speaksFrom: 2 } };
    },
    "CLAIM_NOT_HELD",
  ],
  [
    "the node is fenced",
    (w) => {
      w.node = { ...w.node, record: { ...w.node.record, state: "QUARANTINED" } };
    },
    "CLAIM_NOT_HELD",
  ],
  [
    "its volume is not attached",
    (w) => {
      w.volume = { ...w.volume, attachments: {} };
    },
    "CLAIM_NOT_HELD",
  ],
  [
    "the store is not vetted",
    (w) => {
      w.open = false;
    },
    "STORE_UNVETTED",
  ],
];

test.each(refusals)("nothing is signed and no secret is read when %s", async (_what, change, reason) => {
  const { world, ask } = rig();
  change(world);
  await expect(ask({ again: true })).rejects.toMatchObject({ reason });
  expect([world.signed, world.words]).toEqual([[], 0]);
});

test.each([
  ["another process of the node", { instance: "clone" }, undefined, "CLAIM_NOT_HELD"],
  ["a volume that is not there", { volume: "other" }, undefined, "CLAIM_NOT_HELD"],
  ["another node, that names the right one", { node: "n1" }, { role: "node", name: "n2" }, "CLAIM_NOT_HELD"],
  ["a scheduler", {}, { role: "scheduler", name: "s" }, "PERMISSION_DENIED"],
  ["somebody without a name", { node: "n1" }, { role: "anonymous", name: "" }, "PERMISSION_DENIED"],
  ["a message without a claim", { claimUid: "" }, undefined, "INVALID_ARGUMENT"],
] as const)("%s gets nothing", async (_who, change, identity, reason) => {
  const { world, ask } = rig();
  await expect(ask(change, identity)).rejects.toMatchObject({ reason });
  expect([world.signed, world.words]).toEqual([[], 0]);
});
