import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { caller, createWorld, plugin, type World } from "../../../../../test/support/controller/world.ts";
import { createPluginCommands } from "../../commands/plugin/plugin-commands.ts";
import { defaultProfile } from "../../domain/plugin/plugin-profile.ts";
import { createPluginKeeper, type PluginKeeper } from "./plugin-keeper.ts";

const attach = "controller:PUBLISH_UNPUBLISH_VOLUME";
const hour = 3_600_000;

let world: World;
let stop: AbortController;
let keeper: PluginKeeper;

const keep = (): PluginKeeper => {
  const made = createPluginKeeper({
    catalogue: world.catalogue,
    records: world.pluginRecords,
    count: world.countOf,
    emptyForMs: 24 * hour,
    clock: world.clock,
    log: world.log,
    signal: stop.signal,
  });
  made.run().catch(() => undefined);
  return made;
};

const commands = () =>
  createPluginCommands({
    records: world.pluginRecords,
    catalogue: world.catalogue,
    count: world.countOf,
    format: () => 4,
    ambiguous: (plugin) => (plugin === "twice" ? "nothing says which volumes an instance reaches" : ""),
  });

/** The only instance of a plugin, on n1; none with undefined. */
const runs = (name: string, change: object | undefined): void => {
  const plugins = world.nodes.get("n1")?.record.plugins ?? [];
  const others = plugins.filter((one) => one.name !== name);
  const like = plugins[0];
  if (like === undefined) throw new Error("n1 has no plugin");
  world.nodes.set("n1", { plugins: change === undefined ? others : [...others, { ...like, name, ...change }] });
};

const settle = async (): Promise<void> => {
  await world.clock.advance(0);
  await keeper.idle();
};

beforeEach(async () => {
  world = await createWorld();
  stop = new AbortController();
  keeper = keep();
  await settle();
});
afterEach(async () => {
  stop.abort(new Error("over"));
  await world.close();
});

