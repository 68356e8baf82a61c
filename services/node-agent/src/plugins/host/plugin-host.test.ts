import { mkdir, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { describe, expect, onTestFinished, test } from "vitest";
import type { VolumeState } from "../../domain/types.ts";
import { countConnections, hosted, socketDirsIn, startHostRig, until } from "../../testing/host-rig.ts";
import { openJournal } from "../../volumes/journal.ts";
import { createLedger } from "../../volumes/ledger.ts";
import type { SupervisionStep } from "./supervision.ts";

const name = "tiny.example.com";
const pin = () => ({ name, nodeId: undefined });
const registered = (life: { host: { registry(): { entries: readonly { order: number }[] } } }) =>
  life.host.registry().entries.filter(({ order }) => order > 0).length;

/** Everything that a follower was told so far. */
function collect(steps: AsyncGenerator<SupervisionStep, void>): SupervisionStep[] {
  const seen: SupervisionStep[] = [];
  const run = async (): Promise<void> => {
    for await (const step of steps) seen.push(step);
  };
  run().catch(() => undefined);
  return seen;
}

const stagedVolume = (plugin = name): VolumeState =>
  ({
    ref: { namespace: "ns", volume: "vol-1", volumeUid: "u", externalId: "e", plugin },
    stage: { phase: "staged" },
    claims: {},
  }) as unknown as VolumeState;

describe("hosting", () => {
  test("prepared, waited for, ready, gone unhealthy, healthy again, stopped: each told in this order", async () => {
    const rig = await startHostRig();
    const life = await rig.live();
    const socket = await life.host.prepare(hosted("a"));
    expect(Buffer.byteLength(socket)).toBeLessThanOrEqual(107);
    expect((await stat(path.dirname(socket))).mode & 0o777).toBe(0o700);
    const steps = collect(life.host.supervise(hosted("a"), rig.signal));
    const plugin = await rig.plugin(life, "a");
    await until(() => registered(life) === 1);
    await until(() => steps.at(-1)?.word === "ready");
    await plugin.kill();
    await until(() => steps.at(-1)?.word === "unhealthy");
    await rig.plugin(life, "a");
    await until(() => steps.at(-1)?.word === "healthy");
    expect(await life.host.stop({ allocation: "a", waitMs: 1_000, leaveVolumes: false }, rig.signal)).toEqual({
      stopped: true,
      calls: [],
    });
    await until(() => steps.at(-1)?.word === "stopped");
    const words = steps.map(({ word }) => word).filter((word, at, all) => word !== all[at - 1]);
    expect(words).toEqual(["waiting", "ready", "unhealthy", "healthy", "stopped"]);
    expect(life.board.list()).toEqual([]);
    expect(() => life.host.supervise(hosted("a"), rig.signal)).toThrow("call PreparePlugin first");
    expect(await life.host.stop({ allocation: "a", waitMs: 0, leaveVolumes: false }, rig.signal)).toMatchObject({
      stopped: true,
    });
  });

  test("the same preparation again answers the same; another content of the same allocation is refused by its field", async () => {
    const rig = await startHostRig();
    const life = await rig.live();
    const first = await life.host.prepare(hosted("a"));
    const before = life.ledger.syncs();
    expect(await life.host.prepare(hosted("a"))).toBe(first);
    expect(life.ledger.syncs()).toBe(before);
    await expect(life.host.prepare(hosted("a", { publishDir: "/other" }))).rejects.toMatchObject({
      reason: "PLUGIN_INSTANCE_EXISTS",
      message: `plugin ${name} is prepared in allocation a with publishDir /local/csi, and asked for with /other: stop it first, or use another allocation`,
      metadata: { plugin: name, allocation: "a", field: "publishDir" },
    });
    expect(await life.host.prepare(hosted("b"))).not.toBe(first);
  });

  test("a plugin of another name on the socket gets no call and is told as blocked", async () => {
    const rig = await startHostRig();
    const life = await rig.live();
    await life.host.prepare(hosted("a"));
    await rig.plugin(life, "a", { name: "other.example.com" });
    await until(() => life.host.connectionOf(hosted("a"))?.status().phase === "quarantined");
    await until(() => life.board.list()[0]?.fingerprint.blocked?.reason === "PLUGIN_IDENTITY_CHANGED");
    expect(life.plugins.get(name, "node")).toBeUndefined();
    expect(registered(life)).toBe(0);
  });

  test("another node id after the plugin and the agent were restarted: quarantined", async () => {
    const rig = await startHostRig();
    const first = await rig.live();
    await first.host.prepare(hosted("a"));
    const plugin = await rig.plugin(first, "a", { nodeId: "node-1" });
    await until(() => registered(first) === 1);
    await first.close();
    await plugin.kill();
    const second = await rig.live();
    await rig.plugin(second, "a", { nodeId: "node-2" });
    await until(() => second.host.connectionOf(hosted("a"))?.status().phase === "quarantined");
    expect(second.plugins.get(name, "node")).toBeUndefined();
  });

  test("P4 a newer instance that gives another node id than the one before it is quarantined, and the old one goes on", async () => {
    const rig = await startHostRig();
    const life = await rig.live();
    await life.host.prepare(hosted("old"));
    await rig.plugin(life, "old", { nodeId: "node-1" });
    await until(() => registered(life) === 1);
    await life.host.prepare(hosted("new"));
    await rig.plugin(life, "new", { nodeId: "node-2" });
    await until(() => life.host.connectionOf(hosted("new"))?.status().phase === "quarantined");
    expect(life.plugins.get(name, "node")?.instanceId).toBe("old");
  });

  test("W16 the whole registry comes back from the real journal: order, halves, node ids, and what was only prepared", async () => {
    const rig = await startHostRig();
    const dir = path.join(rig.dir, "state");
    await mkdir(dir);
    const open = () =>
      openJournal({
        dir,
        machine: "m",
        newUid: () => "uid",
        failpoint: () => undefined,
        maxBytes: 1 << 20,
        minFreeBytes: 0,
        onFatal: (error) => {
          throw error;
        },
      });
    const journal = await open();
    const life = await rig.live({ journal });
    for (const [allocation, role] of [
      ["a", "node"],
      ["b", "monolith"],
      ["c", "controller"],
    ] as const) {
      await life.host.prepare(hosted(allocation, { role }));
      await rig.plugin(life, allocation);
      await until(() =>
        life.host.registry().entries.some((it) => it.instance.allocation === allocation && it.order > 0),
      );
    }
    await life.host.prepare(hosted("d", { publishDir: "/x", healthTimeoutMs: 5, restartInUse: true }));
    const before = life.host.registry();
    expect(before.entries.map(({ instance, order, nodeId }) => [instance.allocation, order, nodeId])).toEqual([
      ["a", 1, "node-1"],
      ["b", 2, "node-1"],
      ["c", 3, "node-1"],
      ["d", 0, ""],
    ]);
    await life.close();
    await journal.close();
    const again = await open();
    expect(createLedger(again).agent().plugins).toEqual(before);
    const next = await rig.live({ journal: again });
    expect(next.host.registry()).toEqual(before);
    await next.host.whenBack(5_000);
    expect(next.plugins.get(name, "node")?.instanceId).toBe("b");
    expect(next.plugins.get(name, "controller")?.instanceId).toBe("c");
    await again.rewrite();
    await next.close();
    await again.close();
    const third = await open();
    onTestFinished(() => third.close());
    expect(createLedger(third).agent().plugins).toEqual(before);
  });

  test("W15 an instance behind the front is used and announced at once when the front leaves", async () => {
    const rig = await startHostRig();
    const life = await rig.live();
    for (const allocation of ["old", "new"]) {
      await life.host.prepare(hosted(allocation));
      await rig.plugin(life, allocation);
      await until(() => life.board.list().some((it) => it.allocation === allocation && it.current));
    }
    expect(life.plugins.get(name, "node")?.instanceId).toBe("new");
    const since = life.board.feed.position();
    await life.host.stop({ allocation: "new", waitMs: 0, leaveVolumes: false }, rig.signal);
    expect(life.plugins.get(name, "node")?.instanceId).toBe("old");
    const told: string[] = [];
    for await (const { item } of life.board.feed.after(since, rig.signal)) {
      told.push(`${item.instance.allocation}${item.gone ? " gone" : ""}${item.instance.current ? " current" : ""}`);
      if (told.at(-1) === "old current") break;
    }
    expect(told.at(-1)).toBe("old current");
    expect(told).toContain("new gone current");
  });

  test("W20 a socket that appears is registered by the kernel's word alone: no timer of ours has to pass", async () => {
    const rig = await startHostRig();
    const clock = createManualClock();
    const life = await rig.live({ clock });
    await life.host.prepare(hosted("a"));
    const waiting = life.plugins.whenReady(name, "node", rig.signal);
    await until(() => life.host.connectionOf(hosted("a"))?.status().reason === "no socket yet");
    await rig.plugin(life, "a");
    expect((await waiting).instanceId).toBe("a");
    expect(clock.monotonic()).toBe(0);
  });

  test("W40 who waits for a plugin that never says who it is delays no other, and is let go when the agent ends", async () => {
    const rig = await startHostRig();
    const life = await rig.live();
    await life.host.prepare(hosted("mute", { plugin: "mute.example.com" }));
    await rig.plugin(life, "mute", {
      name: "mute.example.com",
      handlers: { getPluginInfo: () => new Promise(() => undefined) },
    });
    const stop = new AbortController();
    const mute = life.plugins.whenReady("mute.example.com", "node", stop.signal);
    await life.host.prepare(hosted("a"));
    await rig.plugin(life, "a");
    expect((await life.plugins.whenReady(name, "node", rig.signal)).instanceId).toBe("a");
    stop.abort(new DOMException("the agent ends", "AbortError"));
    await expect(mute).rejects.toThrow("the agent ends");
  });

  test("W46 a plugin that becomes a monolith keeps its root; what instances leave is taken away, also after a crash", async () => {
    const rig = await startHostRig();
    const life = await rig.live();
    const socket = await life.host.prepare(hosted("a"));
    await rig.plugin(life, "a");
    await until(() => registered(life) === 1);
    const asNode = life.plugins.pathsOf({ instanceId: "a", socketPath: socket, pin });
    await life.host.prepare(hosted("b", { role: "monolith" }));
    const asBoth = life.plugins.pathsOf({ instanceId: "b", socketPath: life.dirs.socketOf("b"), pin });
    expect(asNode.toHost("/local/csi/staging/x")).toBe(asBoth.toHost("/local/csi/staging/x"));
    await life.host.stop({ allocation: "a", waitMs: 0, leaveVolumes: false }, rig.signal);
    expect(await socketDirsIn(path.join(rig.dir, "h"))).toEqual([path.basename(life.dirs.directoryOf("b"))]);
    // A crash between the record and the removal; and what somebody else put there.
    await mkdir(path.join(rig.dir, "h", "0".repeat(32)));
    await mkdir(path.join(rig.dir, "h", "1".repeat(32)));
    await writeFile(path.join(rig.dir, "h", "1".repeat(32), "precious"), "");
    await life.close();
    await rig.live();
    expect(await socketDirsIn(path.join(rig.dir, "h"))).toEqual(
      [path.basename(life.dirs.directoryOf("b")), "1".repeat(32)].sort(),
    );
  });

  test("W19 W49 any number of first callers at once share one connection, and later calls use it too", async () => {
    const rig = await startHostRig();
    const life = await rig.live({ healthIntervalMs: 60_000 });
    await life.host.prepare(hosted("a", { role: "monolith" }));
    const behind = path.join(rig.dir, "behind.sock");
    await rig.plugin(life, "a", { socketPath: behind, handlers: { getCapacity: async () => ({}) } });
    const waiting = Array.from({ length: 50 }, () => life.plugins.whenReady(name, "controller", rig.signal));
    const connections = await countConnections(life.dirs.socketOf("a"), behind);
    const found = await Promise.all(waiting);
    expect(new Set(found).size).toBe(1);
    const call = () => found[0]?.call("Probe", {}, { signal: rig.signal });
    for (let round = 0; round < 5; round += 1)
      expect((await Promise.all(Array.from({ length: 20 }, call))).every((it) => it?.outcome === "done")).toBe(true);
    expect(connections()).toBe(1);
  });
});

describe("restarts are asked for", () => {
  const hung = { handlers: { probe: () => new Promise<never>(() => undefined) } };

  test("when it does not become ready in time, again and again, and the time begins when the runner says that it starts", async () => {
    const rig = await startHostRig();
    const clock = createManualClock();
    const life = await rig.live({ clock });
    await life.host.prepare(hosted("a", { healthTimeoutMs: 1_000 }));
    await until(() => life.host.connectionOf(hosted("a"))?.status().reason === "no socket yet");
    await clock.advance(5_000);
    const steps = collect(life.host.supervise(hosted("a"), rig.signal));
    await until(() => steps.length === 1);
    await clock.advance(999);
    expect(steps.map(({ word }) => word)).toEqual(["waiting"]);
    // The timer is set a turn after the step is told, and so may count from a later moment than the step.
    const passUntil = async (count: number) => {
      for (let at = 0; at < 100 && steps.length < count; at += 1) await clock.advance(100);
      await until(() => steps.length >= count);
    };
    await passUntil(2);
    expect(steps[1]).toMatchObject({
      word: "restart-wanted",
      message: expect.stringContaining("plugin tiny.example.com (allocation a) was not ready for 1000 ms"),
    });
    await passUntil(3);
    expect(steps.slice(0, 3).map(({ word }) => word)).toEqual(["waiting", "restart-wanted", "restart-wanted"]);
  });

  test("W47 for a plugin that hangs for ever after it was ready", async () => {
    const rig = await startHostRig();
    const life = await rig.live();
    await life.host.prepare(hosted("a", { healthTimeoutMs: 100 }));
    const plugin = await rig.plugin(life, "a");
    const steps = collect(life.host.supervise(hosted("a"), rig.signal));
    await until(() => steps.at(-1)?.word === "ready");
    await plugin.kill();
    await rig.plugin(life, "a", hung);
    await until(() => steps.at(-1)?.word === "restart-wanted");
    expect(steps.map(({ word }) => word)).toContain("unhealthy");
  });

  test("for a plugin that hangs with a call whose caller has gone: the restart is the cure", async () => {
    const rig = await startHostRig();
    const life = await rig.live();
    await life.host.prepare(hosted("a", { role: "monolith", healthTimeoutMs: 50 }));
    const never = new Promise<never>(() => undefined);
    let hangs = false;
    const handlers = { deleteVolume: () => never, probe: async () => (hangs ? never : {}) };
    await rig.plugin(life, "a", { handlers });
    const steps = collect(life.host.supervise(hosted("a"), rig.signal));
    const connection = await life.plugins.whenReady(name, "controller", rig.signal);
    hangs = true;
    await connection.call("DeleteVolume", { volumeId: "v" }, { signal: rig.signal, deadlineMs: 50 });
    expect(connection.underWay.list()).toEqual(["DeleteVolume for volume v"]);
    await until(() => steps.at(-1)?.word === "restart-wanted");
  });

  test("V2 never while volumes need it, unless its runner said so beforehand", async () => {
    for (const restartInUse of [false, true]) {
      const rig = await startHostRig();
      const life = await rig.live({ volumes: () => [stagedVolume()] });
      await life.host.prepare(hosted("a", { healthTimeoutMs: 50, restartInUse }));
      const plugin = await rig.plugin(life, "a");
      const steps = collect(life.host.supervise(hosted("a"), rig.signal));
      await until(() => steps.at(-1)?.word === "ready");
      await plugin.kill();
      // Before it was ready nobody knew whose volumes it has.
      const first = steps.findIndex(({ word }) => word === "ready");
      const words = () =>
        steps
          .slice(first)
          .map(({ word, message }) => `${word} ${message}`)
          .join("\n");
      if (restartInUse) await until(() => steps.at(-1)?.word === "restart-wanted");
      else {
        await until(() => words().includes("no restart is asked for: 1 volumes need it, one is ns/vol-1"));
        expect(words()).not.toContain("restart-wanted");
      }
    }
  });

  test("V1 never for a plugin that says it is not ready yet, which is not unhealthy either", async () => {
    const rig = await startHostRig();
    const life = await rig.live();
    await life.host.prepare(hosted("a", { healthTimeoutMs: 30 }));
    let ready = false;
    await rig.plugin(life, "a", { handlers: { probe: async () => ({ ready }) } });
    await until(() => life.host.connectionOf(hosted("a"))?.status().phase === "initialising");
    const steps = collect(life.host.supervise(hosted("a"), rig.signal));
    await new Promise((resolve) => setTimeout(resolve, 150));
    expect(steps.map(({ word }) => word)).toEqual(["waiting"]);
    expect(steps[0]?.message).toContain("initialising");
    ready = true;
    await until(() => steps.at(-1)?.word === "ready");
    expect(steps.map(({ word }) => word)).not.toContain("unhealthy");
  });
});

describe("stopping", () => {
  const stop = (allocation: string, leaveVolumes = false, waitMs = 0) => ({ allocation, waitMs, leaveVolumes });

  test("P3 is refused while volumes need it, with their number and a name; the instance goes on working", async () => {
    const rig = await startHostRig();
    const life = await rig.live({ volumes: () => [stagedVolume(), stagedVolume("other.example.com")] });
    await life.host.prepare(hosted("a"));
    await rig.plugin(life, "a");
    await until(() => registered(life) === 1);
    await expect(life.host.stop(stop("a"), rig.signal)).rejects.toMatchObject({
      reason: "PLUGIN_IN_USE",
      metadata: { plugin: name, allocation: "a", volume: "ns/vol-1", count: "1" },
    });
    expect(life.plugins.get(name, "node")?.instanceId).toBe("a");
    expect(await life.host.stop(stop("a", true), rig.signal)).toEqual({ stopped: true, calls: [] });
  });

  test("is allowed when a newer instance stands beside it and is ready, and not for the newer one", async () => {
    const rig = await startHostRig();
    const life = await rig.live({ volumes: () => [stagedVolume()] });
    await life.host.prepare(hosted("old"));
    await rig.plugin(life, "old");
    await until(() => registered(life) === 1);
    await life.host.prepare(hosted("new"));
    await expect(life.host.stop(stop("old"), rig.signal)).rejects.toMatchObject({ reason: "PLUGIN_IN_USE" });
    await rig.plugin(life, "new");
    await until(() => registered(life) === 2);
    await expect(life.host.stop(stop("new"), rig.signal)).rejects.toMatchObject({ reason: "PLUGIN_IN_USE" });
    expect(await life.host.stop(stop("old"), rig.signal)).toEqual({ stopped: true, calls: [] });
  });

  test("waits for the calls that are under way, names them, lets no new one in, and can be asked again", async () => {
    const rig = await startHostRig();
    const life = await rig.live();
    await life.host.prepare(hosted("a", { role: "monolith" }));
    let finish = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      finish = resolve;
    });
    await rig.plugin(life, "a", {
      handlers: {
        deleteVolume: async () => {
          await held;
          return {};
        },
      },
    });
    const connection = await life.plugins.whenReady(name, "controller", rig.signal);
    const call = connection.call(
      "DeleteVolume",
      { volumeId: "v" },
      { signal: rig.signal, subject: { volume: "vol-9" } },
    );
    await until(() => connection.underWay.list().length === 1);
    expect(await life.host.stop(stop("a", false, 20), rig.signal)).toEqual({
      stopped: false,
      calls: ["DeleteVolume for volume vol-9"],
    });
    expect(life.plugins.get(name, "controller")).toBeUndefined();
    const again = life.host.stop(stop("a", false, 10_000), rig.signal);
    finish();
    expect((await call).outcome).toBe("done");
    expect(await again).toEqual({ stopped: true, calls: [] });
  });

  test("waits for a call whose caller has gone: the plugin has given it no answer yet", async () => {
    const rig = await startHostRig();
    const life = await rig.live();
    await life.host.prepare(hosted("a", { role: "monolith" }));
    const { promise: held, resolve: finish } = Promise.withResolvers<object>();
    await rig.plugin(life, "a", { handlers: { deleteVolume: () => held } });
    const connection = await life.plugins.whenReady(name, "controller", rig.signal);
    const options = { signal: rig.signal, deadlineMs: 50 };
    expect(await connection.call("DeleteVolume", { volumeId: "v" }, options)).toMatchObject({ outcome: "unknown" });
    expect(await life.host.stop(stop("a", false, 20), rig.signal)).toEqual({
      stopped: false,
      calls: ["DeleteVolume for volume v"],
    });
    const again = life.host.stop(stop("a", false, 10_000), rig.signal);
    finish({});
    expect(await again).toEqual({ stopped: true, calls: [] });
  });
});
