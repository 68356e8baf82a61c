/** ControllerPublishVolume, ControllerUnpublishVolume, and what the backend says of the pair. */
import type { Outcome } from "../domain/outcome.ts";
import { unpinned } from "../domain/secret/secret.ts";
import { type Attachment, type VolumeRecord, volumeKey } from "../domain/volume/volume.ts";
import type { ControllerPlugins } from "../ports.ts";
import { attachedNodes } from "./attached-nodes.ts";
import { publishRequest, unpublishRequest } from "./convert.ts";
import { outcomeFromCall } from "./outcome-from-call.ts";
import { done, nothing, notSent, type PluginCalls, subjectOf, unsayable } from "./plugin-calls.ts";

const namelessNode = (volume: VolumeRecord, { node }: Attachment): string =>
  `volume ${volumeKey(volume)} has no driver's id of node ${node} on record, and without one it would be detached everywhere`;

const lacksSecret = (outcome: Outcome<void>): boolean =>
  outcome.kind !== "done" && ["CREDENTIALS_REFUSED", "SECRET_NOT_FOUND"].includes(outcome.failure.reason);

export const createAttachCalls = (
  calls: PluginCalls,
): Pick<ControllerPlugins, "publish" | "unpublish" | "attachmentAbsent"> => ({
  publish: (volume, attachment, call) =>
    calls.change(
      volume,
      { ref: attachment.secretRef, volume: volume.id, method: "ControllerPublishVolume" },
      call,
      async (instance, values, pinned) => {
        const request = publishRequest(volume, attachment, instance.facts.controller.SINGLE_NODE_MULTI_WRITER, values);
        if ("because" in request) return unsayable(volume.plugin, request);
        const answer = await instance.call("ControllerPublishVolume", request, {
          signal: call.signal,
          subject: subjectOf(volume, call, attachment.node),
        });
        if (answer.outcome === "done" && pinned !== undefined) call.usedSecret?.(pinned);
        return outcomeFromCall(answer, call.attempt, ({ publishContext }) => done({ ...publishContext }));
      },
    ),

  /**
   * With the secret of the publish. Where that one is refused or gone, a key may have been exchanged since: with its newest version, and
   * with the one that the volume refers to by now.
   */
  async unpublish(volume, attachment, call) {
    const unpublish = (secretRef: string | undefined): Promise<Outcome<void>> =>
      calls.change(
        volume,
        { ref: secretRef, volume: volume.id, method: "ControllerUnpublishVolume" },
        call,
        async (instance, values) => {
          if (attachment.nodeId === "") return notSent("INTERNAL", namelessNode(volume, attachment));
          const answer = await instance.call(
            "ControllerUnpublishVolume",
            unpublishRequest(volume, attachment, values),
            {
              signal: call.signal,
              subject: subjectOf(volume, call, attachment.node),
            },
          );
          return outcomeFromCall(answer, call.attempt, nothing);
        },
      );
    const { secretRef } = attachment;
    const outcome = await unpublish(secretRef);
    const later = new Set([unpinned(secretRef), volume.secretRefs.controllerPublish]);
    let last = outcome;
    for (const ref of later)
      if (ref !== undefined && ref !== secretRef && lacksSecret(last)) last = await unpublish(ref);
    return last;
  },

  async attachmentAbsent(volume, attachment, call) {
    const instance = await calls.find(volume, call.signal);
    if (instance === undefined) return "unknown";
    const nodes = await attachedNodes(instance, volume.externalId, call.signal, call.beside);
    if (nodes === "unknown") return "unknown";
    return nodes.includes(attachment.nodeId) ? "no" : "yes";
  },
});
