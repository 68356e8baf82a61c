import type { ResponseOf } from "@holdfast/csi/messages";
import type { PluginInstance } from "./plugin-calls.ts";

/** A backend with more pages than this is not searched: the answer would come too late to be believed. */
const maxPages = 1000;
const pageEntries = 500;

type Asked = Pick<PluginInstance, "call" | "facts">;

/**
 * Where the backend has a volume attached, by the plugin's node ids. Only a plugin that announces LIST_VOLUMES_PUBLISHED_NODES fills
 * the field: from any other an empty list says nothing.
 */
export const attachedNodes = async (
  plugin: Asked,
  externalId: string,
  signal: AbortSignal,
  beside = false,
): Promise<readonly string[] | "unknown"> => {
  const { controller } = plugin.facts;
  if (controller.LIST_VOLUMES_PUBLISHED_NODES !== "yes") return "unknown";
  if (controller.GET_VOLUME === "yes" && !beside) {
    const answer = await plugin.call("ControllerGetVolume", { volumeId: externalId }, { signal });
    if (answer.outcome === "done" && answer.value.status !== undefined) return answer.value.status.publishedNodeIds;
  }
  return controller.LIST_VOLUMES === "yes" ? await fromListing(plugin, externalId, signal) : "unknown";
};

type Entry = ResponseOf<"ListVolumes">["entries"][number];

/** Of a complete listing; undefined = it is not in it. */
export const listedVolumeOf = async (
  plugin: Asked,
  externalId: string,
  signal: AbortSignal,
): Promise<Entry | undefined | "unknown"> => {
  let startingToken = "";
  for (let page = 0; page < maxPages; page += 1) {
    const answer = await plugin.call("ListVolumes", { maxEntries: pageEntries, startingToken }, { signal });
    if (answer.outcome !== "done") return "unknown";
    const found = answer.value.entries.find(({ volume }) => volume?.volumeId === externalId);
    if (found !== undefined) return found;
    startingToken = answer.value.nextToken;
    if (startingToken === "") return undefined;
  }
  return "unknown";
};

/** A volume that a complete listing does not have is attached nowhere; an entry without a status leaves it open. */
const fromListing = async (
  plugin: Asked,
  externalId: string,
  signal: AbortSignal,
): Promise<readonly string[] | "unknown"> => {
  const found = await listedVolumeOf(plugin, externalId, signal);
  if (found === undefined) return [];
  return found === "unknown" ? "unknown" : (found.status?.publishedNodeIds ?? "unknown");
};
