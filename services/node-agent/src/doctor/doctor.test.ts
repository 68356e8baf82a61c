/** What `check` finds on a host that no test can have for real: clocks, copied and newer journals, a directory open to others. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { examineStateDir } from "@holdfast/shared/doctor/examine-state-dir";
import { afterAll, beforeAll, expect, test } from "vitest";
import { encodeHeader } from "../volumes/journal-format.ts";
import { examineControllers } from "./examine-controllers.ts";
import { examineHost } from "./examine-host.ts";
import { examineJournal } from "./examine-journal.ts";
import { examineLinks } from "./examine-links.ts";

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(path.join(tmpdir(), "hf-check-"));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const heard = async (theirs: Date | undefined, now: number, known = true) =>
  (
    await examineControllers(
      ["c:1"],
      async () => ({ now: theirs, known }),
      () => now,
    )
  )[0];

test("a controller that is dialled without TLS beyond this host is found", () => {
  const controllers = ["127.0.0.1:7602", "10.0.0.1:7602"];
  const found = examineLinks({ tlsDir: undefined, controllers }).map(({ id, subject }) => [id, subject]);
  expect(found).toEqual([["plain-link", "10.0.0.1:7602"]]);
  expect(examineLinks({ tlsDir: "/etc/holdfast/tls", controllers })).toEqual([]);
});

test("clocks: a controller that is ahead, one that is behind, one that agrees", async () => {
  const now = Date.parse("2030-01-01T00:00:00Z");
  for (const [ms, message] of [
    [6_000, "its clock is 6 s ahead of this host's"],
    [-6_000, "its clock is 6 s behind this host's"],
  ] as const)
    expect(await heard(new Date(now + ms), now)).toMatchObject({ id: "clock-skew", level: "fault", message });
  for (const ms of [4_000, 0, -4_000])
    expect(await heard(new Date(now + ms), now)).toMatchObject({ id: "controller", level: "ok" });
  expect(await heard(undefined, now)).toMatchObject({ level: "ok" });
});

test("a node that has not registered yet is no fault", async () => {
  expect(await heard(undefined, 0, false)).toMatchObject({
    level: "ok",
    message: "answers; this node has not registered yet",
  });
});

test("a controller that does not answer: where it listens for agents is said", async () => {
  const [found] = await examineControllers(
    ["c:1"],
    () => Promise.reject(new Error("refused")),
    () => 0,
  );
  expect(found).toMatchObject({ id: "controller-unreachable", level: "fault" });
  expect(found?.cure).toMatch(/HOLDFAST_CONTROLLERS.*HOLDFAST_AGENT_LISTEN/);
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
  const [short] = await examineJournal(path.join(dir, "s-1-m"), "m", Number.MAX_SAFE_INTEGER);
  expect(short).toMatchObject({ id: "journal-full", level: "fault", cure: expect.stringContaining("free some space") });
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

test.each([
  // The first process of a container of its own can be read, and says nothing of the host's.
  ["a container without pid: host", "pid:[4026532999]", true, /PID namespace \(compose: pid: host\)$/],
  ["a process without CAP_SYS_PTRACE", "pid:[4026531836]", false, /may not read \/proc\/1\/ns\/mnt: .*CAP_SYS_PTRACE/],
  ["root of the host", "pid:[4026531836]", true, undefined],
] as const)("the mounts of the host's processes, to %s", async (who, namespace, readable, cure) => {
  const proc = path.join(dir, `proc of ${who.replaceAll(":", "")}`);
  for (const each of ["self", "1"]) mkdirSync(path.join(proc, each, "ns"), { recursive: true });
  writeFileSync(path.join(proc, "self/status"), "CapEff:\t000001ffffffffff\n");
  writeFileSync(path.join(proc, "self/mountinfo"), "1 0 0:1 / / rw shared:1 - ext4 /dev/a rw\n");
  symlinkSync(namespace, path.join(proc, "self/ns/pid"));
  symlinkSync("mnt:[1]", path.join(proc, "self/ns/mnt"));
  if (readable) symlinkSync("mnt:[2]", path.join(proc, "1/ns/mnt"));
  const found = (await examineHost({ proc, searchPath: "" }, dir)).find(({ id }) => id === "mount-namespaces");
  expect(found?.level).toBe(cure === undefined ? "ok" : "warning");
  if (cure !== undefined) expect(found?.cure).toMatch(cure);
});
