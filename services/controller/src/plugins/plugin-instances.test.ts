import { allCaps, controllerCaps, groupCaps, nodeCaps, pluginCaps } from "@holdfast/csi/capabilities";
import type { PluginConnection } from "@holdfast/csi/plugin-connection";
import type { WireReply } from "@holdfast/csi/transport";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createTracing } from "@holdfast/shared/tracing";
import { beforeEach, describe, expect, test } from "vitest";
import type { InstancePlace } from "../domain/plugin/instance-reach.ts";
import type { PluginProfile } from "../domain/plugin/plugin-profile.ts";
import { attachmentRecord, volumeRecord } from "../domain/testing/record-fixtures.ts";
import type { Segments, VolumeRecord } from "../domain/volume/volume.ts";
import { createPluginGovernor } from "../reconcile/plugin/plugin-governor.ts";
import { createSecrets } from "../secrets/secrets.ts";
import { createControllerPlugins } from "./controller-plugins.ts";
import type { HalfOnNode } from "./halves-on-nodes.ts";
import { createPluginInstances } from "./plugin-instances.ts";

const facts = {
  name: "p",
  version: "1",
  manifest: {},
  role: "controller",
  plugin: allCaps(pluginCaps, "yes"),
  controller: allCaps(controllerCaps, "yes"),
  node: allCaps(nodeCaps, "no"),
  group: allCaps(groupCaps, "no"),
} as const;

const half = (name: string): HalfOnNode => ({
  node: { name, address: `${name}:1` } as HalfOnNode["node"],
  facts,
  usable: true,
  why: "",
});

const place = (node: string, segments: Segments = {}, monolith = false): InstancePlace => ({
  node,
  nodeId: `id-${node}`,
  monolith,
  segments,
});

let halves: HalfOnNode[];
let places: InstancePlace[];
let reach: PluginProfile["reach"];
let answers: Record<string, WireReply>;
let calls: string[];
let forgotten: string[];
let changed: () => void;
let readings: Record<string, string>;
let clock: ReturnType<typeof createManualClock>;

const ok: WireReply = { bytes: new Uint8Array() };
const refused: WireReply = { failure: { code: "NOT_FOUND", message: "no such volume", sent: true } };
const gone: WireReply = { failure: { code: "UNAVAILABLE", message: "gone", sent: true } };

const build = ({ local, besideOnly = () => false }: { local?: PluginConnection; besideOnly?: () => boolean } = {}) => {
  clock = createManualClock();
  const guide = createPluginGovernor({
    allowed: () => ({ maxConcurrentCalls: 64, maxConcurrentAttachesPerNode: 1, exclusiveMethods: [] }),
    current: (plugin) => instances.current({ plugin }),
    clock,
    random: () => 0.5,
    log: createMemoryLogger(),
    signal: new AbortController().signal,
  });
  const instances = createPluginInstances({
    directory: { list: () => (local === undefined ? [] : [local]), onChange: () => () => undefined },
    halves: {
      of: () => halves,
      at: (_plugin, node) => halves.find((one) => one.node.name === node),
      places: () => places,
      placeAt: (_plugin, node) => places.find((one) => one.node === node),
      monoliths: () => places.filter(({ monolith }) => monolith).length,
      announced: () => "yes",
      names: () => ["p"],
      onChange(listener) {
        changed = () => listener("p");
        return () => true;
      },
    },
    lines: {
      transportTo: (name) => ({
        async unary(method) {
          calls.push(`${method} at ${name}`);
          return answers[name] ?? ok;
        },
        async *stream() {},
      }),
      forget: (node) => void forgotten.push(node),
    },
    clock,
    tracing: createTracing("test"),
    guide,
    reading: (_plugin, method, code) => readings[`${method} ${code}`] ?? code,
    besideControllerOnly: besideOnly,
    reach: () => reach,
  });
  const plugins = createControllerPlugins({
    gates: { quiesce: async () => ({ kind: "away", words: "no bar stands here" }) },
    instances,
    guide,
    secrets: createSecrets({ env: {}, log: createMemoryLogger() }),
    log: createMemoryLogger(),
    ownerOf: async () => undefined,
    announcedByNodes: () => "yes",
  });
  const detach = () =>
    plugins.unpublish(
      volumeRecord([], [], { plugin: "p", externalId: "e" }),
      attachmentRecord("n1", { nodeId: "id-1" }),
      { signal: new AbortController().signal, attempt: 1 },
    );
  return { instances, plugins, detach };
};

