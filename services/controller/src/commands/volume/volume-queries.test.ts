import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { caller, createWorld, plugin, volumeInput, type World } from "../../../../../test/support/controller/world.ts";
import type { VolumeFilter } from "../model.ts";

let world: World;
/** Which index was read, and how many records came with it. */
let looked: (readonly [index: string, records: number])[];

beforeEach(async () => {
  world = await createWorld();
  looked = [];
  const { list } = world.store;
  world.store.list = async (query) => {
    const page = await list(query);
    looked.push([query.index, page.records.length]);
    return page;
  };
});

afterEach(async () => {
  await world.close();
});

const none: VolumeFilter = {
  namespace: "",
  plugin: "",
  node: "",
  states: [],
  blocked: false,
  labels: {},
  idPrefix: "",
};

const ids = async (filter: Partial<VolumeFilter>, size = 100): Promise<readonly string[]> => {
  const found: string[] = [];
  let after: string | undefined;
  do {
    const page = await world.commands.listVolumes({ ...none, ...filter }, { size, after });
    found.push(...page.items.map(({ volume }) => volume.id));
    after = page.next;
  } while (after !== undefined);
  return found;
};

const recordsLookedAt = (): number => looked.reduce((sum, [, n]) => sum + n, 0);

describe("a list of volumes", () => {
  beforeEach(async () => {
    for (let n = 0; n < 40; n += 1)
      await world.commands.createVolume(
        volumeInput(`${n < 20 ? "db" : "web"}-${String(n).padStart(2, "0")}`, { labels: { odd: String(n % 2) } }),
        caller,
      );
    await world.commands.createVolume(volumeInput("db", { namespace: "other" }), caller);
    await world.idle();
    looked = [];
  });

  it("X50: goes on with the next item, also when what the token named is gone", async () => {
    const first = await world.commands.listVolumes({ ...none, namespace: "default" }, { size: 10, after: undefined });
    expect(first.items).toHaveLength(10);
    await world.commands.deleteVolume({ namespace: "default", id: "db-09", uid: "", requestId: "" }, caller);
    await world.commands.deleteVolume({ namespace: "default", id: "db-10", uid: "", requestId: "" }, caller);
    await world.idle();
    const second = await world.commands.listVolumes({ ...none, namespace: "default" }, { size: 10, after: first.next });
    expect(second.items[0]?.volume.id).toBe("db-11");
  });

  it.each([1, 7, 100])("by a prefix looks at nothing that stands before or behind it, %i a page", async (size) => {
    expect(await ids({ namespace: "default", idPrefix: "db-1" }, size)).toEqual(
      Array.from({ length: 10 }, (_, n) => `db-1${n}`),
    );
    expect(looked.every(([index]) => index === "volume-namespace")).toBe(true);
    expect(recordsLookedAt()).toBeLessThanOrEqual(size === 100 ? 31 : 10 + size);
  });

  it("by a prefix finds the very id, and nothing where nothing is", async () => {
    expect(await ids({ namespace: "other", idPrefix: "db" })).toEqual(["db"]);
    expect(await ids({ namespace: "default", idPrefix: "zzz" })).toEqual([]);
    expect(await ids({ namespace: "default", idPrefix: "a" })).toEqual([]);
    expect(await ids({ idPrefix: "web-3" })).toHaveLength(10);
  });

  it("of those that are not AVAILABLE, or blocked, does not look at the others", async () => {
    world.backend.script("create", { kind: "refused", advice: "fail", code: "OUT_OF_RANGE" });
    await world.makeVolume("small");
    world.backend.script("create", { kind: "unknown", advice: "block", code: "UNAUTHENTICATED" });
    await world.makeVolume("stuck");
    looked = [];
    expect(await ids({ states: ["FAILED"] })).toEqual(["small"]);
    expect(await ids({ states: ["CREATING"] })).toEqual(["stuck"]);
    expect(await ids({ blocked: true, plugin })).toEqual(["stuck"]);
    expect(recordsLookedAt()).toBe(3);
    expect(await ids({ states: ["FAILED", "AVAILABLE"], namespace: "default" })).toHaveLength(41);
  });

  it("by labels and namespace", async () => {
    expect(await ids({ namespace: "default", labels: { odd: "1" } })).toHaveLength(20);
  });
});

describe("a listing whose caller is gone", () => {
  it("reads nothing more", async () => {
    await world.makeVolume("data");
    looked = [];
    const page = { size: 10, after: undefined, signal: AbortSignal.abort(new Error("gone")) };
    await expect(world.commands.listVolumes(none, page)).rejects.toThrow("gone");
    const claims = { namespace: "", volume: "", node: "", workload: "", plugin: "", states: [], blocked: false };
    await expect(world.commands.listClaims(claims, page)).rejects.toThrow("gone");
    expect(looked).toEqual([]);
  });
});
