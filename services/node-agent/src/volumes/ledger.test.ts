import { describe, expect, test } from "vitest";
import { emptyRegistry } from "../domain/plugin-registry.ts";
import { hosted } from "../testing/host-rig.ts";
import { foldRecords } from "./ledger.ts";

const prepared = { a: { type: "plugin", change: { type: "prepared", instance: hosted("a") } } };
const registered = { a: { type: "plugin", change: { type: "registered", allocation: "a", at: 7, nodeId: "n" } } };

describe("what the journal says of the agent itself", () => {
  test("hosted plugins are the fold of their records, after any number of them", () => {
    expect(foldRecords([]).agent.plugins).toEqual(emptyRegistry);
    expect(foldRecords([prepared]).agent.plugins.entries).toMatchObject([{ order: 0, registeredAt: 0, nodeId: "" }]);
    const both = foldRecords([prepared, registered]);
    expect(both.agent.plugins.entries).toMatchObject([{ order: 1, registeredAt: 7, nodeId: "n" }]);
    expect(foldRecords([{ f: both.agent }]).agent).toEqual(both.agent);
    expect(
      foldRecords([{ f: both.agent }, { a: { type: "plugin", change: { type: "removed", allocation: "a" } } }]).agent
        .plugins,
    ).toEqual({ entries: [], lastOrder: 1 });
  });

  test("a file that an earlier version rewrote knows no plugins, and all else", () => {
    const { agent, fault } = foldRecords([{ f: { nodeEpoch: 3, clusterUid: "c", promisedGen: 1, bootId: "b" } }]);
    expect(fault).toBeUndefined();
    expect(agent).toMatchObject({ nodeEpoch: 3, clusterUid: "c", promisedGen: 1, bootId: "b", plugins: emptyRegistry });
  });

  const epoch = { gen: 1, ctr: 1 };
  const ref = { namespace: "ns", volume: "data", volumeUid: "u", externalId: "e", plugin: "p" };
  const stage = { phase: "unstaged", needed: true, path: "/s", shown: [], marks: [], before: [] };
  const state = { ref, floor: epoch, dead: [], stage, claims: {} };
  const facts = { nodeEpoch: 1, clusterUid: "c", promisedGen: 1, promisedTo: "", bootId: "b" };
  const sight = { shown: [1], marks: [], before: [] };
  const workload = { namespace: "ns", workload: "w" };
  const wanted = (volumes: unknown) => ({
    a: { type: "workload", record: { ...workload, type: "wanted", digest: "d", volumes } },
  });
  const volume = { alias: "a", volume: "data", readOnly: false, places: [] };
  const dead = { type: "dead", ref, claimUid: "k", epoch, late: true };

  test.each([
    ["null", null, "an entry of no kind"],
    ["no object", 7, "an entry of no kind"],
    ["an entry of a later version", { z: {} }, "an entry of no kind"],
    ["an agent's record without a type", { a: null }, "a is null, not an object"],
    ["an epoch that is none", { a: { type: "node-epoch", nodeEpoch: null, clusterUid: "c" } }, "nodeEpoch is null"],
    ["a promise below zero", { a: { type: "promised-gen", gen: -1 } }, "a.gen is -1, not a whole number"],
    [
      "a dead epoch of half a step",
      { v: "u", r: { ...dead, epoch: { gen: 1, ctr: 0.5 } } },
      "volume u: r.epoch.ctr is 0.5",
    ],
    ["a rewritten agent", { f: { ...facts, nodeEpoch: "1" } }, 'the agent itself: f.nodeEpoch is "1"'],
    [
      "a rewritten agent's workload",
      { f: { ...facts, workloads: { "ns/w": workload } } },
      "f.workloads.ns/w.digest is missing",
    ],
    ["a rewritten volume", { s: { ...state, floor: { gen: 1 } } }, "volume u: s.floor.ctr is missing"],
    ["a phase that is none", { s: { ...state, stage: { ...stage, phase: "comet" } } }, 's.stage.phase is "comet"'],
    ["a mount id that is none", { v: "u", r: { type: "staged", ...sight, shown: [epoch] } }, "r.shown.0 is {"],
    ["a mark that is none", { v: "u", r: { type: "staged", ...sight, marks: [7] } }, "r.marks.0 is 7, not an object"],
    ["volumes of a workload that are none", wanted([{ nodeEpoch: 0.5 }]), "a.record.volumes.0.alias is missing"],
    ["places that are none", wanted([{ ...volume, places: [7] }]), "a.record.volumes.0.places.0 is 7"],
    ["a record of a later version", { a: { type: "comet" } }, 'the agent itself: a.type is "comet", not one of'],
    [
      "a workload's, too",
      { a: { type: "workload", record: { ...workload, type: "comet" } } },
      'a.record.type is "comet"',
    ],
    ["Docker's, too", { a: { type: "docker", record: { volume: "v", type: "comet" } } }, 'a.record.type is "comet"'],
    [
      "a plugin's, too",
      { a: { type: "plugin", change: { type: "moved", allocation: "a" } } },
      'a.change.type is "moved"',
    ],
    ["a volume's, too", { v: "u", r: { type: "constructor" } }, 'volume u: r.type is "constructor"'],
    [
      "the name of what every object has",
      { v: "u", r: { ...dead, type: "forgotten", claimUid: "constructor" } },
      "volume u: ",
    ],
    ["a volume without a name", { v: { toString: 1 }, r: dead }, "a volume: v is {"],
    ["what the machine does not allow", { v: "u", r: { type: "unstaged" } }, "volume u: "],
  ])("L2: %s in it is damage, no end of the agent, and what stood before it is kept", (_what, entry, told) => {
    const { fault, agent } = foldRecords([prepared, entry, registered]);
    expect(fault).toContain(told);
    expect(agent.plugins.entries).toMatchObject([{ order: 0 }]);
  });

  test("what is written otherwise in one place alone is taken where it is sound", () => {
    for (const entry of [{ f: facts }, { s: state }, { v: "u", r: dead }, wanted([volume])])
      expect(foldRecords([entry]).fault).toBeUndefined();
  });

  test("a generation is promised to one vetting, and by records of an earlier version to nobody", () => {
    const promise = (gen: number, uid?: string) => ({
      a: { type: "promised-gen", gen, ...(uid === undefined ? {} : { uid }) },
    });
    const after = (...entries: readonly unknown[]) => {
      const { promisedGen, promisedTo } = foldRecords(entries).agent;
      return [promisedGen, promisedTo];
    };
    expect(after()).toEqual([0, ""]);
    expect(after(promise(2))).toEqual([2, ""]);
    expect(after(promise(2), promise(2, "mine"), promise(2, "other"), promise(1, "earlier"))).toEqual([2, "mine"]);
    expect(after(promise(2, "mine"), promise(3, "later"))).toEqual([3, "later"]);
  });
});
