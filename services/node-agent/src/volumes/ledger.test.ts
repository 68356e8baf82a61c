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

  test.each([
    ["null", null],
    ["no object", 7],
    ["an agent's record without a type", { a: null }],
    ["an epoch that is none", { a: { type: "node-epoch", nodeEpoch: null, clusterUid: "c" } }],
    ["a promise below zero", { a: { type: "promised-gen", gen: -1 } }],
    [
      "a dead epoch of half a step",
      { v: "u", r: { type: "dead", ref: {}, claimUid: "k", epoch: { gen: 1, ctr: 0.5 } } },
    ],
    ["a rewritten agent", { f: { nodeEpoch: "1", promisedGen: 0 } }],
    ["a rewritten volume", { s: { ref: { volumeUid: "u" }, floor: { gen: 1 }, dead: [], claims: {} } }],
  ])("%s in it is damage, and no end of the agent", (_what, entry) => {
    const { fault, agent } = foldRecords([prepared, entry]);
    expect(fault).toMatch(/a record that cannot be read|a number that orders are judged by is none/);
    expect(agent.plugins.entries).toHaveLength(1);
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

  test("a record of a later version is damage, and what stood before it is kept", () => {
    for (const later of [{ type: "comet" }, { type: "plugin", change: { type: "moved", allocation: "a" } }]) {
      const { agent, fault } = foldRecords([prepared, { a: later }, registered]);
      expect(fault).toContain("the agent itself: a record of unknown type");
      expect(agent.plugins.entries).toMatchObject([{ order: 0 }]);
    }
  });
});
