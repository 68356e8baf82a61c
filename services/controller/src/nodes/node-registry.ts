/**
 * The nodes as this controller sees them: the stored records, and in memory who is alive.
 *
 * N1 Only changes are stored; a heartbeat without one costs no write. N2 A record is stored before anybody here sees it. N3 Two live
 * processes never speak for one node: the second is refused, and both are flagged. N4 Liveness is never stored.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { every } from "@holdfast/shared/async/every";
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import type { NodePlugin, NodeRecord } from "../domain/node.ts";
import type { Nodes, NodeView } from "../ports.ts";
import { admitNode, sameNode, withFingerprints } from "./admit-node.ts";
import type { AgentHeader } from "./convert.ts";
import { createLiveness, type Live, missedBeats } from "./liveness.ts";
import type { NodeStore, StoredNode } from "./node-store.ts";

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
  readonly conflict: { readonly since: number; readonly machineId: string; readonly why: string } | undefined;
}

export interface NodeRegistry extends Nodes {
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

const rounds = 8;
const rememberedInstances = 16;

export const createNodeRegistry = (options: NodeRegistryOptions): NodeRegistry => {
  const { nodes, clock, log, heartbeatMs, signal } = options;
  const known = new Map<string, StoredNode>();
  const replaced = new Map<string, Set<string>>();
  const conflicts = new Map<string, NonNullable<NodeDetails["conflict"]> & { readonly at: number }>();
  const told = new Map<string, Live>();
  const lanes = createKeyedLanes();
  const liveness = createLiveness({ clock, periodMs: heartbeatMs });
  const listeners = new Set<(node: string) => void>();

  const tell = (name: string): void => {
    told.set(name, liveness.live(name));
    for (const listener of [...listeners]) listener(name);
  };

  const keep = (node: StoredNode): void => {
    known.set(node.record.name, node);
  };

  const viewOf = ({ record }: StoredNode): NodeView => ({ record, live: liveness.live(record.name) });

  /** Decides from what is stored, again whenever somebody else was faster. */
  const change = async (
    name: string,
    decide: (before: StoredNode | undefined) => NodeRecord,
  ): Promise<{ readonly after: StoredNode; readonly changed: boolean }> => {
    for (let round = 0; round < rounds; round += 1) {
      const before = round === 0 ? (known.get(name) ?? (await nodes.read(name))) : await nodes.read(name);
      const next = decide(before);
      if (before !== undefined && sameNode(before.record, next)) {
        keep(before);
        return { after: before, changed: false }; // N1
      }
      const stored = await nodes.write(next, before?.rev ?? 0);
      if (stored === undefined) continue;
      keep(stored); // N2
      return { after: stored, changed: true };
    }
    throw new HoldfastError({
      kind: "aborted",
      reason: "REVISION_CONFLICT",
      message: `the record of node ${name} is being changed by others all the time; repeat the request`,
      metadata: { node: name },
    });
  };

  /** N3 */
  const refuse = (header: AgentHeader, why: string): HoldfastError => {
    const before = conflicts.get(header.name);
    const since = before?.since ?? clock.now();
    conflicts.set(header.name, { since, machineId: header.machineId, why, at: clock.monotonic() });
    if (before === undefined)
      log.warn("two live agents use one name; give one of them another", {
        node: header.name,
        machine_id: header.machineId,
        why,
      });
    tell(header.name);
    return new HoldfastError({
      kind: "already_exists",
      reason: "NODE_CONFLICT",
      message: `node ${header.name}: ${why}; give one of the two another name, or stop it and wait for three heartbeats`,
      metadata: { node: header.name, machine_id: header.machineId },
    });
  };

  const speaks = (name: string, instance: string): boolean =>
    liveness.present(name) && liveness.last(name)?.instance === instance;

  const noteReplaced = (name: string, instance: string): void => {
    const set = replaced.get(name) ?? new Set<string>();
    set.add(instance);
    const oldest = set.values().next().value;
    if (set.size > rememberedInstances && oldest !== undefined) set.delete(oldest);
    replaced.set(name, set);
  };

  const register = async (header: AgentHeader, plugins: readonly NodePlugin[]): Promise<NodeRecord> => {
    const clusterUid = await nodes.clusterUid();
    if (header.clusterUid !== "" && header.clusterUid !== clusterUid) throw otherCluster(header, clusterUid);
    const { name } = header;
    let instanceBefore: string | undefined;
    let memoryLost = false;
    const { after, changed } = await change(name, (before) => {
      const admission = admitNode(
        header,
        plugins,
        before && {
          record: before.record,
          // While this controller has not been up for long, it knows of nobody that he is silent.
          alive: liveness.live(name) === "unknown" || speaks(name, before.record.instance),
          replaced: replaced.get(name) ?? new Set(),
        },
        clock.now(),
      );
      if (admission.kind === "conflict") throw refuse(header, admission.why);
      instanceBefore = before?.record.instance;
      memoryLost = admission.memoryLost;
      return admission.record;
    });
    if (instanceBefore !== undefined && instanceBefore !== header.instance) noteReplaced(name, instanceBefore);
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
    const { after, changed } = await change(name, (before) => {
      const base = before?.record ?? record;
      return base.instance === instance ? withFingerprints(base, beat.changed, beat.removed, clock.now()) : base;
    });
    liveness.heard(name, { instance, revision: beat.revision, accepting: beat.accepting, message: beat.message });
    if (news || changed) tell(name);
    return { known: after.record.instance === instance, record: after.record };
  };

  const lookForSilence = (): void => {
    for (const [name, { at }] of conflicts) {
      if (clock.monotonic() - at <= missedBeats * heartbeatMs) continue;
      conflicts.delete(name);
      tell(name);
    }
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
      for (const node of await nodes.all()) {
        const { name } = node.record;
        if (node.rev <= (known.get(name)?.rev ?? 0)) continue;
        keep(node);
        tell(name);
      }
    },
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
      return { rev: node.rev, lastHeartbeat: last?.wall, message: last?.message ?? "", conflict: conflicts.get(name) };
    },
    learnOf: (name) =>
      lanes.run(name, signal, async () => {
        const read = await nodes.read(name);
        if (read === undefined || read.rev <= (known.get(name)?.rev ?? 0)) return;
        keep(read);
        tell(name);
      }),
    watchSilence: (until) =>
      every(heartbeatMs / 2, lookForSilence, {
        signal: until,
        clock,
        onError: (error) => log.error("looking for silent nodes failed", { error }),
      }),
  };
};

const otherCluster = ({ name, clusterUid }: AgentHeader, wanted: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "CLUSTER_MISMATCH",
    message: `the agent of node ${name} belongs to installation ${clusterUid}, this is ${wanted}; point it at its own controllers, or empty the host and its state directory first`,
    metadata: { cluster_uid: clusterUid, wanted },
  });
