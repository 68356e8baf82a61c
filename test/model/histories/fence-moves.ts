/** Fences: a person has seen that a machine is off, and what follows from that word. */
import { fenceBegun, isDisproved, isFenced } from "../../../services/controller/src/domain/node/fence.ts";
import { fenceOfVolume } from "../../../services/controller/src/domain/node/fence-consequence.ts";
import { isSilent } from "../../../services/controller/src/records/grant-facts.ts";
import type { Go, State } from "../search/search.ts";
import { wholeRecord } from "../volume/plain-record.ts";
import { type FenceOutput, fenceRun } from "./fence-run.ts";
import { connected, controllersOf, hostsOf, pastOf, places, reached, type Two, withSite } from "./history-places.ts";
import type { HistoryRules } from "./history-rules.ts";
import type { Controller, Host, Past, PlainNode, Site } from "./history-types.ts";
import { plainNode, viewOf, wholeNode } from "./plain-node.ts";

const evidence = { kind: "power-off", who: "ops", evidence: "off", since: 0 } as const;

export const createFenceMoves = ({ one, once, idOf, asked, inventory }: HistoryRules) => {
  const isRecorded = (host: Host, node: PlainNode): boolean =>
    host.journal === node.journalUid && host.boot === node.bootId;

  /** What is seen is so: the machine is off. */
  const begin = (state: State, n: Two, controller: Controller, site: Site, node: PlainNode, go: Go): void => {
    const past = pastOf(state);
    const { fences = 0 } = past.left;
    const view = viewOf(node, controller.links);
    const { record } = view;
    if (fences === 0 || (isFenced(record) && !isDisproved(record)) || !isSilent(view)) return;
    if (hostsOf(state).some(([, host]) => host.up && isRecorded(host, node))) return;
    if (fenceOfVolume(wholeRecord(site.volume.record), record, "power-off", "none").kind !== "forced") return;
    const fenced = once(`fence|${idOf(node)}`, () => one(plainNode(fenceBegun(wholeNode(node), evidence))));
    const taken = Object.entries(site.volume.record.claims).flatMap(([uid, claim]) =>
      claim.node === node.name && !past.unwanted.includes(uid) ? [uid] : [],
    );
    go("fence a node", `${node.name} by c${n}`, {
      ...withSite(controller.at, { nodes: one({ ...site.nodes, [node.name]: fenced }) }),
      [places.past]: one<Past>({
        ...past,
        left: one({ ...past.left, fences: fences - 1 }),
        unwanted: one([...past.unwanted, ...taken].sort()),
      }),
    });
  };

  /** A node is in use again only when it has given back what it had. */
  const wrongWith = (host: Host | undefined, after: PlainNode | undefined): string | undefined => {
    if (after?.state !== "READY" || host === undefined) return undefined;
    const [held] = [...Object.keys(host.volume?.claims ?? {}), ...host.mounted];
    return held === undefined ? undefined : `[I5] ${host.name} is READY again, and holds ${held} from before its fence`;
  };

  const look = (state: State, n: Two, controller: Controller, site: Site, node: PlainNode, go: Go): void => {
    if (!isFenced(wholeNode(node))) return;
    const host = reached(state, controller, node.name)?.[1];
    const told = host !== undefined && isRecorded(host, node) ? inventory(host) : undefined;
    const view = viewOf(node, controller.links);
    const key = [node, site.volume, ...(told === undefined ? [] : [one(told)])].map(idOf).join("|");
    const { node: after, volume } = asked<FenceOutput>(`look|${key}|${view.linked}`, () =>
      fenceRun({ view, volume: site.volume, inventory: told }),
    );
    if (after === undefined && volume === undefined) return;
    const past = pastOf(state);
    const wrong = past.wrong ?? wrongWith(host, after);
    go("a fence goes on", `${node.name} by c${n}: ${after?.state ?? node.state}`, {
      ...withSite(controller.at, {
        ...(volume === undefined ? {} : { volume: one(volume) }),
        ...(after === undefined ? {} : { nodes: one({ ...site.nodes, [node.name]: one(after) }) }),
      }),
      ...(wrong === undefined ? {} : { [places.past]: one<Past>({ ...past, wrong }) }),
    });
  };

  return (state: State, go: Go): void => {
    for (const [n, controller] of controllersOf(state)) {
      const site = controller.up && controller.open ? connected(state, controller) : undefined;
      if (site === undefined || controller.ahead !== undefined) continue;
      for (const node of Object.values(site.nodes)) {
        begin(state, n, controller, site, node, go);
        look(state, n, controller, site, node, go);
      }
    }
  };
};
