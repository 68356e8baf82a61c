import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import {
  ControllerDefinition,
  IdentityDefinition,
  VolumeCapability_AccessMode_Mode as Mode,
} from "@holdfast/shared/gen/csi/v1/csi";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { childEnvironment } from "../../../test/support/child-environment.ts";

let dir: string;
let cleanups: (() => Promise<unknown> | unknown)[];

beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-main-"));
  cleanups = [() => rm(dir, { recursive: true, force: true })];
});
afterEach(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
});

interface Started {
  readonly child: ChildProcess;
  output(): string;
  readonly ready: Promise<Record<string, unknown>>;
  readonly ended: Promise<number | string>;
}

const start = (env: Readonly<Record<string, string>>): Started => {
  const child = spawn(process.execPath, [path.join(import.meta.dirname, "main.ts")], {
    env: { ...childEnvironment(), HOLDFAST_LOCAL_TYPES: "directory", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  const ready = Promise.withResolvers<Record<string, unknown>>();
  for (const stream of [child.stdout, child.stderr])
    stream?.on("data", (part: Buffer) => {
      text += part.toString("utf8");
      const line = text.split("\n").find((one) => one.includes('"message":"ready"'));
      if (line !== undefined) ready.resolve(JSON.parse(line));
    });
  const ended = (async () => {
    const [code, signal] = (await once(child, "close")) as [number | null, string | null];
    ready.reject(new Error(`it ended before it was ready:\n${text}`));
    return code ?? signal ?? "";
  })();
  ready.promise.catch(() => undefined);
  cleanups.push(() => {
    child.kill("SIGKILL");
    return ended;
  });
  return { child, output: () => text, ready: ready.promise, ended };
};

const driver = (more: Readonly<Record<string, string>> = {}): Started =>
  start({
    HOLDFAST_LOCAL_SOCKET: path.join(dir, "a.sock"),
    HOLDFAST_LOCAL_STATE_DIR: path.join(dir, "state"),
    HOLDFAST_LOCAL_NODE_ID: "node-a",
    ...more,
  });

const clientsAt = (socket: string) => {
  const channel = createGrpcChannel(`unix://${path.join(dir, socket)}`);
  cleanups.push(() => channel.close());
  const options = { log: createMemoryLogger() };
  return {
    identity: createGrpcClient(IdentityDefinition, channel, options),
    controller: createGrpcClient(ControllerDefinition, channel, options),
  };
};

const volume = { name: "one", volumeCapabilities: [{ mount: {}, accessMode: { mode: Mode.SINGLE_NODE_WRITER } }] };

describe("the process", () => {
  test("with wrong settings says all of them and ends with 78, having touched nothing", async () => {
    const wrong = driver({
      HOLDFAST_LOCAL_SOCKET: "a.sock",
      HOLDFAST_LOCAL_NODE_ID: "",
      HOLDFAST_LOCAL_DEFAULT_FS: "zfs",
      HOLDFAST_ADMIN_LISTEN: "unix:///run/admin.sock",
    });
    expect(await wrong.ended).toBe(78);
    expect(wrong.output()).toContain("the settings have 4 mistakes");
    expect(await readdir(dir)).toEqual([]);
  });

  test("says when it serves, on every socket, and ends with 0 and without its sockets", async () => {
    const sockets = ["a.sock", "b.sock"];
    const running = driver({ HOLDFAST_LOCAL_SOCKET: sockets.map((name) => path.join(dir, name)).join(",") });
    expect(await running.ready).toMatchObject({
      socket: `${dir}/a.sock,${dir}/b.sock`,
      plugin: "local.holdfast.dev",
      types: ["directory"],
      state_dir: path.join(dir, "state"),
    });
    const [one, other] = sockets.map(clientsAt);
    expect(await one?.identity.probe({})).toEqual({ ready: true });
    const made = await one?.controller.createVolume(volume);
    expect(await other?.controller.controllerGetVolume({ volumeId: made?.volume?.volumeId ?? "" })).toMatchObject({
      volume: { volumeId: made?.volume?.volumeId },
    });
    running.child.kill("SIGTERM");
    expect(await running.ended).toBe(0);
    expect((await readdir(dir)).filter((name) => name.endsWith(".sock"))).toEqual([]);
  });

  test("is alone on its state directory: another is told whose it is, and touches nothing", async () => {
    const first = driver();
    await first.ready;
    const second = driver({ HOLDFAST_LOCAL_SOCKET: path.join(dir, "b.sock") });
    expect(await second.ended).toBe(70);
    expect(second.output()).toContain(`another driver (pid ${first.child.pid}) runs on the state directory`);
    expect((await clientsAt("a.sock").controller.listVolumes({})).entries).toEqual([]);
  });

  test("that was killed is followed by one with the same volumes, on the same socket", async () => {
    const first = driver();
    await first.ready;
    const { volume: made } = await clientsAt("a.sock").controller.createVolume(volume);
    first.child.kill("SIGKILL");
    expect(await first.ended).toBe("SIGKILL");
    const second = driver();
    await second.ready;
    const { entries } = await clientsAt("a.sock").controller.listVolumes({});
    expect(entries.map((entry) => entry.volume?.volumeId)).toEqual([made?.volumeId]);
  });

  test("does not serve a directory that is somebody else's", async () => {
    const theirs = path.join(dir, "theirs");
    await mkdir(theirs);
    await writeFile(path.join(theirs, "precious"), "data");
    const running = driver({ HOLDFAST_LOCAL_STATE_DIR: theirs });
    expect(await running.ended).toBe(70);
    expect(running.output()).toContain(theirs);
    expect(await readdir(theirs)).toEqual(["precious"]);
  });
});
