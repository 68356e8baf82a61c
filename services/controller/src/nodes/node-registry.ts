/**
 * The nodes as this controller sees them: the stored records, and in memory who is alive.
 *
 * N1 Only changes are stored; a heartbeat without one costs no write. N2 A record is stored before anybody here sees it. N3 Two live
 * processes never speak for one node: the second is refused, and both are flagged. N4 Liveness is never stored.
 * N5 A forgotten node is in no list; only its next registration reads its record. N6 The listeners are told of each revision that is
 * known here, whichever read has brought it. N7 Who may speak for a node is decided over the record in the store. N8 A controller that
 * hears the recorded life takes back an admission of another life that was not used yet.
 */
import { every } from "@holdfast/shared/async/every";
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import type { NodePlugin, NodeRecord } from "../domain/node.ts";
import { isSameLife } from "../domain/node-life.ts";
import type { NodeView } from "../ports.ts";
import { type Admission, admitNode, withFingerprints } from "./admit-node.ts";
import type { AgentHeader } from "./convert.ts";
import { createLiveness, type Live, missedBeats } from "./liveness.ts";
import { createNameDisputes } from "./name-disputes.ts";
import { type ChangeOutcome, createNodeChanges } from "./node-changes.ts";
import type { AgentBeat, BeatAnswer, NodeRegistry, NodeRegistryOptions } from "./node-registry-model.ts";
import type { StoredNode } from "./node-store.ts";
import { otherCluster } from "./other-cluster.ts";

