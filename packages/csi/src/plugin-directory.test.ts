import { link, mkdir, mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { systemClock } from "@holdfast/shared/async/clock";
import { createTracing } from "@holdfast/shared/tracing";
import { afterEach, describe, expect, it } from "vitest";
import { createPluginAdmission } from "./plugin-admission.ts";
import { openPluginBindings } from "./plugin-bindings.ts";
import { createPluginDirectory, type PluginDirectory, type PluginDirectoryOptions } from "./plugin-directory.ts";
import { useConnectionFixture } from "./testing/connection-fixture.ts";

const { home, signal, lines, log, start } = useConnectionFixture();

let directory: PluginDirectory | undefined;
afterEach(() => directory?.close());

const open = (options: Partial<PluginDirectoryOptions> = {}): PluginDirectory => {
  directory = createPluginDirectory({
    dir: home().dir,
    role: "monolith",
    log: log(),
    tracing: createTracing("test"),
    clock: systemClock,
    signal: signal(),
    ...options,
  });
  return directory;
};

const inDir = (...parts: string[]): string => path.join(home().dir, ...parts);

describe("a plugin directory", () => {
  it("finds plugins that are there and plugins that come, as a socket or as a directory with one", async () => {
    await start({ socketPath: inDir("a.sock"), name: "a.example.com" });
    await mkdir(inDir("b"));
    await start({ socketPath: inDir("b", "csi.sock"), name: "b.example.com" });
    const plugins = open();
    expect((await plugins.whenReady("a.example.com", signal())).socketPath).toBe(inDir("a.sock"));
    expect((await plugins.whenReady("b.example.com", signal())).socketPath).toBe(inDir("b", "csi.sock"));
    await start({ socketPath: inDir("c.sock"), name: "c.example.com" });
    await plugins.whenReady("c.example.com", signal());
    await mkdir(inDir("d"));
    await start({ socketPath: inDir("d", "csi.sock"), name: "d.example.com" });
    await plugins.whenReady("d.example.com", signal());
    expect(plugins.list()).toHaveLength(4);
    expect(plugins.get("e.example.com")).toBeUndefined();
  });

  it("D3 an instance that was added by name stays until it is removed by name, and is told apart by its own id", async () => {
    const elsewhere = await mkdtemp(path.join(tmpdir(), "hf-add-"));
    const socketPath = path.join(elsewhere, "csi.sock");
    const plugins = open({ forgetAfterMs: 0 });
    const known = { role: "node", instanceId: "alloc-1", expectedName: "tiny.example.com", maxInFlight: 1 } as const;
    const added = plugins.add(socketPath, known);
    expect(plugins.add(socketPath, known)).toBe(added);
    await start({ socketPath: inDir("other.sock"), name: "other.example.com" });
    await plugins.whenReady("other.example.com", signal());
    expect(plugins.list()).toContain(added);
    await start({ socketPath, handlers: { nodeUnpublishVolume: () => new Promise(() => undefined) } });
    expect(await plugins.whenReady("tiny.example.com", signal())).toBe(added);
    expect([added.instanceId, added.role, added.pin()]).toEqual([
      "alloc-1",
      "node",
      { name: "tiny.example.com", nodeId: "node-1" },
    ]);
    const unpublish = () =>
      added.call("NodeUnpublishVolume", { volumeId: "v", targetPath: "/t" }, { signal: signal() });
    const held = unpublish();
    expect(await unpublish()).toMatchObject({ outcome: "unknown", failure: { code: "RESOURCE_EXHAUSTED" } });
    await plugins.remove(socketPath);
    await plugins.remove(socketPath);
    expect(await held).toMatchObject({ outcome: "unknown" });
    expect(plugins.list()).not.toContain(added);
    expect(added.status().phase).toBe("closed");
    await rm(elsewhere, { recursive: true });
  });

  it("D5 an open call of one instance is joined by the same call at another one of that name, and keeps out any other", async () => {
    const { promise: held, resolve: finish } = Promise.withResolvers<object>();
    const handlers = { controllerUnpublishVolume: () => held };
    const old = await start({ socketPath: inDir("old.sock"), name: "p.example.com", handlers });
    const plugins = open();
    const before = await plugins.whenReady("p.example.com", signal());
    const [once, options] = [
      { volumeId: "v", nodeId: "n" },
      { signal: signal(), deadlineMs: 100 },
    ] as const;
    expect(await before.call("ControllerUnpublishVolume", once, options)).toMatchObject({
      failure: { code: "DEADLINE_EXCEEDED", sent: true },
    });
    const words = ["ControllerUnpublishVolume for volume v"];
    expect([before.underWay.list(), before.underWay.awaited()]).toEqual([words, []]);
    const young = await start({ socketPath: inDir("young.sock"), name: "p.example.com" });
    const other = await start({ socketPath: inDir("other.sock"), name: "q.example.com" });
    await expect.poll(() => plugins.get("p.example.com")?.socketPath).toBe(inDir("young.sock"));
    const after = await plugins.whenReady("p.example.com", signal());
    const late = await after.call("DeleteVolume", { volumeId: "v" }, options);
    expect(late).toMatchObject({ failure: { code: "ABORTED", sent: false } });
    const elsewhere = await plugins.whenReady("q.example.com", signal());
    await elsewhere.call("ControllerUnpublishVolume", once, options);
    expect(other.calls).toContain("ControllerUnpublishVolume");
    const joined = after.call("ControllerUnpublishVolume", once, { signal: signal() });
    finish({});
    expect(await joined).toMatchObject({ outcome: "done" });
    const changing = [...old.calls, ...young.calls].filter((method) => /publish/i.test(method));
    expect(changing).toEqual(["ControllerUnpublishVolume"]);
    expect(before.underWay.list()).toEqual([]);
  });

  describe("D5 that is asked for quiet", () => {
    const plugin = "p.example.com";
    const pair = { volumeId: "v", nodeId: "n" };
    const order = (sequence: number) => ({ gen: 1, sequence, opId: `op-${sequence}` });
    const hang = { handlers: { controllerUnpublishVolume: () => new Promise<object>(() => undefined) }, name: plugin };
    const well = { handlers: { controllerUnpublishVolume: async () => ({}) }, name: plugin };
    const unpublish = async (plugins: PluginDirectory, sequence: number) =>
      (await plugins.whenReady(plugin, signal())).call("ControllerUnpublishVolume", pair, {
        signal: signal(),
        order: order(sequence),
      });
    const quiesce = (plugins: PluginDirectory, sequence: number) =>
      plugins.quiesce(plugin, "volume v", order(sequence), 0, signal());

    it("answers for instances that are to come as well", async () => {
      const plugins = open();
      expect(await quiesce(plugins, 7)).toEqual({ idle: true });
      const made = await start({ socketPath: inDir("p.sock"), name: plugin });
      expect(await unpublish(plugins, 6)).toMatchObject({ failure: { sent: false, stale: true } });
      expect(made.calls).not.toContain("ControllerUnpublishVolume");
    });

    it("is in doubt of a call whose plugin died, until the next process has answered the same call", async () => {
      const socketPath = inDir("p.sock");
      const first = await start({ ...hang, socketPath });
      const plugins = open();
      const cut = unpublish(plugins, 1);
      await expect.poll(() => first.calls).toContain("ControllerUnpublishVolume");
      await first.kill();
      expect(await cut).toMatchObject({ failure: { sent: true } });
      const doubt = {
        idle: false,
        doubt: true,
        words: expect.stringContaining("ControllerUnpublishVolume for volume v"),
      };
      expect(await quiesce(plugins, 2)).toEqual(doubt);
      await rm(socketPath, { force: true });
      await start({ ...well, socketPath });
      expect(await unpublish(plugins, 3)).toMatchObject({ outcome: "done" });
      expect(await quiesce(plugins, 4)).toEqual({ idle: true });
    });

    it("is in doubt of a call whose connection was closed here, whatever the next process answers", async () => {
      const socketPath = inDir("p.sock");
      const first = await start({ ...hang, socketPath });
      const plugins = open();
      const cut = unpublish(plugins, 1);
      await expect.poll(() => first.calls).toContain("ControllerUnpublishVolume");
      await plugins.remove(socketPath);
      expect(await cut).toMatchObject({ failure: { sent: true } });
      await rm(socketPath, { force: true });
      await start({ ...well, socketPath });
      expect(await unpublish(plugins, 2)).toMatchObject({ outcome: "done" });
      expect(await quiesce(plugins, 3)).toMatchObject({ idle: false });
    });
  });

  it("D4 an impostor is listed, gets nothing but questions, and serves once a person has accepted it", async () => {
    const bindings = openPluginBindings(inDir("bindings.json"));
    const admission = createPluginAdmission({ bindings, acceptWith: () => "accept", log: log() });
    const plugins = open({ admission });
    await start({ socketPath: inDir("a.sock"), name: "tiny.example.com" });
    await plugins.whenReady("tiny.example.com", signal());
    const posing = await start({ socketPath: inDir("b.sock"), name: "tiny.example.com" });
    const phases = () => plugins.list().map(({ status }) => [status().phase, status().impostorOf]);
    await expect.poll(phases).toEqual([
      ["ready", undefined],
      ["quarantined", "tiny.example.com"],
    ]);
    expect(plugins.get("tiny.example.com")?.socketPath).toBe(inDir("a.sock"));
    const [, second] = plugins.list();
    const unpublish = () =>
      second?.call("NodeUnpublishVolume", { volumeId: "v", targetPath: "/t" }, { signal: signal(), deadlineMs: 200 });
    expect(await unpublish()).toMatchObject({ failure: { sent: false } });
    expect(posing.calls).not.toContain("NodeUnpublishVolume");
    await admission.accept({ plugin: "tiny.example.com", socketPath: inDir("b.sock"), reason: "test" });
    await expect.poll(phases).toEqual([
      ["ready", undefined],
      ["ready", undefined],
    ]);
  });

  it("gives a socket in the directory what is known of it: its role, and the name it has to have", async () => {
    const plugins = open({
      describe: (socketPath) =>
        socketPath === inDir("a.sock") ? { role: "node", expectedName: "right.example.com" } : undefined,
    });
    await start({ socketPath: inDir("a.sock"), name: "wrong.example.com" });
    await start({ socketPath: inDir("b.sock"), name: "b.example.com" });
    await plugins.whenReady("b.example.com", signal());
    await expect
      .poll(() =>
        plugins
          .list()
          .map(({ role, status }) => [role, status().phase])
          .sort(),
      )
      .toEqual([
        ["monolith", "ready"],
        ["node", "quarantined"],
      ]);
  });

  it("is settled once every socket is known to be a plugin's or nobody's", async () => {
    expect(await open({ dir: inDir("none") }).settled(signal())).toBeUndefined();
    await start({ socketPath: inDir("a.sock"), name: "a.example.com" });
    const left = createServer();
    await new Promise<void>((resolve) => left.listen(inDir("left.sock"), resolve));
    await link(inDir("left.sock"), inDir("stale.sock"));
    await new Promise((resolve) => left.close(resolve));
    let answer = (): void => undefined;
    const slow = new Promise<void>((resolve) => {
      answer = resolve;
    });
    await start({
      socketPath: inDir("slow.sock"),
      name: "slow.example.com",
      handlers: { getPluginInfo: () => slow.then(() => ({ name: "slow.example.com" })) },
    });
    const plugins = open();
    const settled = plugins.settled(signal());
    await plugins.whenReady("a.example.com", signal());
    await expect(plugins.settled(AbortSignal.abort(new DOMException("time is up", "TimeoutError")))).rejects.toThrow(
      "time is up",
    );
    answer();
    await settled;
    expect(
      plugins
        .list()
        .map(({ status }) => status().phase)
        .sort(),
    ).toEqual(["ready", "ready", "waiting"]);
  });

  it("waits for a directory that is not there yet", async () => {
    const dir = inDir("later");
    const plugins = open({ dir });
    await mkdir(dir);
    await start({ socketPath: path.join(dir, "csi.sock") });
    await plugins.whenReady("tiny.example.com", signal());
  });

  it("follows a directory that is replaced", async () => {
    const dir = inDir("sockets");
    await mkdir(dir);
    const plugins = open({ dir });
    const first = await start({ socketPath: path.join(dir, "a.sock"), name: "a.example.com" });
    await plugins.whenReady("a.example.com", signal());
    await first.kill();
    await rm(dir, { recursive: true });
    await mkdir(dir);
    await start({ socketPath: path.join(dir, "b.sock"), name: "b.example.com" });
    await plugins.whenReady("b.example.com", signal());
  });

  it("uses the newest ready one of two with one name, says so once, and falls back to the older", async () => {
    await start({ socketPath: inDir("old.sock") });
    const plugins = open();
    const old = await plugins.whenReady("tiny.example.com", signal());
    const young = await start({ socketPath: inDir("young.sock") });
    await expect.poll(() => plugins.get("tiny.example.com")?.socketPath).toBe(inDir("young.sock"));
    expect(old.status().phase).toBe("ready");
    const warnings = () =>
      lines.map((line) => JSON.parse(line)).filter(({ message }) => message.startsWith("several sockets"));
    expect(warnings()).toMatchObject([
      { plugin: "tiny.example.com", sockets: [inDir("old.sock"), inDir("young.sock")], current: inDir("young.sock") },
    ]);
    await young.kill();
    await expect.poll(() => plugins.get("tiny.example.com")?.socketPath).toBe(inDir("old.sock"));
    expect(warnings()).toHaveLength(1);
  });

  it("keeps one connection for a path over restarts of its plugin", async () => {
    const first = await start({ socketPath: inDir("a.sock") });
    const plugins = open();
    const connection = await plugins.whenReady("tiny.example.com", signal());
    await first.kill();
    await expect.poll(() => plugins.get("tiny.example.com")).toBeUndefined();
    await start({ socketPath: inDir("a.sock") });
    expect(await plugins.whenReady("tiny.example.com", signal())).toBe(connection);
    expect(plugins.list()).toEqual([connection]);
  });

  it("forgets a path whose plugin is gone for long, and closes its connection", async () => {
    const first = await start({ socketPath: inDir("a.sock") });
    const plugins = open({ forgetAfterMs: 10 });
    const connection = await plugins.whenReady("tiny.example.com", signal());
    await first.kill();
    await expect.poll(() => plugins.list()).toEqual([]);
    await expect.poll(() => connection.status().phase).toBe("closed");
  });

  it("keeps a plugin that unlinked its socket and serves on", async () => {
    await start({ socketPath: inDir("a.sock") });
    const plugins = open({ forgetAfterMs: 0 });
    const connection = await plugins.whenReady("tiny.example.com", signal());
    await rm(inDir("a.sock"));
    await start({ socketPath: inDir("other.sock"), name: "other.example.com" });
    await plugins.whenReady("other.example.com", signal());
    expect(plugins.get("tiny.example.com")).toBe(connection);
    expect(connection.status().phase).toBe("ready");
  });

  it("takes for the newest the one whose socket was made last, whatever it is called", async () => {
    await start({ socketPath: inDir("z.sock") });
    await new Promise((resolve) => setTimeout(resolve, 20));
    await start({ socketPath: inDir("a.sock") });
    const plugins = open();
    await expect.poll(() => plugins.list().filter((one) => one.status().phase === "ready")).toHaveLength(2);
    expect(plugins.get("tiny.example.com")?.socketPath).toBe(inDir("a.sock"));
    expect(plugins.list().map(({ socketPath }) => socketPath)).toEqual([inDir("z.sock"), inDir("a.sock")]);
  });

  it("tells of every change, and closes all it opened", async () => {
    const plugins = open();
    const told: string[] = [];
    plugins.onChange((connection) => told.push(connection.status().phase));
    await start({ socketPath: inDir("a.sock") });
    const connection = await plugins.whenReady("tiny.example.com", signal());
    await plugins.close();
    expect(told).toEqual(["waiting", "connecting", "ready", "closed"]);
    expect(connection.status().phase).toBe("closed");
    await expect(plugins.whenReady("tiny.example.com", signal())).rejects.toThrow("the plugin directory was closed");
  });
});
