import { chmod, link, mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import path from "node:path";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { ServerError, Status } from "nice-grpc";
import { describe, expect, it } from "vitest";
import type { PluginPhase } from "./plugin-status.ts";
import { reached, useConnectionFixture } from "./testing/connection-fixture.ts";

const { home, signal, lines, start, connect } = useConnectionFixture();

const facts = [
  "GetPluginInfo",
  "GetPluginCapabilities",
  "ControllerGetCapabilities",
  "NodeGetCapabilities",
  "NodeGetInfo",
];

describe("a plugin connection", () => {
  it("waits for the socket, connects, and reads who is there before anything else", async () => {
    const connection = connect();
    expect(connection.status()).toMatchObject({ phase: "waiting" });
    const plugin = await start();
    expect(await connection.whenReady(signal())).toEqual({
      name: "tiny.example.com",
      version: "1.0.0",
      manifest: {},
      role: "monolith",
      plugin: expect.objectContaining({ CONTROLLER_SERVICE: "yes", GROUP_CONTROLLER_SERVICE: "no" }),
      controller: expect.objectContaining({ CREATE_DELETE_VOLUME: "yes", GET_VOLUME: "yes", CLONE_VOLUME: "no" }),
      node: expect.objectContaining({ STAGE_UNSTAGE_VOLUME: "yes", EXPAND_VOLUME: "no" }),
      group: { CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT: "no" },
      nodeInfo: { nodeId: "node-1", maxVolumes: 7, topology: { zone: "a" } },
    });
    expect(plugin.calls).toEqual(["Probe", ...facts]);
  });

  it("tells each phase once, and ends as closed", async () => {
    const seen: PluginPhase[] = [];
    await start();
    const connection = connect();
    connection.onChange(({ phase }) => seen.push(phase));
    await connection.whenReady(signal());
    await connection.close();
    expect(seen).toEqual(["connecting", "ready", "closed"]);
    await expect(connection.whenReady(signal())).rejects.toThrow("the plugin connection was closed");
    expect(await connection.call("Probe", {}, { signal: signal() })).toMatchObject({
      outcome: "unknown",
      failure: { code: "UNAVAILABLE", sent: false },
    });
  });

  it("connects again by itself after the plugin died, and reads everything anew before the next call", async () => {
    const first = await start();
    const connection = connect();
    await connection.whenReady(signal());
    await first.kill();
    await reached(connection, "waiting");
    expect(await connection.call("DeleteVolume", { volumeId: "v" }, { signal: signal() })).toMatchObject({
      outcome: "unknown",
      failure: { code: "UNAVAILABLE", sent: false },
    });

    const second = await start({ controllerCaps: [1], handlers: { deleteVolume: async () => ({}) } });
    const anew = await connection.whenReady(signal());
    expect(anew.controller.PUBLISH_UNPUBLISH_VOLUME).toBe("no");
    expect(await connection.call("DeleteVolume", { volumeId: "v" }, { signal: signal() })).toEqual({
      outcome: "done",
      value: {},
    });
    expect(second.calls).toEqual(["Probe", ...facts, "DeleteVolume"]);
    expect(first.calls).not.toContain("DeleteVolume");
  });

  it("leaves the old process for the new one as soon as the socket is replaced, though the old one still serves", async () => {
    const { socketPath } = home();
    const old = await start();
    const connection = connect();
    await connection.whenReady(signal());
    await rm(socketPath);
    const replacement = await start({ controllerCaps: [1, 2, 9] });
    const changed = new Promise<void>((resolve) => {
      connection.onChange((status) => {
        if (status.facts?.controller.EXPAND_VOLUME === "yes") resolve();
      });
    });
    await changed;
    await connection.call("DeleteVolume", { volumeId: "v" }, { signal: signal() });
    expect(old.calls).not.toContain("DeleteVolume");
    expect(replacement.calls.at(-1)).toBe("DeleteVolume");
  });

  it("takes a socket that nobody listens on for a left-over, and connects once somebody does", async () => {
    const { socketPath, dir } = home();
    const other = path.join(dir, "other");
    const dead = createServer();
    await new Promise<void>((resolve) => dead.listen(other, resolve));
    await link(other, socketPath);
    await new Promise((resolve) => dead.close(resolve));

    const connection = connect();
    await new Promise<void>((resolve) => {
      connection.onChange(({ reason }) => {
        if (reason?.includes("nobody listens")) resolve();
      });
    });
    expect(connection.status().phase).toBe("waiting");
    await rm(socketPath);
    await start();
    await connection.whenReady(signal());
  });

  it("calls a plugin that is not ready initialising, however often it says so, and sends it nothing else", async () => {
    let probes = 0;
    const seen: PluginPhase[] = [];
    const plugin = await start({ handlers: { probe: async () => ({ ready: ++probes > 6 }) } });
    const connection = connect();
    connection.onChange(({ phase }) => seen.push(phase));
    await reached(connection, "initialising");
    expect(await connection.call("DeleteVolume", { volumeId: "v" }, { signal: signal() })).toMatchObject({
      outcome: "unknown",
      failure: { code: "UNAVAILABLE", sent: false },
    });
    await connection.whenReady(signal());
    expect(plugin.calls).toEqual([...Array(7).fill("Probe"), ...facts]);
    expect(seen).toEqual(["connecting", "initialising", "ready"]);
  });

  it("calls a plugin whose Probe fails unhealthy, with its words, and pauses its calls until it is well", async () => {
    let ill = true;
    await start({
      handlers: {
        probe: async () => {
          if (ill) throw new ServerError(Status.FAILED_PRECONDITION, "no kernel module");
          return {};
        },
      },
    });
    const connection = connect();
    const status = await reached(connection, "unhealthy");
    expect(status.reason).toBe("Probe answered FAILED_PRECONDITION: no kernel module");
    expect(await connection.call("DeleteVolume", { volumeId: "v" }, { signal: signal() })).toMatchObject({
      failure: { sent: false, message: expect.stringContaining("no kernel module") },
    });
    ill = false;
    await connection.whenReady(signal());
  });

  it("notices between calls that a plugin fell ill, keeps its facts, and resumes", async () => {
    let ill = false;
    await start({
      handlers: {
        probe: async () => {
          if (ill) throw new ServerError(Status.FAILED_PRECONDITION, "disk gone");
          return {};
        },
      },
    });
    const connection = connect({ healthIntervalMs: 20 });
    await connection.whenReady(signal());
    ill = true;
    const status = await reached(connection, "unhealthy");
    expect(status.facts?.name).toBe("tiny.example.com");
    ill = false;
    await connection.whenReady(signal());
  });

  it("quarantines a plugin that comes back under another name, and sends it no call", async () => {
    const first = await start();
    const connection = connect();
    await connection.whenReady(signal());
    await first.kill();
    const stranger = await start({ name: "stranger.example.com" });
    const status = await reached(connection, "quarantined");
    expect(status.reason).toContain("calls itself stranger.example.com, and was tiny.example.com before");
    expect(status.facts).toBeUndefined();
    expect(await connection.call("DeleteVolume", { volumeId: "v" }, { signal: signal() })).toMatchObject({
      outcome: "unknown",
      failure: { sent: false },
    });
    expect(stranger.calls).toEqual(["Probe", ...facts]);

    await stranger.kill();
    await start();
    await connection.whenReady(signal());
  });

  it("quarantines a plugin that comes back with another node id, or was never the expected one", async () => {
    const first = await start();
    const connection = connect();
    await connection.whenReady(signal());
    const other = connect({ expectedName: "wanted.example.com" });
    expect((await reached(other, "quarantined")).reason).toContain("and was wanted.example.com before");
    await first.kill();
    await start({ nodeId: "node-2" });
    expect((await reached(connection, "quarantined")).reason).toContain("node id node-2, and gave node-1 before");
  });

  it("quarantines a plugin that changes its name within one connection, and forgets its facts", async () => {
    let name = "tiny.example.com";
    await start({ handlers: { getPluginInfo: async () => ({ name }) } });
    const connection = connect({ healthIntervalMs: 20 });
    await connection.whenReady(signal());
    name = "stranger.example.com";
    // Who it is, is not read again without a reason; an announced call that is not implemented is one.
    await connection.call("DeleteVolume", { volumeId: "v" }, { signal: signal() });
    expect(await reached(connection, "quarantined")).not.toHaveProperty("facts");
  });

  it("reads capabilities with each look at the plugin, who it is only once, and tells nobody when nothing changed", async () => {
    let more = false;
    let broken = false;
    const plugin = await start({
      handlers: {
        controllerGetCapabilities: async () => {
          if (broken) throw new ServerError(Status.INTERNAL, "not now");
          return { capabilities: (more ? [1, 2, 3] : [1]).map((type) => ({ rpc: { type: type as 1 } })) };
        },
      },
    });
    const connection = connect({ healthIntervalMs: 20 });
    const first = await connection.whenReady(signal());
    const reads = () => plugin.calls.filter((name) => name === "ControllerGetCapabilities").length;
    const changes: unknown[] = [];
    connection.onChange((status) => changes.push(status));
    await expect.poll(reads).toBeGreaterThan(3);
    broken = true;
    const atBreak = reads();
    await expect.poll(reads).toBeGreaterThan(atBreak + 2);
    expect(changes).toEqual([]);
    expect(connection.status().facts).toBe(first);
    broken = false;
    more = true;
    await expect.poll(() => connection.status().facts?.controller.LIST_VOLUMES).toBe("yes");
    expect(changes).toHaveLength(1);
    expect(plugin.calls.filter((name) => name === "GetPluginInfo" || name === "NodeGetInfo")).toHaveLength(2);
  });

  it("S5 a plugin that is too busy for a probe and answers other calls is not given up", async () => {
    let busy = false;
    const plugin = await start({
      handlers: {
        probe: () => (busy ? new Promise<never>(() => undefined) : Promise.resolve({})),
        deleteVolume: async () => ({}),
      },
    });
    const clock = createManualClock();
    const connection = connect({ healthIntervalMs: 1_000, clock });
    await connection.whenReady(signal());
    const probes = () => plugin.calls.filter((name) => name === "Probe").length;
    const phases: string[] = [];
    connection.onChange(({ phase }) => phases.push(phase));
    busy = true;
    const lookThrough = async (during: () => Promise<void>): Promise<void> => {
      const before = probes();
      await clock.advance(1_200);
      await expect.poll(probes).toBe(before + 1);
      await during();
      await clock.advance(5_000);
      await expect.poll(probes).toBe(before + 2);
      await clock.advance(1_000);
    };
    await lookThrough(async () => {
      const answer = await connection.call("DeleteVolume", { volumeId: "v" }, { signal: signal() });
      expect(answer.outcome).toBe("done");
    });
    await expect.poll(() => plugin.calls.at(-1)).toBe("NodeGetCapabilities");
    expect(phases).toEqual([]);
    await lookThrough(async () => undefined);
    await expect.poll(() => phases[0]).toBe("unhealthy");
  });

  it("does not call a plugin unhealthy that died while it was asked who it is", async () => {
    const seen: PluginPhase[] = [];
    const first = await start({
      handlers: {
        getPluginCapabilities: () => {
          void first.kill();
          return new Promise<never>(() => undefined);
        },
      },
    });
    const connection = connect();
    connection.onChange(({ phase }) => seen.push(phase));
    await expect.poll(() => seen.at(-1)).toBe("waiting");
    await start();
    await connection.whenReady(signal());
    expect(seen).not.toContain("unhealthy");
  });

  it("refuses a name that could not be a plugin's", async () => {
    await start({ name: "../etc" });
    const connection = connect();
    expect((await reached(connection, "unhealthy")).reason).toContain("malformed reply: name must be letters");
  });

  it("never dials what is no socket, a link to one, or a path too long for one", async () => {
    const { dir, socketPath } = home();
    await start({ socketPath: path.join(dir, "real.sock") });
    // Listened for before it is caused: a reason is told once.
    const because = (connection: ReturnType<typeof connect>, text: string): Promise<void> =>
      new Promise((resolve) => {
        connection.onChange(({ reason }) => {
          if (reason?.includes(text)) resolve();
        });
      });
    const connection = connect();
    const noSocket = because(connection, "is no socket");
    await writeFile(socketPath, "");
    await noSocket;
    await rm(socketPath);
    const link = because(connection, "is a symbolic link");
    await symlink("real.sock", socketPath);
    await link;

    await rm(socketPath);
    const open = because(connection, "everybody may write to");
    await chmod(dir, 0o777);
    await rename(path.join(dir, "real.sock"), socketPath);
    await open;
    await chmod(dir, 0o700);

    const deep = path.join(dir, "d".repeat(120));
    await mkdir(deep);
    await because(connect({ socketPath: path.join(deep, "csi.sock") }), "at most 107");

    await connection.whenReady(signal());
  });

  it("reads an unknown capability again until it is known, and holds only the calls that need it", async () => {
    let failing = true;
    await start({
      handlers: {
        controllerGetCapabilities: async () => {
          if (failing) throw new ServerError(Status.INTERNAL, "backend is starting");
          return { capabilities: [{ rpc: { type: 1 } }] };
        },
        nodeUnpublishVolume: async () => ({}),
        deleteVolume: async () => ({}),
      },
    });
    const connection = connect({ healthIntervalMs: 20 });
    const first = await connection.whenReady(signal());
    expect(first.controller.CREATE_DELETE_VOLUME).toBe("unknown");
    expect(await connection.call("DeleteVolume", { volumeId: "v" }, { signal: signal() })).toMatchObject({
      outcome: "unknown",
      failure: { code: "UNAVAILABLE", sent: false, message: expect.stringContaining("waiting for capabilities") },
    });
    const unpublish = { volumeId: "v", targetPath: "/t" };
    expect(await connection.call("NodeUnpublishVolume", unpublish, { signal: signal() })).toMatchObject({
      outcome: "done",
    });
    failing = false;
    await new Promise<void>((resolve) => {
      connection.onChange(({ facts: now }) => {
        if (now?.controller.CREATE_DELETE_VOLUME === "yes") resolve();
      });
    });
    expect(await connection.call("DeleteVolume", { volumeId: "v" }, { signal: signal() })).toMatchObject({
      outcome: "done",
    });
  });

  it("D10 asks a method that is announced and not implemented once, lets others wait, and asks again after the facts were read anew", async () => {
    let built = false;
    const plugin = await start({
      handlers: {
        deleteVolume: async () => {
          if (!built) throw new ServerError(Status.UNIMPLEMENTED, "next release");
          return {};
        },
      },
    });
    // Read again for what it said, and not with the next look at its health.
    const connection = connect({ healthIntervalMs: 60_000 });
    await connection.whenReady(signal());
    plugin.calls.length = 0;
    const remove = (volumeId = "v") => connection.call("DeleteVolume", { volumeId }, { signal: signal() });
    expect(await remove()).toMatchObject({ outcome: "refused", failure: { code: "UNIMPLEMENTED", sent: true } });
    expect(await remove("w")).toMatchObject({ outcome: "unknown", failure: { code: "UNAVAILABLE", sent: false } });
    expect(plugin.calls.filter((name) => name === "DeleteVolume")).toHaveLength(1);
    built = true;
    await expect.poll(remove, { timeout: 10_000 }).toMatchObject({ outcome: "done" });
    const order = plugin.calls.filter((name) => name === "DeleteVolume" || name === "ControllerGetCapabilities");
    expect(order).toEqual(["DeleteVolume", "ControllerGetCapabilities", "DeleteVolume"]);
  });

  it("takes UNIMPLEMENTED of a capability question for none, and of NodeGetInfo for no node id", async () => {
    const nothing = async (): Promise<never> => {
      throw new ServerError(Status.UNIMPLEMENTED, "not here");
    };
    await start({
      handlers: { nodeGetCapabilities: nothing, controllerGetCapabilities: nothing, nodeGetInfo: nothing },
    });
    const known = await connect().whenReady(signal());
    expect(Object.values(known.node)).toEqual(Array(8).fill("no"));
    expect(Object.values(known.controller)).toEqual(Array(17).fill("no"));
    expect(known).not.toHaveProperty("nodeInfo");
  });

  it("ignores capabilities that this version of CSI does not know", async () => {
    await start({ pluginServices: [0, 1, 77], controllerCaps: [0, 1, 99], nodeCaps: [-5, 1] });
    const known = await connect().whenReady(signal());
    expect(known.controller).toMatchObject({ CREATE_DELETE_VOLUME: "yes", GET_CAPACITY: "no" });
    expect(Object.keys(known.controller)).toHaveLength(17);
    expect(known.node.STAGE_UNSTAGE_VOLUME).toBe("yes");
  });

  it("asks a controller socket of the Node service only where it runs, and a node socket nothing of the Controller service", async () => {
    const plugin = await start();
    await connect({ role: "controller" }).whenReady(signal());
    expect(plugin.calls).toEqual([
      "Probe",
      "GetPluginInfo",
      "GetPluginCapabilities",
      "ControllerGetCapabilities",
      "NodeGetInfo",
    ]);
    plugin.calls.length = 0;
    const node = connect({ role: "node" });
    await node.whenReady(signal());
    expect(plugin.calls).toEqual([
      "Probe",
      "GetPluginInfo",
      "GetPluginCapabilities",
      "NodeGetCapabilities",
      "NodeGetInfo",
    ]);
    expect(await node.call("DeleteVolume", { volumeId: "v" }, { signal: signal() })).toMatchObject({
      outcome: "refused",
      failure: { code: "UNIMPLEMENTED", sent: false },
    });
  });

  it("rejects a wait that is given up", async () => {
    const giveUp = new AbortController();
    const waiting = connect().whenReady(giveUp.signal);
    giveUp.abort(new Error("enough"));
    await expect(waiting).rejects.toThrow("enough");
  });

  it("logs each change of phase with the plugin, the socket and the reason", async () => {
    await start();
    const connection = connect();
    await connection.whenReady(signal());
    const ready = lines.map((line) => JSON.parse(line)).find(({ message }) => message === "plugin ready");
    expect(ready).toMatchObject({ plugin: "tiny.example.com", socket: home().socketPath, role: "monolith" });
  });
});
