/** Calls that had to wait for their turn, while what they were for went away. */

import { randomUUID } from "node:crypto";
import { noVetting } from "@holdfast/model/vetting";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { caller, createWorld, plugin, volumeInput, type World } from "../../../../../test/support/controller/world.ts";
import type { Outcome } from "../../domain/outcome.ts";
import type { CutState, SnapshotRecord } from "../../domain/snapshot/snapshot.ts";
import type { CallContext } from "../../ports.ts";
import { createChanges } from "../../records/changes.ts";
import { type CutRecords, createCutRecords } from "../../records/snapshot-records.ts";
import type { StepDeps } from "../steps/step-run.ts";
import { type CutStepDeps, runCutStep } from "../steps/steps-snapshot.ts";
import { createStep, deleteStep } from "../steps/steps-volume.ts";

let world: World;
let calls: string[];
let open: boolean;
let looks: number[];
const data = { namespace: "default", id: "data" };
const never = new AbortController().signal;

const instance = "the plugin's socket";

/** As every call of a plugin: asked last whether it is still to be made. */
const asked = async (method: string, { wanted }: CallContext): Promise<Outcome<never>> => {
  if ((await wanted?.(instance)) !== undefined) calls.push(method);
  return { kind: "unknown", failure: { reason: "UNAVAILABLE", message: "away", advice: "again", method } };
};

beforeEach(async () => {
  world = await createWorld();
  calls = [];
  open = true;
  looks = [];
  world.backend.createVolume = (_volume, context) => asked("create", context);
  world.backend.deleteVolume = (_volume, context) => asked("delete", context);
});
afterEach(async () => {
  await world.close();
});

/** Everything a step needs, with slots that are free only after `meanwhile`. */
const waiting = (meanwhile: () => Promise<unknown>) => ({
  clock: world.clock,
  gate: { state: () => ({ open, vetting: { gen: 1, uid: "vetting-1" }, reason: "" }), onChange: () => () => undefined },
  slots: {
    async run(_request: unknown, _signal: AbortSignal, call: () => Promise<unknown>) {
      await meanwhile();
      return await call();
    },
  },
  failpoint: () => undefined,
  unstored: new Map<string, string>(),
  rights: {
    issuer: "c1/1",
    isFormerLife: () => false,
    isAway: () => false,
    drives: () => true,
    instance: () => ({ via: instance }),
    bars: () => false,
  },
  wakeLater: (ms: number) => void looks.push(ms),
  log: world.log,
  signal: never,
});

describe("a call of a volume that waited for its turn", () => {
  const stepDeps = (meanwhile: () => Promise<unknown>) =>
    ({ ...waiting(meanwhile), records: world.records, plugins: world.backend }) as unknown as StepDeps;
  const settles = async () => {
    const opId = (await world.volume("data")).intent?.opId ?? "";
    return { settles: { opId, end: "ended" } } as const;
  };
  const forget = async () =>
    world.records.change(data, () => ({ volume: null, ended: [], notes: [] }), await settles());
  const made = async () => {
    await world.commands.createVolume(volumeInput("data"), caller);
    await world.idle();
    calls = [];
    return await world.volume("data");
  };
  const leaving = async () => {
    await made();
    const intent = {
      op: "delete",
      epoch: { gen: 0, ctr: 0 },
      issuer: "c1/1",
      opId: "the delete",
      via: instance,
    } as const;
    await world.records.change(
      data,
      (volume) => ({
        volume: { ...volume, intent, state: "DELETING", goal: "absent", externalId: "ext-1" },
        ended: [],
        notes: [],
      }),
      await settles(),
    );
    await world.idle();
    calls = [];
    return await world.volume("data");
  };

  test("is made when it is still owed", async () => {
    const volume = await leaving();
    const run = { volume, vetting: noVetting, traceId: undefined };
    await deleteStep(
      stepDeps(async () => undefined),
      { do: "delete", lane: "controller" },
      run,
    );
    expect(calls).toContain("delete");
  });

  test("[I5] is not made for storage that is gone: the record, which waited for its last bar, goes without one", async () => {
    await leaving();
    const { settles: news } = await settles();
    const ended = { settles: news } as const;
    await world.records.change(data, ({ intent: _i, ...volume }) => ({ volume, ended: [], notes: [] }), ended);
    const run = { volume: await world.volume("data"), vetting: noVetting, traceId: undefined };
    expect(
      await deleteStep(
        stepDeps(async () => undefined),
        { do: "delete", lane: "controller" },
        run,
      ),
    ).toBe(true);
    expect(calls).toEqual([]);
    expect(await world.records.get(data)).toBeUndefined();
  });

  test("does not delete storage whose record was forgotten: it may be another volume's by now", async () => {
    const volume = await leaving();
    const run = { volume, vetting: noVetting, traceId: undefined };
    expect(await deleteStep(stepDeps(forget), { do: "delete", lane: "controller" }, run)).toBe(false);
    expect(calls).toEqual([]);
  });

  test("does not delete once the store is not vetted any more", async () => {
    const volume = await leaving();
    const run = { volume, vetting: noVetting, traceId: undefined };
    const shut = async () => {
      open = false;
    };
    expect(await deleteStep(stepDeps(shut), { do: "delete", lane: "controller" }, run)).toBe(false);
    expect(calls).toEqual([]);
  });

  test("[I5] does not make storage whose record was forgotten: nobody would know of it", async () => {
    const volume = await made();
    const run = { volume, vetting: noVetting, traceId: undefined };
    expect(await createStep(stepDeps(forget), { do: "create", lane: "controller" }, run)).toBe(false);
    expect(calls).toEqual([]);
  });

  test("does not leave under the intent of another call that the record owes by now", async () => {
    const volume = await made();
    const run = { volume, vetting: noVetting, traceId: undefined };
    const unwanted = async () => {
      await leaving();
      calls = [];
    };
    expect(await createStep(stepDeps(unwanted), { do: "create", lane: "controller" }, run)).toBe(false);
    expect(calls).not.toContain("create");
  });
});