describe("what is kept of plugins", () => {
  it("[W8] [O20] [C02] is what each version told, over a failed fingerprint, its end, and a restart of the controller", async () => {
    runs("m", { role: "MONOLITH", version: "1", capabilities: { [attach]: "yes" } });
    await settle();
    runs("m", { role: "MONOLITH", version: "1", health: "UNHEALTHY", capabilities: { [attach]: "no" } });
    await settle();
    expect(world.pluginRecords.remembered("m", "1")).toEqual({ [attach]: "yes" });
    runs("m", { role: "MONOLITH", version: "2", capabilities: { [attach]: "no" } });
    await settle();
    runs("m", undefined);
    await settle();
    await world.restart();
    expect(world.pluginRecords.remembered("m", "1")).toEqual({ [attach]: "yes" });
    expect(world.pluginRecords.remembered("m", "2")).toEqual({ [attach]: "no" });
    expect(commands().view("m")?.summary.capabilities).toEqual({ [attach]: "no" });
  });

  it("costs nothing while nothing is new", async () => {
    runs("m", { version: "1", capabilities: { "node:STAGE_UNSTAGE_VOLUME": "yes" } });
    await settle();
    const commits = world.store.commits();
    for (let n = 0; n < 20; n += 1)
      runs("m", { version: "1", nodeId: `id-${n}`, capabilities: { "node:STAGE_UNSTAGE_VOLUME": "yes" } });
    await settle();
    expect(world.store.commits()).toBe(commits);
  });

  it("[W24] a thousand nodes that tell the same make nobody look at all of them", async () => {
    runs("m", { role: "MONOLITH", version: "1", capabilities: { [attach]: "yes" } });
    await settle();
    const all = vi.spyOn(world.catalogue, "of");
    const commits = world.store.commits();
    const like = world.nodes.get("n1")?.record.plugins.find((one) => one.name === "m");
    if (like === undefined) throw new Error("no m");
    for (let n = 0; n < 1_000; n += 1) world.nodes.set(`many-${n}`, { plugins: [{ ...like, nodeId: `many-${n}` }] });
    await keeper.idle();
    expect(all).not.toHaveBeenCalled();
    expect(world.store.commits()).toBe(commits);
    expect(commands().view("m")?.summary.node).toEqual({ healthy: 1_001, expected: 1_001 });
  });

  it("where instances differ is what was known before, and two of them never write in turns", async () => {
    runs("m", { role: "MONOLITH", version: "1", capabilities: { [attach]: "yes" } });
    await settle();
    const rev = world.pluginRecords.get("m")?.rev;
    const like = world.nodes.get("n1")?.record.plugins.find((one) => one.name === "m");
    if (like === undefined) throw new Error("no m");
    world.nodes.set("n2", { plugins: [{ ...like, capabilities: { [attach]: "no" } }] });
    await settle();
    expect(world.pluginRecords.get("m")?.rev).toBe(rev);
    expect(world.pluginRecords.remembered("m", "1")).toEqual({ [attach]: "yes" });
    expect(commands().view("m")?.summary.capabilities[attach]).toBe("unknown");
  });

  it("is unschedulable, with the reason, when nothing says which volumes its instances reach", async () => {
    runs("twice", { role: "MONOLITH", capabilities: { [attach]: "yes", "plugin:CONTROLLER_SERVICE": "yes" } });
    await settle();
    expect(commands().view("twice")?.summary.missing).toMatch(/which volumes/);
  });

  it("[X39] stays visible and unschedulable when its instances vanish, and goes by itself after a day", async () => {
    runs("m", { role: "MONOLITH", version: "1", capabilities: { [attach]: "yes" } });
    await settle();
    expect(commands().view("m")?.summary.node).toEqual({ healthy: 1, expected: 1 });
    runs("m", undefined);
    await settle();
    expect(commands().view("m")?.summary).toMatchObject({
      missing: expect.stringMatching(/^no node has an instance of plugin m; the last one was seen/),
    });
    await world.pass(2 * hour, hour / 6);
    expect(commands().view("m")?.emptySince).toBeGreaterThan(0);
    await world.pass(21 * hour, hour / 2);
    expect(commands().names("")).toContain("m");
    await world.pass(4 * hour, hour / 2);
    expect(commands().names("")).not.toContain("m");
    expect(world.pluginRecords.get("m")).toBeUndefined();
  });

  it("stays while it has volumes, a profile, or comes back in time", async () => {
    await world.makeVolume("data");
    for (const name of ["n1", "n2", "n3"]) world.nodes.set(name, { plugins: [] });
    await world.pluginRecords.change(plugin, (record) => ({ ...record, updatedAt: 1 }));
    await commands().setProfile(
      { name: "set", profile: { ...defaultProfile, maxConcurrentCalls: 2 }, expectedRevision: 0 },
      caller,
    );
    await world.pluginRecords.change("back", (record) => ({ ...record, updatedAt: 1 }));
    await world.pass(20 * hour, hour / 2);
    expect(world.pluginRecords.get("back")?.record.emptySince).toBeGreaterThan(0);
    const like = {
      version: "1",
      instance: "x",
      role: "NODE",
      health: "HEALTHY",
      healthMessage: "",
      nodeId: "n",
    } as const;
    world.nodes.set("n1", {
      plugins: [{ ...like, name: "back", maxVolumes: 0, topology: {}, capabilities: { "node:EXPAND_VOLUME": "no" } }],
    });
    await world.pass(2 * hour, hour / 2);
    expect(world.pluginRecords.get("back")?.record.emptySince).toBeUndefined();
    await world.pass(30 * hour, hour);
    expect(commands().names("")).toEqual(["back", plugin, "set"].toSorted());
  });
});

describe("deleting a plugin", () => {
  it("[X41] is refused while an instance runs or a volume stands, says which, and never is silent about it", async () => {
    await world.makeVolume("data");
    await expect(commands().deletePlugin(plugin)).rejects.toMatchObject({
      reason: "PLUGIN_IN_USE",
      metadata: { plugin, allocation: `${plugin}-n1` },
    });
    for (const name of ["n1", "n2", "n3"]) world.nodes.set(name, { plugins: [] });
    await world.pluginRecords.change(plugin, (record) => ({ ...record, updatedAt: 1 }));
    await expect(commands().deletePlugin(plugin)).rejects.toMatchObject({
      reason: "PLUGIN_IN_USE",
      metadata: { count: "1" },
    });
    expect(await commands().volumeCount(plugin)).toBe(1);
    await world.commands.deleteVolume({ namespace: "default", id: "data", uid: "", requestId: "" }, caller);
    await world.idle();
    await commands().deletePlugin(plugin);
    await commands().deletePlugin(plugin);
    await commands().deletePlugin("never-seen");
    expect(commands().view(plugin)).toBeUndefined();
    await expect(commands().deletePlugin("a b")).rejects.toMatchObject({ violations: [{ field: "name" }] });
  });
});
