import { WatchKind } from "@holdfast/shared/gen/holdfast/v1/common";
import type { FenceMethod, WatchPluginsResponse } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ServedApi, serveApi } from "../../../../../test/support/controller/served-api.ts";
import { caller, createWorld, plugin, type World } from "../../../../../test/support/controller/world.ts";
import { createPluginCommands } from "../../commands/plugin/plugin-commands.ts";
import { defaultProfile, type PluginProfile } from "../../domain/plugin/plugin-profile.ts";

let world: World;
let api: ServedApi;

beforeEach(async () => {
  world = await createWorld();
  api = await serveApi(world);
});
afterEach(async () => {
  await api.close();
  await world.close();
});

const profile = {
  maxConcurrentCalls: 3,
  exclusiveMethods: ["CreateSnapshot"],
  codeReadings: [{ csiMethod: "ControllerUnpublishVolume", code: "NOT_FOUND", readAs: "OK" }],
};

describe("a plugin's profile", () => {
  it("that asks for tokens says why none can be signed", async () => {
    const set = await api.plugins.setPluginProfile({ name: "new.example.com", profile });
    expect(set.plugin?.tokensUnsignedBecause).toBe("");
    const asking = { ...profile, tokenRequests: [{ audience: "vault" }] };
    await api.plugins.setPluginProfile({ name: "new.example.com", profile: asking });
    const { plugin } = await api.plugins.getPlugin({ name: "new.example.com" });
    expect(plugin?.profile?.tokenRequests).toEqual([{ audience: "vault", expiration: { seconds: 3600n, nanos: 0 } }]);
    expect(plugin?.tokensUnsignedBecause).toBe("no key is here");
    const { plugins } = await api.plugins.listPlugins({});
    expect(plugins.find(({ name }) => name === "new.example.com")?.tokensUnsignedBecause).toBe("no key is here");
    expect(plugins.filter(({ tokensUnsignedBecause }) => tokensUnsignedBecause !== "")).toHaveLength(1);
  });

  it("is set before the plugin was ever seen, holds with the defaults filled in, and again changes nothing", async () => {
    const first = await api.plugins.setPluginProfile({ name: "new.example.com", profile });
    expect(first.plugin?.profile).toMatchObject({ ...profile, maxConcurrentAttachesPerNode: 1, maxVolumesPerNode: 0n });
    expect(first.plugin?.revision).toBe(1n);
    const commits = world.store.commits();
    expect(await api.plugins.setPluginProfile({ name: "new.example.com", profile, expectedRevision: 1n })).toEqual(
      first,
    );
    // The first answer was lost, and with it the revision that it told.
    expect(
      (await api.plugins.setPluginProfile({ name: "new.example.com", profile, expectedRevision: 9n })).plugin,
    ).toEqual(first.plugin);
    expect(world.store.commits()).toBe(commits);
    expect(await api.plugins.getPlugin({ name: "new.example.com" })).toEqual(first);
    await world.restart();
    expect((await api.plugins.getPlugin({ name: "new.example.com" })).plugin?.profile).toEqual(first.plugin?.profile);
  });

  it("is replaced only over the revision that the caller has read", async () => {
    await api.plugins.setPluginProfile({ name: "p", profile });
    const other = { ...profile, maxConcurrentCalls: 4 };
    await expect(
      api.plugins.setPluginProfile({ name: "p", profile: other, expectedRevision: 7n }),
    ).rejects.toMatchObject({
      reason: "REVISION_CONFLICT",
    });
    const { plugin } = await api.plugins.setPluginProfile({ name: "p", profile: other, expectedRevision: 1n });
    expect(plugin).toMatchObject({ revision: 2n, profile: { maxConcurrentCalls: 4 } });
  });

  it("names a pool that other plugins name too: with whom, what they say otherwise, and what nodes have of it", async () => {
    const pooled = (name: string, attachPoolLimit: bigint) =>
      api.plugins.setPluginProfile({ name, profile: { attachPool: "nitro", attachPoolLimit } });
    const alone = await pooled(plugin, 28n);
    expect(alone.plugin).toMatchObject({ attachPoolWith: [], findings: [], profile: { attachPoolLimit: 28n } });
    await pooled("other.example", 20n);
    const { plugin: shown } = await api.plugins.getPlugin({ name: plugin });
    expect(shown).toMatchObject({
      attachPoolWith: ["other.example"],
      findings: [
        `the profile of plugin ${plugin} says 28 attachments a node for pool nitro, that of plugin other.example says 20: the smallest counts; say one number in all of them with holdfast plugin profile`,
      ],
    });
    await world.makeVolume("a");
    await world.claim("w1", "n1", ["a"]);
    await world.idle();
    expect((await api.nodes.getNode({ name: "n1" })).node?.attachSlots).toMatchObject([
      {
        plugin,
        used: 1n,
        pool: {
          ...{ name: "nitro", used: 1n, limit: 20n, limitBy: "other.example" },
          plugins: [
            { plugin, used: 1n },
            { plugin: "other.example", used: 0n },
          ],
        },
      },
    ]);
  });

  it("names no pool in a store that a controller of an earlier release may grant from", async () => {
    const commands = createPluginCommands({
      ...{ records: world.pluginRecords, catalogue: world.catalogue, count: world.countOf, ambiguous: () => "" },
      format: () => 3,
    });
    const set = (change: Partial<PluginProfile>) =>
      commands.setProfile({ name: plugin, profile: { ...defaultProfile, ...change }, expectedRevision: 0 }, caller);
    await expect(set({ attachPool: "nitro", attachPoolLimit: 28 })).rejects.toMatchObject({
      reason: "UPGRADE_UNFINISHED",
      metadata: { plugin, format: "3", needed: "4" },
    });
    expect(world.pluginRecords.inPool("nitro")).toEqual([]);
    await set({ maxVolumesPerNode: 3 });
  });

  it("that is wrong is refused whole, with every violation", async () => {
    const wrong = {
      ...profile,
      maxConcurrentCalls: 100_000,
      fence: 9 as FenceMethod,
      codeReadings: [{ csiMethod: "CreateVolume", code: "INTERNAL", readAs: "OK" }],
    };
    const error = await api.plugins.setPluginProfile({ name: "a b", profile: wrong }).catch((e: unknown) => e);
    expect(error).toMatchObject({ kind: "invalid", reason: "INVALID_ARGUMENT" });
    expect((error as { violations: { field: string }[] }).violations.map(({ field }) => field).sort()).toEqual([
      "name",
      "profile.code_readings[0].read_as",
      "profile.fence",
      "profile.max_concurrent_calls",
    ]);
    expect(world.pluginRecords.list()).toEqual([]);
  });
});

