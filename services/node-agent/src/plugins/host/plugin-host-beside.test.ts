/** D12: several plugins of one allocation, each an instance of its own. */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import type { VolumeState } from "../../domain/types.ts";
import { type HostLife, type HostRig, hosted, socketDirsIn, startHostRig, until } from "../../testing/host-rig.ts";
import { createJournalDisk, openMemoryJournal } from "../../testing/memory-journal.ts";

const one = "one.example.com";
const two = "two.example.com";
const of = (plugin: string) => hosted("a", { plugin });
const order = (plugin?: string) => ({ allocation: "a", plugin, waitMs: 0, leaveVolumes: false });
const stopped = { stopped: true, calls: [] };

const plugins = (life: HostLife) => life.board.list().map(({ plugin }) => plugin);
const dirsIn = (rig: HostRig) => socketDirsIn(path.join(rig.dir, "h"));
const readyIn = async (life: HostLife, plugin: string) =>
  void (await until(() => life.plugins.get(plugin, "node") !== undefined));

async function run(rig: HostRig, life: HostLife, names: readonly string[]): Promise<Map<string, string>> {
  const sockets = new Map<string, string>();
  for (const plugin of names) {
    const socketPath = await life.host.prepare(of(plugin));
    sockets.set(plugin, socketPath);
    await rig.plugin(life, "a", { name: plugin, socketPath });
    await readyIn(life, plugin);
  }
  return sockets;
}

const staged = (plugin: string): VolumeState =>
  ({
    ref: { namespace: "ns", volume: "vol-1", volumeUid: "u", externalId: "e", plugin },
    stage: { phase: "staged" },
    claims: {},
  }) as unknown as VolumeState;

