/**
 * Asks what is wrong with volumes (CSI 1.13), and stores what changed. A plugin that lists is read page by page, as the two-way sweep
 * reads it; any other is asked for a few volumes in turns. Nodes tell with their figures, and after a failed publication.
 *
 * H1 Backend and nodes have views of their own. H2 A listing that was not read to its end, a question without an answer, and a node
 * that does not say, change nothing. H3 A volume that is missing from a whole listing is well or was missed: its backend's view goes
 * only when ControllerGetVolumeHealth says so. H4 A volume is not asked about beside its own call. H5 Only changes are stored.
 */
import type { VolumeHealthEntry } from "@holdfast/model/health";
import type { Clock } from "@holdfast/shared/async/clock";
import { every } from "@holdfast/shared/async/every";
import type { Logger } from "@holdfast/shared/log/logger";
import type { ListedHealth, ListingPage, ListingRequest } from "../domain/listing.ts";
import type { Outcome } from "../domain/outcome.ts";
import { healthForgotten, healthSeen } from "../domain/volume/health-change.ts";
import type { VolumeRecord } from "../domain/volume/volume.ts";
import { volumeKey } from "../domain/volume/volume.ts";
import { type HealthSide, nodeOfSide, sidesOf } from "../domain/volume/volume-health.ts";
import type { VolumeSample } from "../domain/volume/volume-sample.ts";
import type { BackendHealth, ControllerPlugins } from "../ports.ts";
import { pagesOf } from "../records/pages-of.ts";
import type { VolumeRecords } from "../records/volume/volume-records.ts";
import { volumesOnNode } from "../records/volume/volumes-on-node.ts";
import { createQuietly } from "./create-quietly.ts";
import type { LostVolumes } from "./lost-volumes.ts";

type AskForHealth = (page: ListingRequest) => Promise<Outcome<ListingPage<ListedHealth>>>;
type ListingStep =
  | { readonly kind: "page"; readonly entries: readonly ListedHealth[] }
  | { readonly kind: "anew" | "complete" }
  | { readonly kind: "broken"; readonly failure: { readonly message: string } };

export interface HealthMonitorOptions {
  readonly records: Pick<VolumeRecords, "list" | "change" | "owner" | "recent">;
  readonly plugins: Pick<ControllerPlugins, "facts" | "names">;
  readonly health: BackendHealth;
  readonly lost: LostVolumes;
  /** Reads a listing from its start to its end, or says that it broke off. */
  readonly readAll: (ask: AskForHealth) => AsyncIterable<ListingStep>;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly intervalMs?: number;
  /** Volumes of one plugin without a listing that are asked about in one round. */
  readonly looksPerRound?: number;
}

export interface HealthMonitor {
  round(): Promise<void>;
  /** Rounds until the signal. */
  run(): Promise<never>;
  /** What a node's agent measured. */
  heard(node: string, samples: readonly VolumeSample[]): Promise<void>;
  /** As of the last round: volumes by plugin, side (`backend` or `node`) and status. */
  unwell(): readonly {
    readonly plugin: string;
    readonly side: string;
    readonly status: string;
    readonly count: number;
  }[];
}

const pageSize = 200;

