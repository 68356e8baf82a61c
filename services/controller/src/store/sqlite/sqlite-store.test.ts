import { randomUUID } from "node:crypto";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { systemClock } from "@holdfast/shared/async/clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { sample } from "../../../../../test/support/full.ts";
import type { Store } from "../../ports.ts";
import { openStore } from "../open-store.ts";
import { createStateFile, type StateFile } from "../state-file.ts";
import { describeStore } from "../store-contract.ts";
import { describeStoreFormats } from "../store-formats-contract.ts";
import { commitOf, ref, take, write } from "../test-commits.ts";
import { vetAnew } from "../vet-anew.ts";
import { openSqliteDatabase } from "./sqlite-database.ts";
import { createSqliteStore } from "./sqlite-store.ts";

const dirs: string[] = [];
const freshDir = (): string => {
  const dir = mkdtempSync(path.join(tmpdir(), "hf-sqlite-"));
  dirs.push(dir);
  return dir;
};
const removeAll = (): void => {
  for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true, force: true });
};

describeStore("SQLite", async () => {
  const dir = freshDir();
  const file = path.join(dir, "store.db");
  let offset = 0;
  const open = (life: string) =>
    createSqliteStore({
      file,
      now: () => Date.now() + offset,
      uuid: randomUUID,
      maxEvents: 200,
      marks: createStateFile(path.join(dir, life), "mark"),
    });
  let current = open("state");
  let lives = 0;
  // The store of the suite stays one object over each reopening.
  const store = new Proxy({} as Store, { get: (_, name) => Reflect.get(current, name) });
  return {
    store,
    other: store,
    maxEvents: 200,
    async unvet() {
      await current.close();
      lives += 1;
      current = open(`other-state-${lives}`);
    },
    async pass(ms) {
      offset += ms;
    },
    async reopen() {
      await current.close();
      current = open("state");
    },
    async stop() {
      await current.close();
      removeAll();
    },
  };
});

describe("the format of an SQLite store", () => {
  afterEach(removeAll);
  describeStoreFormats(async () => {
    const dir = freshDir();
    const file = path.join(dir, "store.db");
    const marks = createStateFile(path.join(dir, "state"), "mark");
    let last: Store | undefined;
    return async (formats) => {
      await last?.close();
      last = createSqliteStore({ file, now: Date.now, uuid: randomUUID, marks, formats });
      return last;
    };
  });
});