describe("two plugins in one allocation", () => {
  test("have a socket each, the first where it always was; both are found again after a kill; one is stopped, then the other", async () => {
    const rig = await startHostRig();
    const life = await rig.live();
    const sockets = await run(rig, life, [one, two]);
    expect(sockets.get(one)).toBe(life.dirs.socketOf("a"));
    expect(sockets.get(two)).not.toBe(sockets.get(one));
    expect(path.dirname(path.dirname(sockets.get(two) ?? ""))).toBe(path.join(rig.dir, "h"));
    expect(plugins(life)).toEqual([one, two]);
    expect(life.board.list().map(({ allocation, current }) => [allocation, current])).toEqual([
      ["a", true],
      ["a", true],
    ]);

    await life.close();
    const next = await rig.live();
    for (const plugin of [one, two]) {
      await readyIn(next, plugin);
      expect(next.plugins.get(plugin, "node")?.socketPath).toBe(sockets.get(plugin));
      expect(await next.host.prepare(of(plugin))).toBe(sockets.get(plugin));
    }
    expect(await next.host.stop(order(one), rig.signal)).toEqual(stopped);
    expect(plugins(next)).toEqual([two]);
    expect(await dirsIn(rig)).toEqual([path.basename(path.dirname(sockets.get(two) ?? ""))]);
    expect(next.plugins.get(two, "node")).toBeDefined();
    expect(await next.host.stop(order(one), rig.signal)).toEqual(stopped);
    expect(plugins(next)).toEqual([two]);
    expect(await next.host.stop(order(two), rig.signal)).toEqual(stopped);
    expect(await dirsIn(rig)).toEqual([]);
  });

  test("the same plugin with other contents is refused by its plugin, allocation and both words; the other one may differ", async () => {
    const rig = await startHostRig();
    const life = await rig.live();
    await life.host.prepare(of(one));
    await life.host.prepare(hosted("a", { plugin: two, role: "controller", publishDir: "/other" }));
    await expect(life.host.prepare(hosted("a", { plugin: two }))).rejects.toMatchObject({
      reason: "PLUGIN_INSTANCE_EXISTS",
      message: `plugin ${two} is prepared in allocation a with role controller, and asked for with node: stop it first, or use another allocation`,
      metadata: { plugin: two, allocation: "a", field: "role" },
    });
  });

  test("are followed by their names; without one only where the allocation has no other", async () => {
    const rig = await startHostRig();
    const life = await rig.live();
    expect(() => life.host.find("a", undefined)).toThrow("no plugin instance of allocation a is prepared here");
    await life.host.prepare(of(one));
    expect(life.host.find("a", undefined)).toMatchObject({ plugin: one });
    await life.host.prepare(of(two));
    expect(life.host.find("a", two)).toMatchObject({ plugin: two });
    let refusal: unknown;
    try {
      life.host.find("a", undefined);
    } catch (error) {
      refusal = error;
    }
    expect(refusal).toMatchObject({
      violations: [
        { field: "plugin", description: `is not named, and allocation a has 2 of them here: ${one}, ${two}` },
      ],
    });
    expect(() => life.host.find("a", "three.example.com")).toThrow("no instance of plugin three.example.com");
  });

  test("are stopped together without a name, or not at all while one of them is needed", async () => {
    const rig = await startHostRig();
    let volumes: readonly VolumeState[] = [staged(two)];
    const life = await rig.live({ volumes: () => volumes });
    await run(rig, life, [one, two]);
    await life.host.prepare(hosted("b", { plugin: one }));
    await expect(life.host.stop(order(), rig.signal)).rejects.toMatchObject({
      reason: "PLUGIN_IN_USE",
      metadata: { plugin: two, allocation: "a", volume: "ns/vol-1" },
    });
    for (const plugin of [one, two]) expect(life.plugins.get(plugin, "node")?.instanceId).toBe("a");
    volumes = [];
    expect(await life.host.stop(order(), rig.signal)).toEqual(stopped);
    expect(life.board.list().map(({ allocation }) => allocation)).toEqual(["b"]);
    expect(await dirsIn(rig)).toEqual([path.basename(life.dirs.directoryOf("b"))]);
  });

  test("a call of one holds up both where both are stopped, under its plugin's name, and never the other alone", async () => {
    const rig = await startHostRig();
    const life = await rig.live();
    const { promise: held, resolve: finish } = Promise.withResolvers<object>();
    const monolith = (plugin: string) => hosted("a", { plugin, role: "monolith" });
    for (const plugin of [one, two]) {
      const socketPath = await life.host.prepare(monolith(plugin));
      await rig.plugin(life, "a", { name: plugin, socketPath, handlers: { deleteVolume: () => held } });
    }
    const connection = await life.plugins.whenReady(one, "controller", rig.signal);
    await life.plugins.whenReady(two, "controller", rig.signal);
    const subject = { volume: "vol-9" };
    const call = connection.call("DeleteVolume", { volumeId: "v" }, { signal: rig.signal, subject });
    await until(() => connection.underWay.list().length === 1);
    expect(await life.host.stop(order(), rig.signal)).toEqual({
      stopped: false,
      calls: [`${one}: DeleteVolume for volume vol-9`],
    });
    expect(plugins(life)).toEqual([one, two]);
    for (const plugin of [one, two]) expect(life.plugins.get(plugin, "controller")).toBeUndefined();
    // The first goes on waiting, and the other is not held up by it.
    const first = life.host.stop({ ...order(one), waitMs: 60_000 }, rig.signal);
    expect(await life.host.stop(order(two), rig.signal)).toEqual(stopped);
    finish({});
    await call;
    expect(await first).toEqual(stopped);
    expect(await dirsIn(rig)).toEqual([]);
  });

  test("one that an earlier version prepared keeps its path and its order, another one comes beside it, and it can be stopped", async () => {
    const rig = await startHostRig();
    const disk = createJournalDisk("earlier");
    for (const change of [
      { type: "prepared", instance: of(one) },
      { type: "registered", allocation: "a", at: 7, nodeId: "node-1" },
      { type: "prepared", instance: hosted("gone") },
      { type: "removed", allocation: "gone" },
    ])
      disk.records.push({ a: { type: "plugin", change } });
    const life = await rig.live({ journal: openMemoryJournal(disk) });
    expect(life.host.registry().entries).toMatchObject([{ order: 1, registeredAt: 7, nodeId: "node-1" }]);
    // As that version named it.
    const socket = path.join(rig.dir, "h", createHash("sha256").update("a").digest("hex").slice(0, 32), "csi.sock");
    expect(life.host.connectionOf(of(one))?.socketPath).toBe(socket);
    expect(await life.host.prepare(of(one))).toBe(socket);
    await run(rig, life, [two]);
    expect(life.plugins.get(two, "node")?.socketPath).not.toBe(socket);
    expect(await life.host.stop(order(one), rig.signal)).toEqual(stopped);
    expect(plugins(life)).toEqual([two]);
  });

  test("with a journal that was lost each gets its own socket again, in whatever order they are prepared", async () => {
    const rig = await startHostRig();
    const life = await rig.live();
    const sockets = await run(rig, life, [one, two]);
    await life.close();
    const next = await rig.live({ journal: openMemoryJournal(createJournalDisk("another")) });
    expect(await dirsIn(rig)).toHaveLength(2);
    for (const plugin of [two, one]) expect(await next.host.prepare(of(plugin))).toBe(sockets.get(plugin));
    for (const plugin of [two, one]) await readyIn(next, plugin);
  });

  test("what they left behind a record of their end goes with the same StopPlugin again, and nothing of the other", async () => {
    const rig = await startHostRig();
    const life = await rig.live();
    const socket = await life.host.prepare(of(one));
    await life.dirs.make("a", two);
    expect(await life.host.stop(order(two), rig.signal)).toEqual(stopped);
    expect(await dirsIn(rig)).toEqual([path.basename(path.dirname(socket))]);
    expect(await life.host.stop(order(two), rig.signal)).toEqual(stopped);
    expect(existsSync(path.dirname(socket))).toBe(true);
    expect(await life.host.stop(order(one), rig.signal)).toEqual(stopped);
    await life.dirs.make("a", two);
    await life.dirs.make("a");
    await life.dirs.make("b");
    expect(await life.host.stop(order(), rig.signal)).toEqual(stopped);
    expect(await dirsIn(rig)).toEqual([path.basename(life.dirs.directoryOf("b"))]);
  });

  test("one that is prepared while the first is being stopped does not come into the place that this leaves", async () => {
    const rig = await startHostRig();
    const life = await rig.live();
    await run(rig, life, [one]);
    const leaving = life.host.stop(order(one), rig.signal);
    const socket = await life.host.prepare(of(two));
    expect(await leaving).toEqual(stopped);
    expect(socket).not.toBe(life.dirs.socketOf("a"));
    expect(await dirsIn(rig)).toEqual([path.basename(path.dirname(socket))]);
  });
});
