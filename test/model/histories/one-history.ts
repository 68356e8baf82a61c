/**
 * One volume for a single writer, whose plugin takes no calls of controllers; two nodes; one or two controllers; a store that may forget.
 * The product's code decides: grants, permits, releases, vettings, promises, inventories, admissions.
 *
 * The environment rolls the store back, lets it fail over to a copy that lacks commits while the old master goes on, starts it again, ends
 * controllers and takes their state directories, cuts hosts off, boots, re-images, copies and fences them, and holds orders up as long as it likes.
 *
 * Left out, each for its reason:
 * E1 A controller that starts after a loss which took the end of a fence, beside a node that is silent: it has nothing but the store.
 * E2 A process of the store that loses commits without being another one, beside a controller that has not seen them: Redis gives another
 *    run id or replication id. Beside one that has seen them it is searched.
 * E3 An order that outlives the stream that it left on: a process that starts again has streams of its own.
 * E4 A kill within an order at an agent, or between a commit and its answer: volume-sequences.test.ts and the kill points run these.
 * E5 Records that a controller remembers: it forgets them when its gate shuts or opens, and each step here reads the store.
 * E6 Calls of controllers to plugins: in volume/, within one history. What controllers promise is tested where it is
 *    made (controller-words.test.ts).
 * E7 What is noted of an inventory before a store is vetted, and its comparison, are one step: both are of the same records.
 * E8 A copy of a host that has the host's identity too: somebody wrote one value for both (docs/nodes-and-plugins.md).
 * E9 What controllers tell each other of what they lost (CW1 to CW3): the gate here knows of no other one, and so asks every node.
 * E10 A person's word that is false, and a link that is said to be lost although a controller of the store has it.
 */
import { rosterLine } from "../../../services/controller/src/gate/node-roster.ts";
import type { State, World } from "../search/search.ts";
import { createAgentMoves } from "./agent-moves.ts";
import { createCommits } from "./commits.ts";
import { createCompareMoves } from "./compare-moves.ts";
import { createFenceMoves } from "./fence-moves.ts";
import { createGateMoves } from "./gate-moves.ts";
import {
  absent,
  controllerAt,
  controllersOf,
  hostsOf,
  pastOf,
  places,
  siteAt,
  symmetriesOf,
  two,
  withSite,
} from "./history-places.ts";
import { createHistoryRules } from "./history-rules.ts";
import type { Controller, Host, Left, Meta, Past, PlainNode, StoredVolume } from "./history-types.ts";
import { createHostMoves } from "./host-moves.ts";
import { createPeopleMoves } from "./people-moves.ts";
import { createStoreMoves } from "./store-moves.ts";
import { createVolumeMoves } from "./volume-moves.ts";

export interface HistoryOptions extends Left {
  readonly controllers: 1 | 2;
  /** The second node registers later than the store began. */
  readonly newcomer?: true;
  /** The store has failed over already: the first controller is at the new master, the second one at the old one. */
  readonly split?: true;
  /** The copy of the store was made while the first node was fenced; it is in use again since. */
  readonly fencedBefore?: true;
  /** The copy of the store was made before a copied host, which still runs beside the first one, was taken for the first node. */
  readonly copiedBefore?: true;
  /** A promise, the inventory that is asked for after it, and its comparison are one step. */
  readonly comparesAtOnce?: true;
}

const vetting = { gen: 1, uid: "v1" } as const;

const hostOf = (name: string, isKnown: boolean): Host => ({
  ...{ name, up: true, machine: `${name}-m`, identity: `${name}-id`, boot: `${name}-boot1` },
  ...{ journal: `${name}-j1`, lock: `${name}-lock1`, instance: `${name}-i1`, mounted: [] },
  ...(isKnown ? { nodeEpoch: 1, promised: vetting } : { nodeEpoch: 0, promised: { gen: 0, uid: "" } }),
});

const nodeOf = (host: Host): PlainNode => ({
  ...{ name: host.name, nodeEpoch: 1, state: "READY", instance: host.instance, machineId: host.machine },
  ...{ bootId: host.boot, journalUid: host.journal, lockId: host.lock },
  ...(host.identity === undefined ? {} : { hostIdentity: host.identity }),
});

