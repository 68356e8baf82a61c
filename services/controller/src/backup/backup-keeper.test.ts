import { createManualClock, type ManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { PlacedRecord } from "../domain/store-types.ts";
import type { BackupFiles } from "./backup-files.ts";
import { type BackupKeeper, createBackupKeeper } from "./backup-keeper.ts";
import { backupName } from "./backup-name.ts";
import { readExport } from "./export-file.ts";

const owner = { cell: "default", controllerId: "ctl.a", clusterUid: "0b54aaaa-1111" };
const identity = { clusterUid: owner.clusterUid, schema: 3, gen: 1 };
const intervalMs = 3_600_000;

let clock: ManualClock;
let log: ReturnType<typeof createMemoryLogger>;
let kept: Map<string, string>;
let room: number;
let fails: { write?: string; list?: string; remove?: string };
let opened: number;
let open: boolean;
let tell: () => void;
let ending: AbortController;

const files: BackupFiles = {
  directory: "/backup",
  async list() {
    if (fails.list !== undefined) throw new Error(fails.list);
    return [...kept.keys()];
  },
  size: async (name) => kept.get(name)?.length ?? 0,
  room: async () => room,
  async write(name, fill) {
    let text = "";
    const result = await fill(async (more) => {
      if (fails.write !== undefined) throw new Error(fails.write);
      text += more;
    });
    kept.set(name, text);
    return result;
  },
  async *lines(name) {
    yield* (kept.get(name) ?? "").trimEnd().split("\n");
  },
  async rename(from, to) {
    kept.set(to, kept.get(from) ?? "");
    kept.delete(from);
  },
  async remove(name) {
    if (fails.remove !== undefined) throw new Error(fails.remove);
    kept.delete(name);
  },
};

const record: PlacedRecord = { ref: { kind: "volume", key: "ns/v" }, body: "{}", indexes: [], due: [] };

const started = (keep = 3, judge: () => void = () => undefined): BackupKeeper => {
  const keeper = createBackupKeeper({
    files,
    openSource: async () => {
      opened += 1;
      return {
        identity,
        async *records() {
          yield record;
        },
        identityNow: async () => identity,
        async close() {
          opened -= 1;
        },
      };
    },
    gate: {
      state: () => ({ open, vetting: { gen: 1, uid: "vetting-1" }, reason: "" }),
      onChange: (listener) => {
        tell = listener;
        return () => undefined;
      },
    },
    owner,
    intervalMs,
    keep,
    judge,
    clock,
    log,
    signal: ending.signal,
  });
  keeper.run().catch(() => undefined);
  return keeper;
};

const nameAt = (iso: string): string => backupName(owner, Date.parse(iso));
const names = (): readonly string[] => [...kept.keys()].sort();
const errors = (): readonly string[] =>
  log.lines.filter(({ level }) => level === "error").map(({ fields }) => JSON.stringify(fields["error"]));

beforeEach(() => {
  clock = createManualClock({ now: Date.parse("2026-03-01T10:00:00Z") });
  log = createMemoryLogger();
  kept = new Map();
  room = 1e9;
  fails = {};
  opened = 0;
  open = true;
  ending = new AbortController();
});
afterEach(() => {
  ending.abort();
  expect(opened, "sources that were not closed").toBe(0);
});

describe("the keeper of backups", () => {
  it("writes one at once, one an interval, and keeps as many as it is told to", async () => {
    const keeper = started();
    await clock.advance(0);
    expect(names()).toEqual([nameAt("2026-03-01T10:00:00Z")]);
    const [name = ""] = names();
    expect((await readExport({ file: name, lines: files.lines(name) })).records).toEqual([record]);
    await clock.advance(intervalMs - 1);
    expect(names()).toHaveLength(1);
    expect(keeper.standing()).toEqual({ ageMs: intervalMs - 1, failures: 0 });
    await clock.advance(3 * intervalMs);
    expect(names()).toEqual([11, 12, 13].map((hour) => nameAt(`2026-03-01T${hour}:00:00Z`)));
  });

  it("takes only files of its own controller, cell and installation for its own", async () => {
    const strange = [
      backupName({ ...owner, controllerId: "ctl" }, 0),
      backupName({ ...owner, controllerId: "ctl.a.b" }, 0),
      backupName({ ...owner, cell: "other" }, 0),
      backupName({ ...owner, clusterUid: "ffffffff-1111" }, 0),
      `${nameAt("2026-01-01T00:00:00Z")}.old`,
      "notes.export",
      nameAt("2026-01-01T00:00:00Z").replace("20260101", "20269901"),
    ];
    for (const name of [...strange, nameAt("2026-01-01T00:00:00Z")]) kept.set(name, "");
    started(1);
    await clock.advance(0);
    expect(names()).toEqual([...strange, nameAt("2026-03-01T10:00:00Z")].sort());
  });

  it("after a restart goes on where the last life was, and clears away what that one had begun", async () => {
    kept.set(nameAt("2026-03-01T09:30:00Z"), "");
    kept.set(`${nameAt("2026-03-01T09:59:59Z")}.part`, "half");
    kept.set(`${backupName({ ...owner, controllerId: "ctl-b" }, 0)}.part`, "half of another controller");
    const keeper = started();
    await clock.advance(0);
    expect(names()).toEqual([
      `${backupName({ ...owner, controllerId: "ctl-b" }, 0)}.part`,
      nameAt("2026-03-01T09:30:00Z"),
    ]);
    expect(keeper.standing().ageMs).toBe(1_800_000);
    await clock.advance(1_800_000);
    expect(names()).toContain(nameAt("2026-03-01T10:30:00Z"));
  });

  it("K1 [I8] writes nothing while the store is not vetted, and removes nothing", async () => {
    open = false;
    for (const hour of ["01", "02", "03", "04"]) kept.set(nameAt(`2026-03-01T${hour}:00:00Z`), "");
    const before = names();
    const keeper = started(1);
    await clock.advance(5 * intervalMs);
    expect(names()).toEqual(before);
    expect(keeper.standing()).toEqual({ ageMs: 11 * intervalMs, failures: 0 });
    open = true;
    tell();
    await clock.advance(0);
    expect(names()).toEqual([nameAt("2026-03-01T15:00:00Z")]);
  });

  it("K2 removes nothing when the new one cannot be written, and K3 tries again within a minute", async () => {
    for (const hour of ["01", "02"]) kept.set(nameAt(`2026-03-01T${hour}:00:00Z`), "");
    const before = names();
    fails = { write: "ENOSPC: no space left on device" };
    const keeper = started(1);
    await clock.advance(0);
    expect(names()).toEqual(before);
    await clock.advance(120_000);
    expect(keeper.standing().failures).toBe(3);
    expect(errors()[0]).toContain("ENOSPC");
    fails = {};
    await clock.advance(60_000);
    expect(names()).toEqual([nameAt("2026-03-01T10:03:00Z")]);
    expect(keeper.standing()).toEqual({ ageMs: 0, failures: 3 });
  });

  it("K3 names a directory without room before it is full, and one that is not there", async () => {
    kept.set(nameAt("2026-03-01T01:00:00Z"), "x".repeat(1_000));
    room = 16 * 1024 * 1024 + 1_999;
    const keeper = started();
    await clock.advance(0);
    expect(errors()[0]).toContain(`/backup has room for ${room} bytes, and a backup needs ${room + 1}`);
    room += 1;
    fails = { list: "ENOENT: no such file or directory" };
    await clock.advance(60_000);
    expect(errors()[1]).toContain("ENOENT");
    fails = {};
    await clock.advance(60_000);
    expect(names()).toContain(nameAt("2026-03-01T10:02:00Z"));
    expect(keeper.standing().failures).toBe(2);
  });

  it("K3 a record that cannot be read makes no backup", async () => {
    const keeper = started(1, () => {
      throw new Error("RECORD_DAMAGED");
    });
    await clock.advance(0);
    expect(names()).toEqual([]);
    expect(errors()[0]).toContain("RECORD_DAMAGED");
    expect(keeper.standing().failures).toBe(1);
  });

  it("K4 a clock that was set back makes a younger file all the same, and the age goes on", async () => {
    const keeper = started(2);
    await clock.advance(0);
    clock.setWall(Date.parse("2025-01-01T00:00:00Z"));
    await clock.advance(intervalMs);
    expect(names()).toEqual([nameAt("2026-03-01T10:00:00Z"), nameAt("2026-03-01T10:00:01Z")]);
    await clock.advance(intervalMs);
    expect(names()).toEqual([nameAt("2026-03-01T10:00:01Z"), nameAt("2026-03-01T10:00:02Z")]);
    expect(keeper.standing()).toEqual({ ageMs: 0, failures: 0 });
  });

  it("what cannot be removed is told, and holds up nothing", async () => {
    fails = { remove: "EPERM" };
    started(1);
    await clock.advance(intervalMs);
    expect(names()).toHaveLength(2);
    expect(log.lines.filter(({ level }) => level === "warn")).toHaveLength(1);
    fails = {};
    await clock.advance(intervalMs);
    expect(names()).toEqual([nameAt("2026-03-01T12:00:00Z")]);
  });
});
