import { type Call, subjectOf } from "./call.ts";
import { methodFacts } from "./methods.ts";
import type { SimState } from "./model.ts";

/**
 * The thing of which only one call may be in flight: a volume at the controller, (volume, node) on a host, a snapshot
 * by its name or id. Before CreateVolume answers, a volume is known by its name only, hence the look-up.
 */
export const laneOf = (call: Call, state: SimState, ownNode: string | undefined): string | undefined => {
  const { service } = methodFacts[call.method];
  const { volume, name } = subjectOf(call);
  if (service === "node") return volume === undefined ? undefined : `node ${ownNode ?? ""}: ${volume}`;
  if (call.method === "CreateSnapshot") return `snapshot ${name ?? ""}`;
  if (call.method === "DeleteSnapshot") return `snapshot ${state.snapshots.get(name ?? "")?.name ?? name ?? ""}`;
  if (call.method === "CreateVolumeGroupSnapshot") return `group ${name ?? ""}`;
  if (call.method === "DeleteVolumeGroupSnapshot") return `group ${state.groups.get(name ?? "")?.name ?? name ?? ""}`;
  if (service !== "controller") return undefined;
  if (call.method === "CreateVolume") return `volume ${name ?? ""}`;
  if (volume === undefined) return undefined;
  return `volume ${state.volumes.get(volume)?.name ?? volume}`;
};
