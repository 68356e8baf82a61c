/**
 * Storage of which no record says the place: every instance is asked whether it has the storage. Only one instance that says so is
 * believed (R2 of `domain/plugin/instance-reach.ts`); no answer of an instance is taken for a "no" that it did not give.
 */

import type { Tri } from "@holdfast/model/tri";
import type { CallTarget } from "../domain/plugin/instance-reach.ts";
import { type AskedStorage, foundAt, whereIs } from "../domain/plugin/instance-reach.ts";
import { listedVolumeOf } from "./attached-nodes.ts";
import type { InstanceChoice, PluginInstance } from "./plugin-calls.ts";

const hasVolume = async (instance: PluginInstance, volumeId: string, signal: AbortSignal): Promise<Tri> => {
  const { controller } = instance.facts;
  if (controller.GET_VOLUME === "yes") {
    const answer = await instance.call("ControllerGetVolume", { volumeId }, { signal });
    if (answer.outcome === "done") return answer.value.volume?.volumeId === volumeId ? "yes" : "unknown";
    return answer.outcome === "refused" && answer.failure.code === "NOT_FOUND" ? "no" : "unknown";
  }
  if (controller.LIST_VOLUMES !== "yes") return "unknown";
  const found = await listedVolumeOf(instance, volumeId, signal);
  return found === "unknown" ? "unknown" : found === undefined ? "no" : "yes";
};

const hasSnapshot = async (instance: PluginInstance, snapshotId: string, signal: AbortSignal): Promise<Tri> => {
  if (instance.facts.controller.LIST_SNAPSHOTS !== "yes") return "unknown";
  const answer = await instance.call("ListSnapshots", { snapshotId }, { signal });
  if (answer.outcome !== "done") return "unknown";
  return answer.value.entries.some(({ snapshot }) => snapshot?.snapshotId === snapshotId) ? "yes" : "no";
};

const has = ({ kind, externalId }: AskedStorage, instance: PluginInstance, signal: AbortSignal): Promise<Tri> =>
  kind === "volume" ? hasVolume(instance, externalId, signal) : hasSnapshot(instance, externalId, signal);

export const locateStorage = async (
  instances: Pick<InstanceChoice, "every">,
  target: CallTarget,
  signal: AbortSignal,
): Promise<PluginInstance | undefined> => {
  const where = whereIs(target);
  if (where.kind !== "unknown" || where.ask === undefined) return undefined;
  const { ask } = where;
  const { here } = instances.every(target.plugin);
  return foundAt(await Promise.all(here.map(async (of) => ({ of, has: await has(ask, of, signal) }))));
};
