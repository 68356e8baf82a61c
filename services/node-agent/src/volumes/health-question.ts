/**
 * After a plugin failed to stage or publish a volume it is asked how the volume is: often it knows the cause, and its failure says
 * only "again later".
 *
 * H1 Once per streak of failures of a volume; a repeat tells again what was said. H2 Outside of the volume's lane: a question that
 * hangs holds up no order. The next order of the volume gives it up, and beside one that has come already nothing is asked: a plugin
 * gets one call of a volume at a time. H3 It ends by its
 * deadline, and its own failure changes nothing.
 */
import { healthText, type VolumeHealthEntry } from "@holdfast/model/health";
import type { Clock } from "@holdfast/shared/async/clock";
import { onAbort } from "@holdfast/shared/async/signals";
import type { Halt, PublishResult } from "../domain/answer-types.ts";
import type { VolumeRef } from "../domain/types.ts";
import type { Ledger, NodePlugins, VolumePlace } from "../ports.ts";
import type { VolumeManager } from "./volume-manager.ts";

export interface HealthQuestionOptions {
  readonly ledger: Pick<Ledger, "volume">;
  readonly plugins: NodePlugins;
  readonly clock: Pick<Clock, "timer">;
  /** The agent's life. */
  readonly signal: AbortSignal;
}

type Told = readonly VolumeHealthEntry[] | undefined;

const deadlineMs = 5_000;

/** The call that the plugin failed; one that was never sent says nothing of the volume. */
function failedCall(result: PublishResult): string | undefined {
  const end = result.kind === "uncertain" ? result.halt : result.kind === "not-mounted" ? result.failure : undefined;
  if (end === undefined || end.code === "" || end.code === "OK" || end.reason === "PLUGIN_NOT_READY") return undefined;
  return end.method === "NodeStageVolume" || end.method === "NodePublishVolume" ? end.method : undefined;
}

const withWords = (message: string, told: Told): string =>
  told === undefined || told.length === 0 ? message : `${message}; asked for its health, it says ${healthText(told)}`;

/** The same manager; what its publications failed of comes with what the plugin says of the volume. */
export function createHealthQuestion(
  volumes: VolumeManager,
  { ledger, plugins, clock, signal }: HealthQuestionOptions,
): VolumeManager {
  /** By volume uid, for as long as its streak of failures lasts. */
  const streaks = new Map<string, { readonly asked: Promise<Told>; readonly giveUp: () => void; told: Told }>();

  const ask = async (ref: VolumeRef, method: string, claimUid: string, late: AbortController): Promise<Told> => {
    if (signal.aborted) return undefined;
    const volume = ledger.volume(ref.volumeUid);
    const stage = volume?.stage;
    // CSI: where it "was published or CO attempted to publish"; a staging path only for plugins that stage.
    const target = method === "NodePublishVolume" ? (volume?.claims[claimUid]?.facts.target ?? "") : "";
    const place: VolumePlace = { ref, target, stagingPath: stage?.needed === true ? stage.path : "" };
    const stop = clock.timer(deadlineMs, () => late.abort());
    const limit = AbortSignal.any([signal, late.signal]);
    const nothing = new Promise<undefined>((resolve) => onAbort(limit, () => resolve(undefined)));
    const answer = plugins.get(ref.plugin)?.health(place, deadlineMs, limit);
    try {
      return await Promise.race([answer, nothing]); // H3
    } catch {
      return undefined; // H3
    } finally {
      stop();
      late.abort();
    }
  };

  const askOnce = (ref: VolumeRef, method: string, claimUid: string): Promise<Told> => {
    const known = streaks.get(ref.volumeUid);
    if (known !== undefined) return known.asked; // H1
    const late = new AbortController();
    const streak = {
      asked: ask(ref, method, claimUid, late),
      giveUp: () => late.abort(),
      told: undefined as Told,
    };
    streaks.set(ref.volumeUid, streak);
    void streak.asked.then((told) => {
      streak.told = told;
    });
    return streak.asked;
  };

  const withHealth = (halt: Halt, told: Told): Halt => ({ ...halt, message: withWords(halt.message, told) });

  /** Orders of each volume that have no answer yet. */
  const underWay = new Map<string, number>();
  /** H2 */
  const ordered = async <T>({ volumeUid: uid }: VolumeRef, run: () => Promise<T>): Promise<T> => {
    streaks.get(uid)?.giveUp();
    underWay.set(uid, (underWay.get(uid) ?? 0) + 1);
    try {
      return await run();
    } finally {
      const left = (underWay.get(uid) ?? 1) - 1;
      if (left > 0) underWay.set(uid, left);
      else underWay.delete(uid);
    }
  };

  return {
    ...volumes,
    async publish(order, caller) {
      const { ref, claim } = order;
      const result = await ordered(ref, () => volumes.publish(order, caller));
      if (result.kind === "published") streaks.delete(ref.volumeUid);
      const method = failedCall(result);
      if (method === undefined || (result.kind !== "uncertain" && result.kind !== "not-mounted")) return result;
      if (underWay.has(ref.volumeUid)) return result; // H2
      const health = await askOnce(ref, method, claim.claimUid); // H2
      if (result.kind === "not-mounted") streaks.delete(ref.volumeUid);
      if (health === undefined) return result;
      return result.kind === "uncertain"
        ? { ...result, halt: withHealth(result.halt, health), health }
        : { ...result, message: withWords(result.message, health), health };
    },
    expand: (order, caller) => ordered(order.ref, () => volumes.expand(order, caller)),
    async release(order, caller) {
      const result = await ordered(order.ref, () => volumes.release(order, caller));
      if (result.kind === "released") streaks.delete(order.ref.volumeUid);
      return result;
    },
    halts: () =>
      new Map(
        [...volumes.halts()].map(([uid, halt]) => {
          const told = failedCall({ kind: "uncertain", halt }) && streaks.get(uid)?.told;
          return [uid, told === undefined || told === "" ? halt : withHealth(halt, told)];
        }),
      ),
  };
}
