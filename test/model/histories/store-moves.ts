/**
 * What happens to the store and to controllers. No commit waits for a replica: whatever is not in the copy is lost with the master, so that
 * each failover may lose commits that were acknowledged.
 */
import type { Go, State } from "../search/search.ts";
import type { Commits } from "./commits.ts";
import {
  connected,
  controllerAt,
  controllersOf,
  pastOf,
  places,
  type SiteName,
  siteAt,
  withSite,
} from "./history-places.ts";
import type { HistoryRules } from "./history-rules.ts";
import type { Controller, Left, Meta, Past, Site, StoredNodes } from "./history-types.ts";
import { rosterRun } from "./roster-run.ts";

export const createStoreMoves = ({ one, idOf, asked }: HistoryRules, { suspecting }: Commits) => {
  /** undefined: it has happened as often as it may. */
  const spent = (state: State, what: keyof Left, change: Partial<Past> = {}): Record<number, object> | undefined => {
    const past = pastOf(state);
    const { [what]: left = 0 } = past.left;
    if (left === 0) return undefined;
    return { [places.past]: one<Past>({ ...past, ...change, left: one({ ...past.left, [what]: left - 1 }) }) };
  };

  const runs = (state: State): number =>
    Math.max(...(["store", "old", "copy"] as const).map((name) => siteAt(state, name)?.meta.run ?? 0));

  const stranger = (state: State, meta: Meta): Meta =>
    one<Meta>({ ...meta, run: runs(state) + 1, begun: false, vetted: false });

  const rosterAfter = (before: StoredNodes, after: StoredNodes): StoredNodes =>
    one(asked(`roster|${idOf(before)}|${idOf(after)}`, () => rosterRun(before, after)));

  /** What controllers go on to know that the copy has not. */
  const remembering = (state: State, lost: Site, copy: Site, where: Controller["at"]): Record<number, object> =>
    Object.fromEntries(
      controllersOf(state).flatMap(([n, controller]) => {
        if (!controller.up || controller.at !== "store" || controller.run !== lost.meta.run) return [];
        const { since: _gone, ahead: _too, ...rest } = controller;
        const kept = rosterAfter(one({ ...controller.kept, ...lost.nodes }), copy.nodes);
        return [[controllerAt(n), one<Controller>({ ...rest, kept, at: where })]];
      }),
    );

  const copies = (state: State, store: Site, go: Go): void => {
    const paid = spent(state, "copies");
    if (paid !== undefined && siteAt(state, "copy") === undefined)
      go("a copy receives all commits", "the store", {
        ...paid,
        ...withSite("copy", store),
        ...Object.fromEntries(
          controllersOf(state).flatMap(([n, { since, ...rest }]) =>
            since === undefined ? [] : [[controllerAt(n), one<Controller>(rest)]],
          ),
        ),
      });
    const copy = siteAt(state, "copy");
    if (copy === undefined) return;
    const promoted = withSite("store", { ...copy, meta: stranger(state, copy.meta) });
    const gone = { ...withSite("copy", undefined), ...promoted };
    const loss = spent(state, "losses");
    if (loss !== undefined)
      go("the copy takes the place of the store", "what it lacks is lost", {
        ...loss,
        ...gone,
        ...remembering(state, store, copy, "store"),
      });
    const split = spent(state, "splits");
    if (split !== undefined && siteAt(state, "old") === undefined)
      go("fail over to the copy", "the old master stays reachable", {
        ...split,
        ...gone,
        ...withSite("old", store),
        ...remembering(state, store, copy, "old"),
      });
    const reload = spent(state, "reloads");
    if (reload !== undefined && copy.meta.run === store.meta.run)
      go("the store loads an older file", "within the same process", {
        ...reload,
        ...withSite("copy", undefined),
        ...withSite("store", copy),
        ...Object.fromEntries(
          controllersOf(state).flatMap(([n, { since, ...rest }]) =>
            since === undefined ? [] : [[controllerAt(n), one<Controller>({ ...rest, ahead: "unnoticed" })]],
          ),
        ),
      });
  };

  const ends = (state: State, store: Site, go: Go): void => {
    const again = spent(state, "restarts");
    for (const name of ["store", "old"] as const satisfies readonly SiteName[]) {
      const site = name === "store" ? store : siteAt(state, name);
      if (again === undefined || site === undefined) continue;
      go(`the ${name === "old" ? "old master" : "store"} starts again`, "nothing is lost", {
        ...again,
        ...withSite(name, { meta: stranger(state, site.meta) }),
      });
    }
    if (siteAt(state, "old") !== undefined) go("the old master ends", "", withSite("old", undefined));
  };

  const ofControllers = (state: State, store: Site, go: Go): void => {
    for (const [n, controller] of controllersOf(state)) {
      const place = controllerAt(n);
      if (!controller.up) {
        const { knows, generation, names } = controller;
        const fresh: Controller = {
          ...{ up: true, at: "store", run: store.meta.run, open: false, vetting: one({ gen: 0, uid: "" }) },
          ...{ high: store.meta.gen, knows, generation, names, links: one({}), replaced: one([]), kept: one({}) },
        };
        go("start a controller", `c${n}`, { [place]: one(fresh) });
        const emptied = spent(state, "emptied");
        if (emptied !== undefined)
          go("start a controller with an empty state directory", `c${n}`, {
            ...emptied,
            [place]: one<Controller>({ ...fresh, knows: one([]), generation: 0, names: one([]) }),
          });
        continue;
      }
      const killed = spent(state, "kills");
      if (killed !== undefined) {
        const { up: _up, at, run, open, vetting, high, knows, generation, names, kept, links, replaced } = controller;
        go("kill a controller", `c${n}`, {
          ...killed,
          [place]: one<Controller>({
            ...{ up: false, at, run, open: false, vetting, high, knows, generation, names },
            ...{ kept: one({}), links: one({}), replaced: one([]) },
          }),
        });
        void [open, kept, links, replaced];
      }
      const away = connected(state, controller) === undefined;
      for (const at of ["store", "old"] as const) {
        const site = siteAt(state, at);
        if (site === undefined || site.meta.run === controller.run) continue;
        if (at === "old" && (controller.at !== "old" || !away)) continue;
        if (at === "store" && controller.at === "store" && !away) continue;
        const shut = suspecting(controller);
        go(at === "store" ? "a controller comes to the store" : "a controller comes back to the old master", `c${n}`, {
          [place]: one<Controller>({ ...shut, at, run: site.meta.run }),
        });
      }
    }
  };

  return (state: State, go: Go): void => {
    const store = siteAt(state, "store");
    if (store === undefined) throw new Error("there is always a store");
    copies(state, store, go);
    ends(state, store, go);
    ofControllers(state, store, go);
  };
};
