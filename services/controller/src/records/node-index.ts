/**
 * The nodes in the order of their names and by their placement class, kept up to date one node at a time: no request sorts or walks all of
 * them.
 */
import { createHash } from "node:crypto";
import { type NodeClass, nodeClassOf } from "../domain/placement/node-class.ts";
import type { Nodes, NodeView } from "../ports.ts";

export interface IndexedNode {
  readonly view: NodeView;
  readonly placement: NodeClass;
  /** Short, and equal for nodes that are alike. */
  readonly placementClass: string;
}

export interface NodeIndex {
  get(name: string): IndexedNode | undefined;
  /** Names behind `after`, in order; of one class, or all. */
  namesAfter(after: string, limit: number, placementClass?: string): readonly string[];
}

/** Where a name is, or would be. */
const placeOf = (names: readonly string[], name: string): number => {
  let [low, high] = [0, names.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((names[middle] ?? "") < name) low = middle + 1;
    else high = middle;
  }
  return low;
};

const enter = (names: string[], name: string): void => {
  const at = placeOf(names, name);
  if (names[at] !== name) names.splice(at, 0, name);
};

const leave = (names: string[], name: string): void => {
  const at = placeOf(names, name);
  if (names[at] === name) names.splice(at, 1);
};

export const createNodeIndex = (nodes: Nodes, signal: AbortSignal): NodeIndex => {
  const entries = new Map<string, IndexedNode>();
  const all: string[] = [];
  const byClass = new Map<string, string[]>();
  /** By its text; one object a class, which nodes that are alike share. */
  const classes = new Map<string, { readonly placement: NodeClass; readonly placementClass: string }>();

  const classOf = (view: NodeView) => {
    const placement = nodeClassOf(view.record, view.live === "suspect");
    const known = classes.get(placement.text);
    if (known !== undefined) return known;
    const placementClass = createHash("sha256").update(placement.text).digest("base64url").slice(0, 16);
    const fresh = { placement, placementClass };
    classes.set(placement.text, fresh);
    return fresh;
  };

  const drop = (name: string): void => {
    const entry = entries.get(name);
    if (entry === undefined) return;
    entries.delete(name);
    const same = byClass.get(entry.placementClass) ?? [];
    leave(same, name);
    if (same.length > 0) return;
    byClass.delete(entry.placementClass);
    classes.delete(entry.placement.text);
  };

  const look = (name: string): IndexedNode | undefined => {
    const view = nodes.get(name);
    const known = entries.get(name);
    if (view === undefined) {
      drop(name);
      leave(all, name);
      return undefined;
    }
    // Records are replaced, never changed; who is alive changes without one.
    if (known !== undefined && known.view.record === view.record && known.view.live === view.live) return known;
    const found = classOf(view);
    const entry = { view, ...found };
    if (known?.placementClass !== entry.placementClass) {
      drop(name);
      classes.set(entry.placement.text, found);
      const same = byClass.get(entry.placementClass);
      if (same === undefined) byClass.set(entry.placementClass, [name]);
      else enter(same, name);
    }
    entries.set(name, entry);
    enter(all, name);
    return entry;
  };

  for (const { record } of nodes.list()) look(record.name);
  signal.addEventListener("abort", nodes.onChange(look), { once: true });

  return {
    get: look,
    namesAfter(after, limit, placementClass) {
      const names = placementClass === undefined ? all : (byClass.get(placementClass) ?? []);
      const place = placeOf(names, after);
      const from = names[place] === after ? place + 1 : place;
      return names.slice(from, from + limit);
    },
  };
};
