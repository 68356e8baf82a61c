/**
 * Every state that a world can reach, breadth first, and what must hold of each.
 *
 * S1 A state is seen once: of all states that differ by a symmetry or by the distance of marks, the least row stands for all.
 * S2 A violation ends the search, and its schedule is one of the shortest. S3 A state from which no clean state can be reached is a
 * violation too; it is looked for when all states are known. S4 A world that does not know an answer yet throws NotYetKnown: the search
 * waits for the answer and asks for the same state again.
 */
import { createNumbers } from "./numbers.ts";
import { createParts, type Names } from "./parts.ts";
import { createRowSet } from "./row-set.ts";

/** A state: one part in each place. */
export type State = readonly object[];

/** What leads to the next state: the parts that change, by their place. */
export type Go = (action: string, detail: string, changed: Readonly<Record<number, object>>) => void;

export interface Symmetry {
  readonly names: Names;
  /** For each place the one whose part, renamed, stands there. */
  readonly places: readonly number[];
}

export interface World {
  readonly initial: State;
  readonly symmetries: readonly Symmetry[];
  /** `fresh` is a mark above all others of the state. */
  next(state: State, go: Go, fresh: string): void;
  /** Why the state must not be, by the name of the invariant. */
  violated(state: State): string | undefined;
  isClean(state: State): boolean;
}

export class NotYetKnown extends Error {
  readonly answer: Promise<unknown>;
  constructor(answer: Promise<unknown>) {
    super("the answer is being worked out");
    this.answer = answer;
  }
}

export interface Step {
  readonly action: string;
  readonly detail: string;
}

export interface Found {
  readonly states: number;
  readonly transitions: number;
  readonly depth: number;
  readonly parts: number;
  /** False: the bound on states ended the search. */
  readonly exhausted: boolean;
  readonly actions: ReadonlyMap<string, number>;
  readonly violation?: { readonly what: string; readonly schedule: readonly Step[]; readonly state: State };
}

export interface SearchOptions {
  readonly mostStates?: number;
  readonly progress?: (states: number, depth: number) => void;
}

interface Successor extends Step {
  readonly row: Uint32Array;
}

const progressEvery = 100_000;

