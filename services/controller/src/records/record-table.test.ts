import { randomUUID } from "node:crypto";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Commit, CommitResult, RecordWrite, StoredRecord } from "../domain/store-types.ts";
import { changedAllTheTime, maxRounds } from "./commit-rounds.ts";
import { createRecordTable, type RecordMemory, type Versioned } from "./record-table.ts";
import { recordReader } from "./shape/record-reader.ts";

interface Basket {
  readonly name: string;
  readonly things: readonly string[];
}

/** What becomes of one commit: stored, or not, and whether its sender hears of that. */
type Fate = "told" | "lost after" | "lost before" | "overtaken" | "away";

const failure = (reason: string) => new HoldfastError({ kind: "unavailable", reason, message: reason });

/** The plainest store, with a fate for each commit in their order; those behind the last are told. */
const createFatedStore = (fates: readonly Fate[] = []) => {
  const records = new Map<string, RecordWrite>();
  const revs = new Map<string, number>();
  const commits: Commit[] = [];
  let asked = 0;
  let reads = 0;
  const revOf = (key: string): number => (records.has(key) ? (revs.get(key) ?? 0) : 0);

  const put = (write: RecordWrite): number => {
    const { key } = write.ref;
    const rev = (revs.get(key) ?? 0) + 1;
    revs.set(key, rev);
    if (write.body === null) records.delete(key);
    else records.set(key, write);
    return rev;
  };

  const settle = (commit: Commit): CommitResult => {
    const conflicts = commit.writes.flatMap(({ ref, expectedRev }) =>
      revOf(ref.key) === expectedRev ? [] : [{ ref, rev: revOf(ref.key) }],
    );
    if (conflicts.length > 0) return { ok: false, conflicts };
    const alone = [commit.alone ?? []].flat();
    const written = new Set(commit.writes.map(({ ref }) => ref.key));
    const carried = [...records.values()].filter(({ ref }) => !written.has(ref.key)).flatMap(({ indexes }) => indexes);
    if (alone.some((entry) => carried.some(({ index, value }) => index === entry.index && value === entry.value)))
      return { ok: false, conflicts: [], crowded: true };
    commits.push(commit);
    const order = { gen: 1, sequence: commits.length };
    return { ok: true, revs: commit.writes.map(put), token: String(commits.length), order };
  };

  const storedOf = ({ ref, body }: RecordWrite): StoredRecord => ({ ref, rev: revOf(ref.key), body: body ?? "" });

  return {
    commits,
    put,
    reads: () => reads,
    async get({ key }: StoredRecord["ref"]): Promise<StoredRecord | undefined> {
      reads += 1;
      await Promise.resolve();
      const found = records.get(key);
      return found && storedOf(found);
    },
    async list({ index, value, after = "", limit }: { index: string; value: string; after?: string; limit: number }) {
      const sorted = [...records.values()].sort((a, b) => (a.ref.key < b.ref.key ? -1 : 1));
      const found = sorted.filter(
        ({ ref, indexes }) => ref.key > after && indexes.some((one) => one.index === index && one.value === value),
      );
      const page = found.slice(0, limit).map(storedOf);
      return { records: page, ...(found.length > limit ? { next: page.at(-1)?.ref.key ?? "" } : {}) };
    },
    async commit(commit: Commit): Promise<CommitResult> {
      const fate = fates[asked] ?? "told";
      asked += 1;
      await Promise.resolve();
      if (fate === "away") throw failure("STORE_UNAVAILABLE");
      if (fate === "lost before") throw failure("STORE_OUTCOME_UNKNOWN");
      const [first] = commit.writes;
      if (fate === "overtaken" && first !== undefined) {
        const stands = records.get(first.ref.key);
        if (stands !== undefined) put(stands);
        else put({ ...first, body: null, expectedRev: 0 });
        if (stands === undefined) return { ok: false, conflicts: [{ ref: first.ref, rev: 0 }] };
      }
      const result = settle(commit);
      if (fate === "lost after") throw failure("STORE_OUTCOME_UNKNOWN");
      return result;
    },
  };
};

