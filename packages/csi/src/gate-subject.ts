/** The things of which one call at a time is made, in the words that a controller and the holder of the plugin's socket share. */
import type { RequestOf } from "./messages.ts";
import type { UnaryMethod } from "./methods.ts";

/** As the plugin knows it: CSI knows a new thing by its name and any other by its id. */
export function gateSubject(
  thing: "volume" | "snapshot" | "group snapshot",
  known: { readonly name: string } | { readonly id: string },
): string {
  return "name" in known ? `${thing} named ${known.name}` : `${thing} ${known.id}`;
}

type SubjectOf<M extends UnaryMethod> = (request: RequestOf<M>) => string;

const ofVolume = ({ volumeId }: { readonly volumeId: string }): string => gateSubject("volume", { id: volumeId });

export const gateSubjects: { readonly [M in UnaryMethod]?: SubjectOf<M> } = {
  CreateVolume: ({ name }) => gateSubject("volume", { name }),
  DeleteVolume: ofVolume,
  ControllerPublishVolume: ofVolume,
  ControllerUnpublishVolume: ofVolume,
  ControllerExpandVolume: ofVolume,
  ControllerModifyVolume: ofVolume,
  CreateSnapshot: ({ name }) => gateSubject("snapshot", { name }),
  DeleteSnapshot: ({ snapshotId }) => gateSubject("snapshot", { id: snapshotId }),
  CreateVolumeGroupSnapshot: ({ name }) => gateSubject("group snapshot", { name }),
  DeleteVolumeGroupSnapshot: ({ groupSnapshotId }) => gateSubject("group snapshot", { id: groupSnapshotId }),
};
