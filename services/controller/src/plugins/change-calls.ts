/** ControllerExpandVolume, ControllerModifyVolume, and what ControllerGetVolume says of one volume. */

import type { RequestInput } from "@holdfast/csi/messages";
import { capabilityIn } from "@holdfast/csi/volume-capability";
import { wholeNumber } from "@holdfast/model/whole-number";
import type { Outcome } from "../domain/outcome.ts";
import type { ExpandedVolume } from "../domain/size/expand-answer.ts";
import type { SizeRange } from "../domain/size/expansion.ts";
import { type VolumeRecord, volumeKey } from "../domain/volume/volume.ts";
import type { ControllerPlugins } from "../ports.ts";
import { outcomeFromCall } from "./outcome-from-call.ts";
import { done, nothing, type PluginCalls, type PluginInstance, subjectOf } from "./plugin-calls.ts";

/**
 * "Volume capability describing how the CO intends to use this volume": as it is attached, or the only way in which it can be. Optional,
 * and left out when there are several.
 */
const capabilityFor = (
  volume: VolumeRecord,
  { facts }: PluginInstance,
): RequestInput<"ControllerExpandVolume">["volumeCapability"] => {
  const [attached] = Object.values(volume.attachments);
  const [only, ...others] = volume.capabilities;
  const used = attached ?? (others.length === 0 ? only : undefined);
  if (used === undefined) return undefined;
  const capability = capabilityIn(used, facts.controller.SINGLE_NODE_MULTI_WRITER);
  return "because" in capability ? undefined : capability;
};

/** The answer has to be what was asked for: a volume that is said to be smaller was not expanded. 0: the plugin tells no sizes. */
const grownTo = (
  volume: VolumeRecord,
  target: SizeRange,
  capacity: number,
  nodesFollow: boolean,
): Outcome<ExpandedVolume> =>
  capacity >= target.required || capacity === 0
    ? done({ capacity: capacity === 0 ? target.required : capacity, nodesFollow })
    : {
        kind: "unknown",
        failure: {
          reason: "PLUGIN_REFUSED",
          message: `plugin ${volume.plugin} answered ControllerExpandVolume of ${volumeKey(volume)} with ${capacity} bytes although at least ${target.required} were asked for`,
          advice: "block",
          method: "ControllerExpandVolume",
          code: "OK",
          call: "ended",
        },
      };

export const createChangeCalls = (
  calls: PluginCalls,
): Pick<ControllerPlugins, "expandVolume" | "modifyVolume" | "lookAt"> => ({
  expandVolume: (volume, target, call) =>
    calls.change(
      volume,
      { ref: volume.secretRefs.controllerExpand, volume: volume.id, method: "ControllerExpandVolume" },
      call,
      async (instance, values) => {
        const answer = await instance.call(
          "ControllerExpandVolume",
          {
            volumeId: volume.externalId,
            capacityRange: { requiredBytes: BigInt(target.required), limitBytes: BigInt(target.limit) },
            secrets: { ...values },
            volumeCapability: capabilityFor(volume, instance),
          },
          { signal: call.signal, subject: subjectOf(volume, call) },
        );
        return outcomeFromCall(answer, call.attempt, ({ capacityBytes, nodeExpansionRequired }) =>
          grownTo(volume, target, wholeNumber(capacityBytes), nodeExpansionRequired),
        );
      },
    ),

  modifyVolume: (volume, target, call) =>
    calls.change(
      volume,
      { ref: volume.secretRefs.modify, volume: volume.id, method: "ControllerModifyVolume" },
      call,
      async (instance, values) => {
        const answer = await instance.call(
          "ControllerModifyVolume",
          { volumeId: volume.externalId, secrets: { ...values }, mutableParameters: { ...target } },
          { signal: call.signal, subject: subjectOf(volume, call) },
        );
        return outcomeFromCall(answer, call.attempt, nothing);
      },
    ),

  async lookAt(volume, call) {
    const instance = await calls.find(volume, call.signal);
    if (instance?.facts.controller.GET_VOLUME !== "yes") return undefined;
    const request = { volumeId: volume.externalId };
    const answer = await instance.call("ControllerGetVolume", request, {
      signal: call.signal,
      subject: subjectOf(volume, call),
    });
    if (answer.outcome !== "done" || answer.value.volume === undefined) return undefined;
    const { volume: found, status } = answer.value;
    const condition = instance.facts.controller.VOLUME_CONDITION === "yes" ? status?.volumeCondition : undefined;
    return {
      capacity: wholeNumber(found.capacityBytes),
      ...(condition === undefined ? {} : { condition: { abnormal: condition.abnormal, message: condition.message } }),
    };
  },
});