const all = { index: "basket-all", value: "all" };
const refOf = (name: string) => ({ kind: "orphan", key: name }) as const;
const readBasket = recordReader<Basket>({
  shape: (value) => (typeof value === "object" && value !== null ? undefined : "no object"),
  keyOf: ({ name }) => name,
});

const start = (
  store = createFatedStore(),
  {
    memory,
    signal = new AbortController().signal,
  }: { memory?: RecordMemory<string, Basket>; signal?: AbortSignal } = {},
) => {
  const table = createRecordTable<string, Basket>(
    {
      store,
      clock: { now: () => 7, sleep: async () => undefined },
      ids: { uuid: randomUUID, random: () => 0.5 },
      signal,
    },
    {
      refOf,
      read: readBasket,
      encode: (basket) => ({ body: JSON.stringify(basket), indexes: [all], due: [] }),
      busy: (name) => changedAllTheTime(`basket ${name}`, { basket: name }),
      memory,
    },
  );
  return { table, store };
};

const into = (name: string, thing: string) => (before: Versioned<Basket> | undefined) => {
  const things = before?.record.things ?? [];
  return things.includes(thing) ? undefined : { record: { name, things: [...things, thing] }, note: "{}" };
};

describe("a decision", () => {
  it("[RT1] is stored over the revision that it was made from, with its event and terms", async () => {
    const { table, store } = start();
    await table.change("b", into("b", "one"));
    const expects = [{ ref: refOf("other"), expectedRev: 0 }];
    const done = await table.change("b", (before) => ({
      ...into("b", "two")(before),
      record: { name: "b", things: ["two"] },
      ...{ opId: "mine", expects, requiresVetted: true },
    }));
    expect(done).toEqual({
      now: { record: { name: "b", things: ["two"] }, rev: 2 },
      changed: true,
      order: { gen: 1, sequence: 2 },
    });
    expect(store.commits[1]).toEqual({
      opId: "mine",
      requiresVetted: true,
      expects,
      writes: [{ ref: refOf("b"), expectedRev: 1, body: '{"name":"b","things":["two"]}', indexes: [all], due: [] }],
      events: [{ type: "orphan", ref: refOf("b"), body: "{}" }],
    });
  });

  it("[RT2] that leaves the record as it is writes nothing, and answers the record", async () => {
    const { table, store } = start();
    expect(await table.change("b", () => undefined)).toEqual({ now: undefined, changed: false });
    const first = await table.change("b", into("b", "one"));
    expect(await table.change("b", into("b", "one"))).toEqual({ now: first.now, changed: false });
    expect(store.commits).toHaveLength(1);
  });

  it("that throws writes nothing and is not asked again", async () => {
    const { table, store } = start();
    let asked = 0;
    const refused = table.change("b", () => {
      asked += 1;
      throw new Error("refused");
    });
    await expect(refused).rejects.toThrow("refused");
    expect([asked, store.commits]).toEqual([1, []]);
  });

  it("removes a record; a later one counts on", async () => {
    const { table } = start();
    await table.change("b", into("b", "one"));
    expect(await table.change("b", () => ({ record: null }))).toEqual({
      now: undefined,
      changed: true,
      order: { gen: 1, sequence: 2 },
    });
    expect(await table.get("b")).toBeUndefined();
    expect((await table.change("b", into("b", "two"))).now?.rev).toBe(3);
  });

  it("is refused where it has to be alone with an entry that another record carries", async () => {
    const { table, store } = start();
    await table.change("a", into("a", "one"));
    const crowded = await table.change("b", (before) => ({ ...into("b", "one")(before), record: null, alone: all }));
    expect(crowded).toEqual({ now: undefined, changed: false, crowded: true });
    expect(store.commits).toHaveLength(1);
  });

  it("[RT5] is stored together with the word that it rests on", async () => {
    const { table, store } = start();
    const words = { verb: "Adopt", who: "a", reason: "b", evidence: "", confirmed: "", requestId: "", traceId: "" };
    const audit = { id: "word", entry: { ...words, effects: [], risks: [], subject: {} } };
    await table.change("b", (before) => ({ ...into("b", "one")(before), record: { name: "b", things: [] }, audit }));
    const [commit] = store.commits;
    expect(commit?.writes.map(({ ref }) => ref.kind)).toEqual(["orphan", "audit"]);
    expect(JSON.parse(commit?.writes[1]?.body ?? "")).toMatchObject({ id: "word", at: 7, revisionBefore: 0 });
    expect(commit?.events.map(({ type }) => type)).toEqual(["orphan", "audit"]);
  });

  it.each(["lost after", "lost before", "overtaken"] as const)(
    "is made again from a read when its commit was %s",
    async (fate) => {
      const { table, store } = start(createFatedStore(["told", fate]));
      await table.change("b", into("b", "one"));
      const seen: (number | undefined)[] = [];
      const done = await table.change("b", (before) => {
        seen.push(before?.rev);
        return into("b", "two")(before);
      });
      expect(done.now?.record.things).toEqual(["one", "two"]);
      expect(seen).toEqual(fate === "lost before" ? [1, 1] : [1, 2]);
      expect(store.commits).toHaveLength(2);
    },
  );

  it("is not made again when the store is away", async () => {
    const { table, store } = start(createFatedStore(["away"]));
    await expect(table.change("b", into("b", "one"))).rejects.toMatchObject({ reason: "STORE_UNAVAILABLE" });
    expect(store.commits).toEqual([]);
  });

  it("is given up after so many conflicts, with the kind's own words", async () => {
    const { table, store } = start(createFatedStore(Array<Fate>(20).fill("overtaken")));
    let asked = 0;
    const given = table.change("b", (before) => {
      asked += 1;
      return into("b", "one")(before);
    });
    await expect(given).rejects.toMatchObject({ reason: "REVISION_CONFLICT", metadata: { basket: "b" } });
    expect([asked, store.commits]).toEqual([maxRounds, []]);
  });

  it("ends with an abort, and the next in the lane is never asked", async () => {
    const stop = new AbortController();
    const { table } = start(createFatedStore(["overtaken"]), { signal: stop.signal });
    const asked: string[] = [];
    const ended = [
      table.change("b", (before) => {
        asked.push("first");
        stop.abort(new Error("over"));
        return into("b", "one")(before);
      }),
      table.change("b", (before) => {
        asked.push("second");
        return into("b", "two")(before);
      }),
    ];
    for (const one of ended) await expect(one).rejects.toThrow("over");
    expect(asked).toEqual(["first"]);
  });
});

