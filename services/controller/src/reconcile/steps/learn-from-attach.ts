import { slotKey } from "../../domain/attachment/slots.ts";
import type { Outcome } from "../../domain/outcome.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import { nodePluginOf } from "../../records/attachment/node-plugin.ts";
import { pagesOf } from "../../records/pages-of.ts";
import type { StepDeps } from "./step-run.ts";

const pageSize = 500;

/**
 * Attachments of the plugin there that its answers proved: what is only being made may not be there, and what another machine had under
 * the node's name is not there.
 */
const provenOn = async ({ records }: StepDeps, slots: string, node: string, nodeId: string): Promise<number> => {
  let proven = 0;
  for await (const page of pagesOf((after) => records.list("slot", slots, { after, limit: pageSize, whole: true })))
    for (const { volume } of page.volumes) {
      const attachment = volume.attachments[node];
      if (attachment?.nodeId === nodeId && attachment.state !== "ATTACHING") proven += 1;
    }
  return proven;
};

/**
 * CSI, ControllerPublishVolume, RESOURCE_EXHAUSTED: the node takes no more than it has. No further grant is made there until the plugin
 * is asked again, and this volume tries again when a slot is freed. A success beyond what was learned proves that it was wrong.
 */
export const learnFromAttach = async (
  deps: StepDeps,
  volume: VolumeRecord,
  node: string,
  outcome: Outcome<unknown>,
): Promise<void> => {
  const { records, learned, nodes, log } = deps;
  const { plugin } = volume;
  const known = records.attachLimit(plugin, node);
  const full = outcome.kind !== "done" && outcome.failure.nodeFull === true;
  if (!full && (outcome.kind !== "done" || !known.learned)) return;
  const slots = slotKey(plugin, node);
  if (full) records.slots.refused(slots, volumeKey(volume));
  const view = nodes.get(node);
  const half = nodePluginOf(view, plugin);
  if (view === undefined || half === undefined) return;
  try {
    const proven = await provenOn(deps, slots, node, half.nodeId);
    if (full && proven < known.limit) {
      log.warn("a plugin takes no more volumes on a node than it has there", { plugin, node, attached: proven });
      await learned.learn(half, view.record, proven);
    }
    if (!full && proven > known.limit) await learned.forget(plugin, node);
  } catch (error) {
    deps.signal.throwIfAborted();
    log.warn("what a plugin takes on a node could not be stored", { plugin, node, error });
  }
};
