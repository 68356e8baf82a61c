import { expect, test } from "vitest";
import { pageInNamespace } from "./namespace-range.ts";

const keys = ["bank/a", "shop/a", "shop/b1", "shop/b2", "shop-2/a", "shop.x/a", "toys/a"].sort();
const limit = 2;

/** Reads as a store does: in the order of keys, behind one, so many. */
const reading = () => {
  const read: string[] = [];
  return {
    read,
    page: async (after: string | undefined) => {
      const found = keys.filter((key) => after === undefined || key > after).slice(0, limit);
      read.push(...found);
      const items = found.map((key) => ({ namespace: key.slice(0, key.indexOf("/")), key }));
      return { items, next: found.length < limit ? undefined : found.at(-1) };
    },
  };
};

const all = async (range: Parameters<typeof pageInNamespace>[0]) => {
  const { read, page } = reading();
  const seen: string[] = [];
  const places: string[] = [];
  for (let after: string | undefined; ; ) {
    const { items, next } = await pageInNamespace(range, after, page);
    seen.push(...items.map(({ key }) => key));
    if (next === undefined) return { seen, places, read };
    places.push(next);
    after = next;
  }
};

test("a list begins at its namespace, ends behind it, and goes on at no place of another one", async () => {
  const { seen, places, read } = await all({ namespace: "shop" });
  expect(seen).toEqual(["shop/a", "shop/b1", "shop/b2"]);
  expect(places).toEqual(["shop/b1"]);
  // What follows is read with the last page at most.
  expect(read).toEqual(["shop/a", "shop/b1", "shop/b2", "toys/a"]);
});

test("of a prefix it begins and ends there", async () => {
  expect(await all({ namespace: "shop", idPrefix: "b" })).toMatchObject({ seen: ["shop/b1", "shop/b2"] });
});

test("a namespace that another one begins with, or that is not there, has nothing of it", async () => {
  expect((await all({ namespace: "sho" })).seen).toEqual([]);
  expect((await all({ namespace: "shop-2" })).seen).toEqual(["shop-2/a"]);
});

test("without a namespace it is of all", async () => {
  expect((await all({ namespace: "" })).seen).toEqual(keys);
});
