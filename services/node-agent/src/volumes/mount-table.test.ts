import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { createMountTable, type MountTableOptions } from "./mount-table.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

async function tempDir(): Promise<string> {
  const dir = await mkdtemp(path.join(tmpdir(), "hf-mounts-"));
  onTestFinished(async () => {
    spawnSync("umount", ["-l", path.join(dir, "m")]);
    await rm(dir, { recursive: true, force: true });
  });
  return dir;
}

async function openTable(options: MountTableOptions) {
  const table = await createMountTable(options);
  onTestFinished(() => table.close());
  return table;
}

/** A /proc of files: processes with their mount namespaces. */
async function fakeProc(
  pidNamespace: string,
  processes: Record<string, { ns: string; mounts: string[]; comm?: string; root?: string }>,
) {
  const dir = await tempDir();
  for (const [pid, { ns, mounts, comm, root: its = "/" }] of Object.entries(processes)) {
    await mkdir(path.join(dir, pid, "ns"), { recursive: true });
    await symlink(its, path.join(dir, pid, "root"));
    await symlink(ns, path.join(dir, pid, "ns/mnt"));
    await writeFile(path.join(dir, pid, "mountinfo"), mounts.map((line) => `${line}\n`).join(""));
    await writeFile(path.join(dir, pid, "comm"), `${comm ?? "x"}\n`);
  }
  await symlink(pidNamespace, path.join(dir, "self/ns/pid"));
  return dir;
}

const own = "1 0 8:1 / / rw - ext4 /dev/sda1 rw";
const volume = (id: number, at: string) => `${id} 1 9:1 / ${at} rw - ext4 /dev/vol rw`;

describe("how far it can see", () => {
  test.each([
    ["pid:[4026531836]", "host"],
    ["pid:[4026532000]", "own-namespace"],
  ])("in %s: %s", async (namespace, scope) => {
    const both = { ns: "mnt:[1]", mounts: [own] };
    const proc = await fakeProc(namespace, { self: both, "1": both });
    expect((await openTable({ proc, kernel: "6.1.0" })).scope).toBe(scope);
  });

  test("[I2] processes that are listed, with namespaces that may not be read, are no host-wide look", async () => {
    const proc = await fakeProc("pid:[4026531836]", { self: { ns: "mnt:[1]", mounts: [own] } });
    await mkdir(path.join(proc, "1/ns"), { recursive: true });
    expect((await openTable({ proc, kernel: "6.1.0" })).scope).toBe("own-namespace");
  });

  test("every other mount namespace is read once, and its process named", async () => {
    const proc = await fakeProc("pid:[4026531836]", {
      self: { ns: "mnt:[1]", mounts: [own] },
      "10": { ns: "mnt:[1]", mounts: [own] },
      "20": { ns: "mnt:[2]", mounts: [own, volume(50, "/c")], comm: "postgres" },
      "21": { ns: "mnt:[2]", mounts: [own, volume(50, "/c")], comm: "child" },
      "30": { ns: "mnt:[3]", mounts: [own] },
      "40": { ns: "mnt:[4]", mounts: [] },
    });
    const table = await openTable({ proc, kernel: "6.1.0" });
    const marks = [{ device: "9:1", root: "/" }];
    const found = (await table.look(true)).foreign(marks);
    expect(found.map(({ pid, command, line }) => [pid, command, line.path])).toEqual([[20, "postgres", "/c"]]);
    expect((await table.look(false)).foreign(marks)).toEqual([]);
  });

  test("[I2] a process in a chroot does not stand for its namespace; where all are in one, each root counts", async () => {
    const proc = await fakeProc("pid:[4026531836]", {
      self: { ns: "mnt:[1]", mounts: [own] },
      "20": { ns: "mnt:[2]", mounts: [own], root: "/var/empty" },
      "21": { ns: "mnt:[2]", mounts: [own, volume(50, "/c")], comm: "postgres" },
      "30": { ns: "mnt:[3]", mounts: [own], root: "/a" },
      "31": { ns: "mnt:[3]", mounts: [own], root: "/a" },
      "32": { ns: "mnt:[3]", mounts: [own, volume(60, "/in-b")], root: "/b", comm: "mail" },
      "33": { ns: "mnt:[3]", mounts: [own, volume(60, "/in-b")], root: "/b", comm: "mail" },
    });
    const table = await openTable({ proc, kernel: "6.1.0" });
    for (let look = 0; look < 2; look += 1) {
      const found = (await table.look(true)).foreign([{ device: "9:1", root: "/" }]);
      expect(found.map(({ pid, command, line }) => [pid, command, line.path])).toEqual([
        [21, "postgres", "/c"],
        [32, "mail", "/in-b"],
      ]);
    }
  });

  test("a table that cannot be read is no empty table", async () => {
    const proc = await fakeProc("pid:[1]", { self: { ns: "mnt:[1]", mounts: [own, "rubbish"] } });
    await expect((await openTable({ proc, kernel: "6.1.0" })).look(false)).rejects.toThrow("cannot be read");
  });
});

