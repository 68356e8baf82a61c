/** What agents hold against the records of a vetted store, and what they are told to let go of. */
import type { Go, State } from "../search/search.ts";
import type { AgentMoves } from "./agent-moves.ts";
import { type Commits, wordsFor } from "./commits.ts";
import { connected, controllerAt, controllersOf, pastOf, places, reached, type Two } from "./history-places.ts";
import type { HistoryRules } from "./history-rules.ts";
import type { Controller, Host, Order, PlainNode, Site, StoredVolume, Trace } from "./history-types.ts";
import { viewOf } from "./plain-node.ts";

export const createCompareMoves = (
  rules: HistoryRules,
  { follow, promise }: AgentMoves,
  { commit }: Commits,
  atOnce: boolean,
) => {
  const { one, idOf } = rules;

  /** What the agent tells of its journal and boot is what the record says. */
  const isRecorded = (host: Host, node: PlainNode): boolean =>
    host.journal === node.journalUid && host.boot === node.bootId;

  const inputOf = (
    controller: Controller,
    node: PlainNode,
    trace: object,
    vetting: Controller["vetting"],
    stored?: StoredVolume,
  ) => {
    const { open, links } = controller;
    const gate = one({ open, vetting: controller.vetting });
    const key = [node, trace, vetting, ...(stored === undefined ? [] : [stored, gate])].map(idOf).join("|");
    const later = stored === undefined ? {} : { later: { stored, gate } };
    return rules.compare(key, { trace: { ...trace }, view: viewOf(node, links), vetting, ...later });
  };

  interface Told {
    readonly node: PlainNode;
    readonly trace: Trace;
    readonly vetting: Controller["vetting"];
  }

  /** The inventory has come, and is compared with the records as they are now. */
  const settled = (
    state: State,
    n: Two,
    controller: Controller,
    site: Site,
    { node, trace, vetting }: Told,
    go: Go,
    beside: Record<number, object> = {},
  ): void => {
    const { name } = node;
    const { stored, letGo, requiresVetted } = inputOf(controller, node, trace, vetting, site.volume);
    const instance = controller.links[name];
    const orders = instance === undefined ? [] : letGo.map((order) => one<Order>({ ...order, instance }));
    const next = orders.length === 0 ? controller : one<Controller>({ ...controller, letGo: one(orders) });
    if (stored === undefined) {
      go("compare what is held", `${name} by c${n}`, { ...beside, [controllerAt(n)]: next });
      return;
    }
    const { verdict, changed } = commit(state, n, next, site, one(stored), requiresVetted);
    go(`compare what is held${wordsFor[verdict]}`, `${name} by c${n}`, { ...beside, ...changed });
  };

  const compare = (state: State, n: Two, controller: Controller, site: Site, go: Go): void => {
    const place = controllerAt(n);
    const { compare: begun, ...rest } = controller;
    const idle = one<Controller>(rest);
    if (begun === undefined) {
      if (!controller.open || controller.letGo !== undefined) return;
      for (const node of Object.values(site.nodes)) {
        const found = reached(state, controller, node.name);
        if (found === undefined || found[1].instance !== node.instance) continue;
        const [at, host] = found;
        const past = pastOf(state);
        const { looks = 0 } = past.left;
        const owed = isOwed(host, node, site);
        if (!owed && looks === 0) continue;
        const spent = owed ? {} : { [places.past]: one({ ...past, left: one({ ...past.left, looks: looks - 1 }) }) };
        const after = promise(host, controller.vetting);
        if (after === undefined) continue;
        // Its promise, and the claims that the records have there: nothing that happens in between changes either.
        const { claims } = site.volume.record;
        const expected = one<StoredVolume>({
          record: one({ claims, attachments: one({}), bars: one([]) }),
          ended: one({}),
        });
        const trace = one({
          "promise 1": one({ vetting: after.promised, openCalls: one([]) }),
          "expected 1": expected,
        });
        const { question } = inputOf(controller, node, trace, controller.vetting);
        if (question === undefined) continue;
        if (atOnce) {
          const told = one({ ...trace, "inventory 1": one(rules.inventory(after)) });
          settled(state, n, controller, site, { node, trace: told, vetting: controller.vetting }, go, {
            ...spent,
            [at]: after,
          });
          continue;
        }
        go("ask what is held", `${node.name} by c${n}`, {
          ...spent,
          [at]: after,
          [place]: one<Controller>({
            ...controller,
            compare: one({ node: node.name, trace, vetting: controller.vetting }),
          }),
        });
      }
      return;
    }
    const { node: name, trace, vetting } = begun;
    const node = site.nodes[name];
    go("an inventory is cut short", `${name} to c${n}`, { [place]: idle });
    if (node === undefined) return;
    if (trace["inventory 1"] === undefined) {
      const found = reached(state, controller, name);
      if (found === undefined || !isRecorded(found[1], node)) return;
      const told = one({ ...trace, "inventory 1": one(rules.inventory(found[1])) });
      go("tell what is held", `${name} to c${n}`, {
        [place]: one<Controller>({ ...controller, compare: one({ ...begun, trace: told }) }),
      });
      return;
    }
    settled(state, n, idle, site, { node, trace, vetting }, go);
  };

  /** Where agent and records say the same, a comparison changes nothing that is not changed by one that begins later. */
  const isOwed = ({ volume }: Host, { name }: PlainNode, { volume: { record } }: Site): boolean => {
    const held = new Set(Object.keys(volume?.claims ?? {}));
    const expected = Object.entries(record.claims).filter(
      ([, { node, state }]) => node === name && (state === "OFFERED" || state === "ACTIVE"),
    );
    return (
      expected.some(([uid]) => !held.has(uid)) ||
      [...held].some((uid) => record.claims[uid] === undefined) ||
      (record.foreign ?? []).some((hold) => hold.node === name)
    );
  };

  const letGo = (state: State, n: Two, controller: Controller, go: Go): void => {
    const { letGo: orders = [], ...rest } = controller;
    const [order, ...more] = orders;
    if (order === undefined) return;
    const after = one<Controller>(more.length === 0 ? rest : { ...rest, letGo: one(more) });
    const words = `${order.claim} on ${order.node} by c${n}`;
    go("nobody is told to let go", words, { [controllerAt(n)]: after });
    const found = reached(state, controller, order.node);
    if (found === undefined) return;
    const { host, past, answer } = follow(found[1], order, pastOf(state));
    go("tell an agent to let go", `${words}: ${answer}`, {
      [controllerAt(n)]: after,
      [found[0]]: host,
      [places.past]: past,
    });
  };

  return (state: State, go: Go): void => {
    for (const [n, controller] of controllersOf(state)) {
      if (!controller.up) continue;
      const site = connected(state, controller);
      if (site !== undefined) compare(state, n, controller, site, go);
      letGo(state, n, controller, go);
    }
  };
};