export const createNodeRegistry = (options: NodeRegistryOptions): NodeRegistry => {
  const { nodes, clock, log, heartbeatMs, signal } = options;
  const known = new Map<string, StoredNode>();
  const told = new Map<string, Live>();
  /** Which revision of its record the listeners were told of last. */
  const toldRev = new Map<string, number>();
  const since = new Map<string, { readonly state: string; readonly at: number }>();
  const disputes = createNameDisputes({ clock, log });
  const lanes = createKeyedLanes();
  const liveness = createLiveness({ clock, periodMs: heartbeatMs });
  const listeners = new Set<(node: string) => void>();

  /** When this controller saw the state that it shows now; silence is its own view and has no time in the record. */
  const noteSince = (name: string): void => {
    const record = known.get(name)?.record;
    if (record === undefined) {
      since.delete(name);
      return;
    }
    const state = `${record.state} ${liveness.live(name) === "suspect"}`;
    const before = since.get(name);
    if (before?.state !== state)
      since.set(name, { state, at: before === undefined ? record.registeredAt : clock.now() });
  };

  const tell = (name: string): void => {
    if (known.has(name)) told.set(name, liveness.live(name));
    toldRev.set(name, known.get(name)?.rev ?? 0);
    noteSince(name);
    for (const listener of [...listeners]) listener(name);
  };

  const drop = (name: string): void => {
    known.delete(name);
    liveness.forget(name);
    told.delete(name);
    toldRev.delete(name);
  };

  const keep = (node: StoredNode): void => {
    const { name, forgottenAt } = node.record;
    if (forgottenAt === undefined) known.set(name, node);
    else drop(name); // N5
  };

  const { change } = createNodeChanges({ nodes, known, keep });

  const viewOf = ({ record, rev }: StoredNode): NodeView => ({ record, rev, live: liveness.live(record.name) });

  const speaks = (name: string, instance: string): boolean =>
    liveness.present(name) && liveness.last(name)?.instance === instance;

  /** N7: what another controller has written since counts. */
  const recall = async (name: string): Promise<void> => {
    const read = await nodes.read(name);
    if (read !== undefined && read.rev > (known.get(name)?.rev ?? 0)) keep(read);
  };

  /** N8 */
  const object = async (name: string): Promise<void> => {
    const record = known.get(name)?.record;
    if (record?.admitted === undefined || !speaks(name, record.instance)) return;
    log.warn("the recorded life of a node speaks, so that the admission of another life does not count", {
      node: name,
      life: record.admitted,
    });
    await change(name, (before) => {
      if (before === undefined || before.record.instance !== record.instance) return undefined;
      const { admitted: _objected, ...kept } = before.record;
      return kept;
    });
  };

  const register = async (header: AgentHeader, plugins: readonly NodePlugin[]): Promise<NodeRecord> => {
    const clusterUid = await nodes.clusterUid();
    if (header.clusterUid !== "" && header.clusterUid !== clusterUid) throw otherCluster(header, clusterUid);
    const { name } = header;
    let instanceBefore: string | undefined;
    let admission: Exclude<Admission, { readonly kind: "conflict" }> | undefined;
    let alive = false;
    await recall(name); // N7
    const stored = await change(name, async (before) => {
      // While this controller has not been up for long, it knows of nobody that he is silent.
      alive =
        before !== undefined &&
        before.record.forgottenAt === undefined &&
        (liveness.live(name) === "unknown" || speaks(name, before.record.instance));
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
    const { after, changed } = outcomeOf(stored);
    if (admission?.kind === "pending") {
      if (changed) tell(name);
      throw disputes.hold(name, admission.pending, admission.why, alive); // N3
    }
    if (instanceBefore !== undefined && instanceBefore !== header.instance) disputes.noteReplaced(name, instanceBefore);
    liveness.heard(name, {
      instance: header.instance,
      revision: header.fingerprintRevision,
      accepting: true,
      message: "",
    });
    log.info("a node registered", {
      node: name,
      instance: header.instance,
      node_epoch: after.record.nodeEpoch,
      changed,
      memory_lost: admission?.memoryLost ?? false,
    });
    tell(name);
    return after.record;
  };

  const heartbeat = async (beat: AgentBeat): Promise<BeatAnswer> => {
    const { node: name, instance } = beat;
    const last = liveness.last(name);
    const record = known.get(name)?.record;
    if (record === undefined || last === undefined || last.instance !== instance || record.instance !== instance)
      return { known: false, record };
    const repeated = beat.revision === last.revision;
    if (!repeated && beat.baseRevision !== last.revision) return { known: false, record };
    // Alive, whatever becomes of the changes.
    liveness.heard(name, { instance, revision: last.revision, accepting: beat.accepting, message: beat.message });
    await object(name);
    const news = told.get(name) !== liveness.live(name);
    if (repeated) {
      if (news) tell(name);
      return { known: true, record };
    }
    const stored = await change(name, (before) => {
      const base = before?.record ?? record;
      return base.instance === instance && base.forgottenAt === undefined
        ? withFingerprints(base, beat.changed, beat.removed, clock.now())
        : base;
    });
    const { after, changed } = outcomeOf(stored);
    liveness.heard(name, { instance, revision: beat.revision, accepting: beat.accepting, message: beat.message });
    if (news || changed) tell(name);
    return { known: after.record.instance === instance && known.has(name), record: after.record };
  };

  const learnOf = (name: string): Promise<void> =>
    lanes.run(name, signal, async () => {
      const read = await nodes.read(name);
      if (read === undefined) return;
      const news = known.has(name) || read.record.forgottenAt === undefined;
      if (read.rev > (known.get(name)?.rev ?? 0)) keep(read);
      await object(name);
      // A decision that changed nothing may have brought this revision before, and told nobody (N6).
      if (news && toldRev.get(name) !== (known.get(name)?.rev ?? 0)) tell(name);
    });

  const lookForSilence = (): void => {
    for (const name of disputes.settle(missedBeats * heartbeatMs)) tell(name);
    for (const name of known.keys()) {
      const live = liveness.live(name);
      if (told.get(name) === live) continue;
      if (live === "suspect")
        log.warn("a node is suspect: its agent is silent or does not accept work; its claims stay", {
          node: name,
          reason: liveness.last(name)?.message ?? "",
        });
      else log.info("a node is back", { node: name });
      tell(name);
    }
  };

  return {
    async load() {
      const found = new Set<string>();
      for (const node of await nodes.all()) {
        const { name } = node.record;
        found.add(name);
        if (node.rev > (known.get(name)?.rev ?? 0)) keep(node);
        if (toldRev.get(name) !== known.get(name)?.rev) tell(name); // N6
      }
      // Forgotten while nobody here looked; what registered meanwhile is read, not guessed at.
      for (const name of [...known.keys()].filter((one) => !found.has(one))) await learnOf(name);
    },
    change: (name, decide, audit) =>
      lanes.run(name, signal, async () => {
        const stored = await change(
          name,
          (before) =>
            before === undefined || before.record.forgottenAt !== undefined ? undefined : decide(before.record),
          audit && { audit },
        );
        if (stored === undefined || stored === "crowded") return undefined;
        if (stored.changed) tell(name);
        return viewOf(stored.after);
      }),
    forget: (name, decide, unless) =>
      lanes.run(name, signal, async () => {
        const stored = await change(
          name,
          (before) =>
            before === undefined || before.record.forgottenAt !== undefined ? undefined : decide(before.record),
          { alone: unless },
        );
        if (stored === "crowded") return "in use";
        if (stored === undefined) drop(name);
        if (stored !== undefined)
          log.info("a node was forgotten", { node: name, who: stored.after.record.changedBy?.who });
        tell(name);
        return stored === undefined ? "unknown" : "forgotten";
      }),
    register: (header, plugins) => lanes.run(header.name, signal, () => register(header, plugins)),
    heartbeat: (beat) => lanes.run(beat.node, signal, () => heartbeat(beat)),
    get(name) {
      const node = known.get(name);
      return node === undefined ? undefined : viewOf(node);
    },
    damage: nodes.damage,
    list: () => [...known.values()].map(viewOf),
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    details(name) {
      const node = known.get(name);
      if (node === undefined) return undefined;
      const last = liveness.last(name);
      return {
        rev: node.rev,
        lastHeartbeat: last?.wall,
        message: last?.message ?? "",
        conflict: disputes.of(name),
        since: since.get(name)?.at,
      };
    },
    learnOf,
    refresh: learnOf,
    watchSilence: (until) =>
      every(heartbeatMs / 2, lookForSilence, {
        signal: until,
        clock,
        onError: (error) => log.error("looking for silent nodes failed", { error }),
      }),
  };
};

/** A decision that is always made, and asks for no guard. */
const outcomeOf = (stored: ChangeOutcome | "crowded" | undefined): ChangeOutcome => {
  if (stored === undefined || stored === "crowded") throw new Error("the decision about a node came to nothing");
  return stored;
};
