/** ControllerPublishVolume, ControllerUnpublishVolume, and what the backend says of the pair. */
import { type Attachment, type VolumeRecord, volumeKey } from "../domain/volume.ts";
import type { ControllerPlugins } from "../ports.ts";
import { attachedNodes } from "./attached-nodes.ts";
import { publishRequest, unpublishRequest } from "./convert.ts";
import { outcomeFromCall } from "./outcome-from-call.ts";
import { done, nothing, notSent, type PluginCalls, subjectOf, unsayable } from "./plugin-calls.ts";

const namelessNode = (volume: VolumeRecord, { node }: Attachment): string =>
  `volume ${volumeKey(volume)} has no driver's id of node ${node} on record, and without one it would be detached everywhere`;

export const createAttachCalls = (
  calls: PluginCalls,
): Pick<ControllerPlugins, "publish" | "unpublish" | "attachmentAbsent"> => ({
  publish: (volume, attachment, call) =>
    calls.run(volume.plugin, attachment.secretRef, async (instance, values) => {
      const request = publishRequest(volume, attachment, instance.facts.controller.SINGLE_NODE_MULTI_WRITER, values);
      if ("because" in request) return unsayable(volume.plugin, request);
      const answer = await instance.call("ControllerPublishVolume", request, {
        signal: call.signal,
        subject: subjectOf(volume, call, attachment.node),
      });
      return outcomeFromCall(answer, call.attempt, ({ publishContext }) => done({ ...publishContext }));
    }),

  unpublish: (volume, attachment, call) =>
    calls.run(volume.plugin, attachment.secretRef, async (instance, values) => {
      if (attachment.nodeId === "") return notSent("INTERNAL", namelessNode(volume, attachment));
      const answer = await instance.call("ControllerUnpublishVolume", unpublishRequest(volume, attachment, values), {
        signal: call.signal,
        subject: subjectOf(volume, call, attachment.node),
      });
      return outcomeFromCall(answer, call.attempt, nothing);
    }),

  async attachmentAbsent(volume, attachment, call) {
    const instance = calls.instance(volume.plugin);
    if (instance === undefined) return "unknown";
    const nodes = await attachedNodes(instance, volume.externalId, call.signal);
    if (nodes === "unknown") return "unknown";
    return nodes.includes(attachment.nodeId) ? "no" : "yes";
  },
});
