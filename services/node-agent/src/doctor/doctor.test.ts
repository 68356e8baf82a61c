/** What `check` finds on a host that no test can have for real: clocks, copied and newer journals, a directory open to others. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { examineStateDir } from "@holdfast/shared/doctor/examine-state-dir";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { afterAll, beforeAll, expect, test } from "vitest";
import { encodeHeader } from "../volumes/journal-format.ts";
import { examineControllers } from "./examine-controllers.ts";
import { examineJournal } from "./examine-journal.ts";

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(path.join(tmpdir(), "hf-check-"));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const heard = async (lastHeartbeat: Date | undefined, now: number) =>
  (await examineControllers(["c:1"], async () => ({ lastHeartbeat }), now))[0];

test("clocks: a controller that is ahead, one that heard nothing for long, one that agrees", async () => {
  const now = Date.parse("2030-01-01T00:00:00Z");
  expect(await heard(new Date(now + 6_000), now)).toMatchObject({ id: "clock-skew", level: "fault" });
  expect(await heard(new Date(now - 61_000), now)).toMatchObject({ id: "heartbeat-old", level: "warning" });
  for (const at of [now + 4_000, now, now - 59_000])
    expect(await heard(new Date(at), now)).toMatchObject({ id: "controller", level: "ok" });
  expect(await heard(undefined, now)).toMatchObject({ level: "ok" });
});

test("a node that has not registered yet is no fault", async () => {
  const missing = new HoldfastError({ kind: "not_found", reason: "NODE_NOT_FOUND", message: "no such node" });
  const [found] = await examineControllers(["c:1"], () => Promise.reject(missing), 0);
  expect(found).toMatchObject({ level: "ok" });
});

const journalOf = async (header: Parameters<typeof encodeHeader>[0], machine: string) => {
  const stateDir = path.join(dir, `s-${header.format}-${header.machine}`);
  mkdirSync(stateDir, { recursive: true });
  writeFileSync(path.join(stateDir, "journal"), encodeHeader(header));
  return (await examineJournal(stateDir, machine))[0];
};

test("journals: this machine's, another machine's, a later version's, one that cannot be read", async () => {
  expect(await journalOf({ format: 1, uid: "u", machine: "m" }, "m")).toMatchObject({ id: "journal", level: "ok" });
  expect(await journalOf({ format: 1, uid: "u", machine: "other" }, "m")).toMatchObject({
    id: "journal-copied",
    level: "fault",
  });
  expect(await journalOf({ format: 99, uid: "u", machine: "m" }, "m")).toMatchObject({
    id: "journal-newer",
    level: "fault",
  });
  const stateDir = path.join(dir, "strange");
  mkdirSync(path.join(stateDir, "journal"), { recursive: true });
  expect((await examineJournal(stateDir, "m"))[0]).toMatchObject({ id: "journal", level: "fault" });
});

test("a state directory that others may write to", async () => {
  const open = path.join(dir, "open");
  mkdirSync(open);
  chmodSync(open, 0o777);
  expect((await examineStateDir(open, "HOLDFAST_STATE_DIR"))[0]).toMatchObject({ id: "state-open", level: "warning" });
});
