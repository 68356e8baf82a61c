/** How a store keeps its format, whichever release opens it. One suite for both kinds; each test has a store of its own. */
import { expect, it } from "vitest";
import type { StoreFormats } from "../domain/store-format.ts";
import type { Store } from "../ports.ts";
import { commitOf, ref, write } from "./test-commits.ts";

/** A release that reads these opens the store; the last opening of it is closed first. */
export type OpenAs = (formats: StoreFormats) => Promise<Store>;

const first = { oldest: 1, newest: 1 };
const second = { oldest: 1, newest: 2 };
const third = { oldest: 3, newest: 3 };

export const describeStoreFormats = (freshStore: () => Promise<OpenAs>): void => {
  it("begins a new store with the newest format that is read", async () => {
    const openAs = await freshStore();
    expect((await openAs(second)).format()).toBe(2);
    expect((await (await openAs(second)).identity()).format).toBe(2);
  });

  it("leaves the format as it is until a commit raises it, and lowers it by none", async () => {
    const openAs = await freshStore();
    expect((await openAs(first)).format()).toBe(1);
    const store = await openAs(second);
    expect(store.format()).toBe(1);
    await store.commit(commitOf([write("a", 0, "1")]));
    expect((await store.identity()).format).toBe(1);
    const raising = commitOf([write("a", 1, "2")], { raisesFormat: 2 });
    const done = await store.commit(raising);
    expect(done).toMatchObject({ ok: true, revs: [2] });
    expect(store.format()).toBe(2);
    expect(await store.commit(raising)).toMatchObject({ ok: true, revs: [2] });
    await store.commit(commitOf([write("a", 2, "3")], { raisesFormat: 1 }));
    expect((await store.identity()).format).toBe(2);
    expect((await openAs(second)).format()).toBe(2);
  });

  it("raises nothing with a commit that is refused", async () => {
    const openAs = await freshStore();
    await openAs(first);
    const store = await openAs(second);
    expect(await store.commit(commitOf([write("a", 7, "1")], { raisesFormat: 2 }))).toMatchObject({ ok: false });
    expect(store.format()).toBe(1);
    expect((await store.identity()).format).toBe(1);
  });

  it("is refused by a release that cannot read it, with the reason and the way back", async () => {
    const openAs = await freshStore();
    const store = await openAs(second);
    await store.commit(commitOf([write("a", 0, "1")]));
    await expect(openAs(first)).rejects.toMatchObject({
      reason: "STORE_SCHEMA_NEWER",
      message: expect.stringMatching(
        /is format 2, this release reads format 1: run the release that wrote it[\s\S]*backup from before the upgrade/,
      ),
    });
    await expect(openAs(third)).rejects.toMatchObject({
      reason: "STORE_SCHEMA_OLDER",
      message: expect.stringContaining("start the release before this one, finish its upgrade"),
    });
    expect(await (await openAs(second)).get(ref("a"))).toMatchObject({ body: "1" });
  });
};
