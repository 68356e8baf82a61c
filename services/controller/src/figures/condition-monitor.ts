/**
 * Looks at how volumes are, and stores what changed.
 *
 * Every round each node that is alive is asked once for all that is published there, and of each plugin with GET_VOLUME and
 * VOLUME_CONDITION a few volumes are looked at, in turns: no round looks at all volumes. Volumes of which somebody says that
 * they are abnormal are looked at every time.
 *
 * M1 One look decides nothing (`hear`). M2 A look that failed, and a node that is silent, change nothing. M3 The volume shows the worst
 * of what its sources say; a node that no longer has it is no source. M4 Only changes are stored, with an event. M5 A volume is not looked
 * at beside its own call: a plugin gets one call of a volume at a time.
 */

import type { Clock } from "@holdfast/shared/async/clock";
import { every } from "@holdfast/shared/async/every";
import type { Logger } from "@holdfast/shared/log/logger";
import type { AgentGateway } from "../agent-ports.ts";
import { type ConditionSource, type Heard, hear, nothingHeard, worstOf } from "../domain/volume/condition.ts";
import { conditionSeen } from "../domain/volume/condition-change.ts";
import { type VolumeRecord, type VolumeRef, volumeKey } from "../domain/volume/volume.ts";
import type { VolumeCondition, VolumeSample } from "../domain/volume/volume-sample.ts";
import type { ControllerPlugins, Nodes, NodeView, PluginProfiles } from "../ports.ts";
import { pagesOf } from "../records/pages-of.ts";
import type { VolumeRecords } from "../records/volume/volume-records.ts";
import { volumesOnNode } from "../records/volume/volumes-on-node.ts";
import { createQuietly } from "./create-quietly.ts";

export interface ConditionMonitorOptions {
  readonly records: Pick<VolumeRecords, "list" | "change" | "recent">;
  readonly nodes: Pick<Nodes, "list">;
  readonly agents: Pick<AgentGateway, "stats">;
  readonly plugins: Pick<ControllerPlugins, "facts" | "names" | "lookAt">;
  readonly profiles: Pick<PluginProfiles, "of">;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly intervalMs?: number;
  /** Told of all that a node has measured, for what others read from it. */
  readonly onSamples?: (node: string, samples: readonly VolumeSample[]) => Promise<void>;
  /** Volumes of one plugin that are looked at in one round. */
  readonly looksPerRound?: number;
}

export interface ConditionMonitor {
  round(): Promise<void>;
  /** Rounds until the signal. */
  run(): Promise<never>;
  /** Volumes that are abnormal, by plugin. */
  abnormal(): ReadonlyMap<string, number>;
}

interface Watched {
  readonly ref: VolumeRef;
  readonly plugin: string;
  readonly heard: Map<ConditionSource, Heard>;
}

const pageSize = 200;
const nodesAtOnce = 8;

const nodeOf = (source: ConditionSource): string | undefined =>
  source.startsWith("node ") ? source.slice("node ".length) : undefined;

