/**
 * The nodes of the store, as this controller keeps them beside it. A store that was rolled back may have lost a node together with what it was
 * granted; nobody would ask it what it holds.
 *
 * NR1 A node that was seen in the store is remembered before the next turn of the clock is over, and forgotten only while the store is
 * vetted. NR2 One that the store knows no more keeps it shut by its name, until it registers, a vetting shows that nothing was lost,
 * or a person accepts. An empty state directory remembers nobody, and proves nothing.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import type { Nodes } from "../ports.ts";
import { type Finding, finding } from "./finding.ts";
import type { Lineage } from "./lineage.ts";

export interface NodeRosterDeps {
  readonly nodes: Pick<Nodes, "list">;
  readonly lineage: Pick<Lineage, "nodes" | "keepNodes">;
  readonly clock: Pick<Clock, "timer">;
}

export interface NodeRoster {
  changed(name: string, vetted: boolean): void;
  /** NR2 */
  missing(): readonly Finding[];
  /** What the store has is what there is. */
  settle(): void;
}

/** Many nodes register at once, and each write is of all of them. */
const writeAfterMs = 50;

export const createNodeRoster = ({ nodes, lineage, clock }: NodeRosterDeps): NodeRoster => {
  const known = new Set(lineage.nodes());
  let waits: (() => void) | undefined;
  const write = (): void => {
    waits?.();
    waits = undefined;
    lineage.keepNodes([...known].sort());
  };
  const there = (): ReadonlySet<string> => new Set(nodes.list().map(({ record }) => record.name));
  return {
    changed(name, vetted) {
      const registered = nodes.list().some(({ record }) => record.name === name);
      if (registered === known.has(name) || !(registered || vetted)) return;
      if (registered) known.add(name);
      else known.delete(name);
      waits ??= clock.timer(writeAfterMs, write); // NR1
    },
    missing() {
      const now = there();
      return [...known]
        .filter((name) => !now.has(name))
        .map((name) =>
          finding(
            "FORGOTTEN_NODE",
            `node ${name} was registered, and the store does not know it any more: what it was granted since may be in no record; start its agent, or take it for empty (holdfast repair vet --accept)`,
            name,
          ),
        );
    },
    settle() {
      const now = there();
      if (now.size === known.size && now.isSubsetOf(known)) return;
      known.clear();
      for (const name of now) known.add(name);
      write();
    },
  };
};
