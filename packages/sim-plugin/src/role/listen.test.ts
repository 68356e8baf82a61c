import { execFile } from "node:child_process";
import { lstat, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createSimPlugin } from "../sim-plugin.ts";
import { clearStaleSocket } from "./listen.ts";

let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-sim-"));
});

afterEach(() => rm(dir, { recursive: true, force: true }));

test("a socket that a dead process left is removed", async () => {
  const socket = path.join(dir, "csi.sock");
  const script = `require("node:net").createServer().listen(${JSON.stringify(socket)}, () => process.kill(process.pid, "SIGKILL"))`;
  await expect(promisify(execFile)(process.execPath, ["-e", script])).rejects.toMatchObject({ signal: "SIGKILL" });
  expect((await lstat(socket)).isSocket()).toBe(true);
  await clearStaleSocket(socket);
  await expect(lstat(socket)).rejects.toMatchObject({ code: "ENOENT" });
});

test("a socket that somebody serves is not", async () => {
  const socket = path.join(dir, "csi.sock");
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  await expect(clearStaleSocket(socket)).rejects.toThrow(/served by another process/);
  expect((await lstat(socket)).isSocket()).toBe(true);
  server.close();
});

test("a file that is no socket is left alone", async () => {
  const file = path.join(dir, "csi.sock");
  await writeFile(file, "precious");
  await expect(clearStaleSocket(file)).rejects.toThrow(/no socket/);
});

test("a path that the kernel would cut is refused", async () => {
  const socket = path.join(dir, "x".repeat(108));
  await expect(createSimPlugin({ role: "controller", socket })).rejects.toThrow(/107 bytes/);
});

test("a node plugin without a node id is refused", async () => {
  await expect(createSimPlugin({ role: "node", socket: path.join(dir, "csi.sock") })).rejects.toThrow(/node id/);
});
