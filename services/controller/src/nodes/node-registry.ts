/**
 * The nodes as this controller sees them: the stored records, and in memory who is alive.
 *
 * N1 Only changes are stored; a heartbeat without one costs no write. N2 A record is stored before anybody here sees it. N3 Two live
 * processes never speak for one node: the second is refused, and both are flagged. N4 Liveness is never stored.
 * N5 A forgotten node is in no list; only its next registration reads its record.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { every } from "@holdfast/shared/async/every";
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import type { Logger } from "@holdfast/shared/log/logger";
import type { NodePlugin, NodeRecord } from "../domain/node.ts";
import type { NodeDecisions, Nodes, NodeView } from "../ports.ts";
import { admitNode, withFingerprints } from "./admit-node.ts";
import type { AgentHeader } from "./convert.ts";
import { createLiveness, type Live, missedBeats } from "./liveness.ts";
import { createNameDisputes, type NameConflict } from "./name-disputes.ts";
import { type ChangeOutcome, createNodeChanges } from "./node-changes.ts";
import type { NodeStore, StoredNode } from "./node-store.ts";
import { otherCluster } from "./other-cluster.ts";

export interface AgentBeat {
  readonly node: string;
  readonly instance: string;
  readonly baseRevision: number;
  readonly revision: number;
  readonly changed: readonly NodePlugin[];
  readonly removed: readonly { readonly plugin: string; readonly instance: string }[];
  readonly accepting: boolean;
  readonly message: string;
}

export interface BeatAnswer {
  readonly known: boolean;
  readonly record: NodeRecord | undefined;
}

/** What is known of a node beside its record, for people. */
export interface NodeDetails {
  readonly rev: number;
  /** Wall clock, for display. */
  readonly lastHeartbeat: number | undefined;
  /** Why it is not accepting, in its agent's words. */
  readonly message: string;
  /** Another process wants the name. */
  readonly conflict: NameConflict | undefined;
  /** Wall clock of this controller: since when it sees the state that it shows. */
  readonly since: number | undefined;
}

export interface NodeRegistry extends Nodes, NodeDecisions {
  /** Reads every record: before the server listens, and whenever changes may have been missed. */
  load(): Promise<void>;
  /** Rejects with NODE_CONFLICT or CLUSTER_MISMATCH. */
  register(header: AgentHeader, plugins: readonly NodePlugin[]): Promise<NodeRecord>;
  heartbeat(beat: AgentBeat): Promise<BeatAnswer>;
  details(name: string): NodeDetails | undefined;
  /** Another controller wrote the record. */
  learnOf(name: string): Promise<void>;
  /** Looks for silence until the signal; rejects then. */
  watchSilence(signal: AbortSignal): Promise<never>;
}

export interface NodeRegistryOptions {
  readonly nodes: NodeStore;
  readonly clock: Clock;
  readonly log: Logger;
  readonly heartbeatMs: number;
  readonly signal: AbortSignal;
}

export const createNodeRegistry = (options: NodeRegistryOptions): NodeRegistry => {
  const { nodes, clock, log, heartbeatMs, signal } = options;
  const known = new Map<string, StoredNode>();
  const told = new Map<string, Live>();
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
    noteSince(name);
    for (const listener of [...listeners]) listener(name);
  };

  const drop = (name: string): void => {
    known.delete(name);
    liveness.forget(name);
    told.delete(name);
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

  const register = async (header: AgentHeader, plugins: readonly NodePlugin[]): Promise<NodeRecord> => {
    const clusterUid = await nodes.clusterUid();
    if (header.clusterUid !== "" && header.clusterUid !== clusterUid) throw otherCluster(header, clusterUid);
    const { name } = header;
    let instanceBefore: string | undefined;
    let memoryLost = false;
    const stored = await change(name, (before) => {
      const admission = admitNode(
        header,
        plugins,
        before && {
          record: before.record,
          // While this controller has not been up for long, it knows of nobody that he is silent.
          alive:
            before.record.forgottenAt === undefined &&
            (liveness.live(name) === "unknown" || speaks(name, before.record.instance)),
          replaced: disputes.replaced(name),
        },
        clock.now(),
      );
      if (admission.kind === "conflict") {
        const refused = disputes.refuse(header, admission.why); // N3
        tell(name);
        throw refused;
      }
      instanceBefore = before?.record.instance;
      memoryLost = admission.memoryLost;
      return admission.record;
    });
    const { after, changed } = outcomeOf(stored);
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
      memory_lost: memoryLost,
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
      if (read === undefined || read.rev <= (known.get(name)?.rev ?? 0)) return;
      const news = known.has(name) || read.record.forgottenAt === undefined;
      keep(read);
      if (news) tell(name);
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
        if (node.rev <= (known.get(name)?.rev ?? 0)) continue;
        keep(node);
        tell(name);
      }
      // Forgotten while nobody here looked; what registered meanwhile is read, not guessed at.
      for (const name of [...known.keys()].filter((one) => !found.has(one))) await learnOf(name);
    },
    change: (name, decide) =>
      lanes.run(name, signal, async () => {
        const stored = await change(name, (before) =>
          before === undefined || before.record.forgottenAt !== undefined ? undefined : decide(before.record),
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
          unless,
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
