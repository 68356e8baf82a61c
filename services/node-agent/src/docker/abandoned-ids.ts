/**
 * Drops the ids of mounts that dockerd will never give back, and gives back the claims that are left without one.
 *
 * AI1 An id goes only when two looks in a row say so: a container that is being started may come to its mount between them.
 * AI2 What cannot be seen from here counts as used.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { every } from "@holdfast/shared/async/every";
import type { Logger } from "@holdfast/shared/log/logger";
import { abandonedIds, type MountId } from "../domain/docker-book.ts";
import { markOf, seenAt } from "../domain/mounts.ts";
import { isUnder } from "../domain/paths.ts";
import type { MountTable } from "../ports.ts";
import type { WorkloadManager } from "../workloads/workload-manager.ts";
import type { MountIds } from "./mount-ids.ts";

export interface AbandonedIds {
  tick(): Promise<void>;
  /** Ticks until its signal is aborted. */
  start(intervalMs: number): void;
}

export interface AbandonedIdsOptions {
  readonly ids: MountIds;
  readonly workloads: Pick<WorkloadManager, "find">;
  readonly mounts: Pick<MountTable, "look" | "findHolder" | "scope">;
  /** Where the agent's own mounts are. */
  readonly rootDir: string;
  readonly daemon: () => Promise<string>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/** dockerd has given up by then every call that it made to an earlier life of the agent. */
const callsOverMs = 150_000;

export function createAbandonedIds(options: AbandonedIdsOptions): AbandonedIds {
  const { ids, workloads, mounts, rootDir, clock, log, signal } = options;
  const since = clock.monotonic();
  let suspects: ReadonlySet<string> = new Set();
  const told = new Set<string>();

  /** AI2 */
  const used = async (volume: string): Promise<boolean | undefined> => {
    if (mounts.scope !== "host") return undefined;
    const target = (await workloads.find(ids.workloadOf(volume)))?.mounts[0]?.hostPath;
    if (target === undefined) return false;
    const view = await mounts.look(true);
    const line = seenAt(view, target);
    if (line === undefined) return false;
    const marks = [markOf(line)];
    // Other namespaces show the agent's own mount where it is; a container shows it elsewhere.
    const copies = [...view.sharing(marks), ...view.foreign(marks).map((foreign) => foreign.line)];
    if (copies.some(({ path }) => !isUnder(path, rootDir))) return true;
    return (await mounts.findHolder(target)) !== undefined;
  };

  const drop = async (volume: string, gone: readonly string[]): Promise<void> => {
    if (gone.length > 0) log.warn("mounts of Docker are over that it never gave back", { volume, ids: gone });
    const left = await ids.drop(volume, gone, 0, signal);
    if (left.length > 0) log.info("a volume of Docker is being unmounted", { volume });
  };

  /** Once for each id. */
  const tellKept = (volume: string, kept: readonly string[]): void => {
    const news = kept.filter((id) => !told.has(id));
    for (const id of news) told.add(id);
    if (news.length === 0) return;
    const cure = "VolumeDriver.Unmount at HOLDFAST_DOCKER_SOCKET with each id, once its container is gone";
    log.warn("mounts of a former dockerd are kept: who uses them cannot be seen from here", {
      volume,
      ids: news,
      cure,
    });
  };

  const look = async (volume: string, held: readonly MountId[], daemon: string, next: Set<string>): Promise<void> => {
    const callsOver = clock.monotonic() - since >= callsOverMs;
    const facts = { daemon, callsOver, asked: (id: string) => ids.asked(volume, id) };
    // The look at all namespaces is for those alone that it can decide of.
    const doubted = abandonedIds(held, { ...facts, used: false });
    if (doubted.length === 0 && held.length > 0) return;
    const inUse = await used(volume);
    const gone = abandonedIds(held, { ...facts, used: inUse });
    const keyOf = (id: string): string => `${volume}/${id}`;
    if (inUse === undefined)
      tellKept(
        volume,
        doubted.filter((id) => !gone.includes(id)),
      );
    for (const id of gone) next.add(keyOf(id));
    const twice = gone.filter((id) => suspects.has(keyOf(id))); // AI1
    if (twice.length > 0 || held.length === 0) await drop(volume, twice);
  };

  const tick = async (): Promise<void> => {
    const daemon = await options.daemon();
    const next = new Set<string>();
    for (const [volume, held] of ids.volumes()) await look(volume, held, daemon, next);
    suspects = next;
  };

  return {
    tick,
    start(intervalMs) {
      const onError = (error: unknown): void => log.error("the mounts of Docker could not be looked at", { error });
      void every(intervalMs, tick, { signal, clock, immediate: true, onError }).catch(() => undefined);
    },
  };
}