export const createHealthMonitor = (options: HealthMonitorOptions): HealthMonitor => {
  const {
    records,
    plugins,
    health,
    lost,
    readAll,
    clock,
    random,
    log,
    signal,
    intervalMs = 60_000,
    looksPerRound = 20,
  } = options;
  const cursors = new Map<string, string | undefined>();
  /** Of the last round, by plugin and external id, and by uid. */
  let unwell: readonly VolumeRecord[] = [];

  const store = async (
    volume: VolumeRecord,
    side: HealthSide,
    entries: readonly VolumeHealthEntry[],
  ): Promise<void> => {
    if (entries.length === 0 && volume.health?.[side] === undefined) return; // H5
    await records.change(volume, (now, at) =>
      now.uid === volume.uid ? healthSeen(now, side, entries, at) : { volume: now, ended: [], notes: [] },
    );
  };

  const quietly = createQuietly("could not be asked about health", { log, signal }); // H2

  /** False: no answer. */
  const askAbout = async (volume: VolumeRecord): Promise<boolean> => {
    const { state, intent } = volume;
    if (state !== "AVAILABLE" || intent !== undefined || volume.externalId === "") return true; // H4
    if (lost.rests(volume)) return true;
    const answer = await health.of(volume, { signal, attempt: 1 });
    if (answer.kind === "done") {
      lost.known(volume);
      await store(volume, "backend", answer.value);
      return true;
    }
    log.debug("a plugin did not say how a volume is", { volume: volumeKey(volume), error: answer.failure.message });
    if (answer.failure.code !== "NOT_FOUND") return false;
    await lost.notFound(volume);
    return true;
  };

  /** One that does not answer is left alone for this round: a hung plugin would cost each question its deadline. */
  const askInTurn = async (volumes: Iterable<VolumeRecord>): Promise<void> => {
    for (const volume of volumes) {
      let answered = false;
      await quietly("a volume", volumeKey(volume), async () => {
        answered = await askAbout(volume);
      });
      if (!answered) return;
    }
  };

  /** By external id; undefined = the list could not be read to its end. */
  const listed = async (plugin: string, asker: VolumeRecord | undefined) => {
    const found = new Map<string, readonly VolumeHealthEntry[]>();
    const secretRef = asker?.secretRefs.list;
    const namespace = asker?.namespace;
    const ask: AskForHealth = (page) => health.list(plugin, { ...page, secretRef, namespace }, signal);
    for await (const step of readAll(ask)) {
      if (step.kind === "broken") {
        log.debug("the health of volumes could not be listed", { plugin, error: step.failure.message });
        return { found, whole: false };
      }
      if (step.kind === "page") for (const { externalId, entries } of step.entries) found.set(externalId, entries);
    }
    return { found, whole: true };
  };

  const firstOf = async (plugin: string): Promise<VolumeRecord | undefined> =>
    (await records.list("volume-plugin", plugin, { limit: 1 })).volumes[0]?.volume;

  const byListing = async (plugin: string, known: readonly VolumeRecord[]): Promise<void> => {
    const { found, whole } = await listed(plugin, await firstOf(plugin));
    for (const [externalId, entries] of found) {
      const owner = await records.owner({ plugin, externalId });
      if (owner !== undefined) await quietly("a volume", externalId, () => store(owner.volume, "backend", entries));
    }
    if (!whole) return; // H2
    await askInTurn(known.filter(({ externalId }) => !found.has(externalId))); // H3
  };

  const byVolume = async (plugin: string, known: readonly VolumeRecord[]): Promise<void> => {
    const page = await records.list("volume-plugin", plugin, { after: cursors.get(plugin), limit: looksPerRound });
    cursors.set(plugin, page.next);
    const next = [...known.slice(0, looksPerRound), ...page.volumes.map(({ volume }) => volume)];
    await askInTurn(new Map(next.map((volume) => [volume.uid, volume])).values());
  };

  const pluginRound = async (plugin: string): Promise<void> => {
    const { ready, callsHeld, listsHealth, tellsHealth } = plugins.facts(plugin);
    if (!ready || callsHeld !== undefined) return;
    const known = unwell.filter((volume) => volume.plugin === plugin && volume.health?.backend !== undefined);
    if (listsHealth === "yes") await byListing(plugin, known);
    else if (tellsHealth === "yes") await byVolume(plugin, known);
  };

  const readUnwell = async (): Promise<readonly VolumeRecord[]> => {
    const found: VolumeRecord[] = [];
    const pages = pagesOf((after) => records.list("volume-abnormal", "all", { after, limit: pageSize }));
    for await (const { volumes } of pages)
      for (const { volume } of volumes) if (volume.health !== undefined) found.push(volume);
    return found;
  };

  const round = async (): Promise<void> => {
    unwell = await readUnwell();
    for (const volume of unwell)
      if (healthForgotten(volume, { now: clock.now() }).volume !== volume)
        await quietly("a volume", volumeKey(volume), async () => {
          await records.change(volume, (now, at) => healthForgotten(now, at));
        });
    await Promise.all(plugins.names().map((plugin) => quietly("a plugin", plugin, () => pluginRound(plugin))));
    unwell = await readUnwell();
  };

  const heard = async (node: string, samples: readonly VolumeSample[]): Promise<void> => {
    const side: HealthSide = `node ${node}`;
    const telling = new Map(
      samples.flatMap(({ volumeUid, health: of }) => (of === undefined ? [] : [[volumeUid, of]])),
    );
    const adverse = new Set([...telling].flatMap(([uid, entries]) => (entries.length > 0 ? [uid] : [])));
    for (const volume of unwell)
      if (telling.has(volume.uid) && volume.health?.[side] !== undefined) adverse.add(volume.uid);
    if (adverse.size === 0) return;
    for await (const { volume } of volumesOnNode(records, node))
      if (adverse.has(volume.uid))
        await quietly("a volume", volumeKey(volume), () => store(volume, side, telling.get(volume.uid) ?? []));
  };

  return {
    round,
    heard,
    run: () =>
      every(intervalMs, round, {
        signal,
        clock,
        random,
        jitter: 0.1,
        onError: (error) => log.warn("plugins could not be asked about the health of volumes", { error }),
      }),
    unwell: () => {
      const counts = new Map<string, { plugin: string; side: string; status: string; count: number }>();
      for (const volume of unwell)
        for (const [of, { entries }] of sidesOf(volume)) {
          const side = nodeOfSide(of) === "" ? "backend" : "node";
          for (const status of new Set(entries.map((entry) => entry.status))) {
            const key = `${volume.plugin} ${side} ${status}`;
            const { count = 0 } = counts.get(key) ?? {};
            counts.set(key, { plugin: volume.plugin, side, status, count: count + 1 });
          }
        }
      return [...counts.values()];
    },
  };
};