test("a look that is asked for sees what was written before it, also in a burst", async () => {
  const proc = await fakeProc("pid:[1]", { self: { ns: "mnt:[1]", mounts: [own] } });
  const table = await openTable({ proc, kernel: "6.1.0" });
  for (let at = 0; at < 50; at += 1) {
    const early = table.look(false);
    await writeFile(path.join(proc, "self/mountinfo"), `${own}\n${volume(100 + at, `/at-${at}`)}\n`);
    const late = await Promise.all([table.look(false), table.look(false)]);
    for (const view of late) expect(view.at(`/at-${at}`)).toHaveLength(1);
    await early.catch(() => undefined);
  }
});

describe.skipIf(!root)("on this machine", () => {
  test("[I2] looks of both kinds at once, in a table that changes, never miss or cut a mount", async () => {
    const dir = await tempDir();
    const sh = (script: string) => spawnSync("sh", ["-ec", script], { cwd: dir });
    // Lines of one length: a reader that is sent back skips exactly one.
    sh(`mkdir m; mount -t tmpfs x m; mount --make-private m; cd m
      for i in $(seq 10 59) 99; do mkdir c$i; mount -t tmpfs x c$i; done`);
    onTestFinished(() => void sh("for at in m/c*; do umount -l $at || true; done; umount -l m"));
    const table = await openTable({ proc: "/proc", kernel: "6.1.0" });
    const churn = spawn(
      "sh",
      ["-c", "while :; do for i in $(seq 10 59); do umount c$i; mount -t tmpfs x c$i; done; done"],
      {
        cwd: path.join(dir, "m"),
        stdio: "ignore",
      },
    );
    onTestFinished(async () => {
      churn.kill("SIGKILL");
      if (churn.exitCode === null && churn.signalCode === null) await once(churn, "exit");
    });
    const stays = path.join(dir, "m/c99");
    const until = performance.now() + 1_500;
    while (performance.now() < until) {
      const views = await Promise.all([table.look(true), table.look(false)]);
      for (const view of views) expect(view.at(stays)).toHaveLength(1);
    }
  });

  test("a bind mount comes and goes; a private copy of it in another namespace is found with its process", async () => {
    const dir = await tempDir();
    await mkdir(path.join(dir, "m"));
    await mkdir(path.join(dir, "src"));
    const table = await openTable({ proc: "/proc", kernel: "6.1.0" });
    const at = path.join(dir, "m");
    spawnSync("/bin/mount", ["--bind", path.join(dir, "src"), at]);
    const [line] = (await table.look(false)).at(at);
    expect(line?.root).toMatch(/src$/);
    const marks = [{ device: line?.device ?? "", root: line?.root ?? "" }];
    const holder = spawn("unshare", ["--mount", "--propagation", "private", "sleep", "60"]);
    onTestFinished(() => void holder.kill("SIGKILL"));
    await once(holder, "spawn");
    await expect.poll(async () => (await table.look(true)).foreign(marks).map(({ pid }) => pid)).toContain(holder.pid);
    spawnSync("umount", [at]);
    const after = await table.look(true);
    expect(after.at(at)).toEqual([]);
    expect(after.foreign(marks).map(({ pid, line: { path: where } }) => [pid, where])).toEqual([[holder.pid, at]]);
    holder.kill("SIGKILL");
    await once(holder, "exit");
    expect((await table.look(true)).foreign(marks)).toEqual([]);
  });

  test("[I2] a private copy is found too when the first process of its namespace sits in a chroot", async () => {
    const dir = await tempDir();
    for (const name of ["m", "src", "jail/inside"]) await mkdir(path.join(dir, name), { recursive: true });
    // Of a root in which nothing is mounted there is no line at all.
    spawnSync("/bin/mount", ["-t", "tmpfs", "none", path.join(dir, "jail/inside")]);
    onTestFinished(() => void spawnSync("umount", ["-l", path.join(dir, "jail/inside")]));
    const table = await openTable({ proc: "/proc", kernel: "6.1.0" });
    const at = path.join(dir, "m");
    spawnSync("/bin/mount", ["--bind", path.join(dir, "src"), at]);
    const [line] = (await table.look(false)).at(at);
    const marks = [{ device: line?.device ?? "", root: line?.root ?? "" }];
    const jail = `const { functions } = require("node:ffi").dlopen(null, { chroot: { return: "i32", arguments: ["string"] } });
      console.log(functions.chroot(${JSON.stringify(path.join(dir, "jail"))})); setInterval(() => 0, 1000);`;
    const script = `sleep 60 >/dev/null & echo $!; exec "$0" --no-warnings --experimental-ffi -e "$1"`;
    const args = ["--mount", "--propagation", "private", "sh", "-c", script, process.execPath, jail];
    const holder = spawn("unshare", args, { stdio: ["ignore", "pipe", "inherit"] });
    let said = "";
    holder.stdout.on("data", (part: Buffer) => {
      said += part.toString();
    });
    onTestFinished(() => {
      holder.kill("SIGKILL");
      const child = Number(said.split("\n")[0]);
      if (child > 0) process.kill(child, "SIGKILL");
    });
    await expect.poll(() => said.split("\n").slice(1), { timeout: 30_000 }).toEqual(["0", ""]);
    spawnSync("umount", [at]);
    const after = await table.look(true);
    expect(after.at(at)).toEqual([]);
    const [child] = said.split("\n").map(Number);
    expect(after.foreign(marks).map(({ pid, line: { path: where } }) => [pid, where])).toContainEqual([child, at]);
  });
});
