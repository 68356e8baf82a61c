import type { VolumeCapability } from "@holdfast/shared/gen/csi/v1/csi";
import { hashOf } from "../ids.ts";
import { attachmentOf, dropUses, putUse } from "../model.ts";
import type { Effects } from "./effect.ts";
import { volumeOf } from "./volumes.ts";

export const attachmentEffects: Effects<"ControllerPublishVolume" | "ControllerUnpublishVolume"> = {
  ControllerPublishVolume: ({ volumeId, nodeId, volumeCapability, readonly, secrets }, { state }) => {
    const old = attachmentOf(state, volumeId, nodeId);
    if (old !== undefined) return { publishContext: { ...old.publishContext } };
    const volume = volumeOf(state, volumeId);
    volume.attachCount += 1;
    // Another life of the attachment has another context, so that a stale one cannot pass for the current.
    const publishContext = {
      "sim/device": `/dev/sim/${hashOf(volumeId).slice(0, 8)}`,
      "sim/attach": String(volume.attachCount),
    };
    putUse(
      state.attachments,
      {
        volume: volumeId,
        node: nodeId,
        // The rules refuse the call without a capability.
        capability: volumeCapability as VolumeCapability,
        readonly,
        publishContext,
        secretsHash: hashOf(secrets),
      },
      (other) => other.node === nodeId,
    );
    return { publishContext: { ...publishContext } };
  },

  ControllerUnpublishVolume: ({ volumeId, nodeId }, { state }) => {
    dropUses(state.attachments, volumeId, (use) => use.node === nodeId);
    if (state.nodes.get(nodeId)?.fenced) {
      // Proved dead: what it had mounted no longer counts.
      dropUses(state.stages, volumeId, (use) => use.node === nodeId);
      dropUses(state.publications, volumeId, (use) => use.node === nodeId);
    }
    return {};
  },
};
