/** ValidateVolumeCapabilities, and a look at where the backend has the volume. Both read only. */

import type { CallOutcome } from "@holdfast/csi/outcome";
import { cleanPluginText, sensitiveValues } from "@holdfast/csi/plugin-text";
import { wholeNumber } from "@holdfast/model/whole-number";
import type { Failure, Outcome } from "../domain/outcome.ts";
import { type VolumeRecord, volumeKey } from "../domain/volume/volume.ts";
import type { ValidatedVolume } from "../domain/volume/volume-registration.ts";
import type { CallContext, ControllerPlugins } from "../ports.ts";
import { attachedNodes } from "./attached-nodes.ts";
import { confirmedDifference } from "./confirmed.ts";
import { accessibleFrom, validateRequest } from "./convert.ts";
import { failedFromCall } from "./outcome-from-call.ts";
import { done, type PluginCalls, type PluginInstance, subjectOf, unsayable } from "./plugin-calls.ts";

const mismatch = (message: string): Outcome<never> => ({
  kind: "refused",
  failure: { reason: "CAPABILITY_MISMATCH", message, advice: "fail" },
});

/** Secrets that are wrong now may be corrected; the rest of a read's refusals stand. */
const refusal = (volume: VolumeRecord, answer: Exclude<CallOutcome<unknown>, { outcome: "done" }>, attempt: number) => {
  const failed = failedFromCall(answer, attempt);
  const { failure } = failed;
  if (failure.reason === "CREDENTIALS_REFUSED") return { ...failed, failure: { ...failure, advice: "block" as const } };
  if (failure.code !== "NOT_FOUND") return failed;
  const gone: Failure = {
    ...failure,
    reason: "EXTERNAL_VOLUME_NOT_FOUND",
    message: `plugin ${volume.plugin} knows no storage ${volume.externalId}: ${failure.message}`,
  };
  return { ...failed, failure: gone };
};

type Look = Pick<ValidatedVolume, "capacity" | "accessible" | "publishedNodes">;

const unseen: Look = { capacity: 0, accessible: [], publishedNodes: undefined };

/** Size, place and users of the volume, as far as the plugin tells; a look that fails is made again with the next attempt. */
const look = async (
  instance: PluginInstance,
  volume: VolumeRecord,
  call: CallContext,
): Promise<Look | Exclude<CallOutcome<unknown>, { outcome: "done" }>> => {
  const { controller } = instance.facts;
  if (controller.GET_VOLUME === "yes") {
    const answer = await instance.call(
      "ControllerGetVolume",
      { volumeId: volume.externalId },
      { signal: call.signal, subject: subjectOf(volume, call) },
    );
    if (answer.outcome !== "done") return answer;
    const { volume: found, status } = answer.value;
    const told = controller.LIST_VOLUMES_PUBLISHED_NODES === "yes" && status !== undefined;
    return {
      capacity: wholeNumber(found?.capacityBytes ?? 0n),
      accessible: accessibleFrom(found?.accessibleTopology ?? []),
      publishedNodes: told ? status.publishedNodeIds.filter((id) => id !== "") : undefined,
    };
  }
  const nodes = await attachedNodes(instance, volume.externalId, call.signal);
  return nodes === "unknown" ? unseen : { ...unseen, publishedNodes: nodes.filter((id) => id !== "") };
};

/** A driver that reaches only its own place, and does not say where the volume is: it is there. */
const ownPlace = (seen: Look, { own }: PluginInstance): Look =>
  own === undefined || seen.accessible.length > 0 ? seen : { ...seen, accessible: [own] };

const tooSmall = (volume: VolumeRecord, { capacity }: Look): string | undefined => {
  const { required, limit } = volume.capacity;
  if (capacity === 0) return undefined;
  if (capacity < required) return `capacity: it has ${capacity} bytes, and at least ${required} were asked for`;
  return limit > 0 && capacity > limit
    ? `capacity: it has ${capacity} bytes, and at most ${limit} were asked for`
    : undefined;
};

export const createRegisterCalls = (calls: PluginCalls): Pick<ControllerPlugins, "validateVolume"> => ({
  validateVolume: (volume, call) =>
    calls.run<ValidatedVolume>(
      volume,
      { ref: volume.secretRefs.create, volume: volume.id, method: "ValidateVolumeCapabilities" },
      async (instance, values) => {
        const { facts } = instance;
        if (facts.plugin.CONTROLLER_SERVICE === "no")
          return done({ ...unseen, confirmed: false, pluginVersion: facts.version });
        const request = validateRequest(volume, facts.controller.SINGLE_NODE_MULTI_WRITER, values);
        if ("because" in request) return unsayable(volume.plugin, request);
        const answer = await instance.call("ValidateVolumeCapabilities", request, {
          signal: call.signal,
          subject: subjectOf(volume, call),
        });
        if (answer.outcome !== "done") return refusal(volume, answer, call.attempt);
        const { confirmed, message } = answer.value;
        const name = `volume ${volumeKey(volume)}, storage ${volume.externalId} of plugin ${volume.plugin}`;
        if (confirmed === undefined && message !== "")
          return mismatch(`${name}, cannot be used as said: ${cleanPluginText(message, sensitiveValues(request))}`);
        const difference = confirmed === undefined ? undefined : confirmedDifference(request, confirmed);
        if (difference !== undefined)
          return mismatch(
            `${name}: ${difference.field} is not confirmed (asked ${difference.wanted}, confirmed ${difference.has})`,
          );
        const seen = await look(instance, volume, call);
        if ("outcome" in seen) return refusal(volume, seen, call.attempt);
        const size = tooSmall(volume, seen);
        if (size !== undefined) return mismatch(`${name}: ${size}`);
        return done({ ...ownPlace(seen, instance), confirmed: confirmed !== undefined, pluginVersion: facts.version });
      },
      call.wanted,
    ),
});
