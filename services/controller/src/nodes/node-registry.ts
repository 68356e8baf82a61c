/**
 * The nodes as this controller sees them: the stored records, and in memory whose link it has.
 *
 * N1 Only changes are stored; a report without one costs no write. N2 A record is stored before anybody here sees it. N3 Two live
 * processes never speak for one node: the second is refused, and both are flagged. N4 Who has a link is never stored; that it is
 * doubted, and that no controller has it, is (link-keeper.ts).
 * N5 A forgotten node is in no list; only its next registration reads its record. N6 The listeners are told of each revision that is
 * known here, whichever read has brought it. N7 Who may speak for a node is decided over the record in the store. N8 A controller that
 * hears the recorded life takes back an admission of another life that was not used yet.
 */
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import { isFenced } from "../domain/node/fence.ts";
import type { NodePlugin, NodeRecord } from "../domain/node/node.ts";
import { isSameLife } from "../domain/node/node-life.ts";
import { mayBeAlive } from "../domain/node/standing.ts";
import type { NodeView } from "../ports.ts";
import { recordAfter } from "../records/record-table.ts";
import { type Admission, admitNode, withFingerprints } from "./admit-node.ts";
import type { AgentHeader } from "./convert.ts";
import { createLinkKeeper } from "./link-keeper.ts";
import { createNameDisputes } from "./name-disputes.ts";
import { createNodeDecisions } from "./node-decisions.ts";
import { createNodeLinks } from "./node-links.ts";
import { createNodeNews } from "./node-news.ts";
import type { AgentReport, NodeRegistry, NodeRegistryOptions, ReportAnswer } from "./node-registry-model.ts";
import type { StoredNode } from "./node-store.ts";

/** For how many graces a name that somebody was refused stays flagged. */
const settledGraces = 10;

