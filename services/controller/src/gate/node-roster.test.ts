import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { describe, expect, it } from "vitest";
import type { NodeView } from "../ports.ts";
import { createNodeRoster } from "./node-roster.ts";

const view = (name: string, nodeEpoch: number, state = "READY") => ({ record: { name, nodeEpoch, state } }) as NodeView;

const build = (kept: readonly string[], ...registered: readonly string[]) => {
  const clock = createManualClock();
  let names = registered;
  const written: string[] = [];
  const epochs = new Map<string, number>();
  const fenced = new Set<string>();
  const list = () => names.map((name) => view(name, epochs.get(name) ?? 1, fenced.has(name) ? "FENCING" : "READY"));
  const lineage = { nodes: () => kept, keepNodes: (all: readonly string[]) => void written.push(all.join()) };
  const roster = createNodeRoster({ nodes: { list }, lineage, clock });
  const become = (...now: readonly string[]): void => {
    names = now;
  };
  const missing = (): readonly string[] => roster.missing().map(({ node, kind }) => `${kind} ${node}`);
  return { clock, roster, become, written, missing, epochs, fenced };
};

describe("the nodes that a controller keeps beside the store", () => {
  it("[NR1] are written once for all that come at the same time", async () => {
    const { clock, roster, become, written } = build([]);
    become("a", "b");
    for (const name of ["a", "b", "a"]) roster.changed(name, false);
    expect(written).toEqual([]);
    await clock.advance(50);
    expect(written).toEqual(["a 1,b 1"]);
    expect(clock.pending()).toBe(0);
  });

  it("[NR1] are written at once at a stop, and only if something came", () => {
    const { clock, roster, become, written } = build([]);
    roster.flush();
    become("a");
    roster.changed("a", true);
    roster.flush();
    roster.flush();
    expect(written).toEqual(["a 1"]);
    expect(clock.pending()).toBe(0);
  });

  it("[NR2] one that was in use after its fence, of which the store knows the fence alone, says that and what to run", () => {
    const { roster, fenced } = build(["a 2"], "a");
    fenced.add("a");
    const [found] = roster.missing();
    expect(found?.message).toContain("was in use after it was fenced, and the store knows the fence alone");
    expect(found?.message).toContain("holdfast repair vet --accept --reason");
  });

  it("[NR1] [NR2] one that goes is forgotten while the store is vetted, and missed while it is not", async () => {
    const { clock, roster, become, written, missing } = build(["a 1", "b 1", "c 1"], "a", "b", "c");
    expect(missing()).toEqual([]);
    become("c");
    roster.changed("a", true);
    roster.changed("b", false);
    await clock.advance(50);
    expect(written).toEqual(["b 1,c 1"]);
    expect(missing()).toEqual(["FORGOTTEN_NODE b"]);
  });

  it("[NR2] one that the store lost is missed by the next process, too, until it registers", () => {
    const { become, missing } = build(["a 1", "b 1"], "a");
    expect(missing()).toEqual(["FORGOTTEN_NODE b"]);
    become("a", "b");
    expect(missing()).toEqual([]);
  });

  it("[NR2] those of a vetted store are all that there are", () => {
    const { roster, written, missing } = build(["b 1"], "a");
    roster.settle();
    roster.settle();
    expect(written).toEqual(["a 1"]);
    expect(missing()).toEqual([]);
  });

  it("[NR2] one of which the store knows a lower node epoch is missed: another life of it may hold something", async () => {
    const { clock, roster, written, missing, epochs } = build(["a 1"], "a");
    epochs.set("a", 2);
    roster.changed("a", false);
    await clock.advance(50);
    expect(written).toEqual(["a 2"]);
    epochs.set("a", 1);
    roster.changed("a", false);
    expect(missing()).toEqual(["FORGOTTEN_NODE a"]);
    expect(roster.missing()[0]?.message).toContain("had node epoch 2, and the store knows node epoch 1");
    epochs.set("a", 3);
    expect(missing()).toEqual([]);
    epochs.set("a", 1);
    roster.changed("a", true);
    expect(missing()).toEqual([]);
    roster.settle();
    expect(clock.pending()).toBe(1);
  });
});
