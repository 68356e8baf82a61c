/**
 * The nodes of the store that may hold something, as this controller keeps them beside it. A store that was rolled back may have lost a node together with what it was
 * granted; nobody would ask it what it holds.
 *
 * NR1 A node that was seen in the store is remembered before the next turn of the clock is over, and forgotten only while the store is
 * vetted; at a stop at once. NR2 One that the store knows no more, or under a lower node epoch only, keeps it shut by its name, until it registers, a vetting
 * shows that nothing was lost, or a person accepts. An empty state directory remembers nobody, and proves nothing.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { mayHold } from "../domain/node/fence.ts";
import type { NodeRecord } from "../domain/node/node.ts";
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
  /** What waits to be written is. */
  flush(): void;
}

/** Many nodes register at once, and each write is of all of them. */
const writeAfterMs = 50;

const read = (lines: readonly string[]): Map<string, number> => {
  const found = new Map<string, number>();
  for (const line of lines) {
    const [name = "", epoch] = line.split(" ");
    found.set(name, Math.max(found.get(name) ?? 0, Number(epoch ?? 0)));
  }
  return found;
};

/** `lost`: what the store does not know any more of it, in words. */
export const forgottenNode = (name: string, lost: string): Finding =>
  finding(
    "FORGOTTEN_NODE",
    `${lost}: what node ${name} was granted since may be in no record; start its agent, or, if its machine is off or holds nothing, run holdfast repair vet --accept --reason <why>`,
    name,
  );

const lostOf = (name: string, epoch: number, found: NodeRecord | undefined): string => {
  if (found === undefined) return `node ${name} was registered and in use, and the store does not know that any more`;
  return mayHold(found)
    ? `node ${name} had node epoch ${epoch}, and the store knows node epoch ${found.nodeEpoch}: which life of it was admitted last is lost`
    : `node ${name} was in use after it was fenced, and the store knows the fence alone, which stays`;
};

export const rosterLine = (name: string, nodeEpoch: number): string => `${name} ${nodeEpoch}`;

export const createNodeRoster = ({ nodes, lineage, clock }: NodeRosterDeps): NodeRoster => {
  let known = read(lineage.nodes());
  let waits: (() => void) | undefined;
  const write = (): void => {
    waits?.();
    waits = undefined;
    lineage.keepNodes([...known].map(([name, epoch]) => rosterLine(name, epoch)).sort());
  };
  const there = (): Map<string, number> =>
    new Map(nodes.list().flatMap(({ record }) => (mayHold(record) ? [[record.name, record.nodeEpoch]] : [])));
  return {
    changed(name, vetted) {
      const [now, before] = [there().get(name), known.get(name)];
      if (now === before || (!vetted && (now ?? 0) < (before ?? 0))) return;
      if (now === undefined) known.delete(name);
      else known.set(name, now);
      waits ??= clock.timer(writeAfterMs, write); // NR1
    },
    missing() {
      const now = there();
      const lost = [...known].filter(([name, epoch]) => (now.get(name) ?? -1) < epoch);
      if (lost.length === 0) return [];
      const records = new Map(nodes.list().map(({ record }) => [record.name, record]));
      return lost.map(([name, epoch]) => forgottenNode(name, lostOf(name, epoch, records.get(name))));
    },
    settle() {
      const now = there();
      if (now.size === known.size && [...now].every(([name, epoch]) => known.get(name) === epoch)) return;
      known = now;
      write();
    },
    flush() {
      if (waits !== undefined) write();
    },
  };
};
