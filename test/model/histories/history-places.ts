/** Where each part stands in a state of the histories, and how it is read. */
import type { State, Symmetry } from "../search/search.ts";
import type { Controller, Host, Meta, Past, Site, StoredNodes, StoredVolume } from "./history-types.ts";

export const places = { store: 0, old: 3, copy: 6, controller: 9, host: 11, clone: 13, past: 14 } as const;
export type SiteName = "store" | "old" | "copy";
export const two = [1, 2] as const;
export type Two = (typeof two)[number];
export const nodeNames = ["n1", "n2"] as const;
export const controllerAt = (n: Two): number => places.controller + n - 1;
/** Of the two hosts, and of the copy of one of them. */
export const hostPlaces = [places.host, places.host + 1, places.clone] as const;

export const absent: object = {};
const isThere = (part: object | undefined): boolean => part !== undefined && Object.keys(part).length > 0;

export const siteAt = (state: State, name: SiteName): Site | undefined => {
  const at = places[name];
  if (!isThere(state[at])) return undefined;
  return { meta: state[at] as Meta, volume: state[at + 1] as StoredVolume, nodes: state[at + 2] as StoredNodes };
};
export const withSite = (name: SiteName, site: Partial<Site> | undefined): Record<number, object> => {
  const at = places[name];
  if (site === undefined) return { [at]: absent, [at + 1]: absent, [at + 2]: absent };
  const { meta, volume, nodes } = site;
  return {
    ...(meta === undefined ? {} : { [at]: meta }),
    ...(volume === undefined ? {} : { [at + 1]: volume }),
    ...(nodes === undefined ? {} : { [at + 2]: nodes }),
  };
};
/** undefined: there is no such controller. */
export const controllerOf = (state: State, n: Two): Controller | undefined => {
  const part = state[controllerAt(n)];
  return isThere(part) ? (part as Controller) : undefined;
};
export const controllersOf = (state: State): readonly (readonly [Two, Controller])[] =>
  two.flatMap((n) => {
    const controller = controllerOf(state, n);
    return controller === undefined ? [] : [[n, controller] as const];
  });
export const hostsOf = (state: State): readonly (readonly [number, Host])[] =>
  hostPlaces.flatMap((place) => (isThere(state[place]) ? [[place, state[place] as Host] as const] : []));
export const pastOf = (state: State): Past => state[places.past] as Past;

/** The store that the controller is connected to, if that process is there. */
export const connected = (state: State, { at, run }: Controller): Site | undefined => {
  const site = siteAt(state, at);
  return site?.meta.run === run ? site : undefined;
};
/** The process that an order to the node goes to. */
export const reached = (state: State, { links }: Controller, node: string): readonly [number, Host] | undefined =>
  hostsOf(state).find(([, { name, instance, up, cut }]) => name === node && up && !cut && links[node] === instance);

const swap = (letter: string): ReadonlyMap<string, string> =>
  new Map([
    [`${letter}1`, `${letter}2`],
    [`${letter}2`, `${letter}1`],
  ]);
const turned = (pairs: readonly (readonly [number, number])[]): readonly number[] => {
  const all = Array.from({ length: places.past + 1 }, (_, i) => i);
  for (const [a, b] of pairs) [all[a], all[b]] = [b, a];
  return all;
};
const nodes = [places.host, places.host + 1] as const;
const controllers = [places.controller, places.controller + 1] as const;

export const symmetriesOf = (alike: "nodes" | "all" | "none"): readonly Symmetry[] => {
  const ofNodes = { names: swap("n"), places: turned([nodes]) };
  if (alike === "none") return [];
  if (alike === "nodes") return [ofNodes];
  return [
    ofNodes,
    { names: swap("c"), places: turned([controllers]) },
    { names: new Map([...swap("n"), ...swap("c")]), places: turned([nodes, controllers]) },
  ];
};
