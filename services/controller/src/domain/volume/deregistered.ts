import { type Change, noChange, volumeNote } from "../change.ts";
import { isUnbound } from "../claim/early-claims.ts";
import type { VolumeRecord } from "./volume.ts";
import { usersOf } from "./volume-change.ts";
import { isRegistered } from "./volume-registration.ts";

/** What stands against forgetting a volume while its storage stays as it is. */
export type DeregisterObstacle =
  | { readonly kind: "in-use"; readonly users: readonly string[] }
  /** A call is, or may be, under way whose outcome the record alone can still learn. */
  | { readonly kind: "busy"; readonly why: string };

export const deregisterObstacle = (volume: VolumeRecord): DeregisterObstacle | undefined => {
  const users = usersOf(volume);
  if (users.length > 0) return { kind: "in-use", users };
  switch (volume.state) {
    case "CREATING":
      return isRegistered(volume) || isUnbound(volume)
        ? undefined
        : { kind: "busy", why: "it is still being made, and its storage has no name yet; delete it, or wait" };
    case "DELETING":
      return { kind: "busy", why: "its storage is being deleted and cannot be kept any more" };
    case "FAILED":
      return volume.intent === undefined
        ? undefined
        : {
            kind: "busy",
            why: "nobody knows whether its CreateVolume made anything; holdfast volume explain says what clears it",
          };
    case "AVAILABLE":
      return volume.intent === undefined
        ? undefined
        : { kind: "busy", why: `a call to its plugin is under way (${volume.intent.op}); repeat after a pause` };
  }
};

/** The record goes, whatever the policy says; nothing is called. */
export const deregistered = (volume: VolumeRecord): Change =>
  deregisterObstacle(volume) === undefined
    ? { volume: null, ended: [], notes: [volumeNote(volume, "DEREGISTERED")] }
    : noChange(volume);
