/** What a store says of the commits that one controller saw: kept, all of them, since the last vetting; or not shown to be. */
import { cp, rm } from "node:fs/promises";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Store } from "../../ports.ts";
import { commitOf, ref, write } from "../test-commits.ts";
import { type RedisFixture, startRedisFixture, vet } from "./redis-fixture.ts";
import { createSeenCommits } from "./seen-commits.ts";

const grant = (key: string, rev = 0) => commitOf([write(key, rev, `${rev + 1}`)], { requiresVetted: true });
const note = (key: string, rev = 0) => commitOf([write(key, rev, `${rev + 1}`)]);

let fixture: RedisFixture;
let store: Store;
let other: Store;

beforeEach(async () => {
  fixture = await startRedisFixture();
  [store, other] = [await fixture.open(), await fixture.open()];
  await vet(store);
  await other.identity();
});
afterEach(() => fixture.stop());

const kept = async (one: Store): Promise<boolean> => (await one.identity()).keptAll;

/** Of the files of the server, with which another process starts later. */
const copied = async (): Promise<() => Promise<void>> => {
  const { dir } = fixture.server;
  const [files, saved] = [path.join(dir, "appendonlydir"), path.join(dir, "saved")];
  await cp(files, saved, { recursive: true });
  return async () => {
    await fixture.server.kill();
    await rm(files, { recursive: true });
    await cp(saved, files, { recursive: true });
    await fixture.server.restart();
  };
};

const begin = async (one: Store): Promise<void> => {
  await expect.poll(() => one.identity().catch(() => undefined), { timeout: 20_000 }).toMatchObject({ begun: false });
  const { runId, vetting } = await one.identity();
  await one.beginVetting(runId, { gen: vetting.gen + 1, uid: `of ${runId}` });
};

describe("[I8] a store that another process has", () => {
  it("kept all after a restart, for each controller, whoever vets it and whatever is written meanwhile", async () => {
    for (const one of [store, other]) await one.commit(grant(one === store ? "a" : "b"));
    await fixture.server.kill();
    await fixture.server.restart();
    await begin(other);
    for (let rev = 0; rev < 5; rev += 1) await other.commit(note("node", rev));
    expect([await kept(store), await kept(other)]).toEqual([true, true]);
    await store.commit(note("c"));
    expect(await kept(store)).toBe(true);
    expect((await store.identity()).lastVetted).toBe("vetting-1");
    await vet(other);
    expect(await kept(store)).toBe(true);
  });

  it.each<[string, () => Promise<unknown>]>([
    ["vets it first", () => begin(other)],
    [
      "writes to it first, more than was lost, and vets it then",
      async () => {
        await expect.poll(() => other.commit(note("node")).catch(() => undefined), { timeout: 20_000 }).toBeDefined();
        for (let rev = 1; rev < 5; rev += 1) await other.commit(note("node", rev));
        await begin(other);
      },
    ],
  ])("lost commits of one controller, and the other one %s", async (_what, first) => {
    await other.commit(grant("b"));
    const back = await copied();
    for (let rev = 0; rev < 3; rev += 1) await store.commit(grant("a", rev));
    await back();
    await first();
    expect(await other.get(ref("a"))).toBeUndefined();
    expect([await kept(store), await kept(other)]).toEqual([false, true]);
    await store.commit(note("c"));
    expect(await kept(store)).toBe(false);
    await vet(other);
    await other.commit(grant("a"));
    // What comes after that vetting is another matter.
    expect((await store.identity()).vettedRunId).not.toBe("");
    await fixture.server.kill();
    await fixture.server.restart();
    await begin(other);
    expect([await kept(store), await kept(other)]).toEqual([true, true]);
  });

  it("lost commits before another change, which came before anything was vetted", async () => {
    const back = await copied();
    await store.commit(grant("a"));
    await back();
    await begin(other);
    await store.commit(note("c"));
    await fixture.server.kill();
    await fixture.server.restart();
    await begin(other);
    expect(await kept(store)).toBe(false);
  });
});

describe("what was seen of commits", () => {
  it("is known behind each leap of the numbers, too", () => {
    const seen = createSeenCommits(10);
    seen.saw(14);
    seen.saw(1_000_000);
    expect(
      [
        [12, 500_000],
        [14, 500_000],
        [14, 2_000_000],
      ].map(([from = 0, to = 0]) => seen.sawBetween(from, to)),
    ).toEqual([true, false, true]);
    seen.saw(3_000_000);
    expect(seen.sawBetween(900_000, 2_000_000)).toBe(true);
  });
});
