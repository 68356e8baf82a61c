import { randomUUID } from "node:crypto";
import { createManualClock, type ManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { admitNodeCommand } from "../commands/repair/admit-node.ts";
import type { AdmitNodeInput } from "../commands/repair/repair-model.ts";
import type { Claim } from "../domain/claim/claim.ts";
import { pendingBlock } from "../domain/node/pending-life.ts";
import { claimRecord, volumeRecord } from "../domain/testing/record-fixtures.ts";
import type { Store } from "../ports.ts";
import { createAuditRecords } from "../records/audit-records.ts";
import { encodeVolume } from "../records/volume/volume-codec.ts";
import { createSqliteStore, type SqliteStore } from "../store/sqlite/sqlite-store.ts";
import type { AgentHeader } from "./convert.ts";
import { lifeName } from "./life-name.ts";
import { createNodeRegistry } from "./node-registry.ts";
import type { NodeRegistry } from "./node-registry-model.ts";
import { createNodeStore } from "./node-store.ts";
import { agentHeader } from "./testing/agent-header.ts";

const grace = 3_000;
const ids = { uuid: randomUUID, random: () => 0.5 };
const caller = { who: "operator ann", why: "" };

let clock: ManualClock;
let store: SqliteStore;
let stop: AbortController;
let registry: NodeRegistry;

const controller = async (over: Pick<Store, "get" | "list" | "commit" | "identity"> = store): Promise<NodeRegistry> => {
  const made = createNodeRegistry({
    nodes: createNodeStore({ store: { ...store, ...over }, clock, ids, signal: stop.signal }),
    clock,
    log: createMemoryLogger(),
    graceMs: grace,
    controllerId: "c1",
    signal: stop.signal,
  });
  await made.load();
  made.watchLinks(stop.signal).catch(() => undefined);
  return made;
};

/** Another life each time; all but the first with a copy of the journal. */
const others: Readonly<Record<string, Partial<AgentHeader>>> = {
  "an empty state directory": { instance: "i2", journalUid: "journal-2", lockId: "8:2" },
  "a copy of the state directory on the same boot": { instance: "i2", lockId: "8:2" },
  "a copy of the state directory on another machine": { instance: "i2", bootId: "boot-2", machineId: "machine-2" },
  "another boot": { instance: "i2", bootId: "boot-2" },
};
const rebooted = agentHeader({ instance: "i2", bootId: "boot-2", nodeEpoch: 1 });
const newLife = lifeName(rebooted);

const claimed = async (state: Claim["state"]): Promise<void> => {
  const volume = volumeRecord([claimRecord("c1", { state, epoch: { gen: 1, ctr: 1 } })], []);
  const { write } = encodeVolume(volume, 0, 0);
  await store.commit({ opId: randomUUID(), writes: [write], events: [], requiresVetted: false });
};

const admit = async (change: Partial<AdmitNodeInput> = {}, by = registry) => {
  const command = admitNodeCommand({ nodes: by, audit: createAuditRecords({ store, ids }), clock });
  const words = {
    node: "n1",
    life: newLife,
    evidence: "it was booted",
    reason: "a power cut",
    requestId: "",
    confirm: "",
  };
  const { confirmWith } = await command({ ...words, ...change, dryRun: true }, caller);
  return await command({ ...words, confirm: confirmWith, dryRun: false, ...change }, caller);
};

beforeEach(async () => {
  clock = createManualClock();
  store = createSqliteStore({ file: ":memory:", now: clock.now, uuid: randomUUID });
  stop = new AbortController();
  registry = await controller();
  await registry.register(agentHeader(), []);
  registry.linked("n1", "i1");
});

afterEach(async () => {
  stop.abort(new Error("over"));
  await clock.advance(0);
  await store.close();
});

/** No controller has had the link of the recorded life for a grace. */
const silence = async (): Promise<void> => {
  registry.unlinked("n1", record()?.instance ?? "", "the connection was closed");
  await clock.advance(2 * grace);
};
/** The recorded life dials again. */
const back = async (by = registry): Promise<void> => {
  await by.register(agentHeader({ nodeEpoch: 1 }), []);
  by.linked("n1", "i1");
};
const record = () => registry.get("n1")?.record;

describe.each(Object.entries(others))("%s, beside a claim that stands", (_what, other) => {
  test.each(["ATTACHING", "OFFERED", "ACTIVE", "RELEASING"] as const)("%s: waits for a person", async (state) => {
    await claimed(state);
    await silence();
    await expect(registry.register(agentHeader(other), [])).rejects.toMatchObject({
      kind: "precondition",
      reason: "NODE_PENDING",
      message: expect.stringContaining(`holdfast node admit n1 ${lifeName(agentHeader(other))}`),
    });
    expect(record()).toMatchObject({ instance: "i1", nodeEpoch: 1, pending: { life: lifeName(agentHeader(other)) } });
  });

  test("is a conflict while the recorded life speaks", async () => {
    await claimed("ACTIVE");
    await expect(registry.register(agentHeader(other), [])).rejects.toMatchObject({ reason: "NODE_CONFLICT" });
    expect(record()).toMatchObject({ instance: "i1", pending: { bootId: agentHeader(other).bootId } });
  });

  test.each(["QUEUED", "DETACHING"] as const)("that is %s: nothing was given to the old life", async (state) => {
    await claimed(state);
    const life = { machineId: "m", bootId: "b", journalUid: "j" };
    await registry.change("n1", (before) => ({ ...before, outlived: life }));
    await silence();
    const taken = await registry.register(agentHeader(other), []);
    expect(taken).toMatchObject({ instance: "i2", nodeEpoch: 2, speaksFrom: 2 });
    expect(taken, "the word was about another one").not.toHaveProperty("outlived");
  });
});

test("a hold that the store does not know stands like a claim", async () => {
  const hold = { node: "n1", claimUid: "c0", workload: "w", alias: "a", epoch: { gen: 1, ctr: 1 }, since: 1 };
  const { write } = encodeVolume({ ...volumeRecord([], []), foreign: [hold] }, 0, 0);
  await store.commit({ opId: randomUUID(), writes: [write], events: [], requiresVetted: false });
  await silence();
  await expect(registry.register(rebooted, [])).rejects.toMatchObject({ reason: "NODE_PENDING" });
});

test("[I8] a store that is not vetted does not prove that no claim stands", async () => {
  const unvetted = await controller({
    ...store,
    identity: async () => ({ ...(await store.identity()), vettedRunId: "another process" }),
  });
  await silence();
  await expect(unvetted.register(rebooted, [])).rejects.toMatchObject({
    reason: expect.stringMatching(/^NODE_(PENDING|CONFLICT)$/),
    message: expect.stringContaining("the store may have lost"),
  });
  expect(await unvetted.register(agentHeader({ instance: "i2", nodeEpoch: 1 }), [])).toMatchObject({ instance: "i2" });
});

test("a restart on the same boot is the same life, whatever stands", async () => {
  await claimed("ACTIVE");
  const again = await registry.register(agentHeader({ instance: "i2", nodeEpoch: 1 }), []);
  expect(again).toMatchObject({ instance: "i2", nodeEpoch: 1 });
  expect(again.pending).toBeUndefined();
});

test("the lock of a record of an older version is any lock", async () => {
  await registry.change("n1", ({ lockId: _unknown, ...old }) => old);
  await claimed("ACTIVE");
  expect(await registry.register(agentHeader({ instance: "i2", lockId: "8:9" }), [])).toMatchObject({ lockId: "8:9" });
});

test("a wait that is asked for again is stored once", async () => {
  await claimed("ACTIVE");
  await silence();
  for (let n = 0; n < 3; n += 1) {
    await expect(registry.register(rebooted, [])).rejects.toMatchObject({ reason: "NODE_PENDING" });
    await clock.advance(grace);
  }
  // Its registration, a doubt, the loss of its link, and the wait.
  expect(registry.details("n1")?.rev).toBe(4);
});

test("who registers is compared with the record in the store, and not with what this controller remembers", async () => {
  const stale = await controller();
  await silence();
  await registry.register(agentHeader(others["an empty state directory"]), []);
  await claimed("ACTIVE");
  await expect(stale.register(agentHeader({ instance: "i1" }), [])).rejects.toMatchObject({
    reason: /NODE_(PENDING|CONFLICT)/,
  });
});

describe("a person's word", () => {
  beforeEach(async () => {
    await claimed("ACTIVE");
    await silence();
    await expect(registry.register(rebooted, [])).rejects.toMatchObject({ reason: "NODE_PENDING" });
  });

  test("admits the life that waits, with a new incarnation, and is kept in the audit", async () => {
    const { auditId } = await admit();
    expect(record()).toMatchObject({ instance: "i1", admitted: newLife });
    const admitted = await registry.register(rebooted, []);
    expect(admitted).toMatchObject({ instance: "i2", bootId: "boot-2", nodeEpoch: 2 });
    for (const gone of ["pending", "admitted", "speaksFrom"]) expect(admitted).not.toHaveProperty(gone);
    const { machineId, bootId, journalUid } = agentHeader();
    expect(admitted.outlived, "a person has said so").toMatchObject({ machineId, bootId, journalUid });
    expect(await createAuditRecords({ store, ids }).get(auditId)).toMatchObject({
      verb: "AdmitNode",
      who: "operator ann",
      evidence: "it was booted",
      subject: { node: "n1", life: newLife },
    });
  });

  test("is for one life: a third one waits again", async () => {
    await admit();
    const third = agentHeader({ instance: "i3", bootId: "boot-3" });
    await expect(registry.register(third, [])).rejects.toMatchObject({ reason: "NODE_PENDING" });
  });

  test("is taken only in the words of the dry run", async () => {
    await expect(admit({ confirm: "yes" })).rejects.toMatchObject({ reason: "INVALID_ARGUMENT" });
    await expect(admit({ life: "000000000000" })).rejects.toMatchObject({ reason: "REPAIR_NOT_APPLICABLE" });
    await expect(admit({ node: "n9" })).rejects.toMatchObject({ reason: "NODE_NOT_FOUND" });
    expect(record()?.admitted).toBeUndefined();
  });

  test("is refused while the recorded life speaks, here or, unheard of yet, to another controller", async () => {
    await back(await controller());
    await expect(admit()).rejects.toMatchObject({ reason: "REPAIR_NOT_APPLICABLE" });
    await silence();
    await back();
    await expect(admit()).rejects.toMatchObject({ reason: "REPAIR_NOT_APPLICABLE" });
    const { instance } = agentHeader();
    await registry.report({
      ...{ node: "n1", instance, baseRevision: 1, revision: 1, changed: [], removed: [] },
      ...{ accepting: false, message: "the journal is full" },
    });
    await expect(admit(), "it is suspect, and speaks").rejects.toMatchObject({ reason: "REPAIR_NOT_APPLICABLE" });
  });

  test("is taken back by any controller that hears the recorded life", async () => {
    const second = await controller();
    await back(second);
    await registry.change("n1", (before) => ({ ...before, admitted: newLife }));
    await second.learnOf("n1");
    await registry.learnOf("n1");
    expect(record()?.admitted).toBeUndefined();
    await expect(registry.register(rebooted, [])).rejects.toMatchObject({ reason: /NODE_(PENDING|CONFLICT)/ });
  });

  test("is taken back by the link of the recorded life, and by its restart", async () => {
    await admit();
    await back();
    expect(record()?.admitted).toBeUndefined();
    await silence();
    await admit();
    expect(await registry.register(agentHeader({ instance: "i4", nodeEpoch: 1 }), [])).toMatchObject({ nodeEpoch: 1 });
    expect(record()?.admitted).toBeUndefined();
  });

  test("keeps the recorded life: the other is no longer shown", async () => {
    await back();
    await admit({ life: lifeName(agentHeader()) });
    expect(record()).toMatchObject({ instance: "i1", nodeEpoch: 1 });
    expect(record()?.pending).toBeUndefined();
  });
});

describe("a boot that its host proves", () => {
  const hostIdentity = "host-1";
  const booted = agentHeader({ instance: "i2", bootId: "boot-2", nodeEpoch: 1, hostIdentity });

  beforeEach(async () => {
    await registry.register(agentHeader({ nodeEpoch: 1, hostIdentity }), []);
    await claimed("ACTIVE");
  });

  test("is the node without a person, with a new incarnation, and speaks for what stands", async () => {
    await silence();
    const admitted = await registry.register(booted, []);
    expect(admitted).toMatchObject({ instance: "i2", bootId: "boot-2", nodeEpoch: 2, bootsBefore: ["boot-1"] });
    for (const none of ["pending", "speaksFrom"]) expect(admitted).not.toHaveProperty(none);
  });

  test("also without its journal and with another machine id: it was made from an image", async () => {
    await silence();
    const imaged = agentHeader({
      ...booted,
      machineId: "machine-2",
      journalUid: "journal-2",
      lockId: "8:2",
      nodeEpoch: 0,
    });
    expect(await registry.register(imaged, [])).toMatchObject({
      ...{ machineId: "machine-2", nodeEpoch: 2 },
      // What was given to machine-1 was given to it.
      machinesBefore: ["machine-1"],
    });
    expect(await registry.register({ ...imaged, instance: "i3" }, [])).toMatchObject({ machinesBefore: ["machine-1"] });
  });

  test("also from a store that is not vetted: what it proves stands in no record of a claim", async () => {
    await silence();
    const unvetted = await controller({
      ...store,
      identity: async () => ({ ...(await store.identity()), vettedRunId: "another process" }),
    });
    expect(await unvetted.register(booted, [])).toMatchObject({ instance: "i2" });
  });

  test("waits while a controller has the link of the boot before, and needs nobody's word then", async () => {
    registry.linked("n1", "i1");
    await expect(registry.register(booted, [])).rejects.toMatchObject({ reason: "NODE_CONFLICT" });
    const before = record();
    expect(before).toMatchObject({ bootId: "boot-1", pending: { bootId: "boot-2" } });
    const block = before && pendingBlock(before);
    expect(block?.clearWith).toContain("nothing to do when the host was booted");
    await silence();
    expect(await registry.register(booted, [])).toMatchObject({ bootId: "boot-2" });
    expect(record()?.pending).toBeUndefined();
  });

  test.each([
    ["another host", { hostIdentity: "host-2" }],
    ["a host that proves nothing", { hostIdentity: "" }],
    ["the same boot with another journal", { bootId: "boot-1", journalUid: "journal-2", lockId: "8:2" }],
  ])("%s is none: a person has to say", async (_who, other) => {
    await silence();
    await expect(registry.register({ ...booted, ...other }, [])).rejects.toMatchObject({ reason: "NODE_PENDING" });
  });

  test("that was over and speaks again is none: two hosts have one identity", async () => {
    await silence();
    await registry.register(booted, []);
    registry.linked("n1", "i2");
    await silence();
    const first = agentHeader({ instance: "i3", nodeEpoch: 1, hostIdentity });
    await expect(registry.register(first, [])).rejects.toMatchObject({ reason: "NODE_PENDING" });
    expect(record()).toMatchObject({ bootId: "boot-2", nodeEpoch: 2 });
  });

  test("of a node that once came back unproved speaks for nothing that is older than that", async () => {
    await registry.change("n1", (before) => ({ ...before, nodeEpoch: 5, speaksFrom: 5 }));
    await silence();
    expect(await registry.register(booted, [])).toMatchObject({ nodeEpoch: 6, speaksFrom: 5 });
  });
});
