/** What clients and operators ask for. A person's word is true: what is said of a host is so. */
import { foreignAbandoned, speaksForHold } from "../../../services/controller/src/domain/attachment/foreign-hold.ts";
import { withClaim } from "../../../services/controller/src/domain/change.ts";
import { releaseWanted } from "../../../services/controller/src/domain/claim/claim-change.ts";
import { rosterLine } from "../../../services/controller/src/gate/node-roster.ts";
import type { Go, State } from "../search/search.ts";
import { firstClaim, plainRecord, wholeRecord } from "../volume/plain-record.ts";
import type { AgentMoves } from "./agent-moves.ts";
import { markIn, runIdOf } from "./commit-rules.ts";
import { type Commits, wordsFor } from "./commits.ts";
import {
  connected,
  controllerAt,
  controllersOf,
  hostsOf,
  nodeNames,
  pastOf,
  places,
  reached,
  siteAt,
  type Two,
  withSite,
} from "./history-places.ts";
import type { HistoryRules } from "./history-rules.ts";
import type { Controller, Order, Past, Site, StoredVolume } from "./history-types.ts";
import { wholeNode } from "./plain-node.ts";
import { missingNodes } from "./roster-run.ts";
import { afterChange, momentNow } from "./step-run.ts";

export const createPeopleMoves = (
  { one, once, idOf }: HistoryRules,
  { follow }: AgentMoves,
  { commit }: Commits,
  claims: number,
) => {
  const unwanted = (state: State, uid: string): Past => {
    const past = pastOf(state);
    return past.unwanted.includes(uid) ? past : one<Past>({ ...past, unwanted: one([...past.unwanted, uid].sort()) });
  };

  const ask = (state: State, n: Two, controller: Controller, site: Site, go: Go): void => {
    const past = pastOf(state);
    const { left } = past;
    if (left.claims === 0) return;
    const uid = `k${claims - left.claims + 1}`;
    for (const node of nodeNames) {
      if (site.nodes[node] === undefined) continue;
      const volume = once(`claim|${idOf(site.volume)}|${uid}|${node}`, () => {
        const { volume: after } = { volume: withClaim(wholeRecord(site.volume.record), firstClaim(uid, node), 0) };
        return one<StoredVolume>({ ...site.volume, record: one(plainRecord(after)) });
      });
      const { verdict, changed } = commit(state, n, controller, site, volume);
      if (verdict === "done")
        go("ask for a claim", `${uid} on ${node} of c${n}`, {
          ...changed,
          [places.past]: one<Past>({ ...past, left: one({ ...left, claims: left.claims - 1 }) }),
        });
    }
  };

  /** LR2: what was asked for leaves, whatever becomes of the commit beside it. */
  const releaseAhead = (state: State, n: Two, controller: Controller, site: Site, uid: string, go: Go): void => {
    const { open, vetting } = controller;
    const { state: now, node = "", epoch } = site.volume.record.claims[uid] ?? {};
    const { nodeEpoch: forEpoch, instance } = site.nodes[node] ?? {};
    const found = reached(state, controller, node);
    if (!open || now !== "ACTIVE" || epoch === undefined || forEpoch === undefined || instance === undefined) return;
    if (found === undefined) return;
    const order = one<Order>({ kind: "release", node, claim: uid, epoch, oldest: epoch, forEpoch, vetting, instance });
    const { host, past } = follow(found[1], order, unwanted(state, uid));
    go("a release leaves ahead", `${uid} on ${node} of c${n}`, { [found[0]]: host, [places.past]: past });
  };

  const release = (state: State, n: Two, controller: Controller, site: Site, go: Go): void => {
    for (const uid of Object.keys(site.volume.record.claims)) {
      const volume = once(`release|${idOf(site.volume)}|${uid}`, () => {
        const before = wholeRecord(site.volume.record);
        const change = releaseWanted(before, uid, undefined, momentNow);
        return change.volume === before ? site.volume : one(afterChange(site.volume, change));
      });
      if (idOf(volume) === idOf(site.volume)) continue;
      releaseAhead(state, n, controller, site, uid, go);
      const { verdict, changed } = commit(state, n, controller, site, volume);
      const told = verdict === "done" ? { [places.past]: unwanted(state, uid) } : {};
      go(`release a claim${wordsFor[verdict]}`, `${uid} of c${n}`, { ...changed, ...told });
    }
  };

  /**
   * A hold that no record explains is given up: of a node that is heard, or whose host is known to have it no more. Of what another life
   * told, the agent that is there says nothing, and what was given up while its own agent was heard may be given up once more.
   */
  const abandon = (state: State, n: Two, controller: Controller, site: Site, go: Go): void => {
    for (const hold of site.volume.record.foreign ?? []) {
      const node = site.nodes[hold.node];
      const linked = node !== undefined && controller.links[hold.node] === node.instance;
      const heard = linked && speaksForHold(wholeNode(node), hold);
      const ended = site.volume.ended[hold.claimUid] !== undefined;
      const mounted = hostsOf(state).some(([, host]) => host.mounted.includes(hold.claimUid));
      if (heard ? ended : mounted) continue;
      const volume = once(`abandon|${idOf(site.volume)}|${idOf(hold)}|${heard}`, () =>
        one(
          afterChange(
            site.volume,
            foreignAbandoned(wholeRecord(site.volume.record), hold, { heard, evidence: "", ended }, momentNow),
          ),
        ),
      );
      const { verdict, changed } = commit(state, n, controller, site, volume);
      if (verdict === "done")
        go("give up a hold", `${hold.claimUid} on ${hold.node} by c${n}`, {
          ...changed,
          [places.past]: unwanted(state, hold.claimUid),
        });
    }
  };

  /** The recorded life of the node is over: another one that waits is the node. */
  const admit = (state: State, go: Go): void => {
    const site = siteAt(state, "store");
    for (const node of Object.values(site?.nodes ?? {})) {
      const { pending, admitted } = node;
      if (pending === undefined || admitted !== undefined) continue;
      const lives = hostsOf(state).some(
        ([, { journal, lock, boot, up }]) =>
          up && journal === node.journalUid && lock === node.lockId && boot === node.bootId,
      );
      if (lives) continue;
      const nodes = one({ ...site?.nodes, [node.name]: one({ ...node, admitted: pending.life }) });
      go("admit a life", `${pending.bootId} as ${node.name}`, withSite("store", { nodes }));
    }
  };

  /** A node that the store knows no more, or in an earlier life only, holds nothing that the store does not know: somebody has looked. */
  const accept = (state: State, n: Two, controller: Controller, site: Site, go: Go): void => {
    const { check, open, ahead, names, kept, knows, generation, high, ...rest } = controller;
    const { meta, volume, nodes } = site;
    if (open || check !== undefined || ahead !== undefined || !meta.begun) return;
    const there = Object.values({ ...nodes, ...kept });
    const missing = missingNodes(names, there);
    if (missing.length === 0) return;
    const known = new Set([
      ...Object.keys(volume.record.claims),
      ...(volume.record.foreign ?? []).map((one) => one.claimUid),
    ]);
    const holds = hostsOf(state).some(([, host]) =>
      [...host.mounted, ...Object.keys(host.volume?.claims ?? {})].some((uid) => !known.has(uid)),
    );
    const vetted = markIn(meta, runIdOf(meta.run), meta);
    if (holds || vetted === undefined) return;
    const { gen, uid } = meta;
    const settled = one(there.map(({ name, nodeEpoch }) => rosterLine(name, nodeEpoch)).sort());
    go("accept the store", `without ${missing.join()} by c${n}`, {
      ...withSite(controller.at, { meta: one(vetted) }),
      [controllerAt(n)]: one<Controller>({
        ...{ ...rest, kept, open: true, vetting: one({ gen, uid }), names: settled },
        ...{
          knows: one([...new Set([...knows, uid])]),
          generation: Math.max(generation, gen),
          high: Math.max(high, gen),
        },
      }),
    });
  };

  return (state: State, go: Go): void => {
    for (const [n, controller] of controllersOf(state)) {
      const site = controller.up ? connected(state, controller) : undefined;
      if (site === undefined) continue;
      accept(state, n, controller, site, go);
      ask(state, n, controller, site, go);
      release(state, n, controller, site, go);
      abandon(state, n, controller, site, go);
    }
    admit(state, go);
  };
};
