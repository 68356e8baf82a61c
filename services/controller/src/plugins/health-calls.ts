/** ControllerListVolumeHealth and ControllerGetVolumeHealth: what backends say is wrong with volumes. Questions, which change nothing. */
import { volumeHealthEntries } from "@holdfast/csi/health";
import type { BackendHealth } from "../ports.ts";
import { outcomeFromCall } from "./outcome-from-call.ts";
import { pageOfAll } from "./page-of-all.ts";
import { done, type PluginCalls, senseless, subjectOf } from "./plugin-calls.ts";

export const createHealthCalls = (calls: PluginCalls): BackendHealth => ({
  list: (plugin, { token, max, secretRef, namespace }, signal) =>
    pageOfAll(
      calls,
      {
        plugin,
        token,
        secretRef,
        method: "ControllerListVolumeHealth",
        ...(namespace === undefined ? {} : { namespace }),
      },
      async (instance, startingToken, secrets) => {
        const request = { maxEntries: max, startingToken, secrets: { ...secrets } };
        return outcomeFromCall(
          await instance.call("ControllerListVolumeHealth", request, { signal }),
          1,
          ({ entries, nextToken }) =>
            done({
              entries: entries.map((health) => ({
                externalId: health.volumeId,
                entries: volumeHealthEntries(health, secrets),
              })),
              next: nextToken,
            }),
        );
      },
    ),

  of: (volume, call) =>
    calls.run(
      volume,
      { ref: volume.secretRefs.list, volume: volume.id, method: "ControllerGetVolumeHealth" },
      async (instance, secrets) => {
        const request = { volumeId: volume.externalId, secrets: { ...secrets } };
        const options = { signal: call.signal, subject: subjectOf(volume, call) };
        return outcomeFromCall(
          await instance.call("ControllerGetVolumeHealth", request, options),
          call.attempt,
          ({ volumeHealth }) =>
            volumeHealth === undefined
              ? senseless("ControllerGetVolumeHealth was answered without volume_health")
              : done(volumeHealthEntries(volumeHealth, secrets)),
        );
      },
    ),
});
