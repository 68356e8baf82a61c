/** Quotas over the records of volumes and snapshots as several controllers write them, on Redis and on SQLite. */
import { randomUUID } from "node:crypto";
import { systemClock } from "@holdfast/shared/async/clock";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sample } from "../../../../../test/support/full.ts";
import { type Usage, usageOfVolume } from "../../domain/quota/quota.ts";
import type { Expansion } from "../../domain/size/expansion.ts";
import type { Commit } from "../../domain/store-types.ts";
import { cutRecord, volumeRecord } from "../../domain/testing/record-fixtures.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import type { Store } from "../../ports.ts";
import { type TwoStores, twoStores } from "../../store/two-stores.ts";
import { createChanges } from "../changes.ts";
import { createCutRecords } from "../snapshot-records.ts";
import { createVolumeRecords } from "../volume/volume-records.ts";
import { createQuotaRecords } from "./quota-records.ts";

const unlimited = { limit: Number.POSITIVE_INFINITY, reason: "" } as never;

const controllerOver = (store: Store, name: string) => {
  const signal = new AbortController().signal;
  const ids = { uuid: randomUUID, random: Math.random };
  const deps = { store, clock: systemClock, ids, issuer: `${name}/1`, changes: createChanges(), signal };
  const quotas = createQuotaRecords(deps);
  const counting = { ...deps, counted: quotas.counted, log: createMemoryLogger(), attachLimit: () => unlimited };
  const [volumes, cuts] = [createVolumeRecords(counting), createCutRecords(counting)];
  const unless = async (work: Promise<unknown>): Promise<string> => {
    try {
      await work;
      return "done";
    } catch (error) {
      if (isHoldfastError(error)) return error.reason;
      throw error;
    }
  };
  const noted = (volume: VolumeRecord) => ({ volume, ended: [], notes: [] });
  const sized = (volume: VolumeRecord, bytes: number, more: Partial<VolumeRecord> = {}) =>
    noted({ ...volume, ...more, capacity: { required: bytes, limit: 0, actual: bytes } });
  return {
    quotas,
    volumes,
    make: (namespace: string, id: string, required: number, actual = 0) =>
      unless(
        volumes.insert(() =>
          noted(
            volumeRecord([], [], {
              namespace,
              id,
              uid: randomUUID(),
              externalId: "",
              capacity: { required, limit: 0, actual },
            }),
          ),
        ),
      ),
    makeAll: (namespace: string, ids: readonly string[], required: number) =>
      unless(
        volumes.insertAll(() =>
          ids.map((id) => {
            const own = { namespace, id, uid: randomUUID(), externalId: "" };
            return noted(volumeRecord([], [], { ...own, capacity: { required, limit: 0, actual: 0 } }));
          }),
        ),
      ),
    adopt: (namespace: string, id: string, actual: number) =>
      unless(
        volumes.adopt(() =>
          noted(
            volumeRecord([], [], {
              namespace,
              id,
              uid: id,
              name: "",
              externalId: `ext-${namespace}-${id}`,
              capacity: { required: 0, limit: 0, actual },
            }),
          ),
        ),
      ),
    wish: (namespace: string, id: string, required: number) =>
      unless(
        volumes.change({ namespace, id }, (volume) => {
          const target = { required, limit: 0 };
          const attempts = { count: 0, nextTry: 0 };
          const expansion: Expansion = { state: "WANTED", target, onlyUnused: false, attempts, since: 1 };
          return noted({ ...volume, expansion });
        }),
      ),
    /** As the backend answers. */
    answer: (namespace: string, id: string, bytes: number) =>
      unless(volumes.change({ namespace, id }, ({ expansion: _over, ...volume }) => sized(volume, bytes))),
    remove: (namespace: string, id: string) =>
      unless(volumes.change({ namespace, id }, () => ({ volume: null, ended: [], notes: [] }))),
    cut: (namespace: string, id: string) =>
      unless(
        cuts.insert(() => cutRecord({ namespace, id, uid: randomUUID(), externalId: `x-${namespace}-${id}` }), []),
      ),
    uncut: (namespace: string, id: string) => unless(cuts.change({ kind: "snapshot", namespace, id }, () => null)),
    async bound(namespace: string, limits: Partial<Usage>) {
      const record = { namespace, limits, createdAt: 1, updatedAt: 1, changedBy: { who: "t", why: "t" } };
      await quotas.change(namespace, () => record, auditedAs(namespace));
      return (await quotas.get(namespace))?.used;
    },
    unbound: (namespace: string) => quotas.change(namespace, () => null, auditedAs(namespace)),
  };
};