export const createNodeRegistry = (options: NodeRegistryOptions): NodeRegistry => {
  const { nodes, clock, log, graceMs, signal } = options;
  const known = new Map<string, StoredNode>();
  const disputes = createNameDisputes({ clock, log });
  const lanes = createKeyedLanes();
  const recordOf = (name: string): NodeRecord | undefined => known.get(name)?.record;
  const links = createNodeLinks({ clock, graceMs, recordOf });
  const news = createNodeNews({ known, live: links.live, clock });
  const { tell } = news;
  const start = clock.monotonic();
  let young = true;

  const drop = (name: string): void => {
    known.delete(name);
    links.forget(name);
    news.forget(name);
  };

  const keep = (node: StoredNode, own: boolean): void => {
    const { name, forgottenAt } = node.record;
    if (forgottenAt === undefined) {
      known.set(name, node);
      links.sees(node.record, own);
    } else drop(name); // N5
  };

  const changes = nodes.changes({
    recall: (name) => known.get(name),
    saw: (_name, node, own) => {
      if (node !== undefined) keep(node, own); // N2
    },
  });

  const viewOf = ({ record, rev }: StoredNode): NodeView => ({
    record,
    rev,
    live: links.live(record),
    linked: links.has(record),
  });

  /** N7: what another controller has written since counts. */
  const recall = async (name: string): Promise<void> => {
    const read = await nodes.read(name);
    if (read !== undefined && read.rev > (known.get(name)?.rev ?? 0)) keep(read, false);
  };

  /** Called at each look at the links. */
  const look = (): void => {
    for (const name of disputes.settle(settledGraces * graceMs)) tell(name);
    if (young && clock.monotonic() - start >= graceMs) {
      young = false;
      for (const { record } of known.values()) if (news.stale(record)) tell(record.name);
    }
  };

  /** N8, and what doubts the link of a node that is here. */
  const keeper = createLinkKeeper({ ...options, links, changes, recordOf, lanes, tell, look });

  const register = async (header: AgentHeader, plugins: readonly NodePlugin[]): Promise<NodeRecord> => {
    const clusterUid = await nodes.clusterUid();
    const { name } = header;
    if (header.clusterUid !== "" && header.clusterUid !== clusterUid) {
      const refused = disputes.foreign(header, clusterUid);
      tell(name);
      throw refused;
    }
    let instanceBefore: string | undefined;
    let admission: Exclude<Admission, { readonly kind: "conflict" }> | undefined;
    let alive = false;
    await recall(name); // N7
    const stored = await changes(name, async (before) => {
      alive = before !== undefined && mayBeAlive(before.record, links.has(before.record));
      const verdict = admitNode(
        header,
        plugins,
        before && {
          record: before.record,
          alive,
          replaced: disputes.replaced(name),
          standing: isSameLife(before.record, header) ? 0 : await nodes.standing(name),
        },
        clock.now(),
      );
      if (verdict.kind === "conflict") {
        const refused = disputes.refuse(header, verdict.why); // N3
        tell(name);
        throw refused;
      }
      instanceBefore = before?.record.instance;
      admission = verdict;
      return verdict.record;
    });
    const { changed } = stored;
    const after = recordAfter(stored);
    if (admission?.kind === "pending") {
      if (changed) tell(name);
      throw disputes.hold(name, admission.pending, admission.why, alive); // N3
    }
    disputes.granted(header);
    if (instanceBefore !== undefined && instanceBefore !== header.instance) disputes.noteReplaced(name, instanceBefore);
    links.heard(name, {
      instance: header.instance,
      revision: header.fingerprintRevision,
      // A node that is fenced takes nothing before its agent has heard that it may (its next reports).
      accepting: !isFenced(after.record),
      message: "",
    });
    log.info("a node registered", {
      node: name,
      instance: header.instance,
      node_epoch: after.record.nodeEpoch,
      changed,
      memory_lost: admission?.memoryLost ?? false,
    });
    if (changed || news.stale(after.record)) tell(name);
    return after.record;
  };

  const report = async (beat: AgentReport): Promise<ReportAnswer> => {
    const { node: name, instance } = beat;
    const last = links.last(name);
    const record = recordOf(name);
    if (record === undefined || last === undefined || last.instance !== instance || record.instance !== instance)
      return { known: false, record };
    const repeated = beat.revision === last.revision;
    if (!repeated && beat.baseRevision !== last.revision) return { known: false, record };
    // Alive, whatever becomes of the changes.
    links.heard(name, { instance, revision: last.revision, accepting: beat.accepting, message: beat.message });
    await keeper.contradict(name);
    const shownAnew = news.stale(record);
    if (repeated) {
      if (shownAnew) tell(name);
      return { known: true, record };
    }
    const stored = await changes(name, (before) => {
      const base = before?.record ?? record;
      return base.instance === instance && base.forgottenAt === undefined
        ? withFingerprints(base, beat.changed, beat.removed, clock.now())
        : base;
    });
    const { changed } = stored;
    const after = recordAfter(stored);
    links.heard(name, { instance, revision: beat.revision, accepting: beat.accepting, message: beat.message });
    if (shownAnew || changed) tell(name);
    return { known: after.record.instance === instance && known.has(name), record: after.record };
  };

  const learnOf = (name: string): Promise<void> =>
    lanes.run(name, signal, async () => {
      const read = await nodes.read(name);
      if (read === undefined) return;
      const relevant = known.has(name) || read.record.forgottenAt === undefined;
      if (read.rev > (known.get(name)?.rev ?? 0)) keep(read, false);
      await keeper.contradict(name);
      // A decision that changed nothing may have brought this revision before, and told nobody (N6).
      if (relevant && news.toldRev(name) !== (known.get(name)?.rev ?? 0)) tell(name);
    });

  /** Its link here began, or ended: people see it at once. */
  const linked = (name: string, instance: string): void => {
    const before = known.get(name);
    const had = before !== undefined && links.has(before.record);
    links.linked(name, instance);
    if (before === undefined || !links.has(before.record)) return;
    if (!had) tell(name);
    // What cannot be written now is written by the watch.
    lanes
      .run(name, signal, async () => {
        const { rev } = before;
        await keeper.contradict(name);
        if (known.get(name)?.rev !== rev) tell(name);
      })
      .catch(() => undefined);
  };

  const unlinked = (name: string, instance: string, why: string): void => {
    if (!links.unlinked(name, instance, why) || signal.aborted) return;
    log.warn("the link to the agent of a node ended; its claims stay", { node: name, why });
    tell(name);
  };

  return {
    async load() {
      const found = new Set<string>();
      for (const node of await nodes.all()) {
        const { name } = node.record;
        found.add(name);
        if (node.rev > (known.get(name)?.rev ?? 0)) keep(node, false);
        if (news.toldRev(name) !== known.get(name)?.rev) tell(name); // N6
      }
      // Forgotten while nobody here looked; what registered meanwhile is read, not guessed at.
      for (const name of [...known.keys()].filter((one) => !found.has(one))) await learnOf(name);
    },
    ...createNodeDecisions({ changes, recall, lanes, signal, log, contradict: keeper.contradict, tell, drop, viewOf }),
    register: (header, plugins) => lanes.run(header.name, signal, () => register(header, plugins)),
    report: (beat) => lanes.run(beat.node, signal, () => report(beat)),
    linked,
    unlinked,
    get(name) {
      const node = known.get(name);
      return node === undefined ? undefined : viewOf(node);
    },
    damage: nodes.damage,
    disputes: disputes.all,
    list: () => [...known.values()].map(viewOf),
    onChange: news.onChange,
    details(name) {
      const node = known.get(name);
      if (node === undefined) return undefined;
      const linkEnd = links.ended(node.record);
      return {
        rev: node.rev,
        lastHeard: links.has(node.record) ? clock.now() : linkEnd?.at,
        linkEnd,
        message: links.last(name)?.message ?? "",
        dispute: disputes.of(name),
        since: news.since(name),
      };
    },
    learnOf,
    refresh: learnOf,
    watchLinks: keeper.watch,
  };
};
