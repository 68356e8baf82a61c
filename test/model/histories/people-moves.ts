/** What clients and operators ask for. A person's word is true: what is said of a host is so. */
import { foreignAbandoned } from "../../../services/controller/src/domain/attachment/foreign-hold.ts";
import { withClaim } from "../../../services/controller/src/domain/change.ts";
import { releaseWanted } from "../../../services/controller/src/domain/claim/claim-change.ts";
import type { Go, State } from "../search/search.ts";
import { firstClaim, plainRecord, wholeRecord } from "../volume/plain-record.ts";
import { type Commits, wordsFor } from "./commits.ts";
import {
  connected,
  controllersOf,
  hostsOf,
  nodeNames,
  pastOf,
  places,
  siteAt,
  type Two,
  withSite,
} from "./history-places.ts";
import type { HistoryRules } from "./history-rules.ts";
import type { Controller, Past, Site, StoredVolume } from "./history-types.ts";
import { afterChange, momentNow } from "./step-run.ts";

export const createPeopleMoves = ({ one, once, idOf }: HistoryRules, { commit }: Commits, claims: number) => {
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

  const release = (state: State, n: Two, controller: Controller, site: Site, go: Go): void => {
    for (const uid of Object.keys(site.volume.record.claims)) {
      const volume = once(`release|${idOf(site.volume)}|${uid}`, () => {
        const before = wholeRecord(site.volume.record);
        const change = releaseWanted(before, uid, undefined, momentNow);
        return change.volume === before ? site.volume : one(afterChange(site.volume, change));
      });
      if (idOf(volume) === idOf(site.volume)) continue;
      const { verdict, changed } = commit(state, n, controller, site, volume);
      const told = verdict === "done" ? { [places.past]: unwanted(state, uid) } : {};
      go(`release a claim${wordsFor[verdict]}`, `${uid} of c${n}`, { ...changed, ...told });
    }
  };

  /** A hold that no record explains is given up: of a node that is heard, or whose host is known to have it no more. */
  const abandon = (state: State, n: Two, controller: Controller, site: Site, go: Go): void => {
    for (const hold of site.volume.record.foreign ?? []) {
      const heard = controller.links[hold.node] === site.nodes[hold.node]?.instance;
      const mounted = hostsOf(state).some(([, host]) => host.mounted.includes(hold.claimUid));
      if ((!heard && mounted) || site.volume.ended[hold.claimUid] !== undefined) continue;
      const volume = once(`abandon|${idOf(site.volume)}|${hold.claimUid}|${heard}`, () =>
        one(
          afterChange(
            site.volume,
            foreignAbandoned(wholeRecord(site.volume.record), hold, { heard, evidence: "" }, momentNow),
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

  return (state: State, go: Go): void => {
    for (const [n, controller] of controllersOf(state)) {
      const site = controller.up ? connected(state, controller) : undefined;
      if (site === undefined) continue;
      ask(state, n, controller, site, go);
      release(state, n, controller, site, go);
      abandon(state, n, controller, site, go);
    }
    admit(state, go);
  };
};
