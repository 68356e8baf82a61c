/** How a decision of a controller comes into its store, or is refused. */
import type { State } from "../search/search.ts";
import { commitVerdict } from "./commit-rules.ts";
import { controllerAt, pastOf, siteAt, type Two, withSite } from "./history-places.ts";
import type { HistoryRules } from "./history-rules.ts";
import type { Controller, Site, StoredVolume } from "./history-types.ts";

export const wordsFor = { done: "", unvetted: ", refused: not vetted", behind: ", refused: behind" } as const;

/** Whether it matters who has seen a commit since the copy was made: only where a process may come to have less than it had. */
export const isCounted = (state: State): boolean =>
  siteAt(state, "copy") !== undefined && (pastOf(state).left.reloads ?? 0) > 0;

export const createCommits = ({ one }: HistoryRules) => {
  const without = <T extends object, K extends keyof T>(value: T, key: K): Omit<T, K> => {
    const { [key]: _gone, ...rest } = value;
    return rest;
  };

  /** The gate of that controller is shut: what it looked at is looked at anew. */
  const suspecting = (controller: Controller): Controller =>
    one<Controller>({ ...without(controller, "check"), open: false });

  /** Stores what was decided, where the store takes it. */
  const commit = (
    state: State,
    n: Two,
    controller: Controller,
    site: Site,
    after: StoredVolume,
    requiresVetted = false,
  ): { readonly verdict: ReturnType<typeof commitVerdict>; readonly changed: Record<number, object> } => {
    const verdict = commitVerdict(site, controller, after, requiresVetted);
    const { meta } = site;
    if (verdict === "done") {
      const next =
        controller.at === "store" && isCounted(state) ? one<Controller>({ ...controller, since: true }) : controller;
      return { verdict, changed: { [controllerAt(n)]: next, ...withSite(controller.at, { volume: after }) } };
    }
    const shut = suspecting(controller);
    if (verdict === "unvetted") return { verdict, changed: { [controllerAt(n)]: shut } };
    const unvetted = withSite(controller.at, { meta: one({ ...meta, begun: false, vetted: false }) });
    return { verdict, changed: { [controllerAt(n)]: one<Controller>({ ...shut, ahead: "noticed" }), ...unvetted } };
  };

  return { commit, suspecting };
};

export type Commits = ReturnType<typeof createCommits>;
