/** What a call that leaves now may rest on: the answer of a commit of this very turn, or a read that is made now. */
import { beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../../../../../test/support/controller/world.ts";
import { noChange } from "../../domain/change.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import type { Store } from "../../ports.ts";
import { createChanges } from "../changes.ts";
import { createVolumeRecords } from "./volume-records.ts";

let world: World;
const ref = { namespace: "default", id: "data" };

beforeEach(async () => {
  world = await createWorld();
  await world.makeVolume("data");
  return () => world.close();
});

/** A controller whose turns of the event loop end when the test says so, and whose reads are counted. */
const controller = (change: Partial<Store> = {}) => {
  const ends: (() => void)[] = [];
  let reads = 0;
  let serial = 0;
  const getMany: Store["getMany"] = (refs) => {
    reads += 1;
    return world.store.getMany(refs);
  };
  const store = new Proxy(world.store, { get: (target, name) => Reflect.get({ ...target, getMany, ...change }, name) });
  const records = createVolumeRecords({
    store,
    clock: world.clock,
    ids: {
      uuid: () => {
        serial += 1;
        return `own-${serial}`;
      },
      random: () => 0.5,
    },
    issuer: "c2/1",
    changes: createChanges(),
    attachLimit: world.attachLimit,
    endOfTurn: (run) => ends.push(run),
    log: world.log,
    signal: new AbortController().signal,
  });
  const turnEnds = (): void => {
    for (const end of ends.splice(0)) end();
  };
  return { records, reads: () => reads, turnEnds };
};

const label = (volume: VolumeRecord) => noChange({ ...volume, labels: { by: "own" } });

describe("what the store has told of a record in this turn", () => {
  it("is the answer of the commit, until the turn ends", async () => {
    const { records, reads, turnEnds } = controller();
    const { rev } = await records.change(ref, label);
    const before = reads();
    expect(await records.current(ref)).toMatchObject({ rev, volume: { labels: { by: "own" } } });
    expect(reads()).toBe(before);
    turnEnds();
    expect(await records.current(ref)).toMatchObject({ rev });
    expect(reads()).toBe(before + 1);
  });

  it("is nothing that was only remembered, or of which another controller's commit was heard since", async () => {
    const { records, reads } = controller();
    await records.get(ref);
    const read = reads();
    await records.current(ref);
    expect(reads()).toBe(read + 1);
    const { rev } = await records.change(ref, label);
    const { rev: theirs } = await world.records.change(ref, (v) => noChange({ ...v, labels: { by: "them" } }));
    expect(theirs).toBe(rev + 1);
    await records.learnOf("default/data", theirs);
    expect(await records.current(ref)).toMatchObject({ rev: theirs, volume: { labels: { by: "them" } } });
  });

  it("is no answer to a repeat: another controller may have written behind the commit", async () => {
    const { records } = controller({
      commit: async (commit) => {
        const result = await world.store.commit(commit);
        await world.records.change(ref, (v) => noChange({ ...v, labels: { by: "them" } }));
        return result.ok ? { ...result, repeated: true } : result;
      },
    });
    await records.change(ref, label);
    expect(await records.current(ref)).toMatchObject({ volume: { labels: { by: "them" } } });
  });
});
