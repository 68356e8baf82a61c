import { randomUUID } from "node:crypto";
import { createManualClock, type ManualClock } from "@holdfast/shared/async/manual-clock";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { defaultProfile } from "../domain/plugin/plugin-profile.ts";
import { withProfile, withTold } from "../domain/plugin/plugin-record.ts";
import { secretUser } from "../domain/secret/secret.ts";
import type { Commit } from "../domain/store-types.ts";
import type { Store } from "../ports.ts";
import { createSqliteStore, type SqliteStore } from "../store/sqlite/sqlite-store.ts";
import { createPluginRecords, type PluginRecords } from "./plugin-records.ts";

let clock: ManualClock;
let store: SqliteStore;
let stop: AbortController;
let commits: Commit[];

const ids = { uuid: randomUUID, random: () => 0.5 };

/** One of the controllers over the store; `commit` stands between it and the store. */
const controller = async (commit: Store["commit"] = store.commit): Promise<PluginRecords> => {
  const counted: Store["commit"] = (one) => {
    commits.push(one);
    return commit(one);
  };
  const records = createPluginRecords({ store: { ...store, commit: counted }, clock, ids, signal: stop.signal });
  await records.load();
  return records;
};

const run = async <T>(work: Promise<T>): Promise<T> => {
  let done = false;
  const end = () => {
    done = true;
  };
  work.then(end, end);
  for (let n = 0; n < 200 && !done; n += 1) await clock.advance(50);
  return await work;
};

const few = { ...defaultProfile, maxConcurrentCalls: 3 };

beforeEach(() => {
  clock = createManualClock();
  store = createSqliteStore({ file: ":memory:", now: clock.now, uuid: randomUUID });
  stop = new AbortController();
  commits = [];
});

afterEach(async () => {
  stop.abort(new Error("over"));
  await store.close();
});

describe("the records of plugins", () => {
  it("answer the defaults for a plugin that nobody ever named", async () => {
    const records = await controller();
    expect(records.of("unheard.of")).toBe(defaultProfile);
    expect(records.remembered("unheard.of", "1.0")).toEqual({});
    expect(commits).toEqual([]);
  });

  it("keep a profile over a restart, and may get it before the plugin was ever seen", async () => {
    const records = await controller();
    await records.change("p", (record) => withProfile(record, few));
    expect(records.of("p")).toEqual(few);
    expect((await controller()).of("p")).toEqual(few);
  });

  it("stand among the users of the stored secret that their profile names, as long as it does", async () => {
    const records = await controller();
    const users = async () =>
      (await store.list({ ...secretUser({ namespace: "ops", name: "array" }), limit: 9 })).records;
    const nodeHealthSecret = { ref: "secret:ops/array", namespace: "ops" };
    await records.change("p", (record) => withProfile(record, { ...few, nodeHealthSecret }));
    expect((await users()).map(({ ref }) => ref)).toEqual([{ kind: "plugin", key: "p" }]);
    expect((await controller()).of("p").nodeHealthSecret).toEqual(nodeHealthSecret);
    await records.change("p", (record) => withProfile(record, few));
    expect(await users()).toEqual([]);
  });

  it("write nothing when nothing changes", async () => {
    const records = await controller();
    const first = await records.change("p", (record) => withTold(record, "1", { a: "yes" }, clock.now()));
    const again = await records.change("p", (record) => withTold(record, "1", { a: "yes" }, clock.now()));
    expect(again).toEqual(first);
    expect(commits).toHaveLength(1);
  });

  it("of two controllers that write at once keep both changes", async () => {
    const [one, two] = [await controller(), await controller()];
    await run(
      Promise.all([
        one.change("p", (record) => withProfile(record, few)),
        two.change("p", (record) => withTold(record, "1", { a: "yes" }, 1)),
      ]),
    );
    const after = await controller();
    expect(after.of("p")).toEqual(few);
    expect(after.remembered("p", "1")).toEqual({ a: "yes" });
  });

  it("are settled by a read when the answer of a commit was lost", async () => {
    let lost = 0;
    const records = await controller(async (commit) => {
      const result = await store.commit(commit);
      lost += 1;
      if (lost === 1)
        throw new HoldfastError({ kind: "unavailable", reason: "STORE_OUTCOME_UNKNOWN", message: "lost" });
      return result;
    });
    const done = await run(records.change("p", (record) => (record.profile ? record : withProfile(record, few))));
    expect(done.rev).toBe(1);
    expect(commits).toHaveLength(1);
  });

  it("tell of what others wrote once it is learned of, and only then", async () => {
    const [one, two] = [await controller(), await controller()];
    const told: string[] = [];
    two.onChange((plugin) => void told.push(plugin));
    await one.change("p", (record) => withProfile(record, few));
    expect(two.of("p")).toBe(defaultProfile);
    await two.learnOf("p");
    await two.learnOf("p");
    expect(two.of("p")).toEqual(few);
    expect(told).toEqual(["p"]);
  });

  it("are removed only while nothing carries the entry, for all controllers", async () => {
    const [one, two] = [await controller(), await controller()];
    await one.change("p", (record) => withProfile(record, few));
    await two.learnOf("p");
    const entry = { index: "volume-plugin", value: "p" };
    const ref = { kind: "volume", key: "default/data" } as const;
    const write = { ref, body: "{}", indexes: [entry], due: [], expectedRev: 0 };
    await store.commit({ opId: "v1", writes: [write], events: [], requiresVetted: false });
    expect(await one.remove("p", () => true, entry)).toBe(false);
    const gone = { ...write, body: null, indexes: [], expectedRev: 1 };
    await store.commit({ opId: "v2", writes: [gone], events: [], requiresVetted: false });
    expect(await one.remove("p", () => false, entry)).toBe(false);
    expect(await one.remove("p", () => true, entry)).toBe(true);
    expect(await one.remove("p", () => true, entry)).toBe(true);
    await two.learnOf("p");
    expect(two.get("p")).toBeUndefined();
    // Removed while nobody looked.
    await one.change("q", (record) => withProfile(record, few));
    await two.load();
    await one.remove("q", () => true, { index: "volume-plugin", value: "q" });
    await two.load();
    expect(two.list()).toEqual([]);
  });
});