describe("SQLite store", () => {
  afterEach(removeAll);

  const setup = () => {
    const dir = freshDir();
    const file = path.join(dir, "store.db");
    const marks = createStateFile(path.join(dir, "state"), "mark");
    const open = (given: StateFile = marks) =>
      createSqliteStore({ file, now: Date.now, uuid: randomUUID, marks: given });
    return { dir, file, marks, open };
  };
  it("a row that holds no record is damaged everywhere, and an identity without numbers is opened by nobody", async () => {
    const { file, open } = setup();
    const indexes = [{ index: "x", value: "all" }];
    const first = open();
    await first.commit(commitOf(["a", "b", "c"].map((key) => write(key, 0, "1", { indexes }))));
    await first.close();
    const change = (sql: string): void => {
      const db = openSqliteDatabase(file);
      db.run(sql);
      db.close();
    };
    change("UPDATE records SET rev = 9007199254740993 WHERE key = 'a'");
    change("UPDATE records SET body = x'00ff' WHERE key = 'b'");
    const store = open();
    const { records } = await store.list({ index: "x", value: "all", limit: 10 });
    expect(records.map(({ ref: { key }, rev, damage }) => [key, rev, damage])).toEqual([
      ["a", 0, "its revision is no whole number"],
      ["b", 1, "its body is of the type blob, not text"],
      ["c", 1, undefined],
    ]);
    expect(await store.get(ref("a"))).toMatchObject({ damage: "its revision is no whole number" });
    for (const [key, rev] of [
      ["a", 0],
      ["b", 1],
    ] as const)
      await expect(store.commit(commitOf([write(key, rev, "over"), write("d", 0, "1")]))).rejects.toMatchObject({
        reason: "RECORD_DAMAGED",
        metadata: { key },
      });
    expect(await store.get(ref("d"))).toBeUndefined();
    expect(await store.commit(commitOf([write("c", 1, "2")]))).toMatchObject({ ok: true });
    await store.close();
    for (const name of ["gen", "schema"]) {
      change(`UPDATE meta SET value = 'NaN' WHERE name = '${name}'`);
      expect(open).toThrow(`its ${name} is "NaN"`);
      change(`UPDATE meta SET value = '1' WHERE name = '${name}'`);
    }
  });

  const grant = (key: string, rev = 0) => commitOf([write(key, rev, "x")], { requiresVetted: true });

  it("keeps everything over a restart, needs no vetting, and watches go on from their token", async () => {
    const { open } = setup();
    const first = open();
    const event = { type: "t", ref: ref("k"), body: "later" };
    await first.commit({ ...grant("k"), events: [{ ...event, body: "seen" }] });
    const token = await first.head();
    await first.commit(commitOf([write("k", 1, "2")], { events: [event] }));
    const before = await first.identity();
    await first.close();
    const second = open();
    expect(second.accepted).toBe(true);
    expect(await second.get(ref("k"))).toMatchObject({ body: "2", rev: 2 });
    const { runId, ...rest } = await second.identity();
    expect(rest).toMatchObject({
      clusterUid: before.clusterUid,
      format: 4,
      vetting: before.vetting,
      vettedRunId: runId,
    });
    expect(runId).not.toBe(before.runId);
    expect((await take(second, token, 1)).map(({ body }) => body)).toEqual(["later"]);
    expect(await second.commit(grant("k", 2))).toMatchObject({ ok: true });
    await second.close();
  });

  it("[I8] grants nothing from a file of another controller, from an older copy, or from none where there was one", async () => {
    const { dir, file, marks, open } = setup();
    const original = open();
    await original.commit(grant("k"));
    await original.close();
    const copy = path.join(dir, "backup.db");
    cpSync(file, copy);
    const later = open();
    await later.commit(grant("k", 1));
    const token = await later.head();
    await later.close();

    const cases: Readonly<Record<string, () => StateFile>> = {
      "another state directory": () => createStateFile(path.join(dir, "elsewhere"), "mark"),
      "an older copy": () => {
        cpSync(copy, file);
        return marks;
      },
      "no file": () => {
        rmSync(file);
        return marks;
      },
    };
    for (const [name, prepare] of Object.entries(cases)) {
      const given = prepare();
      // Over restarts too, until it is vetted.
      for (const round of [1, 2]) {
        const store = open(given);
        expect(store.accepted, `${name}, start ${round}`).toBe(round === 2);
        await expect(store.commit(grant("new")), name).rejects.toMatchObject({ reason: "STORE_UNVETTED" });
        expect(await store.commit(commitOf([write(`${name}-${round}`, 0, "x")]))).toMatchObject({ ok: true });
        await expect(take(store, token, 1)).rejects.toMatchObject({ reason: "EVENTS_TRIMMED" });
        await store.close();
      }
      const store = open(given);
      await vetAnew(store);
      await store.close();
      const vetted = open(given);
      expect(await vetted.commit(grant(`${name}-granted`))).toMatchObject({ ok: true });
      await vetted.close();
    }
  });

  it("S5 a file that lost its newest commits gives their numbers to no others, once it is vetted", async () => {
    const dir = freshDir();
    let now = 1_000;
    const open = (file: string) =>
      createSqliteStore({
        file,
        now: () => now,
        uuid: randomUUID,
        marks: createStateFile(path.join(dir, "s"), "mark"),
      });
    const numberOf = async (store: Store, key: string): Promise<number> => {
      const result = await store.commit(commitOf([write(key, 0, "x")]));
      return result.ok ? result.order.sequence : 0;
    };
    const [file, copy] = [path.join(dir, "store.db"), path.join(dir, "copy.db")];
    const made = open(file);
    await numberOf(made, "first");
    await made.close();
    cpSync(file, copy);
    const gone = open(file);
    const lost = await numberOf(gone, "second");
    await gone.close();
    now += 1;
    const restored = open(copy);
    expect(await numberOf(restored, "third")).toBe(lost);
    await vetAnew(restored);
    expect(await numberOf(restored, "fourth")).toBeGreaterThan(lost);
    await restored.close();
    const other = open(path.join(dir, "other.db"));
    expect(await numberOf(other, "first")).toBeGreaterThan(lost);
    await other.close();
  });

  it("kills between any two writes of the marks, one after the other, cost no vetting", () => {
    // The marks are written before and after the file: dying at each of the two, with the text on disk or not.
    const death = fc.record({ atWrite: fc.nat(1), written: fc.boolean() });
    fc.assert(
      fc.property(fc.array(death, { maxLength: 6 }), (deaths) => {
        const { marks, open } = setup();
        for (const { atWrite, written } of deaths) {
          let writes = 0;
          const dying: StateFile = {
            ...marks,
            write(text) {
              const last = writes === atWrite;
              writes += 1;
              if (!last || written) marks.write(text);
              if (last) throw new Error("killed");
            },
          };
          expect(() => open(dying)).toThrow("killed");
        }
        const store = open();
        expect(store.accepted).toBe(true);
        void store.close();
      }),
      { numRuns: sample(300, 25) },
    );
  });

  it("one process only: a second opener is told why", async () => {
    const { file, open } = setup();
    const first = open();
    expect(() => open()).toThrow(/another process has it open/);
    await first.close();
    await open().close();
    expect(file).toContain("store.db");
  });

  it("removed and ended records leave nothing behind but their revision, and that for a day", async () => {
    const dir = freshDir();
    const file = path.join(dir, "store.db");
    let time = 1_000_000;
    const store = createSqliteStore({ file, now: () => time, uuid: randomUUID });
    const places = { indexes: [{ index: "i", value: "v" }], due: [{ queue: "q", at: 1 }] };
    await store.commit(commitOf([write("gone", 0, "x", places), write("short", 0, "x", { ...places, ttlMs: 10 })]));
    await store.commit(commitOf([write("gone", 1, null)]));
    time += 24 * 3_600_000 + 11;
    await store.commit(commitOf([write("other", 0, "x")]));
    time += 24 * 3_600_000 + 11;
    await store.commit(commitOf([write("other", 1, "x")]));
    await store.close();
    const db = openSqliteDatabase(file);
    const rows = (table: string) => db.all<{ key: string }>(`SELECT key FROM ${table}`).map(({ key }) => key);
    expect([rows("records"), rows("entries"), rows("due")]).toEqual([["other"], [], []]);
    db.close();
  });

  it("a newer schema is refused, and the file is left as it is", async () => {
    const { file, open } = setup();
    await open().close();
    const db = openSqliteDatabase(file);
    db.setMeta("schema", "99");
    db.close();
    expect(() => open()).toThrow(/schema is format 99/);
    expect(() => open()).toThrow(/schema is format 99/);
  });

  it("the address opens it, and what is wrong with the address or the file is a mistake in the settings", async () => {
    const dir = freshDir();
    const log = createMemoryLogger();
    const opening = (url: string) =>
      openStore({
        url,
        cell: "test",
        stateDir: path.join(dir, "state"),
        allowVolatile: false,
        declaredDurable: false,
        log,
        clock: systemClock,
        ids: { uuid: randomUUID, random: Math.random },
        signal: new AbortController().signal,
      });
    const file = path.join(dir, "deep", "store.db");
    const store = await opening(`sqlite://${file}`);
    expect(await store.commit(grant("k"))).toMatchObject({ ok: true });
    await store.close();
    rmSync(file);
    await (await opening(`sqlite://${file}`)).close();
    expect(log.lines.map(({ message }) => message).join()).toContain("not the one that this controller left");
    for (const url of ["sqlite://relative.db", "mysql://u:secret@h/d", `sqlite://${file}/below-a-file/x.db`]) {
      const error = await opening(url).catch((thrown: unknown) => thrown as Error);
      expect(error).toBeInstanceOf(Error);
      expect(error instanceof Error ? error.message : "").not.toContain("secret");
    }
  });
});
