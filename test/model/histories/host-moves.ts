/** What happens to hosts and to the ways to them. */
import type { VolumeState } from "../../../services/node-agent/src/domain/types.ts";
import { applyEvent, isFault } from "../../../services/node-agent/src/domain/volume-machine.ts";
import type { Go, State } from "../search/search.ts";
import {
  absent,
  connected,
  controllerAt,
  controllersOf,
  hostsOf,
  pastOf,
  places,
  siteAt,
  withSite,
} from "./history-places.ts";
import type { HistoryRules } from "./history-rules.ts";
import type { Controller, Host, Left, Past } from "./history-types.ts";

const noPromise = { gen: 0, uid: "" } as const;

/** "n1-boot1" is followed by "n1-boot2". */
const following = (word: string): string => word.replace(/\d+$/, (digits) => String(Number(digits) + 1));

const recovered = (volume: VolumeState | undefined, sameBoot: boolean): VolumeState | undefined => {
  if (volume === undefined) return undefined;
  const after = applyEvent(volume, { type: "recovered", stageSeen: sameBoot, sameBoot });
  if (isFault(after)) throw new Error(`the journal of the agent is damaged: ${after.fault}`);
  return after;
};

export const createHostMoves = ({ one, once, idOf }: HistoryRules) => {
  const spent = (state: State, what: keyof Left): Record<number, object> | undefined => {
    const past = pastOf(state);
    const { [what]: left = 0 } = past.left;
    if (left === 0) return undefined;
    return { [places.past]: one<Past>({ ...past, left: one({ ...past.left, [what]: left - 1 }) }) };
  };

  /** Its streams end everywhere. */
  const unlinked = (state: State, { name, instance }: Host): Record<number, object> =>
    Object.fromEntries(
      controllersOf(state).flatMap(([n, controller]) => {
        if (controller.links[name] !== instance) return [];
        const { [name]: _ended, ...links } = controller.links;
        return [[controllerAt(n), one<Controller>({ ...controller, links: one(links) })]];
      }),
    );

  /** Another process of the agent, on the same boot or on another one. */
  const startedAgain = (host: Host, sameBoot: boolean): Host =>
    once(`again|${idOf(host)}|${sameBoot}`, () => {
      const { late: _ended, quarantined: _asked, volume: before, ...rest } = host;
      const volume = recovered(before, sameBoot);
      return one<Host>({
        ...rest,
        up: true,
        instance: following(host.instance),
        boot: sameBoot ? host.boot : following(host.boot),
        mounted: sameBoot ? host.mounted : one([]),
        ...(volume === undefined ? {} : { volume: one(volume) }),
      });
    });

  const reimaged = (host: Host): Host => {
    const { volume: _gone, ...rest } = startedAgain(host, false);
    return one<Host>({
      ...rest,
      journal: following(host.journal),
      lock: following(host.lock),
      nodeEpoch: 0,
      promised: one(noPromise),
    });
  };

  const copied = (host: Host): Host => {
    const { name } = host;
    const { cut: _c, ...rest } = startedAgain(host, false);
    return one<Host>({
      ...rest,
      identity: `${name}-x-id`,
      boot: `${name}-x-boot1`,
      lock: `${name}-x-lock1`,
      instance: `${name}-x-i1`,
    });
  };

  const ofHost = (state: State, place: number, host: Host, go: Go): void => {
    const isCopy = place === places.clone;
    const { name, instance, up, cut } = host;
    const ended = unlinked(state, host);
    if (!up) {
      go("a host starts", name, { [place]: startedAgain(host, false) });
      const image = spent(state, "images");
      if (image !== undefined) go("a host is re-imaged", name, { ...image, [place]: reimaged(host) });
      return;
    }
    if (cut) go("a host is reached again", instance, { [place]: one<Host>(withoutCut(host)) });
    else {
      const away = spent(state, "cuts");
      if (away !== undefined)
        go("a host is cut off", instance, { ...away, ...ended, [place]: one<Host>({ ...host, cut: true }) });
    }
    if (isCopy) {
      go("the copy of a host is stopped", instance, { ...ended, [place]: absent });
      return;
    }
    const again = spent(state, "agentRestarts") ?? replacedBefore(state, instance);
    if (again !== undefined)
      go("an agent starts again", instance, { ...again, ...ended, [place]: startedAgain(host, true) });
    const boot = spent(state, "reboots");
    if (boot !== undefined) go("a host reboots", instance, { ...boot, ...ended, [place]: startedAgain(host, false) });
    const off = spent(state, "offs");
    if (off !== undefined) {
      const { late: _ended, ...rest } = host;
      go("a host is off", instance, { ...off, ...ended, [place]: one<Host>({ ...rest, up: false, mounted: one([]) }) });
    }
    const clone = spent(state, "clones");
    if (clone !== undefined && !hostsOf(state).some(([at]) => at === places.clone))
      go("a host is copied", instance, { ...clone, [places.clone]: copied(host) });
  };

  /** An agent that was taken for a copy is started again by a person once the copy is stopped. */
  const replacedBefore = (state: State, instance: string): Record<number, object> | undefined =>
    controllersOf(state).some(([, { replaced }]) => replaced.includes(instance)) &&
    !hostsOf(state).some(([at]) => at === places.clone)
      ? {}
      : undefined;

  const withoutCut = ({ cut: _c, ...host }: Host): Host => host;

  /** Only time tells it, and only of a process that no controller of the store has the stream of. */
  const links = (state: State, go: Go): void => {
    for (const at of ["store", "old"] as const) {
      const site = siteAt(state, at);
      if (site === undefined) continue;
      const there = controllersOf(state).filter(([, one]) => one.up && one.at === at && connected(state, one));
      if (there.length === 0) continue;
      for (const node of Object.values(site.nodes)) {
        if (node.linkLost !== undefined || there.some(([, { links: by }]) => by[node.name] === node.instance)) continue;
        // A process that registers at once is not missed for so long.
        if (hostsOf(state).some(([, { instance, up, cut }]) => instance === node.instance && up && !cut)) continue;
        const nodes = one({ ...site.nodes, [node.name]: one({ ...node, linkLost: one({ at: 0 }) }) });
        go(
          "a link is lost for long",
          `${node.name} in the ${at === "old" ? "old " : ""}store`,
          withSite(at, { nodes }),
        );
      }
    }
  };

  return (state: State, go: Go): void => {
    for (const [place, host] of hostsOf(state)) ofHost(state, place, host, go);
    links(state, go);
  };
};