export const search = async (world: World, options: SearchOptions = {}): Promise<Found> => {
  const { initial, symmetries } = world;
  const { mostStates = Number.POSITIVE_INFINITY, progress } = options;
  const width = initial.length;
  const parts = createParts(symmetries.map(({ names }) => names));
  const rows = createRowSet(width);
  const parents = createNumbers();
  /** The successors of each state in turn; `edgesFrom` tells where those of a state begin. */
  const edges = createNumbers();
  const edgesFrom = createNumbers();
  const actions = new Map<string, number>();

  const stateOf = (row: Uint32Array): State => Array.from(row, (id) => parts.partOf(id));
  const marksIn = (row: Uint32Array): number => {
    let marks = 0;
    for (const id of row) marks |= parts.marksOf(id);
    return marks;
  };
  const rank = (row: Uint32Array): void => {
    const marks = marksIn(row);
    if ((marks & (marks + 1)) === 0) return;
    for (let i = 0; i < width; i += 1) {
      const id = row[i] ?? 0;
      if (parts.marksOf(id) !== 0) row[i] = parts.ranked(id, marks);
    }
  };
  const isLess = (a: Uint32Array, b: Uint32Array): boolean => {
    for (let i = 0; i < width; i += 1) if (a[i] !== b[i]) return (a[i] ?? 0) < (b[i] ?? 0);
    return false;
  };
  const turned = new Uint32Array(width);
  /** S1: `row` is ranked; the least of its turns comes back. */
  const least = (row: Uint32Array): Uint32Array => {
    let best = row;
    for (let s = 0; s < symmetries.length; s += 1) {
      const places = symmetries[s]?.places ?? [];
      for (let i = 0; i < width; i += 1) turned[i] = parts.renamed(row[places[i] ?? i] ?? 0, s);
      if (isLess(turned, best)) best = turned.slice();
    }
    return best;
  };

  const successorsOf = async (row: Uint32Array): Promise<readonly Successor[]> => {
    const state = stateOf(row);
    const fresh = `#${32 - Math.clz32(marksIn(row))}`;
    for (;;) {
      const found: Successor[] = [];
      const go: Go = (action, detail, changed) => {
        const after = row.slice();
        for (const place in changed) after[Number(place)] = parts.idOf(changed[place] ?? {});
        rank(after);
        found.push({ action, detail, row: after });
      };
      try {
        world.next(state, go, fresh);
        return found;
      } catch (error) {
        if (!(error instanceof NotYetKnown)) throw error;
        await error.answer; // S4
      }
    }
  };

  /** Told with the names of the first state, not with those of the rows that stand for the states on the way. */
  const scheduleTo = async (end: number): Promise<{ readonly schedule: readonly Step[]; readonly state: State }> => {
    const way: number[] = [];
    for (let at = end; at !== 0; at = parents.at(at)) way.unshift(at);
    let row: Uint32Array = first;
    const schedule: Step[] = [];
    const wanted = new Uint32Array(width);
    for (const at of way) {
      rows.read(at, wanted);
      const step = (await successorsOf(row)).find((s) => least(s.row).every((id, i) => id === wanted[i]));
      if (step === undefined) throw new Error("a step of the schedule cannot be made again: the world has a memory");
      schedule.push({ action: step.action, detail: step.detail });
      row = step.row;
    }
    return { schedule, state: stateOf(row) };
  };

  /** S3: the first state, in the order of their discovery, from which no clean one can be reached. */
  const firstStuck = (clean: readonly number[]): number | undefined => {
    const count = rows.size();
    const into = new Uint32Array(count + 1);
    for (let e = 0; e < edges.length(); e += 1) into[edges.at(e) + 1] = (into[edges.at(e) + 1] ?? 0) + 1;
    for (let at = 0; at < count; at += 1) into[at + 1] = (into[at + 1] ?? 0) + (into[at] ?? 0);
    const filled = into.slice();
    const sources = new Uint32Array(edges.length());
    for (let from = 0; from < count; from += 1)
      for (let e = edgesFrom.at(from); e < edgesFrom.at(from + 1); e += 1) {
        const to = edges.at(e);
        sources[filled[to] ?? 0] = from;
        filled[to] = (filled[to] ?? 0) + 1;
      }
    const reaches = new Uint8Array(count);
    const queue = createNumbers();
    const reach = (at: number): void => {
      if (reaches[at] === 1) return;
      reaches[at] = 1;
      queue.push(at);
    };
    clean.forEach(reach);
    for (let next = 0; next < queue.length(); next += 1) {
      const to = queue.at(next);
      for (let e = into[to] ?? 0; e < (into[to + 1] ?? 0); e += 1) reach(sources[e] ?? 0);
    }
    const stuck = reaches.indexOf(0);
    return stuck < 0 ? undefined : stuck;
  };

  const first = Uint32Array.from(initial.map(parts.idOf));
  rank(first);
  rows.add(least(first));
  parents.push(0);
  edgesFrom.push(0);
  const clean: number[] = [];
  const row = new Uint32Array(width);
  let [depth, levelEnd] = [0, 1];

  const result = (exhausted: boolean, violation?: Found["violation"]): Found => ({
    states: rows.size(),
    transitions: edges.length(),
    depth,
    parts: parts.size(),
    exhausted,
    actions,
    ...(violation === undefined ? {} : { violation }),
  });

  for (let at = 0; at < rows.size(); at += 1) {
    if (at === levelEnd) [depth, levelEnd] = [depth + 1, rows.size()];
    rows.read(at, row);
    const state = stateOf(row);
    const what = world.violated(state);
    if (what !== undefined) return result(false, { what, ...(await scheduleTo(at)) }); // S2
    if (world.isClean(state)) clean.push(at);
    if (rows.size() >= mostStates) return result(false);
    for (const { action, row: after } of await successorsOf(row)) {
      actions.set(action, (actions.get(action) ?? 0) + 1);
      const { at: to, isNew } = rows.add(least(after));
      if (isNew) parents.push(at);
      edges.push(to);
    }
    edgesFrom.push(edges.length());
    if (at % progressEvery === progressEvery - 1) progress?.(rows.size(), depth);
  }
  const stuck = firstStuck(clean);
  if (stuck === undefined) return result(true);
  return result(true, { what: "[I6] no clean state can be reached any more", ...(await scheduleTo(stuck)) });
};
