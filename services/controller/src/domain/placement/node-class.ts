import type { StorageHealthEntry } from "@holdfast/model/health";
import type { NodeRecord, NodeState, PluginHealth } from "../node/node.ts";
import type { Segments } from "../volume/volume.ts";

/** A plugin's node half as placement sees it. */
export interface ClassHalf {
  readonly health: PluginHealth;
  /** The plugin has told its own name for the node: without it nothing can be attached there. */
  readonly named: boolean;
  readonly topology: Segments;
  /** By key in lower case: CSI compares keys so. */
  readonly folded: ReadonlyMap<string, string>;
  /** What is wrong with the way from there to the storage. */
  readonly storage: readonly StorageHealthEntry[];
}

/** Everything about a node that decides where volumes can be used, but its attach slots and the claims that it has. */
export interface NodeClass {
  /** Equal for nodes that are alike, and for no others. */
  readonly text: string;
  readonly state: NodeState;
  readonly drained: boolean;
  readonly halves: ReadonlyMap<string, ClassHalf>;
}

export const foldKeys = (segments: Segments): ReadonlyMap<string, string> =>
  new Map(Object.entries(segments).map(([key, value]) => [key.toLowerCase(), value]));

/** As for a grant: of several halves of a plugin the first healthy one counts, else the first. */
const halvesOf = (record: NodeRecord): ReadonlyMap<string, ClassHalf> => {
  const halves = new Map<string, ClassHalf>();
  for (const { name, role, health, nodeId, topology, storageHealth: storage = [] } of record.plugins) {
    if (role === "CONTROLLER") continue;
    const known = halves.get(name);
    if (known !== undefined && (known.health === "HEALTHY" || health !== "HEALTHY")) continue;
    halves.set(name, { health, named: nodeId !== "", topology, folded: foldKeys(topology), storage });
  }
  return halves;
};

const textOf = (state: NodeState, drained: boolean, halves: ReadonlyMap<string, ClassHalf>): string =>
  JSON.stringify([
    state,
    drained,
    [...halves]
      .map(
        ([name, { health, named, folded, storage }]) => [name, health, named, [...folded].sort(), ...storage] as const,
      )
      .sort((a, b) => (a[0] < b[0] ? -1 : 1)),
  ]);

export const nodeClassOf = (record: NodeRecord, silent: boolean): NodeClass => {
  const state = record.state === "READY" && silent ? "SUSPECT" : record.state;
  const drained = record.drain !== undefined;
  const halves = halvesOf(record);
  return { text: textOf(state, drained, halves), state, drained, halves };
};
