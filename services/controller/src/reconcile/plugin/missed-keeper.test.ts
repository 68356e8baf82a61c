import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../../../../../test/support/controller/world.ts";
import { createPluginCommands } from "../../commands/plugin/plugin-commands.ts";
import type { NodePlugin } from "../../domain/node/node.ts";
import { createMissedKeeper, missedAfterMs } from "./missed-keeper.ts";
import { createPluginKeeper } from "./plugin-keeper.ts";
import { tellAfterMs, tellPlugins } from "./tell-plugins.ts";

let world: World;
let stop: AbortController;

const commands = () =>
  createPluginCommands({
    records: world.pluginRecords,
    catalogue: world.catalogue,
    count: world.countOf,
    format: () => 4,
    ambiguous: () => "",
  });

const keep = (): void => {
  const { catalogue, pluginRecords: records, nodes, clock, log } = world;
  const common = { catalogue, records, clock, log, signal: stop.signal };
  for (const keeper of [
    createPluginKeeper({ ...common, count: world.countOf, emptyForMs: 3_600_000 }),
    createMissedKeeper({ ...common, nodes }),
  ])
    keeper.run().catch(() => undefined);
};

/** The instance of plugin m on the node, like the one that is there; none with undefined. */
const runs = (node: string, change: Partial<NodePlugin> | undefined): void => {
  const plugins = world.nodes.get(node)?.record.plugins ?? [];
  const like = plugins[0];
  if (like === undefined) throw new Error(`${node} has no plugin`);
  const others = plugins.filter(({ name }) => name !== "m");
  const one: NodePlugin = { ...like, name: "m", version: "1", role: "MONOLITH", health: "HEALTHY", ...change };
  world.nodes.set(node, { plugins: change === undefined ? others : [...others, one] });
};

const pass = async (ms: number): Promise<void> => {
  for (let done = 0; done < ms; done += 5_000) {
    await world.clock.advance(5_000);
    await world.idle();
  }
};
const halves = () => commands().view("m")?.summary.node;

beforeEach(async () => {
  world = await createWorld();
  stop = new AbortController();
  keep();
  for (const node of ["n1", "n2"]) runs(node, { capabilities: { "node:STAGE_UNSTAGE_VOLUME": "yes" } });
  await pass(10_000);
  expect(halves()).toEqual({ healthy: 2, expected: 2 });
});
afterEach(async () => {
  stop.abort(new Error("over"));
  await world.close();
});

describe("D8 an instance that went", () => {
  it("is expected until it is back", async () => {
    runs("n1", undefined);
    await pass(missedAfterMs + 10_000);
    expect(halves()).toEqual({ healthy: 1, expected: 2 });
    expect(Object.keys(commands().view("m")?.missed ?? {})).toEqual(["n1"]);
    runs("n1", {});
    expect(halves()).toEqual({ healthy: 2, expected: 2 });
    await pass(10_000);
    expect(world.pluginRecords.get("m")?.record.missed).toBeUndefined();
  });

  it("is expected after its time, whatever is done to the wall clock meanwhile", async () => {
    runs("n1", undefined);
    world.clock.setWall(world.clock.now() + 86_400_000);
    await pass(10_000);
    expect(halves()).toEqual({ healthy: 1, expected: 1 });
    world.clock.setWall(world.clock.now() - 2 * 86_400_000);
    await pass(missedAfterMs);
    expect(halves()).toEqual({ healthy: 1, expected: 2 });
  });

  it("is expected over a restart of the controller", async () => {
    runs("n1", undefined);
    await pass(missedAfterMs + 10_000);
    await world.restart();
    expect(halves()).toEqual({ healthy: 1, expected: 2 });
  });

  it("is expected until a person says that the node shall have none, who is told when one runs", async () => {
    await expect(commands().forgetInstance("m", "n1")).rejects.toMatchObject({ reason: "PLUGIN_IN_USE" });
    runs("n1", undefined);
    await pass(missedAfterMs + 10_000);
    await commands().forgetInstance("m", "n1");
    await commands().forgetInstance("m", "n1");
    expect(halves()).toEqual({ healthy: 1, expected: 1 });
    await pass(missedAfterMs + 10_000);
    expect(halves()).toEqual({ healthy: 1, expected: 1 });
  });

  it("is expected no more once its node is forgotten", async () => {
    runs("n1", undefined);
    await pass(missedAfterMs + 10_000);
    expect(halves()).toEqual({ healthy: 1, expected: 2 });
    world.nodes.remove("n1");
    await pass(10_000);
    expect(halves()).toEqual({ healthy: 1, expected: 1 });
  });

  it("is expected no more when its runner has stopped it", async () => {
    runs("n1", { hosted: true });
    await pass(10_000);
    runs("n1", undefined);
    await pass(missedAfterMs + 10_000);
    expect(halves()).toEqual({ healthy: 1, expected: 1 });
  });

  it("is written nowhere when it was only restarted", async () => {
    const commits = world.store.commits();
    runs("n1", undefined);
    await pass(missedAfterMs - 10_000);
    runs("n1", {});
    await pass(missedAfterMs + 10_000);
    expect(world.store.commits()).toBe(commits);
  });
});

describe("D7 a plugin whose instances are all gone", () => {
  it("is known, with where the last one was and when, and one that never ran is not", async () => {
    runs("n2", undefined);
    await pass(10_000);
    const at = new Date(world.clock.now()).toISOString();
    runs("n1", undefined);
    await pass(10_000);
    expect(world.pluginRecords.names()).toContain("m");
    expect(world.pluginRecords.lastSeen("m")).toBe(`the last one was seen on node n1 at ${at}`);
    expect(commands().view("m")?.summary.missing).toBe(
      `no node has an instance of plugin m; the last one was seen on node n1 at ${at}`,
    );
    await world.pluginRecords.change("never-ran", (record) => ({ ...record, updatedAt: 1 }));
    expect(world.pluginRecords.names()).not.toContain("never-ran");
  });

  it("goes with the setting, when it has neither volume nor profile", async () => {
    for (const node of ["n1", "n2"]) runs(node, undefined);
    await pass(3_600_000);
    expect(commands().view("m")).toBeDefined();
    await pass(180_000);
    expect(commands().view("m")).toBeUndefined();
  });
});

it("[build 6] a while after the start the log says of each plugin how it stands", async () => {
  runs("n1", undefined);
  runs("n2", { health: "UNHEALTHY" });
  const telling = tellPlugins({ commands: commands(), clock: world.clock, log: world.log, signal: stop.signal });
  await pass(tellAfterMs);
  await telling;
  const line = world.log.lines.findLast(({ message }) => /^\d+ plugins, \d+ of them not usable now$/.test(message));
  expect(line?.fields["plugins"]).toContain(
    "m 1: not usable: none of the 1 instances of plugin m on nodes is healthy; node half 0 of 1, controller half 0 of 1",
  );
});