const auditedAs = (namespace: string) => ({
  id: randomUUID(),
  entry: {
    verb: "SetQuota",
    ...{ who: "t", reason: "t", evidence: "", confirmed: "", requestId: "", traceId: "" },
    effects: [],
    risks: [],
    subject: { namespace },
  },
});

type Controller = ReturnType<typeof controllerOver>;

describe.each(["sqlite", "redis"] as const)("quotas on %s", (kind) => {
  let made: TwoStores;
  let one: Controller;
  let two: Controller;
  let serial = 0;
  const fresh = (): string => {
    serial += 1;
    return `ns-${serial}`;
  };
  beforeAll(async () => {
    made = await twoStores[kind]();
    const [first, second] = made.stores;
    [one, two] = [controllerOver(first, "a"), controllerOver(second, "b")];
  });
  afterAll(() => made.stop());

  const standing = async (namespace: string): Promise<Usage> => {
    const { volumes } = await one.volumes.list("volume-namespace", namespace, { limit: 500 });
    const bytes = volumes.reduce((sum, { volume }) => sum + usageOfVolume(volume).bytes, 0);
    const [snapshots = 0] = await made.stores[0].count([{ index: "snapshot-namespace", value: namespace }]);
    return { volumes: volumes.length, bytes, snapshots };
  };

  it("what was there before counts once it is set; what goes is given back with its record", async () => {
    const ns = fresh();
    await one.make(ns, "a", 40);
    await one.adopt(ns, "b", 50);
    await one.cut(ns, "s");
    expect(await two.bound(ns, { volumes: 3, bytes: 100, snapshots: 1 })).toEqual({
      volumes: 2,
      bytes: 90,
      snapshots: 1,
    });
    expect(await one.make(ns, "c", 11)).toBe("QUOTA_EXCEEDED");
    expect(await one.make(ns, "c", 10)).toBe("done");
    expect(await two.make(ns, "d", 0)).toBe("QUOTA_EXCEEDED");
    expect(await two.cut(ns, "t")).toBe("QUOTA_EXCEEDED");
    await two.uncut(ns, "s");
    await one.remove(ns, "a");
    expect([await two.cut(ns, "t"), await two.adopt(ns, "d", 41), await two.adopt(ns, "d", 40)]).toEqual([
      "done",
      "QUOTA_EXCEEDED",
      "done",
    ]);
    expect((await one.quotas.get(ns))?.used).toEqual(await standing(ns));
  });

  it("GR1 volumes that are stored in one commit count together: all of them, or none is stored", async () => {
    const ns = fresh();
    await one.bound(ns, { volumes: 3, bytes: 100 });
    expect(await two.makeAll(ns, ["a", "b", "c", "d"], 10)).toBe("QUOTA_EXCEEDED");
    expect(await one.makeAll(ns, ["a", "b", "c"], 34)).toBe("QUOTA_EXCEEDED");
    expect((await one.quotas.get(ns))?.used).toEqual({ volumes: 0, bytes: 0, snapshots: 0 });
    expect(await two.makeAll(ns, ["a", "b", "c"], 33)).toBe("done");
    expect((await one.quotas.get(ns))?.used).toEqual({ volumes: 3, bytes: 99, snapshots: 0 });
    expect((await one.quotas.get(ns))?.used).toEqual(await standing(ns));
  });

  it("a volume that grows counts from the wish on; a backend that makes more is counted and never refused", async () => {
    const ns = fresh();
    await one.bound(ns, { bytes: 100 });
    await one.make(ns, "a", 40);
    expect(await two.wish(ns, "a", 101)).toBe("QUOTA_EXCEEDED");
    expect(await two.wish(ns, "a", 90)).toBe("done");
    expect(await one.make(ns, "b", 11)).toBe("QUOTA_EXCEEDED");
    expect(await one.answer(ns, "a", 128)).toBe("done");
    expect((await two.quotas.get(ns))?.used.bytes).toBe(128);
    expect(await one.make(ns, "b", 1)).toBe("QUOTA_EXCEEDED");
    expect(await one.answer(ns, "a", 40)).toBe("done");
    expect(await one.make(ns, "b", 60)).toBe("done");
  });

  it("a wish that is beyond the quota by an old memory alone is judged by the record as it is", async () => {
    const ns = fresh();
    await one.bound(ns, { bytes: 100 });
    await one.make(ns, "a", 40);
    await two.wish(ns, "a", 90);
    // The first one remembers 40 bytes: from there to 100 it would be 60 more.
    expect(await one.wish(ns, "a", 100)).toBe("done");
  });

  it("a volume without a size is refused where bytes are bounded, by its field", async () => {
    const ns = fresh();
    await one.bound(ns, { bytes: 100 });
    expect(await one.make(ns, "a", 0)).toBe("INVALID_ARGUMENT");
    expect(await one.adopt(ns, "b", 0)).toBe("done");
  });

  it("what is made while a quota is set counts: it is either in the number or refused", async () => {
    const ns = fresh();
    const made = Array.from({ length: 12 }, (_, i) => (i % 2 ? one : two).make(ns, `v${i}`, 10));
    const [used] = await Promise.all([two.bound(ns, { volumes: 6, bytes: 60 }), ...made]);
    const answers = await Promise.all(made);
    const there = await standing(ns);
    expect((await one.quotas.get(ns))?.used).toEqual(there);
    expect(answers.filter((answer) => answer === "done")).toHaveLength(there.volumes);
    expect(there.volumes).toBeLessThanOrEqual(Math.max(6, used?.volumes ?? 0));
  });

  it("what was judged while there was no quota is judged again when one was set before it is stored", async () => {
    const ns = fresh();
    let first = true;
    const late = new Proxy(made.stores[1], {
      get: (store, name) =>
        name !== "commit"
          ? Reflect.get(store, name)
          : async (commit: Commit) => {
              if (first) await one.bound(ns, { volumes: 0 });
              first = false;
              return await store.commit(commit);
            },
    });
    expect(await controllerOver(late, "c").make(ns, "a", 10)).toBe("QUOTA_EXCEEDED");
    expect(await standing(ns)).toMatchObject({ volumes: 0 });
  });

  it("the number of what is used is stored over the quota that it was counted for, and counted anew after a change", async () => {
    const ns = fresh();
    await one.make(ns, "a", 10);
    await one.bound(ns, { volumes: 5 });
    expect(await one.bound(ns, { bytes: 50 })).toEqual({ volumes: 1, bytes: 10, snapshots: 0 });
    await one.unbound(ns);
    await one.make(ns, "b", 0);
    expect(await one.quotas.get(ns)).toBeUndefined();
    expect(await two.bound(ns, { bytes: 50 })).toEqual({ volumes: 2, bytes: 10, snapshots: 0 });
  });

  const id = fc.constantFrom("a", "b", "c", "d", "e");
  const size = fc.integer({ min: 1, max: 60 });
  const step = fc.record({
    by: fc.boolean(),
    what: fc.oneof(
      { weight: 5, arbitrary: fc.record({ op: fc.constant("make" as const), id, size }) },
      { weight: 2, arbitrary: fc.record({ op: fc.constant("wish" as const), id, size }) },
      { weight: 2, arbitrary: fc.record({ op: fc.constant("answer" as const), id, size }) },
      {
        weight: 3,
        arbitrary: fc.record({ op: fc.constantFrom("remove" as const, "cut" as const, "uncut" as const), id, size }),
      },
    ),
  });
  const run = (
    {
      by,
      what,
    }: {
      readonly by: boolean;
      readonly what: {
        readonly op: "make" | "wish" | "answer" | "remove" | "cut" | "uncut";
        readonly id: string;
        readonly size: number;
      };
    },
    ns: string,
  ) => {
    const controller = by ? one : two;
    return controller[what.op](ns, what.id, what.size);
  };

  it(`of ${sample(400, 25)} interleavings of two controllers none exceeds a bound by what is asked for, and the number is that of the records`, {
    timeout: 300_000,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(step, { minLength: 1, maxLength: 6 }), { maxLength: 6 }), async (bursts) => {
        const ns = fresh();
        const limits = { volumes: 3, bytes: 100, snapshots: 2 };
        await one.bound(ns, limits);
        let over = 0;
        for (const burst of bursts) {
          const before = await standing(ns);
          const answers = await Promise.all(burst.map((each) => run(each, ns)));
          const after = await standing(ns);
          expect((await two.quotas.get(ns))?.used).toEqual(after);
          expect(after.volumes).toBeLessThanOrEqual(limits.volumes);
          expect(after.snapshots).toBeLessThanOrEqual(limits.snapshots);
          // Only what a backend answers leads beyond the bound.
          const answered = burst.reduce((sum, { what }) => sum + (what.op === "answer" ? what.size : 0), 0);
          over = Math.max(over, before.bytes);
          expect(after.bytes).toBeLessThanOrEqual(Math.max(limits.bytes, over) + answered);
          expect(answers.filter((answer) => answer !== "done" && answer !== "QUOTA_EXCEEDED")).toEqual([]);
        }
      }),
      { numRuns: sample(400, 25) },
    );
  });
});
