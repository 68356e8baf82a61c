import { pageOf } from "../domain/page.ts";
import type { Condition, VolumeOperations } from "../operations.ts";
import type { ControllerParts } from "./controller-parts.ts";
import { knownVolume } from "./known-volume.ts";
import { conditionOf } from "./volume-condition.ts";

/** Volumes looked at side by side. */
const atOnce = 16;

export function createVolumeViews({
  host,
}: Pick<ControllerParts, "host">): Pick<VolumeOperations, "getVolume" | "listVolumes"> {
  return {
    getVolume: async (id) => {
      const volume = knownVolume(host, id);
      return { volume, condition: await conditionOf(host, volume) };
    },
    listVolumes: async (input) => {
      const { entries: volumes, nextToken } = pageOf("volume", host.state.volumes.all(), input);
      const conditions: Condition[] = [];
      for (let at = 0; at < volumes.length; at += atOnce)
        conditions.push(
          ...(await Promise.all(volumes.slice(at, at + atOnce).map((volume) => conditionOf(host, volume)))),
        );
      const entries = volumes.flatMap((volume, at) => {
        const condition = conditions[at];
        return condition === undefined ? [] : [{ volume, condition }];
      });
      return { entries, nextToken };
    },
  };
}
