import type * as csi from "@holdfast/shared/gen/csi/v1/csi";
import { RefusedError } from "../codes.ts";
import type { SimVolume } from "../model.ts";
import type { EffectContext, Effects } from "./effect.ts";
import { poll } from "./snapshots.ts";
import { volumeMessage, volumeOf } from "./volumes.ts";

/** Pages by the key of the last row, so that rows that come or go between pages neither repeat nor hide others. */
const page = <T>(
  rows: readonly T[],
  keyOf: (row: T) => string,
  max: number,
  token: string,
): { rows: T[]; next: string } => {
  const sorted = [...rows].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  const after = token === "" ? undefined : decodeToken(token);
  const left = after === undefined ? sorted : sorted.filter((row) => keyOf(row) > after);
  const taken = max > 0 ? left.slice(0, max) : left;
  const last = taken.at(-1);
  return { rows: taken, next: last === undefined || taken.length === left.length ? "" : encodeToken(keyOf(last)) };
};

const tokenPrefix = "after:";
const encodeToken = (text: string): string => Buffer.from(`${tokenPrefix}${text}`).toString("base64url");

const decodeToken = (token: string): string => {
  const text = Buffer.from(token, "base64url").toString();
  if (!text.startsWith(tokenPrefix))
    throw new RefusedError("ABORTED", "starting_token was not answered by this plugin");
  return text.slice(tokenPrefix.length);
};

const statusOf = (volume: SimVolume, { state, capabilities }: EffectContext, denies = false) => ({
  publishedNodeIds:
    capabilities.has("controller.LIST_VOLUMES_PUBLISHED_NODES") && !denies
      ? (state.attachments.get(volume.id) ?? []).map((one) => one.node)
      : [],
  volumeCondition: capabilities.has("controller.VOLUME_CONDITION")
    ? { ...(volume.condition ?? { abnormal: false, message: "" }) }
    : undefined,
});

const healthOf = ({ id, health = [] }: SimVolume): csi.VolumeHealth => ({ volumeId: id, healthStatuses: [...health] });

export const listingEffects: Effects<
  "ListVolumes" | "ControllerGetVolume" | "ListSnapshots" | "ControllerListVolumeHealth" | "ControllerGetVolumeHealth"
> = {
  ListVolumes: ({ maxEntries, startingToken }, context) => {
    const { repeats = false, hides = [], deniesNodes = false } = context.listing;
    const { rows, next } = page([...context.state.volumes.values()], (volume) => volume.id, maxEntries, startingToken);
    const shown = rows.filter(({ id }) => !hides.includes(id));
    return {
      entries: (repeats ? [...shown, ...shown] : shown).map((volume) => ({
        volume: volumeMessage(volume),
        status: statusOf(volume, context, deniesNodes),
      })),
      nextToken: next,
    };
  },

  ControllerGetVolume: ({ volumeId }, context) => {
    const volume = volumeOf(context.state, volumeId);
    return { volume: volumeMessage(volume), status: statusOf(volume, context) };
  },

  ControllerListVolumeHealth: ({ maxEntries, startingToken }, { state, listing }) => {
    const { repeats = false, hides = [] } = listing;
    const unwell = [...state.volumes.values()].filter(({ health = [] }) => health.length > 0);
    const { rows, next } = page(unwell, (volume) => volume.id, maxEntries, startingToken);
    const shown = rows.filter(({ id }) => !hides.includes(id));
    return { entries: (repeats ? [...shown, ...shown] : shown).map(healthOf), nextToken: next };
  },

  ControllerGetVolumeHealth: ({ volumeId }, { state }) => ({ volumeHealth: healthOf(volumeOf(state, volumeId)) }),

  ListSnapshots: ({ maxEntries, startingToken, sourceVolumeId, snapshotId }, { state }): csi.ListSnapshotsResponse => {
    const wanted = [...state.snapshots.values()].filter(
      (one) => (sourceVolumeId === "" || one.source === sourceVolumeId) && (snapshotId === "" || one.id === snapshotId),
    );
    const { rows, next } = page(wanted, (snapshot) => snapshot.id, maxEntries, startingToken);
    return { entries: rows.map((snapshot) => ({ snapshot: poll(snapshot) })), nextToken: next };
  },
};