describe("plugins that are watched", () => {
  const patient = { timeout: 30_000 };
  const watching = (resumeToken = "") => {
    const stop = new AbortController();
    const messages: WatchPluginsResponse[] = [];
    const ended = (async () => {
      for await (const message of api.plugins.watchPlugins({ resumeToken }, { signal: stop.signal }))
        messages.push(message);
    })().catch((error: unknown) => error);
    return {
      messages,
      ended,
      async stop() {
        stop.abort();
        await ended;
      },
    };
  };

  it("[W38] tell what is there, what changes, what is gone, and from a token what was missed", async () => {
    const first = watching();
    await expect.poll(() => first.messages.length, patient).toBe(2);
    expect(first.messages.map(({ kind }) => kind)).toEqual([
      WatchKind.WATCH_KIND_EXISTING,
      WatchKind.WATCH_KIND_SYNCED,
    ]);
    await api.plugins.setPluginProfile({ name: "p", profile });
    await expect.poll(() => first.messages.at(-1)?.plugin?.profile?.maxConcurrentCalls, patient).toBe(3);
    const token = first.messages.at(-1)?.resumeToken;
    await first.stop();
    await api.plugins.deletePlugin({ name: "p" });
    const resumed = watching(token);
    await expect.poll(() => resumed.messages.length, patient).toBe(1);
    expect(resumed.messages[0]).toMatchObject({ kind: WatchKind.WATCH_KIND_REMOVED, plugin: { name: "p" } });
    await resumed.stop();
    await world.restart();
    expect(await watching(token).ended).toMatchObject({ reason: "EVENTS_TRIMMED" });
  });

  it("[W25] count their volumes by the index, and show how each half is", async () => {
    for (const id of ["a", "b"]) await world.makeVolume(id);
    const reads = world.store.reads();
    const { plugin: found } = await api.plugins.getPlugin({ name: plugin });
    expect(world.store.reads() - reads).toBeLessThanOrEqual(1);
    expect(found).toMatchObject({ volumeCount: 2n, node: { healthy: 3n, expected: 3n } });
    await expect(api.plugins.deletePlugin({ name: plugin })).rejects.toMatchObject({ reason: "PLUGIN_IN_USE" });
    await expect(api.plugins.deletePlugin({ name: "" })).rejects.toMatchObject({ violations: [{ field: "name" }] });
  });
});