beforeEach(() => {
  halves = [half("a"), half("b")];
  places = [place("a"), place("b")];
  reach = "auto";
  answers = {};
  calls = [];
  forgotten = [];
  readings = {};
});

describe("a controller half on nodes", () => {
  test("N1 N3 is called at one instance, and at the other when that one is gone: the outcome comes back first", async () => {
    const { detach, plugins } = build();
    expect(await detach()).toMatchObject({ kind: "done" });
    expect(await detach()).toMatchObject({ kind: "done" });
    answers = { a: gone };
    // The doubt about the first call is told, and that the next one may follow at once; it is not made in here.
    expect(await detach()).toMatchObject({ kind: "unknown", failure: { code: "UNAVAILABLE" } });
    expect(await detach()).toMatchObject({ kind: "done" });
    expect(calls.map((one) => one.split(" at ")[1])).toEqual(["a", "a", "a", "b"]);
    // b is the one that is called now, also when a has rested.
    answers = {};
    await clock.advance(60_000);
    await detach();
    expect(calls.at(-1)).toContain("at b");
    expect(plugins.facts("p")).toMatchObject({ ready: true, attaches: "yes" });
  });

  test("N2 when every instance failed, the one whose rest ends first is tried", async () => {
    const { detach } = build();
    answers = { a: gone, b: gone };
    await detach();
    await clock.advance(10);
    await detach();
    await detach();
    expect(calls.map((one) => one.split(" at ")[1])).toEqual(["a", "b", "a"]);
  });

  test("N2 when several volumes in a row have no answer of it, calls that have not left go to another; one that left stays", async () => {
    const { plugins, instances } = build();
    const late: WireReply = { failure: { code: "DEADLINE_EXCEEDED", message: "late", sent: true } };
    const detachOf = (id: string, openSince?: number) =>
      plugins.unpublish(
        volumeRecord([], [], {
          id,
          plugin: "p",
          externalId: id,
          intent: {
            op: "detach",
            node: "n1",
            epoch: { gen: 1, ctr: 1 },
            opId: "o",
            issuer: "c1/1",
            via: "node a: p",
            ...(openSince === undefined ? {} : { openSince }),
          },
        }),
        attachmentRecord("n1", { nodeId: "id-1" }),
        { signal: new AbortController().signal, attempt: 1, wanted: async () => ({}) },
      );
    answers = { a: late };
    for (const id of ["x", "y", "z"])
      expect(await detachOf(id)).toMatchObject({ failure: { code: late.failure.code } });
    expect(instances.current({ plugin: "p" })?.id).toBe("node b: p");
    const before = calls.length;
    expect(await detachOf("v")).toMatchObject({
      kind: "unknown",
      failure: { reason: "PLUGIN_NOT_READY", call: "not-sent", advice: "again" },
    });
    expect(calls).toHaveLength(before);
    await detachOf("x", 1);
    expect(calls.slice(before)).toEqual(["ControllerUnpublishVolume at a"]);
    // There is no other one: it is asked all the same.
    halves = [half("a")];
    changed();
    await detachOf("v");
    expect(calls.slice(before)).toEqual(["ControllerUnpublishVolume at a", "ControllerUnpublishVolume at a"]);
  });

  test("N6 another process of an instance is trusted at once, also when it is not the one that is called", async () => {
    const { detach, instances } = build();
    answers = { a: gone };
    await detach();
    expect(instances.current({ plugin: "p" })?.id).toBe("node b: p");
    changed();
    expect(instances.current({ plugin: "p", via: "node a: p" })?.rests).toBe(true);
    halves = [{ ...half("a"), facts: { ...facts } }, half("b")];
    changed();
    expect(instances.current({ plugin: "p", via: "node a: p" })?.rests).toBe(false);
  });

  test("an answer of the plugin that is no UNAVAILABLE never moves calls to another instance", async () => {
    const { detach } = build();
    for (const code of ["INTERNAL", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED"] as const) {
      answers = { a: { failure: { code, message: "no", sent: true } } };
      const outcome = await detach();
      expect(outcome).toMatchObject({ kind: "unknown", failure: { code } });
    }
    expect(new Set(calls)).toEqual(new Set(["ControllerUnpublishVolume at a"]));
  });

  test("W8: N4 a half that is not usable gets no call, its reason is told, and no capability turns into a no", async () => {
    halves = [{ ...half("a"), usable: false, why: "the agent of node a is silent" }];
    const { detach, plugins } = build();
    expect(await detach()).toMatchObject({ kind: "unknown", failure: { reason: "PLUGIN_NOT_READY" } });
    expect(plugins.facts("p")).toMatchObject({
      ready: false,
      reason: expect.stringContaining("agent of node a is silent"),
    });
    // What it could do when it was seen is still known: nothing turns into "no".
    expect(plugins.facts("p").attaches).toBe("yes");
    expect(calls).toEqual([]);
  });

  test("is not called when the profile keeps the plugin's secrets with the controllers", async () => {
    const { detach, plugins } = build({ besideOnly: () => true });
    expect(await detach()).toMatchObject({ kind: "unknown", failure: { reason: "PLUGIN_NOT_READY" } });
    expect(plugins.facts("p").reason).toContain("beside the controller");
    expect(calls).toEqual([]);
  });

  test("W19: the connection to a node is kept from call to call, and closed when the node has nothing left to call", async () => {
    const { detach } = build();
    await detach();
    await detach();
    changed();
    expect(forgotten).toEqual([]);
    halves = [half("b")];
    changed();
    expect(forgotten).toEqual(["a"]);
  });

  test("C24: one UNIMPLEMENTED is one call, until the capabilities were read anew", async () => {
    const { detach } = build();
    answers = { a: { failure: { code: "UNIMPLEMENTED", message: "no", sent: true } } };
    expect(await detach()).toMatchObject({ failure: { code: "UNIMPLEMENTED" } });
    expect(await detach()).toMatchObject({ failure: { code: "UNAVAILABLE", call: "not-sent" } });
    expect(calls).toHaveLength(1);
    halves = [{ ...half("a"), facts: { ...facts } }];
    answers = {};
    expect(await detach()).toMatchObject({ kind: "done" });
    expect(calls).toHaveLength(2);
  });

  test("C08: a call is never relayed whose capability the plugin did not announce; unknown waits and is no refusal", async () => {
    const { detach } = build();
    const without = (standing: "no" | "unknown") => ({
      ...facts,
      controller: { ...facts.controller, PUBLISH_UNPUBLISH_VOLUME: standing },
    });
    halves = [{ ...half("a"), facts: without("no") }];
    expect(await detach()).toMatchObject({ kind: "refused", failure: { code: "UNIMPLEMENTED" } });
    halves = [{ ...half("a"), facts: without("unknown") }];
    expect(await detach()).toMatchObject({ kind: "unknown", failure: { code: "UNAVAILABLE" } });
    expect(calls).toEqual([]);
  });

  test("is found among ten thousand without looking at them all, and changes of the others are nobody's news", async () => {
    let looks = 0;
    halves = Array.from({ length: 10_000 }, (_, n) => ({
      ...half(`n${String(n).padStart(5, "0")}`),
      get usable() {
        looks += 1;
        return true;
      },
    }));
    const { detach, instances } = build();
    const heard: string[] = [];
    instances.onChange((plugin) => void heard.push(plugin));
    changed();
    for (let n = 0; n < 10; n += 1) await detach();
    expect(new Set(calls)).toEqual(new Set(["ControllerUnpublishVolume at n00000"]));
    expect(looks).toBeLessThan(100);
    halves.splice(5_000, 1);
    changed();
    expect(heard).toEqual(["p"]);
    halves.shift();
    changed();
    expect(heard).toEqual(["p", "p"]);
  });

  test("N6 is told when it comes back and was given a call, although another one has been chosen since", async () => {
    const { detach, instances } = build();
    const [a, b] = halves as [HalfOnNode, HalfOnNode];
    const via = "node a: p";
    expect(instances.current({ plugin: "p", via })?.id).toBe(via);
    changed();
    const away = { ...a, usable: false, why: "silent" };
    halves = [away, b];
    changed();
    await detach();
    const heard: string[] = [];
    instances.onChange((plugin) => void heard.push(plugin));
    for (const [now, times] of [
      [a, 1],
      [a, 1],
      [away, 1],
      [a, 2],
    ] as const) {
      halves = [now, b];
      // Whoever looks first takes the news from nobody.
      instances.current({ plugin: "p", via });
      changed();
      expect(heard).toHaveLength(times);
    }
    expect(instances.current({ plugin: "p" })?.id).toBe("node b: p");
  });

  test("N7 has no call of a life of its node that it does not speak for, and every other", () => {
    const { instances } = build();
    const [a, b] = halves as [HalfOnNode, HalfOnNode];
    const via = "node a: p";
    const callable = (gateEpoch?: number) => instances.current({ plugin: "p", via, gateEpoch })?.gateEpoch;
    const isNode = (changes: Partial<HalfOnNode["node"]>): void => {
      halves = [{ ...a, node: { ...a.node, nodeEpoch: 2, ...changes } }, b];
    };
    isNode({ speaksFrom: 2 });
    expect([callable(1), callable(2), callable()]).toEqual([undefined, 2, 2]);
    // A person has said that the life before is over.
    isNode({});
    expect(callable(1)).toBe(2);
  });

  test("is called as soon as the profile allows it", () => {
    let besideOnly = true;
    const { instances } = build({ besideOnly: () => besideOnly });
    const heard: string[] = [];
    instances.onChange((plugin) => void heard.push(plugin));
    expect(instances.current({ plugin: "p" })).toBeUndefined();
    instances.reconsider("p");
    besideOnly = false;
    instances.reconsider("p");
    expect([heard.length, instances.current({ plugin: "p" })?.at.node]).toEqual([2, "a"]);
  });

  test("a driver that answers NOT_FOUND to a detach for everything is believed only where its profile says so", async () => {
    const { detach } = build();
    answers = { a: { failure: { code: "NOT_FOUND", message: "no such node", sent: true, answered: true } } };
    expect(await detach()).toMatchObject({ kind: "unknown", failure: { reason: "DETACH_UNPROVEN" } });
    readings = { "ControllerUnpublishVolume NOT_FOUND": "OK" };
    expect(await detach()).toMatchObject({ kind: "done" });
    readings = { "ControllerUnpublishVolume INVALID_ARGUMENT": "UNAVAILABLE" };
    answers = { a: { failure: { code: "INVALID_ARGUMENT", message: "busy", sent: true } } };
    expect(await detach()).toMatchObject({
      kind: "unknown",
      failure: { code: "UNAVAILABLE", message: expect.stringContaining("read as UNAVAILABLE by the plugin's profile") },
    });
    // What never left is not the driver's word.
    answers = { a: { failure: { code: "INVALID_ARGUMENT", message: "too long", sent: false } } };
    expect(await detach()).toMatchObject({ failure: { code: "INVALID_ARGUMENT" } });
  });

  describe("N5: instances that reach only their own places", () => {
    const at = (node: string, more: Partial<VolumeRecord> = {}) =>
      volumeRecord([], [], {
        plugin: "p",
        topology: { required: [], preferred: [], accessible: [{ host: node }] },
        ...more,
      });
    const call = () => ({ signal: new AbortController().signal, attempt: 1 });
    const awayAt = (node: string) => {
      halves = halves.map((one) => (one.node.name === node ? { ...one, usable: false, why: "gone" } : one));
      changed();
    };
    beforeEach(() => {
      places = [place("a", { host: "a" }, true), place("b", { host: "b" }, true)];
    });

    test("a call goes where the volume is, and waits for that instance: never to the other", async () => {
      const { plugins } = build();
      expect(await plugins.deleteVolume(at("b"), call())).toMatchObject({ kind: "done" });
      expect(calls).toEqual(["DeleteVolume at b"]);
      answers = { b: gone };
      await plugins.deleteVolume(at("b"), call());
      awayAt("b");
      expect(await plugins.deleteVolume(at("b"), call())).toMatchObject({
        kind: "unknown",
        failure: { reason: "PLUGIN_NOT_READY", message: expect.stringContaining("node b: host=b"), advice: "again" },
      });
      expect(calls).toEqual(["DeleteVolume at b", "DeleteVolume at b"]);
      expect(plugins.facts("p").ready).toBe(true);
    });

    test("each instance that comes or goes is told: volumes wait for that one", () => {
      const { instances } = build();
      const heard: string[] = [];
      instances.onChange((plugin) => void heard.push(plugin));
      awayAt("b");
      awayAt("b");
      expect(heard).toEqual(["p", "p"]);
    });

    test("a home is the place of an instance that can be called, and only before a place is known", () => {
      const { plugins } = build();
      const unmade = at("x", {
        externalId: "",
        state: "CREATING",
        topology: { required: [], preferred: [{ host: "b" }], accessible: [] },
      });
      expect(plugins.homeFor(unmade)).toEqual({ host: "b" });
      awayAt("b");
      expect(plugins.homeFor(unmade)).toEqual({ host: "a" });
      expect(plugins.homeFor({ ...unmade, home: { host: "b" } })).toBeUndefined();
      reach = "all";
      expect(plugins.homeFor(unmade)).toBeUndefined();
    });

    test("several without topology are never called before the profile says that they are equal", async () => {
      places = [place("a", {}, true), place("b", {}, true)];
      const { plugins } = build();
      expect(await plugins.deleteVolume(at("b"), call())).toMatchObject({
        kind: "unknown",
        failure: { reason: "PLUGIN_AMBIGUOUS", advice: "block" },
      });
      expect(plugins.facts("p")).toMatchObject({ ambiguous: true, reason: expect.stringContaining("reach: all") });
      expect(calls).toEqual([]);
      reach = "all";
      expect(await plugins.deleteVolume(at("b"), call())).toMatchObject({ kind: "done" });
      expect(plugins.facts("p").ambiguous).toBeUndefined();
    });

    test("R2: where no record says the place every instance is asked, and none that does not say so is called", async () => {
      const { plugins } = build();
      const unplaced = at("x", { topology: { required: [], preferred: [], accessible: [] } });
      answers = { a: refused, b: refused };
      expect(await plugins.deleteVolume(unplaced, call())).toMatchObject({
        kind: "unknown",
        failure: { reason: "PLACE_UNKNOWN", advice: "block" },
      });
      expect(calls.toSorted()).toEqual(["ControllerGetVolume at a", "ControllerGetVolume at b"]);
    });

    test("room is asked of the instance in that place, and of all instances without a place", async () => {
      const { plugins } = build();
      const query = { plugin: "p", capabilities: [], parameters: {} };
      await plugins.getCapacity({ ...query, topology: { host: "b" } }, call());
      expect(calls).toEqual(["GetCapacity at b"]);
      await plugins.getCapacity(query, call());
      expect(calls.slice(1)).toEqual(["GetCapacity at a", "GetCapacity at b"]);
    });

    test("a listing asks one after the other, and ends with a failure when one is away", async () => {
      const { plugins } = build();
      const list = async () => {
        const seen: string[] = [];
        let token = "";
        do {
          const page = await plugins.listings.volumes("p", { token, max: 10 }, call().signal);
          seen.push(page.kind === "done" ? "page" : page.failure.message);
          token = page.kind === "done" ? page.value.next : "";
        } while (token !== "");
        return seen;
      };
      expect(await list()).toEqual(["page", "page"]);
      expect(calls).toEqual(["ListVolumes at a", "ListVolumes at b"]);
      expect(plugins.listings.tells(at("b"))).toBe(true);
      awayAt("b");
      expect(await list()).toEqual(["page", expect.stringContaining("node b")]);
      expect(plugins.listings.tells(at("b"))).toBe(false);
      expect(await plugins.listings.volume("p", "e", call().signal)).toMatchObject({ kind: "unknown" });
    });
  });
});

test("a socket that announces the name of another is never called, and is why the plugin is not there", () => {
  halves = [];
  const status = { phase: "quarantined", since: 0, reason: "run accept", impostorOf: "p" } as const;
  const posing = { socketPath: "/p/b.sock", status: () => status } as unknown as PluginConnection;
  const { instances } = build({ local: posing });
  expect(instances.current({ plugin: "p" })).toBeUndefined();
  expect(instances.absent("p")).toMatchObject({ facts: undefined, why: "run accept" });
});
