/** An orphan that turns out to be somebody's between the question and the commit. */
import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { caller, createWorld, plugin, type World } from "../../../../../test/support/controller/world.ts";
import type { Orphan } from "../../domain/repair/orphan.ts";
import type { GroupRecord, SnapshotRecord } from "../../domain/snapshot/snapshot.ts";
import { beingCut } from "../../reconcile/two-way/two-way-snapshots.ts";
import { type AuditRecords, createAuditRecords } from "../../records/audit-records.ts";
import { createChanges } from "../../records/changes.ts";
import { type CutRecords, createCutRecords } from "../../records/snapshot-records.ts";
import { type RemoveSnapshotDeps, removeSnapshot } from "./remove-snapshot.ts";
import type { RemoveOrphanInput } from "./repair-model.ts";

let world: World;
let audit: AuditRecords;
let cuts: CutRecords;
const stop = new AbortController();
const ids = { uuid: () => randomUUID(), random: () => 0.5 };

beforeEach(async () => {
  world = await createWorld();
  const { store, clock } = world;
  audit = createAuditRecords({ store, ids });
  cuts = createCutRecords({ store, clock, ids, issuer: "c9/1", changes: createChanges(), signal: stop.signal });
});
afterEach(async () => {
  await world.close();
});

const orphan: Orphan = {
  id: "o1",
  kind: "snapshot",
  plugin,
  externalId: "snap-1",
  node: "",
  driverNodeId: "",
  namespace: "",
  volume: "",
  path: "",
  sizeBytes: 5,
  detail: "cut of ext-1",
  foundAt: 1,
  seenAt: 1,
};

const record = (id: string, now: number, change: Partial<SnapshotRecord> = {}): SnapshotRecord => ({
  kind: "snapshot",
  namespace: "default",
  id,
  uid: ids.uuid(),
  name: ids.uuid(),
  externalId: "",
  plugin,
  pluginVersion: "",
  parameters: {},
  secretRefs: {},
  labels: {},
  cutAt: 0,
  state: "CREATING",
  goal: "present",
  intent: { op: "create", issuer: "c9/1", opId: ids.uuid() },
  attempts: { count: 0, nextTry: 0 },
  bars: [],
  polls: 0,
  requestId: "",
  createdAt: now,
  updatedAt: now,
  stateSince: now,
  changedBy: { who: "w", why: "y" },
  volume: "data",
  volumeUid: "u1",
  externalVolumeId: "ext-1",
  group: "",
  externalGroupId: "",
  sizeBytes: 0,
  ...change,
});

const deps = (change: Partial<RemoveSnapshotDeps> = {}): RemoveSnapshotDeps => ({
  cuts,
  snapshotFacts: { owner: async () => undefined, beingCut: async () => undefined },
  secrets: world.secrets,
  audit,
  gate: world.gate,
  clock: world.clock,
  ids,
  ...change,
});

const asked: RemoveOrphanInput = {
  orphanId: "o1",
  namespace: "default",
  secretRef: undefined,
  evidence: "nobody needs it",
  reason: "ticket 1",
  requestId: "r1",
  confirm: "",
  dryRun: true,
};

const remove = async (parts: RemoveSnapshotDeps, secretRef?: string) => {
  const dry = await removeSnapshot(parts, { ...asked, secretRef }, orphan, caller);
  return await removeSnapshot(parts, { ...asked, secretRef, confirm: dry.confirmWith, dryRun: false }, orphan, caller);
};

describe("the removal of a snapshot that nobody owns", () => {
  test("[R2] is not begun when its cut is answered after everything was asked, and is not in the audit then", async () => {
    await cuts.insert(({ now }) => record("mine", now), []);
    let asks = 0;
    const late = deps({
      snapshotFacts: {
        owner: async () => undefined,
        async beingCut() {
          asks += 1;
          if (asks === 2)
            await cuts.change({ kind: "snapshot", namespace: "default", id: "mine" }, (r) => ({
              ...(r as SnapshotRecord),
              externalId: "snap-1",
              state: "READY",
            }));
          return undefined;
        },
      },
    });
    await expect(remove(late)).rejects.toMatchObject({ reason: "REPAIR_NOT_APPLICABLE" });
    expect(await cuts.get({ kind: "snapshot", namespace: "default", id: "orphan-o1" })).toBeUndefined();
    expect(await audit.ofRequest("r1")).toEqual([]);
  });

  test("is not in the audit when it could not begin, so that its repeat is no success", async () => {
    await expect(remove(deps(), "secret:default/nobody-put-it")).rejects.toMatchObject({
      reason: "SECRET_NOT_FOUND",
    });
    expect(await audit.ofRequest("r1")).toEqual([]);
  });

  test("is begun by one commit with what was approved", async () => {
    const { auditId } = await remove(deps());
    const begun = await cuts.get({ kind: "snapshot", namespace: "default", id: "orphan-o1" });
    expect(begun?.record).toMatchObject({ state: "DELETING", goal: "absent", externalId: "snap-1" });
    expect(await audit.get(auditId)).toMatchObject({ verb: "RemoveOrphan", subject: { orphan: "o1" } });
  });

  test("waits for a group of which some snapshots have no id on record: it may be one of those", async () => {
    await cuts.insert(({ now }): GroupRecord => {
      const {
        kind: _k,
        volume,
        volumeUid,
        externalVolumeId,
        group: _g,
        externalGroupId: _e,
        sizeBytes,
        ...shared
      } = record("group", now, { externalId: "group-1" });
      const member = { snapshot: "member", uid: ids.uuid(), volume, volumeUid, externalVolumeId };
      return {
        ...shared,
        kind: "group",
        members: [{ ...member, externalId: "", sizeBytes, cutAt: 0, ready: false }],
        answeredIds: ["snap-1"],
      };
    }, []);
    const facts = { owner: async () => undefined, beingCut: (name: string) => beingCut({ cuts }, name) };
    await expect(remove(deps({ snapshotFacts: facts }))).rejects.toMatchObject({ reason: "REPAIR_NOT_APPLICABLE" });
  });
});
