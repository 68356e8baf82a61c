import { existsSync } from "node:fs";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { afterEach, beforeEach, expect, it } from "vitest";
import { childMark, createRunTool, type RunTool } from "./run-tool.ts";

const signal = new AbortController().signal;
let dir: string;
let run: RunTool;

beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-tool-"));
  run = createRunTool({ stateDir: dir, nodeId: "node-a", path: `${dir}:${process.env["PATH"]}` });
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const script = async (name: string, text: string): Promise<string> => {
  await writeFile(path.join(dir, name), `#!/bin/sh\n${text}\n`);
  await chmod(path.join(dir, name), 0o755);
  return name;
};

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

const appears = async (file: string): Promise<string> => {
  while (!existsSync(file) || (await readFile(file, "utf8")) === "") await sleep(5);
  return (await readFile(file, "utf8")).trim();
};

it("passes each argument as it is, whatever is in it", async () => {
  const odd = ["-n", "--", "a b", "$HOME; true", "line\nfeed", "'\"", "", "*"];
  const { stdout } = await run("printf", ["%s\\0", ...odd], { signal });
  expect(stdout.split("\0").slice(0, -1)).toEqual(odd);
});

it("gives a child a known language, the mark of its state directory, and nothing of the service's own environment", async () => {
  const { stdout } = await run("env", [], { signal });
  const names = stdout.trim().split("\n");
  expect(names.map((line) => line.split("=")[0]).sort()).toEqual([childMark, "LC_ALL", "PATH"].sort());
  expect(names).toContain(`${childMark}=${dir}`);
  expect(names).toContain("LC_ALL=C");
});

it("throws for an exit code that the caller does not judge, with what the program said", async () => {
  await script("fails", "echo what went wrong >&2; exit 3");
  await expect(run("fails", ["--", "/x"], { signal })).rejects.toMatchObject({
    code: "INTERNAL",
    message: expect.stringMatching(/fails -- \/x on node node-a: it ended with exit code 3: what went wrong; /),
  });
  expect(await run("fails", [], { signal, judges: [0, 3] })).toEqual({
    code: 3,
    stdout: "",
    stderr: "what went wrong",
  });
});

it.each([
  ["No space left on device", "RESOURCE_EXHAUSTED", /delete volumes/],
  ["Disk quota exceeded", "RESOURCE_EXHAUSTED", /enlarge the disk/],
  ["Operation not permitted", "FAILED_PRECONDITION", /as root/],
])("reads the complaint %j", async (complaint, code, message) => {
  await script("fails", `echo "mkfs.ext4: ${complaint} while writing" >&2; exit 1`);
  await expect(run("fails", [], { signal })).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
});

it("names the package of a program that is not there", async () => {
  const nowhere = createRunTool({ stateDir: dir, nodeId: "node-a", path: dir });
  await expect(nowhere("mkfs.xfs", ["-q"], { signal })).rejects.toMatchObject({
    code: "FAILED_PRECONDITION",
    message: "mkfs.xfs is not installed on node node-a: apt-get install xfsprogs",
  });
});

it("starts nothing for a caller that has given up", async () => {
  await script("touches", `touch ${dir}/touched`);
  await expect(run("touches", [], { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: "CANCELLED" });
  expect(existsSync(path.join(dir, "touched"))).toBe(false);
});

it.each([
  [
    "a deadline of the server",
    new HoldfastError({ kind: "deadline", reason: "DEADLINE", message: "" }),
    "DEADLINE_EXCEEDED",
  ],
  ["a timeout", new DOMException("", "TimeoutError"), "DEADLINE_EXCEEDED"],
  ["a cancel", new HoldfastError({ kind: "cancelled", reason: "CANCELLED", message: "" }), "CANCELLED"],
  ["an abort without a reason", undefined, "CANCELLED"],
])("kills a hung child and its own children on %s, and settles when they are gone", async (_what, reason, code) => {
  // Deaf to SIGTERM, like a tool that cleans up for ever.
  await script("hangs", `trap '' TERM INT HUP; sleep 600 & echo $! > ${dir}/pids; wait; sleep 600`);
  const controller = new AbortController();
  const running = run("hangs", [], { signal: controller.signal });
  const settled = running.then(
    () => "resolved",
    () => "rejected",
  );
  const pid = Number(await appears(path.join(dir, "pids")));
  expect(isAlive(pid)).toBe(true);
  controller.abort(reason);
  await expect(running).rejects.toMatchObject({ code, message: expect.stringMatching(/run hangs.*repeat the call/) });
  expect(await settled).toBe("rejected");
  // The grandchild is init's to reap; dead it is as soon as it has its turn.
  await expect.poll(() => readFile(`/proc/${pid}/stat`, "utf8").catch(() => "gone Z")).toMatch(/ Z/);
});

it("is rejected even when the child has ended well in the moment of the abort", async () => {
  const controller = new AbortController();
  const running = run("true", [], { signal: controller.signal });
  controller.abort();
  await expect(running).rejects.toMatchObject({ code: "CANCELLED" });
});

it("tells a child that was killed by somebody else", async () => {
  await script("dies", "kill -9 $$");
  await expect(run("dies", [], { signal })).rejects.toMatchObject({
    code: "INTERNAL",
    message: expect.stringMatching(/it died of SIGKILL/),
  });
});

it("hands out lines as they come, cut anywhere, the last one without a line feed", async () => {
  await script("writes", "printf 'one\\ntw'; sleep 0.05; printf 'o\\n\\nlast'");
  const lines: string[] = [];
  expect(await run("writes", [], { signal, onLine: (line) => lines.push(line) })).toMatchObject({
    code: 0,
    stdout: "",
  });
  expect(lines).toEqual(["one", "two", "", "last"]);
});

it("ends a child whose lines cannot be read", async () => {
  await script("writes", "while :; do echo line; done");
  const onLine = () => {
    throw new Error("not a line of mine");
  };
  await expect(run("writes", [], { signal, onLine })).rejects.toThrow("not a line of mine");
});

it("does not let a child fill the memory", async () => {
  await script("floods", "while :; do echo flood; done");
  await expect(run("floods", [], { signal })).rejects.toMatchObject({
    code: "INTERNAL",
    message: expect.stringMatching(/writes more than \d+ bytes/),
  });
  await script(
    "complains",
    "i=0; while [ $i -lt 3000 ]; do echo complaint $i >&2; i=$((i+1)); done; echo the end >&2; exit 9",
  );
  const { stderr } = await run("complains", [], { signal, judges: [9] });
  expect(stderr.length).toBeLessThanOrEqual(4096);
  expect(stderr).toMatch(/the end$/);
});

it("does not wait for a descendant that left the group and keeps the pipes", async () => {
  await script("leaves", `setsid sleep 600 & echo $! > ${dir}/pids; exit 0`);
  expect(await run("leaves", [], { signal })).toMatchObject({ code: 0 });
  const pid = Number(await appears(path.join(dir, "pids")));
  expect(isAlive(pid)).toBe(true);
  process.kill(pid, "SIGKILL");
});
