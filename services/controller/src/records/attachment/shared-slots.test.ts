/** Grants of two controllers over plugins that share slots, each with its own view of one store, on Redis and on SQLite. */
import { randomUUID } from "node:crypto";
import { systemClock } from "@holdfast/shared/async/clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sample } from "../../../../../test/support/full.ts";
import type { PoolState } from "../../domain/attachment/attach-pool.ts";
import { slotKey } from "../../domain/attachment/slots.ts";
import { grant } from "../../domain/claim/grant.ts";
import { attachmentRecord, claimRecord, goodFacts, volumeRecord } from "../../domain/testing/record-fixtures.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import type { Store } from "../../ports.ts";
import { type TwoStores, twoStores } from "../../store/two-stores.ts";
import { createChanges } from "../changes.ts";
import { slotEntry } from "../volume/volume-codec.ts";
import { createVolumeRecords } from "../volume/volume-records.ts";

const plugins = ["p1", "p2", "p3"] as const;
const limit = 4;
const ids = plugins.flatMap((plugin) => Array.from({ length: 4 }, (_, n) => `${plugin}-${n}`));
const namespace = "ns";

const controllerOver = (store: Store, name: string, node: string) => {
  const signal = new AbortController().signal;
  const pool = { name: "nitro", limit, saidBy: "p1", plugins };
  const records = createVolumeRecords({
    ...{ store, clock: systemClock, issuer: `${name}/1`, changes: createChanges(), signal },
    ids: { uuid: randomUUID, random: Math.random },
    log: createMemoryLogger(),
    attachLimit: () => ({ limit: Number.POSITIVE_INFINITY, learned: false, pool }),
  });
  const noted = (volume: VolumeRecord) => ({ volume, ended: [], notes: [] });
  return {
    records,
    /** false: the pool is full, as this controller came to see it. */
    take: async (id: string): Promise<boolean> => {
      const once = () =>
        records.change({ namespace, id: `${node}-${id}` }, (volume, at) => {
          const facts = { ...goodFacts, pool: records.slots.pool(node, pool) as PoolState };
          return grant(volume, "c", facts, at);
        });
      if ((await once()).changed) return true;
      // As of a request that is about to be refused: another controller may have given one back.
      await records.slots.recount(plugins.map((plugin) => slotKey(plugin, node)));
      return (await once()).changed;
    },
    remembered: () => records.slots.pool(node, pool)?.used,
    giveBack: async (id: string): Promise<void> => {
      await records.change({ namespace, id: `${node}-${id}` }, ({ intent: _over, ...volume }) =>
        noted({ ...volume, attachments: {}, claims: { c: claimRecord("c", { node }) } }),
      );
    },
  };
};

describe.each(["sqlite", "redis"] as const)("slots that plugins share, on %s", (kind) => {
  let made: TwoStores;
  let nodes = 0;
  beforeAll(async () => {
    made = await twoStores[kind]();
  });
  afterAll(() => made.stop());

  const start = async (attached: readonly string[] = []) => {
    nodes += 1;
    const node = `n${nodes}`;
    const [one, two] = made.stores.map((store, n) => controllerOver(store, `c${n}`, node));
    if (one === undefined || two === undefined) throw new Error("two controllers");
    for (const id of ids) {
      const had = attached.includes(id) ? [attachmentRecord(node)] : [];
      const [plugin = ""] = id.split("-");
      const own = { id: `${node}-${id}`, uid: randomUUID(), plugin, externalId: `ext-${node}-${id}` };
      await one.records.insert(() => ({
        volume: volumeRecord([claimRecord("c", { node })], had, own),
        ended: [],
        notes: [],
      }));
    }
    const used = async (): Promise<number> => {
      const counts = await made.stores[0].count(plugins.map((plugin) => slotEntry(`${node}/${plugin}`)));
      return counts.reduce((sum, count) => sum + count, 0);
    };
    return { controllers: [one, two] as const, used };
  };

  const step = fc.record({ by: fc.nat(1), id: fc.constantFrom(...ids), take: fc.boolean() });

  it(`are never more than the pool has, over ${sample(300, 25)} bursts of two controllers, and all of them are taken`, {
    timeout: 600_000,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(step, { minLength: 1, maxLength: 10 }), { maxLength: 4 }), async (bursts) => {
        const { controllers, used } = await start();
        for (const burst of bursts) {
          await Promise.all(
            burst.map(({ by, id, take }) => (take ? controllers[by]?.take(id) : controllers[by]?.giveBack(id))),
          );
          expect(await used()).toBeLessThanOrEqual(limit);
        }
        // What is left is granted, to the last place and no further.
        for (const id of ids) await controllers[0].take(id);
        expect(await used()).toBe(limit);
        expect(await controllers[1].take(ids.at(-1) ?? "")).toBe(false);
      }),
      { numRuns: sample(300, 25) },
    );
  });

  it("beyond a limit that was lowered stay, change, and go; none is added before there is room", async () => {
    const there = ids.slice(0, limit + 2);
    const { controllers, used } = await start(there);
    const [one, two] = controllers;
    expect(await Promise.all([one.take("p2-3"), two.take("p3-0")])).toEqual([false, false]);
    expect(await used()).toBe(limit + 2);
    for (const id of there.slice(0, 2)) await two.giveBack(id);
    expect(await one.take("p3-0")).toBe(false);
    await two.giveBack(there[2] ?? "");
    expect(await one.take("p3-0")).toBe(true);
    expect(await used()).toBe(limit);
  });

  it("are remembered as the store has them, also when they are counted amid the commits of this controller", async () => {
    for (let round = 0; round < 5; round += 1) {
      const { controllers, used } = await start();
      const [one] = controllers;
      expect(await Promise.all(ids.slice(0, limit).map(one.take))).not.toContain(false);
      await expect.poll(() => one.remembered()).toBe(await used());
      expect(one.remembered()).toBe(limit);
    }
  });
});