describe("an insertion", () => {
  it("reads nothing before its commit, and what stands there after a conflict", async () => {
    const { table, store } = start();
    const seen: (number | undefined)[] = [];
    const once = (thing: string) =>
      table.insert("b", (before) => {
        seen.push(before?.rev);
        return before === undefined ? into("b", thing)(before) : undefined;
      });
    expect(await once("one")).toMatchObject({ now: { rev: 1 }, changed: true });
    expect(store.reads()).toBe(0);
    expect(await once("two")).toMatchObject({ now: { record: { things: ["one"] } }, changed: false });
    expect(seen).toEqual([undefined, undefined, 1]);
  });
});

describe("the memory of a kind", () => {
  const remembering = () => {
    const told: (readonly [string, number | undefined, boolean])[] = [];
    const known = new Map<string, Versioned<Basket>>();
    const memory: RecordMemory<string, Basket> = {
      recall: (name) => known.get(name),
      saw(name, found, own) {
        told.push([name, found?.rev, own]);
        if (found === undefined) known.delete(name);
        else known.set(name, found);
      },
    };
    return { memory, told };
  };

  it("[RT4] hears of what was read and stored, and of nothing that was not", async () => {
    const { memory, told } = remembering();
    const { table } = start(createFatedStore(["lost before", "told"]), { memory });
    await table.change("b", into("b", "one"));
    await table.change("b", () => ({ record: null }));
    await table.look("b");
    expect(told).toEqual([
      ["b", undefined, false],
      ["b", undefined, false],
      ["b", 1, true],
      ["b", undefined, true],
      ["b", undefined, false],
    ]);
  });

  it("spares the first round its read, and no later one", async () => {
    const { memory } = remembering();
    const store = createFatedStore();
    const { table } = start(store, { memory });
    await table.change("b", into("b", "one"));
    const before = store.reads();
    await table.change("b", into("b", "two"));
    expect(store.reads()).toBe(before);
    const other = start(store).table;
    await other.change("b", into("b", "three"));
    const late = await table.change("b", into("b", "four"));
    expect(late.now?.record.things).toEqual(["one", "two", "three", "four"]);
    expect(store.reads()).toBe(before + 2);
  });
});

