/** A backup and its way back, over both stores. */
import { randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { systemClock } from "@holdfast/shared/async/clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RedisServer, startRedisServer } from "../../../../test/support/redis-server.ts";
import type { Commit, PlacedRecord, RecordWrite } from "../domain/store-types.ts";
import type { Ids, Store } from "../ports.ts";
import { judgeRecord } from "../records/shape/record-readers.ts";
import { openExportSource } from "../store/open-export-source.ts";
import { openStore } from "../store/open-store.ts";
import { commitOf } from "../store/test-commits.ts";
import { vetAnew } from "../store/vet-anew.ts";
import { createBackupFiles } from "./backup-files.ts";
import { readExport } from "./export-file.ts";
import { importRecords } from "./import-records.ts";
import { runOffline } from "./offline.ts";

const ids: Ids = { uuid: randomUUID, random: Math.random };
const log = createMemoryLogger();
let dir: string;
let redis: RedisServer;
let serial = 0;

beforeAll(async () => {
  dir = mkdtempSync(path.join(tmpdir(), "hf-backup-"));
  redis = await startRedisServer();
});
afterAll(async () => {
  await redis?.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** A store that nobody has used, with a state directory of its own. */
const freshPlace = (kind: "redis" | "sqlite") => {
  serial += 1;
  const stateDir = path.join(dir, `state-${serial}`);
  const store = kind === "redis" ? redis.url : `sqlite://${path.join(dir, `store-${serial}.db`)}`;
  return {
    store,
    storeMigrate: undefined,
    storeDurable: false,
    allowVolatileStore: false,
    cell: `c${serial}`,
    stateDir,
  };
};
type Place = ReturnType<typeof freshPlace>;

const opened = async <T>(place: Place, use: (store: Store) => Promise<T>): Promise<T> => {
  const ending = new AbortController();
  const store = await openStore({
    url: place.store,
    cell: place.cell,
    stateDir: place.stateDir,
    allowVolatile: false,
    declaredDurable: false,
    log,
    clock: systemClock,
    ids,
    signal: ending.signal,
  });
  try {
    return await use(store);
  } finally {
    ending.abort();
    await store.close();
  }
};

const offline = async (place: Place, ...[command, file]: readonly ["export" | "import" | "migrate", string?]) => {
  const said: string[] = [];
  const signal = new AbortController().signal;
  // The bodies of these tests are records of no kind.
  const judge = () => undefined;
  await runOffline(command, file, { settings: place, ids, log, say: (line) => said.push(line), signal, judge });
  return said.join("\n");
};

/** All of a store, in an order of its own; what is left of a life differs by the time that has passed. */
const contents = async (place: Place): Promise<readonly PlacedRecord[]> => {
  const source = await openExportSource({
    url: place.store,
    cell: place.cell,
    log,
    clock: systemClock,
    random: Math.random,
  });
  const all: PlacedRecord[] = [];
  for await (const record of source.records()) all.push(record);
  await source.close();
  return all
    .map(({ ttlMs, indexes, due, ...rest }) => ({
      ...rest,
      indexes: [...indexes].sort((a, b) => (`${a.index}:${a.value}` < `${b.index}:${b.value}` ? -1 : 1)),
      due: [...due].sort((a, b) => (a.queue < b.queue ? -1 : 1)),
      ...(ttlMs === undefined ? {} : { ttlMs: ttlMs > 0 ? 1 : 0 }),
    }))
    .sort((a, b) => (`${a.ref.kind}/${a.ref.key}` < `${b.ref.kind}/${b.ref.key}` ? -1 : 1));
};

const writes: readonly RecordWrite[] = Array.from({ length: 130 }, (_, i) => ({
  ref: { kind: i % 3 === 0 ? "volume" : i % 3 === 1 ? "node" : "tombstone", key: `ns/k-${i}` },
  expectedRev: 0,
  // A line separator of Unicode ends no line of the file.
  body: JSON.stringify({ i, text: 'ä\n\t"\u2028' }),
  indexes: [
    { index: "of", value: `a:b-${i % 7}` },
    { index: "all", value: "" },
  ],
  due: i % 2 === 0 ? [{ queue: "work", at: 1_000 + i }] : [],
  ...(i % 3 === 2 ? { ttlMs: 3_600_000 } : {}),
}));

const filled = async (kind: "redis" | "sqlite"): Promise<Place> => {
  const place = freshPlace(kind);
  await opened(place, async (store) => {
    await vetAnew(store);
    for (let at = 0; at < writes.length; at += 20) await store.commit(commitOf(writes.slice(at, at + 20)));
    // What was removed is in no backup.
    await store.commit(
      commitOf([{ ref: { kind: "volume", key: "gone" }, expectedRev: 0, body: "x", indexes: [], due: [] }]),
    );
    await store.commit(
      commitOf([{ ref: { kind: "volume", key: "gone" }, expectedRev: 1, body: null, indexes: [], due: [] }]),
    );
  });
  return place;
};

const kinds = ["redis", "sqlite"] as const;

describe("an export", () => {
  it.each(kinds.flatMap((from) => kinds.map((to) => ({ from, to }))))(
    "[I8] from $from into $to brings every record with its places, and nothing is granted from it before it was vetted",
    async ({ from, to }) => {
      const source = await filled(from);
      const file = path.join(dir, `${from}-${to}.export`);
      expect(await offline(source, "export", file)).toContain(`${writes.length} records`);
      const target = freshPlace(to);
      expect(await offline(target, "import", file)).toContain(`${writes.length} of them written now`);
      expect(await contents(target)).toEqual(await contents(source));
      expect((await contents(target)).length).toBe(writes.length);
      const before = await opened(source, (store) => store.identity());
      const after = await opened(target, (store) => store.identity());
      expect([after.clusterUid, after.vetting.gen]).toEqual([before.clusterUid, before.vetting.gen + 1]);
      expect(after.vettedRunId).not.toBe(after.runId);
    },
  );

  it.each(kinds)("into %s goes on where it was cut, and changes nothing when it is repeated", async (to) => {
    const source = await filled("sqlite");
    const file = path.join(dir, `cut-${to}.export`);
    await offline(source, "export", file);
    const target = freshPlace(to);
    await offline(target, "import", file);
    expect(await offline(target, "import", file)).toContain("0 of them written now");
    await opened(target, (store) =>
      store.commit(
        commitOf([{ ref: { kind: "volume", key: "ns/k-0" }, expectedRev: 1, body: null, indexes: [], due: [] }]),
      ),
    );
    expect(await offline(target, "import", file)).toContain("1 of them written now");
  });

  it.each(kinds)("never goes into a %s store that holds something else", async (to) => {
    const source = await filled("sqlite");
    const file = path.join(dir, `full-${to}.export`);
    await offline(source, "export", file);
    const other = await filled(to);
    const before = await contents(other);
    await expect(offline(other, "import", file)).rejects.toThrow(/installation/);
    expect(await contents(other)).toEqual(before);
    const changed = freshPlace(to);
    await offline(changed, "import", file);
    await opened(changed, (store) =>
      store.commit(
        commitOf([{ ref: { kind: "volume", key: "ns/k-0" }, expectedRev: 1, body: "else", indexes: [], due: [] }]),
      ),
    );
    await expect(offline(changed, "import", file)).rejects.toMatchObject({ reason: "STORE_NOT_EMPTY" });
  });

  it.each(kinds)(
    "[M1 I8] never goes back into the %s store that it was taken of: what was removed since stays removed, whatever else agrees",
    async (kind) => {
      const source = await filled(kind);
      const file = path.join(dir, `own-${kind}.export`);
      await offline(source, "export", file);
      await opened(source, (store) =>
        store.commit(
          commitOf([{ ref: { kind: "volume", key: "ns/k-0" }, expectedRev: 1, body: null, indexes: [], due: [] }]),
        ),
      );
      const before = await contents(source);
      await expect(offline(source, "import", file)).rejects.toMatchObject({ reason: "STORE_NOT_EMPTY" });
      expect(await contents(source)).toEqual(before);
    },
  );

  it.each(kinds)(
    "[M1] into a %s store with another record writes nothing, wherever in the file that one is",
    async (to) => {
      const source = await filled("sqlite");
      const file = path.join(dir, `last-${to}.export`);
      await offline(source, "export", file);
      const target = freshPlace(to);
      await offline(target, "import", file);
      const [first, last] = await opened(target, async (store) => {
        const all = await contents(source);
        const refs = [all[0]?.ref, all.at(-1)?.ref].flatMap((ref) => ref ?? []);
        const found = (await store.getMany(refs)).flatMap((one) => one ?? []);
        await store.commit(
          commitOf(
            found.map(({ ref, rev, body }, i) => ({
              ref,
              expectedRev: rev,
              body: i === 0 ? null : `${body} `,
              indexes: [],
              due: [],
            })),
          ),
        );
        return refs;
      });
      expect(first).not.toEqual(last);
      const before = await contents(target);
      await expect(offline(target, "import", file)).rejects.toMatchObject({ reason: "STORE_NOT_EMPTY" });
      expect(await contents(target)).toEqual(before);
    },
  );

  it.each(kinds)("[E2 I1] of a %s store in which storage seems to have two owners makes no file", async (kind) => {
    const source = await filled(kind);
    const file = path.join(dir, `moved-${kind}.export`);
    // As they are read when storage is deregistered and registered anew between the two.
    await opened(source, (store) =>
      store.commit(
        commitOf(
          ["ns/old", "ns/new"].map((key) => ({
            ref: { kind: "volume" as const, key },
            expectedRev: 0,
            body: key,
            indexes: [{ index: "volume-external", value: "p/ext-1" }],
            due: [],
          })),
        ),
      ),
    );
    await expect(offline(source, "export", file)).rejects.toMatchObject({ reason: "EXPORT_MOVED" });
    expect(existsSync(file)).toBe(false);
  });

  /** As if the process had been killed at its nth commit. */
  const killedAt = async (place: Place, file: string, nth: number): Promise<void> => {
    const read = await readExport({ file, lines: createBackupFiles(path.dirname(file)).lines(path.basename(file)) });
    const ending = new AbortController();
    const store = await openStore({
      url: place.store,
      cell: place.cell,
      stateDir: place.stateDir,
      allowVolatile: false,
      declaredDurable: false,
      log,
      clock: systemClock,
      ids,
      signal: ending.signal,
      adopt: read.head,
    });
    let left = nth;
    const dying = {
      ...store,
      commit: async (commit: Commit) => {
        if (left === 0) throw new Error("killed");
        left -= 1;
        return await store.commit(commit);
      },
    };
    try {
      await expect(
        importRecords({ store: dying, mark: store.importMark, file: read, progress: () => undefined }),
      ).rejects.toThrow("killed");
    } finally {
      ending.abort();
      await store.close();
    }
  };

  it.each(kinds)("[M4] into %s takes from a quota what its namespace has, also when the import was cut", async (to) => {
    const source = await filled("sqlite");
    const quota = { namespace: "ns", limits: { volumes: 3 }, createdAt: 1, updatedAt: 1 };
    const body = JSON.stringify({ ...quota, used: { volumes: 2, bytes: 9, snapshots: 0 } });
    const ref = { kind: "quota", key: "ns" } as const;
    await opened(source, (store) => store.commit(commitOf([{ ref, expectedRev: 0, body, indexes: [], due: [] }])));
    const file = path.join(dir, `quota-${to}.export`);
    await offline(source, "export", file);
    const target = freshPlace(to);
    await killedAt(target, file, 2);
    await offline(target, "import", file);
    expect(JSON.parse((await contents(target)).find(({ ref: { kind } }) => kind === "quota")?.body ?? "")).toEqual(
      quota,
    );
  });

  it.each(kinds.flatMap((to) => [0, 1, 2].map((nth) => ({ to, nth }))))(
    "[M2 I8] cut at commit $nth into $to: no controller starts over it, no backup is made of it, and the same file ends it",
    async ({ to, nth }) => {
      const source = await filled("sqlite");
      const file = path.join(dir, `killed-${to}-${nth}.export`);
      await offline(source, "export", file);
      const target = freshPlace(to);
      await killedAt(target, file, nth);
      const start = () => opened(target, async () => "started");
      for (let again = 0; again < 2; again += 1)
        await expect(start()).rejects.toMatchObject({
          reason: "STORE_HALF_IMPORTED",
          message: expect.stringContaining("holdfast import FILE"),
        });
      await expect(offline(target, "migrate")).rejects.toMatchObject({ reason: "STORE_HALF_IMPORTED" });
      const made = path.join(dir, `never-${to}-${nth}.export`);
      await expect(offline(target, "export", made)).rejects.toMatchObject({ reason: "STORE_HALF_IMPORTED" });
      expect(existsSync(made)).toBe(false);
      // Another backup of the same installation would be mixed with what is there.
      await opened(source, (store) =>
        store.commit(
          commitOf([{ ref: { kind: "volume", key: "ns/k-0" }, expectedRev: 1, body: null, indexes: [], due: [] }]),
        ),
      );
      const later = path.join(dir, `later-${to}-${nth}.export`);
      await offline(source, "export", later);
      await expect(offline(target, "import", later)).rejects.toMatchObject({ reason: "STORE_HALF_IMPORTED" });
      expect(await offline(target, "import", file)).toContain(`${writes.length} records are there`);
      expect(await contents(target)).toHaveLength(writes.length);
      expect(await start()).toBe("started");
      // A part of what an import that is over had brought is gone: while it is put back, nobody starts either.
      await opened(target, (store) =>
        store.commit(
          commitOf([{ ref: { kind: "node", key: "ns/k-1" }, expectedRev: 1, body: null, indexes: [], due: [] }]),
        ),
      );
      await killedAt(target, file, 0);
      await expect(start()).rejects.toMatchObject({ reason: "STORE_HALF_IMPORTED" });
      expect(await offline(target, "import", file)).toContain("1 of them written now");
      expect(await start()).toBe("started");
    },
  );

  it("that was cut, or changed in one byte, is refused before anything is written", async () => {
    const source = await filled("sqlite");
    const file = path.join(dir, "whole.export");
    await offline(source, "export", file);
    const whole = readFileSync(file);
    const target = freshPlace("sqlite");
    for (let nth = 0; nth < 40; nth += 1) {
      const at = Math.floor((whole.length * nth) / 40);
      const bad = path.join(dir, "bad.export");
      const flipped = Buffer.from(whole);
      flipped[at] = (flipped[at] ?? 0) ^ 1;
      for (const text of [whole.subarray(0, at), flipped]) {
        writeFileSync(bad, text);
        await expect(offline(target, "import", bad), `byte ${at}`).rejects.toMatchObject({ reason: "EXPORT_DAMAGED" });
      }
    }
  });
});

it("migrate makes a Redis ready, and says so again", async () => {
  const place = freshPlace("redis");
  expect(await offline(place, "migrate")).toContain(`the redis store of cell ${place.cell} is ready`);
  expect(await offline(place, "migrate")).toContain("generation 0");
});

it.each(["redis", "sqlite"] as const)("a damaged record in %s: no backup is made without it", async (kind) => {
  const place = await filled(kind);
  const file = path.join(dir, `${kind}-damaged.export`);
  const exported = runOffline("export", file, {
    ...{ settings: place, ids, log, say: () => undefined, signal: new AbortController().signal },
    judge: judgeRecord,
  });
  await expect(exported).rejects.toMatchObject({ reason: "RECORD_DAMAGED" });
  expect(existsSync(file)).toBe(false);
});
