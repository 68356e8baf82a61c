import { chmod, chown, link, mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { userInfo } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readOwnUid, readSocketState, sameSocket } from "./socket-state.ts";
import { makeSocketDirectory, type SocketDirectory } from "./testing/tiny-plugin.ts";

let home: SocketDirectory;
const servers: Server[] = [];

beforeEach(async () => {
  home = await makeSocketDirectory();
});
afterEach(async () => {
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
  await home[Symbol.asyncDispose]();
});

const listen = async (file = home.socketPath): Promise<string> => {
  const server = createServer();
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(file, resolve));
  return file;
};

const state = async (file = home.socketPath) => readSocketState(file, await readOwnUid());

describe("a socket path", () => {
  it("is absent, or present under an incarnation that stays as long as the file does", async () => {
    expect(await state()).toEqual({ kind: "absent" });
    expect(await state(path.join(home.dir, "no", "where.sock"))).toEqual({ kind: "absent" });
    await listen();
    const first = await state();
    await chmod(home.socketPath, 0o600);
    expect(first).toEqual({
      kind: "present",
      incarnation: expect.any(String),
      owner: {
        uid: process.getuid?.(),
        gid: process.getgid?.(),
        directoryUid: process.getuid?.(),
        directoryGid: process.getgid?.(),
      },
    });
    expect(sameSocket(first, await state())).toBe(true);
  });

  it("is another incarnation once another socket is there", async () => {
    await listen(path.join(home.dir, "a"));
    await link(path.join(home.dir, "a"), home.socketPath);
    const first = await state();
    await rm(home.socketPath);
    await listen();
    expect(sameSocket(first, await state())).toBe(false);
  });

  it("is unfit with what is wrong and what to do: a file, a link, a directory for all, a path too long", async () => {
    await writeFile(home.socketPath, "");
    expect(await state()).toEqual({ kind: "unfit", reason: "is no socket" });
    const link = path.join(home.dir, "link.sock");
    await symlink(await listen(path.join(home.dir, "real.sock")), link);
    expect(await state(link)).toMatchObject({ kind: "unfit", reason: expect.stringContaining("symbolic link") });
    const open = path.join(home.dir, "open");
    await mkdir(open);
    await listen(path.join(open, "csi.sock"));
    await chmod(open, 0o777);
    expect(await state(path.join(open, "csi.sock"))).toMatchObject({
      kind: "unfit",
      reason: expect.stringContaining("everybody may write to"),
    });
    await chmod(open, 0o1777);
    expect(await state(path.join(open, "csi.sock"))).toMatchObject({ kind: "present" });
    expect(await state(path.join(home.dir, "x".repeat(107)))).toMatchObject({
      kind: "unfit",
      reason: expect.stringMatching(/^the path has \d+ bytes, sockets hold at most 107/),
    });
  });

  it("has to belong to root or to our own user", async () => {
    await listen();
    const own = userInfo().uid;
    expect(await readSocketState(home.socketPath, own)).toMatchObject({ kind: "present" });
    if (own !== 0) {
      expect(await readSocketState(home.socketPath, own + 1)).toMatchObject({ kind: "unfit" });
      return;
    }
    expect(await readSocketState(home.socketPath, 4711)).toMatchObject({ kind: "present" });
    await chown(home.socketPath, 4711, 0);
    expect(await readSocketState(home.socketPath, 4711)).toMatchObject({ kind: "present" });
    expect(await readSocketState(home.socketPath, 0)).toEqual({
      kind: "unfit",
      reason: "belongs to user 4711: it must belong to root or to user 0",
    });
  });
});