export const createOneHistory = (options: HistoryOptions): World => {
  const {
    controllers,
    newcomer = false,
    split = false,
    fencedBefore = false,
    copiedBefore = false,
    comparesAtOnce = false,
    ...left
  } = options;
  const rules = createHistoryRules();
  const agents = createAgentMoves(rules);
  const look = createGateMoves(rules, agents);
  const commits = createCommits(rules);
  const volume = createVolumeMoves(rules, agents, commits);
  const compare = createCompareMoves(rules, agents, commits, comparesAtOnce);
  const store = createStoreMoves(rules, commits);
  const hosts = createHostMoves(rules);
  const fences = createFenceMoves(rules);
  const people = createPeopleMoves(rules, agents, commits, options.claims);

  const initial = (): State => {
    const names = ["n1", "n2"] as const;
    const all = names.map((name) => hostOf(name, !(newcomer && name === "n2")));
    const known = all.filter(({ nodeEpoch }) => nodeEpoch > 0);
    const state: object[] = Array.from({ length: places.past + 1 }, () => absent);
    const meta: Meta = { run: 1, ...vetting, begun: true, vetted: true };
    const volume: StoredVolume = { record: { claims: {}, attachments: {}, bars: [] }, ended: {} };
    const nodes = Object.fromEntries(known.map((host) => [host.name, nodeOf(host)]));
    Object.assign(state, withSite("store", { meta, volume, nodes }));
    all.forEach((host, i) => {
      state[places.host + i] = host;
    });
    const links = Object.fromEntries(known.map(({ name, instance }) => [name, instance]));
    const controller: Controller = {
      ...{
        up: true,
        at: "store",
        run: 1,
        open: true,
        vetting,
        high: 1,
        knows: [vetting.uid],
        generation: 1,
        names: known.map(({ name, nodeEpoch }) => rosterLine(name, nodeEpoch)),
      },
      ...{ links, replaced: [], kept: {} },
    };
    for (const n of two.slice(0, controllers)) state[controllerAt(n)] = controller;
    if (fencedBefore) {
      const fence = { kind: "power-off", who: "ops", evidence: "off", since: 0 } as const;
      const now = { ...nodes["n1"], nodeEpoch: 2 } as PlainNode;
      const then: PlainNode = { ...now, state: "QUARANTINED", fence, linkLost: { at: 0 } };
      Object.assign(state, withSite("copy", { meta, volume, nodes: { ...nodes, n1: then } }));
      Object.assign(state, withSite("store", { nodes: { ...nodes, n1: now } }));
      state[places.host] = { ...state[places.host], nodeEpoch: 2 };
    }
    if (copiedBefore) {
      const [first = hostOf("n1", true)] = all;
      const own = { identity: "n1-x-id", boot: "n1-x-boot1", lock: "n1-x-lock1", instance: "n1-x-i1", nodeEpoch: 2 };
      const other: Host = { ...first, ...own };
      const taken: PlainNode = { ...nodeOf(other), nodeEpoch: 2, speaksFrom: 2, bootsBefore: [first.boot] };
      Object.assign(state, withSite("copy", { meta, volume, nodes }));
      Object.assign(state, withSite("store", { nodes: { ...nodes, n1: taken } }));
      state[places.clone] = other;
      const names = [...controller.names, rosterLine(other.name, 2)].sort();
      const seen = { links: { ...links, n1: other.instance }, replaced: [first.instance], names };
      state[controllerAt(1)] = { ...controller, ...seen };
    }
    if (split) {
      const lost: Meta = { ...meta, run: 2, begun: false, vetted: false };
      Object.assign(state, withSite("old", { meta, volume, nodes }), withSite("store", { meta: lost }));
      state[controllerAt(1)] = { ...controller, run: 2, open: false };
      state[controllerAt(2)] = { ...controller, at: "old" };
    }
    state[places.past] = { left, unwanted: [], used: {}, vettings: 1 } satisfies Past;
    return state;
  };

  return {
    initial: initial(),
    symmetries: symmetriesOf(
      newcomer || fencedBefore || copiedBefore ? "none" : controllers === 1 || split ? "nodes" : "all",
    ),
    next(state, go) {
      look(state, go);
      volume(state, go);
      compare(state, go);
      agents.register(state, go);
      agents.late(state, go);
      people(state, go);
      store(state, go);
      hosts(state, go);
      fences(state, go);
    },
    violated(state) {
      const { wrong } = pastOf(state);
      if (wrong !== undefined) return wrong;
      const [store, old] = [siteAt(state, "store")?.meta, siteAt(state, "old")?.meta];
      if (store?.vetted && old?.vetted && store.gen === old.gen && store.uid !== old.uid)
        return `[I8] generation ${store.gen} is vetted as ${store.uid} and as ${old.uid}`;
      const writers = hostsOf(state).filter(([, { mounted }]) => mounted.length > 0);
      if (writers.length < 2) return undefined;
      const words = writers.map(([, { instance, mounted }]) => `${instance} for ${mounted.join()}`);
      return `[I1] mounted for a writer on ${words.join(" and on ")}`;
    },
    isClean(state) {
      const site = siteAt(state, "store");
      if (site === undefined || siteAt(state, "old") !== undefined || !site.meta.vetted) return false;
      const { claims, foreign = [] } = site.volume.record;
      return (
        Object.keys(claims).length === 0 &&
        foreign.length === 0 &&
        // A life that asked for a name and went is shown there, and keeps nobody waiting.
        Object.values(site.nodes).every((node) => node.state === "READY") &&
        controllersOf(state).every(
          ([, { up, at, run, open, task, compare, letGo, links }]) =>
            up &&
            at === "store" &&
            run === site.meta.run &&
            open &&
            task === undefined &&
            compare === undefined &&
            letGo === undefined &&
            Object.values(site.nodes).every(({ name, instance }) => links[name] === instance),
        ) &&
        hostsOf(state).every(
          ([place, { up, cut, mounted, late, volume: held, quarantined }]) =>
            place !== places.clone &&
            up &&
            !cut &&
            mounted.length === 0 &&
            late === undefined &&
            quarantined === undefined &&
            Object.keys(held?.claims ?? {}).length === 0,
        )
      );
    },
  };
};