export const createConditionMonitor = (options: ConditionMonitorOptions): ConditionMonitor => {
  const { records, nodes, agents, plugins, profiles, clock, random, log, signal } = options;
  const { intervalMs = 60_000, looksPerRound = 20 } = options;
  /** Only those of which something abnormal was heard lately, by uid. */
  const watched = new Map<string, Watched>();
  const cursors = new Map<string, string | undefined>();

  const watch = (volume: VolumeRecord): Watched => {
    const known = watched.get(volume.uid);
    if (known !== undefined) return known;
    const heard = new Map<ConditionSource, Heard>();
    for (const [source, message] of Object.entries(volume.condition?.sources ?? {}))
      heard.set(source as ConditionSource, { settled: { abnormal: true, message }, against: 0 });
    const fresh = { ref: { namespace: volume.namespace, id: volume.id }, plugin: volume.plugin, heard };
    watched.set(volume.uid, fresh);
    return fresh;
  };

  const store = async (uid: string, { ref, heard }: Watched): Promise<void> => {
    const decide: Parameters<VolumeRecords["change"]>[1] = (volume, at) =>
      volume.uid === uid ? conditionSeen(volume, worstOf(heard), at) : { volume, ended: [], notes: [] };
    const { volume } = await records.change(ref, decide);
    if (volume === null || volume.uid !== uid) {
      watched.delete(uid);
      return;
    }
    for (const source of heard.keys()) {
      const node = nodeOf(source);
      if (node !== undefined && volume.attachments[node] === undefined) heard.delete(source); // M3
    }
    const quiet = [...heard.values()].every(({ settled, against }) => !settled.abnormal && against === 0);
    if (quiet && volume.condition === undefined) watched.delete(uid);
  };

  const said = async (volume: VolumeRecord, source: ConditionSource, told: VolumeCondition): Promise<void> => {
    // What was believed before the operator knew better is taken back like that of a volume that recovers.
    const condition = profiles.of(volume.plugin).ignoreCondition ? { abnormal: false, message: "" } : told;
    if (!condition.abnormal && !watched.has(volume.uid)) return;
    const entry = watch(volume);
    const before = entry.heard.get(source) ?? nothingHeard;
    const after = hear(before, condition);
    entry.heard.set(source, after);
    if (after.settled !== before.settled) await store(volume.uid, entry);
  };

  /** The volumes of a node by uid; only read when something abnormal was heard there. */
  const volumesOn = async (node: string, uids: ReadonlySet<string>): Promise<ReadonlyMap<string, VolumeRecord>> => {
    const found = new Map<string, VolumeRecord>();
    for await (const { volume } of volumesOnNode(records, node)) {
      if (uids.has(volume.uid)) found.set(volume.uid, volume);
      if (found.size === uids.size) break;
    }
    return found;
  };

  const lookAtNode = async ({ record }: NodeView): Promise<void> => {
    const samples = await agents.stats(record, [], signal);
    await options.onSamples?.(record.name, samples);
    const telling = samples.flatMap(({ volumeUid, condition, error }) =>
      // Figures beside an error are of an earlier look. M2
      condition === undefined || error !== undefined || (!condition.abnormal && !watched.has(volumeUid))
        ? []
        : [{ volumeUid, condition }],
    );
    if (telling.length === 0) return;
    const volumes = await volumesOn(record.name, new Set(telling.map(({ volumeUid }) => volumeUid)));
    for (const { volumeUid, condition } of telling) {
      const volume = volumes.get(volumeUid);
      if (volume !== undefined) await said(volume, `node ${record.name}`, condition);
    }
  };

  /** False: no answer. */
  const lookAtBackend = async (volume: VolumeRecord): Promise<boolean> => {
    const found = await plugins.lookAt(volume, { signal, attempt: 1 });
    if (found?.condition !== undefined) await said(volume, "backend", found.condition);
    return found !== undefined;
  };

  const quietly = createQuietly("could not be looked at", { log, signal }); // M2

  const nodeRound = async (): Promise<void> => {
    const alive = nodes.list().filter(({ live }) => live === "alive");
    for (let from = 0; from < alive.length; from += nodesAtOnce) {
      signal.throwIfAborted();
      const part = alive.slice(from, from + nodesAtOnce);
      await Promise.all(part.map((view) => quietly("a node", view.record.name, () => lookAtNode(view))));
    }
  };

  /** Those that are watched, and the next few of the plugin. */
  const pluginRound = async (plugin: string): Promise<void> => {
    const facts = plugins.facts(plugin);
    if (!facts.ready || facts.callsHeld !== undefined) return;
    if (facts.getsVolumes !== "yes" || facts.tellsCondition !== "yes") return;
    const seen = new Set<string>();
    let answers = true;
    /** One that does not answer is left alone for this round: a hung plugin would cost each look its deadline. */
    const look = async (volume: VolumeRecord): Promise<void> => {
      if (!answers || seen.has(volume.uid) || volume.state !== "AVAILABLE") return;
      if (volume.intent !== undefined) return; // M5
      seen.add(volume.uid);
      answers = false;
      await quietly("a volume", volumeKey(volume), async () => {
        answers = await lookAtBackend(volume);
      });
    };
    for (const { ref } of [...watched.values()].filter((entry) => entry.plugin === plugin).slice(0, looksPerRound)) {
      const found = await records.recent(ref);
      if (found !== undefined) await look(found.volume);
    }
    const page = await records.list("volume-plugin", plugin, { after: cursors.get(plugin), limit: looksPerRound });
    cursors.set(plugin, page.next);
    for (const { volume } of page.volumes) await look(volume);
  };

  /** What is shown as abnormal, by whichever controller: somebody has to see that it is over. */
  const remember = async (): Promise<void> => {
    const pages = pagesOf((after) => records.list("volume-abnormal", "all", { after, limit: pageSize }));
    for await (const { volumes } of pages)
      for (const { volume } of volumes) if (volume.condition !== undefined) watch(volume);
  };

  const round = async (): Promise<void> => {
    await remember();
    const looks = plugins.names().map((plugin) => quietly("a plugin", plugin, () => pluginRound(plugin)));
    await Promise.all([nodeRound(), ...looks]);
    // A source that is gone tells nothing any more: the record says which nodes still have the volume.
    for (const [uid, entry] of [...watched]) await quietly("a volume", volumeKey(entry.ref), () => store(uid, entry));
  };

  return {
    round,
    run: () =>
      every(intervalMs, round, {
        signal,
        clock,
        random,
        jitter: 0.1,
        onError: (error) => log.warn("the condition of volumes could not be looked at", { error }),
      }),
    abnormal: () => {
      const counts = new Map<string, number>();
      for (const { plugin, heard } of watched.values())
        if (Object.keys(worstOf(heard)).length > 0) counts.set(plugin, (counts.get(plugin) ?? 0) + 1);
      return counts;
    },
  };
};