describe("what is damaged", () => {
  const damaged = () => {
    const { table, store } = start();
    store.put({ ref: refOf("a"), expectedRev: 0, body: "{", indexes: [all], due: [] });
    return { table, store };
  };

  it("is named, and never decided from as if it were absent", async () => {
    const { table, store } = damaged();
    const decided = table.change("a", into("a", "one"));
    await expect(decided).rejects.toMatchObject({ reason: "RECORD_DAMAGED" });
    await expect(table.get("a")).rejects.toMatchObject({ reason: "RECORD_DAMAGED" });
    expect(store.commits).toEqual([]);
  });

  it("is left out of a list that need not be whole", async () => {
    const { table } = damaged();
    await table.change("b", into("b", "one"));
    expect((await table.list(all, { limit: 9 })).records.map(({ record }) => record.name)).toEqual(["b"]);
    await expect(table.list(all, { limit: 9, whole: true })).rejects.toMatchObject({ reason: "RECORD_DAMAGED" });
    const paged: string[] = [];
    for await (const page of table.pages(all)) paged.push(...page.map(({ record }) => record.name));
    expect(paged).toEqual(["b"]);
  });

  it("is behind no page's end", async () => {
    const { table } = damaged();
    for (const name of ["b", "c"]) await table.change(name, into(name, "one"));
    const first = await table.list(all, { limit: 2 });
    expect([first.records.length, first.next]).toEqual([1, "b"]);
    const second = await table.list(all, { limit: 2, after: first.next });
    expect([second.records.map(({ record }) => record.name), second.next]).toEqual([["c"], undefined]);
  });
});

const fates = fc.array(fc.constantFrom<Fate>("told", "told", "lost after", "lost before", "overtaken", "away"), {
  maxLength: 40,
});
const steps = fc.array(fc.record({ table: fc.nat(2), name: fc.constantFrom("a", "b"), remembers: fc.boolean() }), {
  minLength: 1,
  maxLength: 12,
});

describe("decisions of several controllers at once, whatever becomes of their commits", () => {
  it("[RT1] [RT3] leave each success exactly once, and each failure at most once", async () => {
    await fc.assert(
      fc.asyncProperty(fates, steps, async (fated, asked) => {
        const store = createFatedStore(fated);
        const tables = [0, 1, 2].map((n) => {
          const known = new Map<string, Versioned<Basket>>();
          const memory: RecordMemory<string, Basket> = {
            recall: (name) => known.get(name),
            saw: (name, found) => void (found === undefined ? known.delete(name) : known.set(name, found)),
          };
          return start(store, n === 0 ? {} : { memory }).table;
        });
        const running = new Map<string, number>();
        const ended = await Promise.allSettled(
          asked.map(async ({ table, name }, n) => {
            const lane = `${table}/${name}`;
            return await tables[table]?.change(name, async (before) => {
              running.set(lane, (running.get(lane) ?? 0) + 1);
              await Promise.resolve();
              expect(running.get(lane)).toBe(1);
              running.set(lane, 0);
              return into(name, `thing-${n}`)(before);
            });
          }),
        );
        for (const [n, { name }] of asked.entries()) {
          const things = (await tables[0]?.get(name))?.record.things ?? [];
          const found = things.filter((thing) => thing === `thing-${n}`).length;
          if (ended[n]?.status === "fulfilled") expect(found).toBe(1);
          else expect(found).toBeLessThanOrEqual(1);
        }
        for (const end of ended)
          if (end.status === "rejected")
            expect(["STORE_UNAVAILABLE", "REVISION_CONFLICT"]).toContain(end.reason.reason);
        expect(new Set(store.commits.map(({ opId }) => opId)).size).toBe(store.commits.length);
      }),
      { numRuns: 300 },
    );
  });
});