describe("a call of a snapshot that waited for its turn", () => {
  let cuts: CutRecords;
  const ids = { uuid: () => randomUUID(), random: () => 0.5 };
  const ref = { kind: "snapshot", namespace: "default", id: "snap" } as const;

  const stored = async (state: CutState): Promise<SnapshotRecord> => {
    const { store, clock } = world;
    cuts = createCutRecords({
      store,
      clock,
      ids,
      issuer: "c1/1",
      route: () => ({ via: instance }),
      changes: createChanges(),
      signal: never,
    });
    await cuts.insert(
      ({ now, opId, issuer }): SnapshotRecord => ({
        ...ref,
        intent: { op: state === "DELETING" ? "delete" : "create", opId, issuer },
        uid: ids.uuid(),
        name: ids.uuid(),
        externalId: state === "CREATING" ? "" : "snap-1",
        plugin,
        pluginVersion: "",
        parameters: {},
        secretRefs: {},
        labels: {},
        cutAt: 0,
        state,
        goal: "present",
        bars: [],
        attempts: { count: 0, nextTry: 0 },
        polls: 0,
        requestId: "",
        createdAt: now,
        updatedAt: now,
        stateSince: now,
        changedBy: caller,
        volume: "data",
        volumeUid: "u1",
        externalVolumeId: "ext-1",
        group: "",
        externalGroupId: "",
        sizeBytes: 0,
      }),
      [],
    );
    return (await cuts.get(ref))?.record as SnapshotRecord;
  };

  const stepDeps = (meanwhile: () => Promise<unknown>) =>
    ({
      ...waiting(meanwhile),
      cuts,
      plugins: {
        snapshotFacts: () => ({ ready: true, reason: "", snapshots: "yes", groups: "yes" }),
        cut: (_record: unknown, context: CallContext) => asked("cut", context),
        deleteCut: (_record: unknown, context: CallContext) => asked("uncut", context),
      },
    }) as unknown as CutStepDeps;

  test.each([
    ["CREATING", "create"],
    ["CUT", "create"],
    ["DELETING", "delete"],
  ] as const)("is not made for one that was %s and is gone", async (state, step) => {
    const record = await stored(state);
    const gone = () => cuts.change(ref, () => null, { settles: { opId: record.intent?.opId ?? "", end: "ended" } });
    expect(await runCutStep(stepDeps(gone), record, { do: step, lane: "controller", at: 0 }, undefined)).toBe(false);
    expect(calls).toEqual([]);
  });

  test("[I5] is not made for one that is being deleted by now: it would be cut anew, for nobody", async () => {
    const record = await stored("CUT");
    const wanted = () => cuts.change(ref, (r) => ({ ...r, state: "DELETING", goal: "absent" }));
    expect(await runCutStep(stepDeps(wanted), record, { do: "create", lane: "controller", at: 0 }, undefined)).toBe(
      false,
    );
    expect(calls).toEqual([]);
  });

  test.each([
    ["CREATING", "create"],
    ["DELETING", "delete"],
  ] as const)(
    "is stored anew when it was refused as stale while it was %s, and changes nothing else",
    async (state, step) => {
      const record = await stored(state);
      const opId = record.intent?.opId ?? "";
      const failure = { reason: "STALE_ORDER", message: "late", advice: "wait", call: "not-sent" } as const;
      const refuse = async (_record: unknown, { wanted }: CallContext): Promise<Outcome<never>> => {
        calls.push(String((await wanted?.(instance))?.order?.opId));
        return { kind: "unknown", failure };
      };
      const deps = stepDeps(async () => undefined);
      Object.assign(deps.plugins, { cut: refuse, deleteCut: refuse });
      for (const _ of [1, 2]) {
        const now = (await cuts.get(ref))?.record as SnapshotRecord;
        expect(await runCutStep(deps, now, { do: step, lane: "controller", at: 0 }, undefined)).toBe(false);
      }
      const after = (await cuts.get(ref))?.record;
      expect(after).toEqual({ ...record, intent: { ...record.intent, opId: after?.intent?.opId } });
      expect(calls).toEqual([opId, after?.intent?.opId]);
      expect(calls[1]).not.toBe(opId);
      expect(looks).toEqual([500, 500]);
    },
  );

  test("does not delete once the store is not vetted any more", async () => {
    const record = await stored("DELETING");
    const shut = async () => {
      open = false;
    };
    expect(await runCutStep(stepDeps(shut), record, { do: "delete", lane: "controller", at: 0 }, undefined)).toBe(
      false,
    );
    expect(calls).toEqual([]);
  });
});
