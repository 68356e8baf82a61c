import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { describe, expect, it } from "vitest";
import type { NodeView } from "../ports.ts";
import { createNodeRoster } from "./node-roster.ts";

const build = (kept: readonly string[], ...registered: readonly string[]) => {
  const clock = createManualClock();
  let names = registered;
  const written: string[] = [];
  const list = () => names.map((name) => ({ record: { name } }) as NodeView);
  const lineage = { nodes: () => kept, keepNodes: (all: readonly string[]) => void written.push(all.join(" ")) };
  const roster = createNodeRoster({ nodes: { list }, lineage, clock });
  const become = (...now: readonly string[]): void => {
    names = now;
  };
  const missing = (): readonly string[] => roster.missing().map(({ node, kind }) => `${kind} ${node}`);
  return { clock, roster, become, written, missing };
};

describe("the nodes that a controller keeps beside the store", () => {
  it("[NR1] are written once for all that come at the same time", async () => {
    const { clock, roster, become, written } = build([]);
    become("a", "b");
    for (const name of ["a", "b", "a"]) roster.changed(name, false);
    expect(written).toEqual([]);
    await clock.advance(50);
    expect(written).toEqual(["a b"]);
    expect(clock.pending()).toBe(0);
  });

  it("[NR1] [NR2] one that goes is forgotten while the store is vetted, and missed while it is not", async () => {
    const { clock, roster, become, written, missing } = build(["a", "b", "c"], "a", "b", "c");
    expect(missing()).toEqual([]);
    become("c");
    roster.changed("a", true);
    roster.changed("b", false);
    await clock.advance(50);
    expect(written).toEqual(["b c"]);
    expect(missing()).toEqual(["FORGOTTEN_NODE b"]);
  });

  it("[NR2] one that the store lost is missed by the next process, too, until it registers", () => {
    const { become, missing } = build(["a", "b"], "a");
    expect(missing()).toEqual(["FORGOTTEN_NODE b"]);
    become("a", "b");
    expect(missing()).toEqual([]);
  });

  it("[NR2] those of a vetted store are all that there are", () => {
    const { roster, written, missing } = build(["b"], "a");
    roster.settle();
    roster.settle();
    expect(written).toEqual(["a"]);
    expect(missing()).toEqual([]);
  });
});
