import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { Volume, type WatchVolumesRequest, type WatchVolumesResponse } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { VolumeFilter, VolumeView } from "../../commands/model.ts";
import { refuse } from "../../commands/volume/validate-volume.ts";
import { type CallerScope, stillSees } from "../../domain/access/caller-scope.ts";
import { isBlocked } from "../../domain/size/growth.ts";
import type { StoredEvent } from "../../domain/store-types.ts";
import { type VolumeRecord, type VolumeRef, volumeStates } from "../../domain/volume/volume.ts";
import { listWithin } from "../access/within-scope.ts";
import type { ApiDeps } from "../api-deps.ts";
import { createChecks } from "../check-request.ts";
import { noteText } from "../event/event-note.ts";
import { questionOf } from "../page-token.ts";
import { watchResources } from "../watch-resources.ts";
import { volumeMessage, volumeStateMessage } from "./convert-volume.ts";
import { volumeFilterFrom } from "./convert-volume-request.ts";

export async function* watchVolumes(
  { commands, feed }: Pick<ApiDeps, "commands" | "feed">,
  request: WatchVolumesRequest,
  scopeNow: () => CallerScope,
  signal: AbortSignal,
): AsyncGenerator<WatchVolumesResponse> {
  const scope = scopeNow();
  const checks = createChecks();
  const filter = volumeFilterFrom(request.filter, checks);
  refuse(checks.violations);
  const messages = watchResources<VolumeView, Volume>({
    feed,
    question: questionOf("WatchVolumes", filter, scope),
    token: request.resumeToken,
    signal,
    page: (page) => listWithin(scope, filter, page, commands.listVolumes),
    message: volumeMessage,
    changeOf: (event) => volumeChange(commands, filter, (namespace) => stillSees(scope, scopeNow, namespace), event),
  });
  for await (const { kind, resource, resumeToken } of messages) yield { kind, volume: resource, resumeToken };
}

/** What never changes in a volume's life: whoever does not fit it was never in the watch. */
const mayFit = (filter: VolumeFilter, { namespace, id }: VolumeRef, plugin: string): boolean =>
  (filter.namespace === "" || filter.namespace === namespace) &&
  id.startsWith(filter.idPrefix) &&
  (filter.plugin === "" || filter.plugin === plugin);

const fitsNow = (filter: VolumeFilter, volume: VolumeRecord): boolean =>
  (filter.states.length === 0 || filter.states.includes(volume.state)) &&
  (!filter.blocked || isBlocked(volume)) &&
  (filter.node === "" || isOn(volume, filter.node)) &&
  Object.entries(filter.labels).every(([key, value]) => volume.labels[key] === value);

const isOn = ({ claims, attachments }: VolumeRecord, node: string): boolean =>
  attachments[node] !== undefined || Object.values(claims).some((claim) => claim.node === node);

/** The volume that an event is about, as it is now; one that no longer fits the filter has left the watch. */
const volumeChange = async (
  commands: Pick<ApiDeps["commands"], "getVolume">,
  filter: VolumeFilter,
  sees: (namespace: string) => boolean,
  { ref: { kind, key }, body }: StoredEvent,
): Promise<{ readonly gone: boolean; readonly resource: Volume } | undefined> => {
  if (kind !== "volume") return undefined;
  const [namespace = "", id = ""] = key.split("/");
  if (!sees(namespace) || !mayFit(filter, { namespace, id }, filter.plugin)) return undefined;
  const view = await standing(commands, { namespace, id });
  const plugin = view?.volume.plugin ?? noteText(body, "plugin");
  if (filter.plugin !== "" && plugin !== filter.plugin) return undefined;
  if (view === undefined) return { gone: true, resource: remains({ namespace, id }, body) };
  return { gone: !fitsNow(filter, view.volume), resource: volumeMessage(view) };
};

const standing = async (
  commands: Pick<ApiDeps["commands"], "getVolume">,
  ref: VolumeRef,
): Promise<VolumeView | undefined> => {
  try {
    return await commands.getVolume(ref);
  } catch (error) {
    if (isHoldfastError(error) && error.reason === "VOLUME_NOT_FOUND") return undefined;
    throw error;
  }
};

/** Its key and its last known state. */
const remains = ({ namespace, id }: VolumeRef, body: string): Volume => {
  const last = volumeStates.find((state) => state === noteText(body, "state"));
  return Volume.fromPartial({
    namespace,
    id,
    uid: noteText(body, "uid"),
    plugin: noteText(body, "plugin"),
    state: volumeStateMessage(last ?? "DELETING"),
  });
};
